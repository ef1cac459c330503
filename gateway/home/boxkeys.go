package home

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/box"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// boxKeyLinger is how long a private half outlives its notAfter (R2): mail that
// was put on the last day may lie at the relay this long.
const boxKeyLinger = 14 * 24 * time.Hour

// boxKeys are the box-keys of a home. Whoever holds the lock is the only one to
// write them, and reads them once: each envelope asks for them.
type boxKeys struct {
	mu    sync.Mutex // guards what follows
	read  bool
	files []boxFile // oldest first
	ring  *box.Keyring
}

// boxFile is one box-key with its private half.
type boxFile struct {
	Document jcs.Value `json:"document"`
	Seed     string    `json:"seed"` // base64

	path    string
	doc     manifest.BoxKey
	private box.PrivateKey
}

func newBoxKey(dir string, agent signing.Signer, owner signing.DID, certificate signing.Digest, seq int64, at time.Time) error {
	k, err := box.GenerateKey()
	if err != nil {
		return err
	}
	pub := k.Public()
	doc, err := manifest.Sign(&manifest.BoxKey{
		Type: "sealbridge/box-key", ProtocolVersion: manifest.ProtocolVersion, AgentDid: agent.DID(), OwnerDid: owner,
		CertificateDigest: certificate, Seq: seq, Kid: pub.Kid(), Key: pub.String(),
		NotBefore: signing.TimeOf(at), NotAfter: signing.TimeOf(at.Add(boxKeyTerm)),
	}, agent, at)
	if err != nil {
		return err
	}
	b, err := json.Marshal(boxFile{Document: doc.Wire(), Seed: base64.StdEncoding.EncodeToString(k.Bytes())})
	if err != nil {
		return err
	}
	if err := writeNew(filepath.Join(dir, fmt.Sprintf("box-%06d.key", seq)), b); err != nil {
		return disk(err)
	}
	return nil
}

// open returns every box-key, oldest first, read anew where another process may have made one. The caller holds mu.
func (b *boxKeys) open(h *Home) error {
	if b.read && h.lock != nil {
		return nil
	}
	files, err := readBoxKeys(filepath.Join(h.Dir, keysDir))
	if err != nil {
		return err
	}
	b.read, b.files, b.ring = true, files, box.NewKeyring()
	for _, f := range files {
		b.ring.Add(f.private)
	}
	return nil
}

func readBoxKeys(dir string) ([]boxFile, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "box-*.key"))
	if err != nil {
		return nil, err
	}
	sort.Strings(paths)
	var out []boxFile
	for _, p := range paths {
		f, err := readBoxKey(p)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func readBoxKey(path string) (boxFile, error) {
	f := boxFile{path: path}
	raw, err := os.ReadFile(path)
	if err != nil {
		return f, disk(err)
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return f, &spec.Error{Reason: spec.Malformed, Path: "/" + filepath.Base(path), Err: err}
	}
	s, err := manifest.OpenValue(f.Document, nil)
	if err != nil {
		return f, err
	}
	doc, ok := s.Document().(*manifest.BoxKey)
	seed, err := base64.StdEncoding.DecodeString(f.Seed)
	if !ok || err != nil {
		return f, spec.Refuse(spec.Malformed, "/"+filepath.Base(path), "a box-key")
	}
	f.doc = *doc
	f.private, err = box.ParsePrivateKey(seed)
	return f, err
}

// BoxKey is the newest box-key document of this gateway.
func (h *Home) BoxKey() (jcs.Value, manifest.BoxKey, error) {
	h.boxes.mu.Lock()
	defer h.boxes.mu.Unlock()
	return h.newest()
}

func (h *Home) newest() (jcs.Value, manifest.BoxKey, error) {
	if err := h.boxes.open(h); err != nil {
		return jcs.Value{}, manifest.BoxKey{}, err
	}
	if len(h.boxes.files) == 0 {
		return jcs.Value{}, manifest.BoxKey{}, spec.Refuse(spec.UnknownKey, "", "no box-key in this home")
	}
	k := h.boxes.files[len(h.boxes.files)-1]
	return k.Document, k.doc, nil
}

// Keyring holds every box-key that is still readable at an instant; older ones
// are removed from the disk first (R2: until notAfter and 14 days).
func (h *Home) Keyring(at time.Time) (*box.Keyring, error) {
	b := &h.boxes
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.open(h); err != nil {
		return nil, err
	}
	for len(b.files) > 0 && at.After(b.files[0].doc.NotAfter.Time().Add(boxKeyLinger)) {
		if err := os.Remove(b.files[0].path); err != nil && !os.IsNotExist(err) {
			return nil, disk(err) // a key that should be gone and is not would break the promise in silence
		}
		b.ring.Forget(b.files[0].private.Public().Kid())
		b.files = b.files[1:]
	}
	return b.ring, nil
}

// RotateBoxKey makes the next box-key, after a week of the last.
func (h *Home) RotateBoxKey(at time.Time) (jcs.Value, error) {
	h.boxes.mu.Lock()
	defer h.boxes.mu.Unlock()
	_, last, err := h.newest()
	if err != nil {
		return jcs.Value{}, err
	}
	if err := newBoxKey(filepath.Join(h.Dir, keysDir), h.Agent, h.Owner, h.Certificate.Digest(), last.Seq+1, at); err != nil {
		return jcs.Value{}, err
	}
	h.boxes.read = false
	v, _, err := h.newest()
	return v, err
}

// Renewal is the next certificate of this home's agent, signed by its owner, for
// a relay: 90 days from at (I4).
func (h *Home) Renewal(owner signing.Signer, at manifest.RelayRef, from time.Time) (manifest.Verified, error) {
	c := h.Certified()
	c.Serial, c.IssuedAt, c.ExpiresAt, c.Relay = c.Serial+1, signing.TimeOf(from), signing.TimeOf(from.Add(certificateTerm)), at
	return manifest.Sign(&c, owner, from)
}

// Install replaces the agent's certificate by one with a higher serial, and makes
// a box-key that names it. Both are on disk when it returns; the certificate first.
func (h *Home) Install(c manifest.Signed, at time.Time) error {
	h.boxes.mu.Lock()
	defer h.boxes.mu.Unlock()
	_, last, err := h.newest()
	if err != nil {
		return err
	}
	path := h.key(certificateName)
	if err := os.Remove(path + ".new"); err != nil && !os.IsNotExist(err) {
		return disk(err)
	}
	if err := writeNew(path+".new", c.Wire().Bytes()); err != nil {
		return disk(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return disk(err)
	}
	h.Certificate, h.boxes.read = c, false
	if err := newBoxKey(filepath.Join(h.Dir, keysDir), h.Agent, h.Owner, c.Digest(), last.Seq+1, at); err != nil {
		return err
	}
	return h.boxes.open(h)
}
