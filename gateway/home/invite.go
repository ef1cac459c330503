package home

import (
	"os"
	"path/filepath"
	"strings"
)

const inviteName = "invite.token"

// KeepInvite leaves a token in a new home, for `contact add` once the gateway runs.
func KeepInvite(dir, token string) error {
	if err := writeNew(filepath.Join(dir, inviteName), []byte(token+"\n")); err != nil {
		return disk(err)
	}
	return nil
}

// Invite is the token that waits in a home, "" for none.
func (h *Home) Invite() string {
	b, err := os.ReadFile(filepath.Join(h.Dir, inviteName))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// DropInvite forgets it after it was redeemed.
func (h *Home) DropInvite() { os.Remove(filepath.Join(h.Dir, inviteName)) }

// NextKeyPath is where the next owner key lies (I8).
func (h *Home) NextKeyPath() string { return h.key(nextKey) }

// Socket is the people's socket of this home.
func (h *Home) Socket() string { return filepath.Join(h.Dir, PeopleSock) }
