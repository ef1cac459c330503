package manifest

import (
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Claim says of an open proposal: we would do this (M10). It binds nobody; what
// may bind is the contract that the requester sends to whom it picks.
type Claim struct {
	Type            string         `json:"type" rule:"const=sealbridge/claim"`
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	To              signing.DID    `json:"to"`     // the agent that signed the open proposal
	Digest          signing.Digest `json:"digest"` // of the open proposal (S8)
	TaskID          TaskID         `json:"taskId"` // that it has
	Draft           *jcs.Value     `json:"draft"`  // the open proposal with the terms under which the sender would do it, or null for its own
	At              signing.Time   `json:"at"`
}

func (c *Claim) check() error {
	if c.Draft == nil {
		return nil
	}
	m, err := ReadManifest(*c.Draft)
	switch {
	case err != nil:
		return spec.At("/draft", err)
	case m.Worker != nil || m.Signatures != nil:
		return refuse("/draft", "M10: an open proposal, without worker and signatures")
	case m.TaskID != c.TaskID:
		return refuse("/draft/taskId", "M10: that of the open proposal")
	}
	return nil
}

// TermsOf is the open proposal as a claim would have it: with the claim's terms
// and not a byte changed beside them (G7), or as it was.
func (c Claim) TermsOf(open TaskManifest) (TaskManifest, error) {
	if c.Draft == nil {
		open.Signatures = nil
		return open, nil
	}
	m, err := CounterOf(open, *c.Draft)
	return m, spec.At("/draft", err)
}
