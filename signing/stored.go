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

// checked remembers DIDs that passed and their points, because both take as
// long as a third of a signature. It changes speed, never an answer, and is
// emptied when a flood of strangers fills it: 1 MB.
var checked struct {
	sync.RWMutex
	m map[string]goodKey
}

type goodKey struct {
	did   DID
	point *point // never written
}

const maxChecked = 4096

func known(s string) (DID, bool) {
	checked.RLock()
	defer checked.RUnlock()
	k, ok := checked.m[s]
	return k.did, ok
}

// point is the key of d as a point.
func (d DID) point() *point {
	checked.RLock()
	defer checked.RUnlock()
	if k, ok := checked.m[d.s]; ok {
		return k.point
	}
	var p point
	if !p.decode(d.Key()) {
		panic("signing: a DID of no point") // a DID that is not zero was parsed
	}
	return &p
}

func remember(d DID, p *point) {
	checked.Lock()
	defer checked.Unlock()
	if checked.m == nil || len(checked.m) >= maxChecked {
		checked.m = make(map[string]goodKey)
	}
	checked.m[d.s] = goodKey{d, p}
}
