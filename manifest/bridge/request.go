package bridge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Question is an approval.request of a local harness, read: what it may do while
// it works for somebody else.
type Question struct {
	event
	ApprovalID string
	Kind       string // dotted verb: a stranger's, shown and never obeyed
	Input      jcs.Value
	Risk       []string // of the list, the flags' own classes added
	lasts      string
	wait       time.Duration
}

type questionBody struct {
	ApprovalID string    `json:"approval_id" rule:"len=30..30"`
	Action     jcs.Value `json:"action" rule:"object"`
	Lasts      string    `json:"lasts,omitempty" rule:"enum=once|standing"`
	Risk       []string  `json:"risk" rule:"items=0..8,each.enum=external|external_communication|irreversible|destructive|financial|credential|privacy|legal"`
	ExpiresIn  int64     `json:"expires_in" rule:"num=1..604800"`
	Fallback   string    `json:"fallback,omitempty" rule:"enum=deny|allow"`
	Approvers  []string  `json:"approvers,omitempty" rule:"items=0..16,each.len=1..120"`
}

type action struct {
	Kind         string    `json:"kind" rule:"len=3..120"`
	Input        jcs.Value `json:"input,omitempty"`
	External     bool      `json:"external,omitempty"`
	Irreversible bool      `json:"irreversible,omitempty"`
	MoneyUSD     jcs.Value `json:"money_usd,omitempty"`
}

// ReadQuestion reads an approval.request.
func ReadQuestion(raw []byte, may Profile) (q Question, err error) {
	if q.event, err = readEvent(raw, "approval.request", may); err != nil {
		return q, err
	}
	b, err := known[questionBody](q.value)
	if err != nil {
		return q, err
	}
	a, err := known[action](b.Action)
	if err != nil {
		return q, spec.At("/action", err)
	}
	switch {
	case !ulidOf(b.ApprovalID, "apr_"):
		return q, spec.Refuse(spec.Malformed, "/approval_id", "apr_ and a ULID")
	case !dotted(a.Kind):
		return q, spec.Refuse(spec.Malformed, "/action/kind", "a dotted verb in lower case")
	case !a.MoneyUSD.IsZero() && a.MoneyUSD.Kind() != '0' || strings.HasPrefix(a.MoneyUSD.String(), "-"):
		return q, spec.Refuse(spec.Malformed, "/action/money_usd", "an amount")
	}
	for i, who := range b.Approvers {
		if err := approver(who, q.Seq != nil); err != nil {
			return q, spec.At(fmt.Sprintf("/approvers/%d", i), err)
		}
	}
	q.ApprovalID, q.Kind, q.Input, q.lasts = b.ApprovalID, a.Kind, a.Input, b.Lasts
	q.wait = time.Duration(b.ExpiresIn) * time.Second
	q.Risk = risks(b.Risk, a)
	return q, nil // Fallback is not kept: silence is no (G4)
}

// approver reads one of who may answer. A harness may not name a lead or a
// harness; in a stored event they are Chips' own doing and mean nobody to us.
func approver(who string, stored bool) error {
	switch {
	case who == "owner", who == "any", strings.HasPrefix(who, "role:"), ulidOf(who, "usr_"):
		return nil
	case who == "lead", ulidOf(who, "hrn_"):
		if stored {
			return nil
		}
		return spec.Refuse(spec.NotPermitted, "", "a harness asks people")
	}
	return spec.Refuse(spec.Malformed, "", "owner, any, role:NAME or a person's id")
}

func dotted(kind string) bool {
	parts := strings.Split(kind, ".")
	for _, p := range parts {
		if p == "" || p[0] < 'a' || p[0] > 'z' || strings.Trim(p, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return false
		}
	}
	return len(parts) > 1
}

// risks are the classes that the list or a flag names, the stricter reading of
// the two. Whoever asks can only add.
func risks(named []string, a action) (out []string) {
	add := func(r string, is bool) {
		if is && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	for _, r := range named {
		add(r, true)
	}
	add("external", a.External)
	add("irreversible", a.Irreversible)
	add("financial", !a.MoneyUSD.IsZero() && a.MoneyUSD.String() != "0")
	slices.Sort(out)
	return out
}

// Judged is what a question of a local harness comes to under a contract.
type Judged struct {
	Gate  manifest.Gate
	Until time.Time // from then on it is no
}

// Judge says which gate a question stands before, and until when. deadline is
// the contract's. A credential needs a grant, and this version knows none (C2).
func (q Question) Judge(at, deadline time.Time) (j Judged, err error) {
	switch {
	case slices.Contains(q.Risk, "credential"):
		return j, spec.Refuse(spec.CapabilityDenied, "/risk", "C2: no grant covers it")
	case q.lasts == "standing":
		return j, spec.Refuse(spec.PolicyDenied, "/lasts", "G6: once")
	}
	j = Judged{Gate: manifest.EffectGate, Until: q.at.Add(q.wait)} // whatever its kind says
	for _, end := range []time.Time{deadline, at.Add(maxWait * time.Second)} {
		if j.Until.After(end) {
			j.Until = end
		}
	}
	if !at.Before(j.Until) {
		return j, spec.Refuse(spec.GateExpired, "/expires_in", "G4")
	}
	return j, nil
}
