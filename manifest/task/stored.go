package task

import (
	"encoding/json"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// stored is a Task in the journal: the set of events, not what they come to.
type stored struct {
	Manifest  string      `json:"manifest,omitempty"` // canonical text
	Passes    []jcs.Value `json:"passes,omitempty"`
	Requester []entry     `json:"requester,omitempty"`
	Worker    []entry     `json:"worker,omitempty"`
}

// MarshalJSON writes the set of events; UnmarshalJSON counts it again.
func (t Task) MarshalJSON() ([]byte, error) {
	return json.Marshal(stored{t.payload.String(), t.passes, t.chains[0].list(), t.chains[1].list()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *Task) UnmarshalJSON(b []byte) error {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*t = Task{}
	if s.Manifest == "" {
		return nil
	}
	payload, err := jcs.ParseWithin([]byte(s.Manifest), jcs.ManifestLimits)
	if err != nil {
		return err
	}
	var m manifest.TaskManifest
	if err := jcs.Decode(payload, &m); err != nil {
		return err
	}
	*t = blank(payload, signing.DigestOf(payload.Bytes()), m)
	t.passes = kept(s.Passes)
	t.chains = [2]chain{chainOf(s.Requester), chainOf(s.Worker)}
	*t = t.refold(m)
	return nil
}
