package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"runtime"

	"sealbridge/signing"
	"sealbridge/spec"
)

// relayKey is the relay's identity at rest, mode 0600.
type relayKey struct {
	Kind string      `json:"kind"`
	DID  signing.DID `json:"did"`
	Seed string      `json:"seed"` // base64 of 32 bytes
}

// newRelayKey makes an identity, never over one that is there.
func newRelayKey(path string) (signing.Signer, error) {
	var seed [32]byte
	rand.Read(seed[:]) //nolint:errcheck // never fails
	by := signing.NewKey(seed)
	b, err := json.MarshalIndent(relayKey{relayKeyName, by.DID(), base64.StdEncoding.EncodeToString(seed[:])}, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := writeOnce(path, append(b, '\n'), 0o600); err != nil {
		return nil, err
	}
	return by, nil
}

func readRelayKey(path string) (signing.Signer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, spec.Refuse(spec.NotPermitted, path, "others can read the relay's key: chmod 600")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var k relayKey
	if err := json.Unmarshal(b, &k); err != nil {
		return nil, &spec.Error{Reason: spec.Malformed, Path: path, Err: err}
	}
	seed, err := base64.StdEncoding.DecodeString(k.Seed)
	if err != nil || len(seed) != 32 || signing.NewKey([32]byte(seed)).DID() != k.DID {
		return nil, spec.Refuse(spec.Malformed, path, "not the key that it names")
	}
	return signing.NewKey([32]byte(seed)), nil
}

// writeOnce writes a file that must not exist, and flushes it.
func writeOnce(path string, b []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return spec.Refuse(spec.Conflict, path, "is there already")
	}
	if err != nil {
		return &spec.Error{Reason: spec.Unavailable, Path: path, Err: err}
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
