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
	m map[string]DID
}

const maxChecked = 4096

func known(s string) (DID, bool) {
	checked.RLock()
	defer checked.RUnlock()
	d, ok := checked.m[s]
	return d, ok
}

func remember(d DID) {
	checked.Lock()
	defer checked.Unlock()
	if checked.m == nil || len(checked.m) >= maxChecked {
		checked.m = make(map[string]DID)
	}
	checked.m[d.s] = d
}
