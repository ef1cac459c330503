package signing

import (
	"encoding/json"
	"sync"
)

// In what we store ourselves (encoding/json) the zero value of an id is an
// empty string. On the wire (jcs) an empty id is refused.

func (d DID) MarshalJSON() ([]byte, error)       { return json.Marshal(d.s) }
func (d Digest) MarshalJSON() ([]byte, error)    { return json.Marshal(d.s) }
func (t Time) MarshalJSON() ([]byte, error)      { return json.Marshal(t.s) }
func (s Signature) MarshalJSON() ([]byte, error) { return json.Marshal(s.s) }

func (d *DID) UnmarshalJSON(b []byte) error       { return stored(b, d, DID{}) }
func (d *Digest) UnmarshalJSON(b []byte) error    { return stored(b, d, Digest{}) }
func (t *Time) UnmarshalJSON(b []byte) error      { return stored(b, t, Time{}) }
func (s *Signature) UnmarshalJSON(b []byte) error { return stored(b, s, Signature{}) }

func stored[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](b []byte, to P, zero T) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	if text == "" {
		*to = zero
		return nil
	}
	return to.UnmarshalText([]byte(text))
}

// checked remembers DIDs that passed, because the order of a point takes as
// long as half a signature. It changes speed, never an answer, and is emptied
// when a flood of strangers fills it.
var checked struct {
	sync.RWMutex
	m map[string]bool
}

const maxChecked = 4096

func wasChecked(s string) bool {
	checked.RLock()
	defer checked.RUnlock()
	return checked.m[s]
}

func remember(s string) {
	checked.Lock()
	defer checked.Unlock()
	if checked.m == nil || len(checked.m) >= maxChecked {
		checked.m = make(map[string]bool)
	}
	checked.m[s] = true
}
