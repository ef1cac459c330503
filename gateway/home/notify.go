package home

import (
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
)

const notifyKey = "notify.key"

// NotifySecret is what signs the posts that tell a person that something waits,
// as text (whsec_…). It is made when it is first asked for, and is no key of
// the owner's: whoever has it can pretend that something waits, and nothing else.
func (h *Home) NotifySecret(chance io.Reader) (string, error) {
	path := h.key(notifyKey)
	b, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", disk(err)
	}
	var secret [32]byte
	if _, err := io.ReadFull(chance, secret[:]); err != nil {
		return "", err
	}
	text := "whsec_" + base64.StdEncoding.EncodeToString(secret[:])
	if err := writeNew(path, []byte(text+"\n")); errors.Is(err, fs.ErrExist) { // somebody was quicker
		return h.NotifySecret(chance)
	} else if err != nil {
		return "", disk(err)
	}
	return text, nil
}
