package gateway

import (
	"errors"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// askCall asks our owner about a call (G2). The caller hears that it waits (A3).
// What has no place among the questions about its contact is refused (B9).
func (t *turn) askCall(key string, s *servedRow, row taskRow, c policy.CallCase, d policy.CallDecision) error {
	rows, err := asks.Group(t.Tx, s.Task)
	if err != nil {
		return err
	}
	for _, r := range rows { // G8: the same but for the call id joins the open question
		if r.V.Call != "" && r.V.stateAt(t.now) == approval.Waiting && sameEffect(r.V.Ask.Subject, policy.EffectInFull(d.Effect)) {
			s.Ask = r.Key
			return t.finishCall(key, s, manifest.CallPending, false, func(*manifest.ToolResult) {})
		}
	}
	if n, err := asked.Count(t.Tx, row.Peer.String()); err != nil || n >= policy.MaxOpenAsks {
		return errors.Join(err, t.refuseCall(key, s, manifest.Denial{Reason: string(spec.Quota), Rule: "B9", Limit: "5 questions about you are open"}))
	}
	x, err := t.terms(&row, policy.Case{Ledger: c.Ledger}, d.Decision)
	if err != nil {
		return err
	}
	tools := t.rules.Policy.TableFor(s.Tool)[s.Tool]
	root := c.Chain.Token(1)
	a, err := approval.NewEffect(approval.EffectCase{Task: row.Task, Held: d.Decision, Effect: d.Effect, Effects: tools.Effects, Any: len(tools.Templates) == 0,
		Left: policy.UsesLeft(c.Ledger, row.Key, root, c.Chain.Link(1).Digest()) - 1, At: t.now}, x)
	if err != nil {
		return err
	}
	r := askRow{Ask: a, Task: s.Task, Call: key, State: string(approval.Waiting), Rule: x.Because, At: t.now}
	if err := t.keepAsk(r); err != nil {
		return err
	}
	if err := asked.Put(t.Tx, a.AskID.String(), row.Peer.String(), s.Task); err != nil { // also of a task that our owner asked for: it is the other side that asks now
		return err
	}
	s.Ask = a.AskID.String()
	return t.finishCall(key, s, manifest.CallPending, false, func(*manifest.ToolResult) {})
}

// sameEffect compares two subjects but for the call id (G8).
func sameEffect(a, b jcs.Value) bool {
	x, ok1 := a.Member("effect")
	y, ok2 := b.Member("effect")
	return ok1 && ok2 && x.Without("callId").String() == y.Without("callId").String()
}

// followCall does what a settled ask about a call lets happen, in the same step:
// the yes is for the call that was asked about; others that joined are asked
// about anew, or share the no (G3, G8).
func (t *turn) followCall(r askRow) (said string, err error) {
	rows, err := served.Group(t.Tx, r.Task)
	if err != nil {
		return "", err
	}
	for _, x := range rows {
		s := x.V
		if s.Ask != r.Ask.AskID.String() || s.State != string(manifest.CallPending) {
			continue
		}
		if r.State == stateAllowed {
			if err := t.serve(x.Key, &s); err != nil {
				return "", err
			}
			if x.Key == r.Call {
				said = s.State
			}
			continue
		}
		no := manifest.Denial{Reason: string(spec.GateDenied), Rule: "G1", Limit: r.Why}
		switch r.State {
		case string(approval.Expired):
			no.Reason, no.Rule, no.Limit = string(spec.GateExpired), "G4", "nobody answered in time"
		case string(approval.Withdrawn):
			no.Reason, no.Rule = string(spec.CapabilityDenied), "G3"
		}
		if err := t.refuseCall(x.Key, &s, no); err != nil {
			return "", err
		}
		said = string(manifest.CallRefused)
	}
	return said, nil
}

// askCallAnew makes the decision of an open ask about a call again under the
// law of this turn: one that takes less than the rules do now is asked anew, or
// not any more (G12).
func (t *turn) askCallAnew(r askRow) error {
	s, ok, err := served.Get(t.Tx, r.Call)
	if err != nil || !ok || s.State != string(manifest.CallPending) {
		return err
	}
	c, _, err := t.callCase(s)
	if _, no := denial(err); err != nil && !no {
		return err
	}
	if err == nil {
		if d := t.mayCall(c, s.Tool); d.Outcome == policy.Hold && !looser(r.Ask, *d.Gate) {
			return nil
		}
	}
	if err := t.close(&r, approval.Withdrawn, "your policy changed"); err != nil {
		return err
	}
	s.Ask = ""
	return t.serve(r.Call, &s)
}
