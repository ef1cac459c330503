// Package home answers one question: where does a gateway live? One folder is
// one owner's gateway: its keys, its configuration, its journal and its files.
// One process holds its lock; private keys are files in it, mode 0600, and the
// owner's key is sealed with a passphrase unless its owner said otherwise (I2).
package home

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Names inside a home.
const (
	keysDir    = "keys"
	configName = "config.yaml"
	policyName = "policy.yaml"
	journal    = "journal.db"
	filesDir   = "files"
	workDir    = "work"
	PeopleSock = "people.sock" // commands of the owner
)

const certificateTerm = 90*24*time.Hour - time.Minute // I4, with a minute for clocks

// boxKeyTerm is R2; the gateway makes the next key after a week.
const boxKeyTerm = 21*24*time.Hour - time.Minute

// New says what a new home is to be.
type New struct {
	Name       string // of the owner, as contacts will first see it
	Relay      manifest.RelayRef
	Passphrase string // "" leaves the owner key unsealed
	Agents     map[string]Agent
	Chance     io.Reader
	At         time.Time
}

// Create makes a home: whole or not at all, and never over an identity (B025).
// It returns the seed of the next owner key, which is the person's to keep (I8).
func Create(dir string, n New) (*Home, error) {
	if _, err := os.Lstat(filepath.Join(dir, keysDir)); !errors.Is(err, os.ErrNotExist) {
		return nil, spec.Refuse(spec.Conflict, "", dir+" has an identity already")
	}
	if n.Name == "" || len([]rune(n.Name)) > 100 {
		return nil, spec.Refuse(spec.Malformed, "/name", "1 to 100 characters")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, disk(err)
	}
	temp, err := os.MkdirTemp(dir, ".keys-")
	if err != nil {
		return nil, disk(err)
	}
	defer os.RemoveAll(temp)
	if err := writeIdentity(temp, n); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		configName: configText(n), policyName: policyText(n),
	} {
		if err := writeNew(filepath.Join(dir, name), []byte(text)); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, disk(err)
		}
	}
	// The rename is the moment at which the identity exists.
	if err := os.Rename(temp, filepath.Join(dir, keysDir)); err != nil {
		return nil, spec.Refuse(spec.Conflict, "", dir+" has an identity already")
	}
	return Read(dir)
}

func writeIdentity(dir string, n New) error {
	var seeds [3][32]byte
	for i := range seeds {
		if _, err := io.ReadFull(n.Chance, seeds[i][:]); err != nil {
			return err
		}
	}
	owner, next, agent := signing.NewKey(seeds[0]), signing.NewKey(seeds[1]), signing.NewKey(seeds[2])
	nextPub := next.DID().Key()
	for _, k := range []struct {
		name string
		seed [32]byte
		pass string
	}{{ownerKey, seeds[0], n.Passphrase}, {nextKey, seeds[1], n.Passphrase}, {agentKey, seeds[2], ""}} {
		if err := writeKey(filepath.Join(dir, k.name), k.name, k.seed, k.pass); err != nil {
			return err
		}
	}
	c, err := manifest.Sign(&manifest.AgentCertificate{
		Type: "sealbridge/agent-certificate", ProtocolVersion: manifest.ProtocolVersion,
		OwnerDid: owner.DID(), AgentDid: agent.DID(), Serial: 1, IssuedAt: signing.TimeOf(n.At),
		ExpiresAt: signing.TimeOf(n.At.Add(certificateTerm)), DisplayName: n.Name, Relay: n.Relay,
		NextKey: signing.DigestOf(nextPub[:]),
	}, owner, n.At)
	if err != nil {
		return err
	}
	if err := writeNew(filepath.Join(dir, certificateName), c.Wire().Bytes()); err != nil {
		return disk(err)
	}
	return newBoxKey(dir, agent, owner.DID(), c.Digest(), 1, n.At)
}

// Home is one home, read.
type Home struct {
	Dir         string
	Config      Config
	Owner       signing.DID
	Agent       signing.Signer
	Certificate manifest.Signed
	lock        io.Closer
	boxes       boxKeys
}

