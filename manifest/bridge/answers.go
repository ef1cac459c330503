package bridge

import (
	"time"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Channel is the presence of an answer that was given in Chips (G10): claimed,
// and it counts only at a gate for which the owner's policy lists it.
const Channel = "channel:chips"

// Decision is an answer as Chips stored it.
type Decision struct {
	event
	ApprovalID string
	Verdict    string // allow or deny
	lasts      string
	input      jcs.Value
}

type decisionBody struct {
	ApprovalID string    `json:"approval_id" rule:"len=30..30"`
	Decision   string    `json:"decision" rule:"enum=allow|deny"`
	Lasts      string    `json:"lasts,omitempty" rule:"enum=once|standing"`
	Input      jcs.Value `json:"input,omitempty"` // what the approver changed
}

// ReadDecision reads an answer. Only the stored event is one: it carries the time and the person by Chips' own record.
func ReadDecision(raw []byte) (d Decision, err error) {
	if d.event, err = readEvent(raw, "approval.decision", Stored); err != nil {
		return d, err
	}
	b, err := known[decisionBody](d.value)
	if err != nil {
		return d, err
	}
	if !ulidOf(b.ApprovalID, "apr_") {
		return d, spec.Refuse(spec.Malformed, "/approval_id", "apr_ and a ULID")
	}
	d.ApprovalID, d.Verdict, d.lasts, d.input = b.ApprovalID, b.Decision, b.Lasts, b.Input
	return d, nil
}

// Raw is the event as it came: the reason for the signature, kept beside it.
func (d Decision) Raw() []byte { return d.raw }

// Answer says whether d answers an ask, given in Chips' shape, that is open
// until an instant. A no needs nothing but to be the owner's; a yes is to exactly
// what was asked, once, and in time.
func (w Workspace) Answer(d Decision, ask jcs.Value, until time.Time) (verdict string, err error) {
	asked, _ := ask.At("/approval_id")
	id, _ := asked.Text()
	input, _ := ask.At("/action/input")
	switch {
	case d.WorkspaceID != w.ID:
		return "", spec.Refuse(spec.NotPermitted, "/workspace_id", "another workspace")
	case d.ApprovalID != id:
		return "", spec.Refuse(spec.Conflict, "/approval_id", "G2: another question")
	case d.actor.Kind != "person" || d.actor.ID != w.Owner: // whoever it was handed on to holds no key of this owner
		return "", spec.Refuse(spec.NotPermitted, "/actor", "G1: the owner who is asked")
	case !d.at.Before(until):
		return "", spec.Refuse(spec.GateExpired, "/ts", "G4")
	case d.Verdict == "deny":
		return d.Verdict, nil
	case !d.input.IsZero() && d.input != input:
		return "", spec.Refuse(spec.PolicyDenied, "/input", "G7: an edit is a no with a draft")
	case d.lasts == "standing":
		return "", spec.Refuse(spec.PolicyDenied, "/lasts", "G6: once")
	}
	return d.Verdict, nil
}
