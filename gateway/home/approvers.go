package home

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"sealbridge/signing"
	"sealbridge/spec"
)

const approverKind = "approver.key"

// NewApprover makes a key that will speak for a passkey of the console and keeps
// it. It lies open: without the passkey's assertion it says nothing (G10).
func (h *Home) NewApprover() (signing.DID, error) {
	var seed [32]byte
	rand.Read(seed[:]) //nolint:errcheck // never fails
	did := signing.NewKey(seed).DID()
	return did, writeKey(h.approver(did), approverKind, seed, "")
}

// Approver is a key that NewApprover made.
func (h *Home) Approver(did signing.DID) (signing.Signer, error) {
	seed, err := readKey(h.approver(did), nil)
	if err != nil {
		return nil, spec.Refuse(spec.NotFound, "", "this gateway holds no such approver's key")
	}
	return signing.NewKey(seed), nil
}

// DropApprover takes a key away that nobody certified; one that is not there is no error.
func (h *Home) DropApprover(did signing.DID) error {
	if err := os.Remove(h.approver(did)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return disk(err)
	}
	return nil
}

func (h *Home) approver(did signing.DID) string {
	text := did.String()
	return h.key("approver-" + text[max(0, len(text)-16):] + ".key")
}

// CreateKey writes a new key into a file of its own, sealed where pass is not
// "": what a person keeps on a device elsewhere.
func CreateKey(path, pass string) (signing.DID, error) {
	var seed [32]byte
	rand.Read(seed[:]) //nolint:errcheck // never fails
	if err := writeKey(path, approverKind, seed, pass); err != nil {
		return signing.DID{}, err
	}
	return signing.NewKey(seed).DID(), nil
}

// OpenKey opens such a file for one signature; ask is called only for a sealed one.
func OpenKey(path string, ask func() (string, error)) (signing.Signer, error) {
	seed, err := readKey(filepath.Clean(path), ask)
	if err != nil {
		return nil, err
	}
	return signing.NewKey(seed), nil
}