// Read reads a home without its lock: what a command needs beside a running gateway.
func Read(dir string) (*Home, error) {
	h := &Home{Dir: dir}
	if _, err := os.Stat(filepath.Join(dir, keysDir)); err != nil {
		return nil, spec.Refuse(spec.NotFound, "", dir+" has no identity")
	}
	var err error
	if h.Config, err = readConfig(filepath.Join(dir, configName)); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(h.key(certificateName))
	if err != nil {
		return nil, disk(err)
	}
	if h.Certificate, err = manifest.Open(raw, nil); err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	h.Owner = h.Certificate.By()
	seed, err := readKey(h.key(agentKey), nil)
	if err != nil {
		return nil, err
	}
	h.Agent = signing.NewKey(seed)
	return h, nil
}

// Open reads a home and takes its lock.
func Open(dir string) (*Home, error) {
	h, err := Read(dir)
	if err != nil {
		return nil, err
	}
	if h.lock, err = lock(filepath.Join(dir, "lock")); err != nil {
		return nil, spec.Refuse(spec.Conflict, "", "a gateway runs in "+dir+" already")
	}
	return h, nil
}

// Close gives the lock back.
func (h *Home) Close() error {
	if h.lock == nil {
		return nil
	}
	return h.lock.Close()
}

func (h *Home) key(name string) string { return filepath.Join(h.Dir, keysDir, name) }

// Journal, Files and Work are where the hands keep theirs.
func (h *Home) Journal() string { return filepath.Join(h.Dir, journal) }
func (h *Home) Files() string   { return filepath.Join(h.Dir, filesDir) }
func (h *Home) Work() string    { return filepath.Join(h.Dir, workDir) }

// Certified is the agent's certificate.
func (h *Home) Certified() manifest.AgentCertificate {
	c, ok := h.Certificate.Document().(*manifest.AgentCertificate)
	if !ok {
		return manifest.AgentCertificate{}
	}
	return *c
}

// Policy reads policy.yaml, strictly; errors carry line and column.
func (h *Home) Policy() (policy.Policy, error) {
	return readPolicy(filepath.Join(h.Dir, policyName))
}

// OwnerSigner opens the owner's key for one signature and says how present the
// person was (G10). ask is called only for a sealed key.
func (h *Home) OwnerSigner(ask func() (string, error)) (s signing.Signer, presence string, err error) {
	presence = "none"
	seed, err := readKey(h.key(ownerKey), func() (string, error) {
		presence = "passphrase"
		if ask == nil {
			return "", spec.Refuse(spec.NotPermitted, "", "the owner key is sealed and there is no terminal to ask for its passphrase")
		}
		return ask()
	})
	if err != nil {
		return nil, "", err
	}
	return signing.NewKey(seed), presence, nil
}

// Sealed says whether the owner's key is.
func (h *Home) Sealed() bool { return keySealed(h.key(ownerKey)) }

func disk(err error) error {
	return &spec.Error{Reason: spec.Unavailable, Limit: "disk", Err: err}
}

// writeNew writes a file that must not exist, and flushes it.
func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// PolicyPath is where a home keeps its policy.
func PolicyPath(dir string) string { return filepath.Join(dir, policyName) }

// SetPolicy puts the text of a file in the place of policy.yaml, if it still
// says the policy with that digest.
func SetPolicy(dir, from string, is signing.Digest) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return disk(err)
	}
	next := filepath.Join(dir, ".policy-new")
	os.Remove(next)
	if err := writeNew(next, text); err != nil {
		return disk(err)
	}
	p, err := readPolicy(next)
	if err != nil {
		return err
	}
	if p.Digest() != is {
		return spec.Refuse(spec.Conflict, from, "changed meanwhile; what you agreed to is in force")
	}
	if err := os.Rename(next, PolicyPath(dir)); err != nil {
		return disk(err)
	}
	return nil
}
