package home

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"filippo.io/age"

	"sealbridge/signing"
	"sealbridge/spec"
)

const (
	ownerKey        = "owner.key"
	nextKey         = "next-owner.key" // I8: hand it to the person; it replaces the first when that is lost
	agentKey        = "agent.key"
	certificateName = "certificate.json"
)

// scryptWork is age's cost for a passphrase: about a second on a laptop.
const scryptWork = 16

// keyFile is one private key at rest.
type keyFile struct {
	Kind   string      `json:"kind"`
	DID    signing.DID `json:"did"`
	Sealed bool        `json:"sealed"`
	Seed   string      `json:"seed"` // base64: 32 bytes, or an age file that holds them
}

func writeKey(path, kind string, seed [32]byte, pass string) error {
	f := keyFile{Kind: kind, DID: signing.NewKey(seed).DID(), Seed: base64.StdEncoding.EncodeToString(seed[:])}
	if pass != "" {
		sealed, err := sealSeed(seed, pass)
		if err != nil {
			return err
		}
		f.Sealed, f.Seed = true, base64.StdEncoding.EncodeToString(sealed)
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := writeNew(path, append(b, '\n')); err != nil {
		return disk(err)
	}
	return nil
}

func sealSeed(seed [32]byte, pass string) ([]byte, error) {
	to, err := age.NewScryptRecipient(pass)
	if err != nil {
		return nil, err
	}
	to.SetWorkFactor(scryptWork)
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(seed[:]); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil { // the last bytes come with it
		return nil, err
	}
	return out.Bytes(), nil
}

func loadKey(path string) (f keyFile, raw []byte, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return f, nil, disk(err)
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, nil, &spec.Error{Reason: spec.Malformed, Path: "/" + filepath.Base(path), Err: err}
	}
	raw, err = base64.StdEncoding.DecodeString(f.Seed)
	return f, raw, err
}

func keySealed(path string) bool {
	f, _, err := loadKey(path)
	return err == nil && f.Sealed
}

// readKey opens a key file; pass is asked for the passphrase of a sealed one.
func readKey(path string, pass func() (string, error)) (seed [32]byte, err error) {
	f, raw, err := loadKey(path)
	if err != nil {
		return seed, err
	}
	if f.Sealed {
		if raw, err = unseal(raw, pass); err != nil {
			return seed, err
		}
	}
	if len(raw) != 32 || signing.NewKey([32]byte(raw)).DID() != f.DID {
		return seed, spec.Refuse(spec.Malformed, "/"+filepath.Base(path), "not the key that it names")
	}
	return [32]byte(raw), nil
}

func unseal(sealed []byte, pass func() (string, error)) ([]byte, error) {
	if pass == nil {
		return nil, spec.Refuse(spec.NotPermitted, "", "the key is sealed")
	}
	word, err := pass()
	if err != nil {
		return nil, err
	}
	id, err := age.NewScryptIdentity(word)
	if err != nil {
		return nil, spec.Refuse(spec.NotPermitted, "", "a passphrase is needed")
	}
	r, err := age.Decrypt(bytes.NewReader(sealed), id)
	if err != nil {
		return nil, spec.Refuse(spec.NotPermitted, "", "wrong passphrase")
	}
	return io.ReadAll(io.LimitReader(r, 64))
}
