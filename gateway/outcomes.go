package gateway

import (
	"time"

	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// stateAt is what an ask is at an instant. It is expired from its end on, whether
// or not the job that settles it has run: the boundary is the same on every surface (B015).
func (r askRow) stateAt(now time.Time) approval.Outcome {
	if r.State == string(approval.Waiting) && !now.Before(r.Ask.Until.Time()) {
		return approval.Expired
	}
	return approval.Outcome(r.State)
}

// closed tells a late answer who won; nil while the ask is open (G3, G4).
func (r askRow) closed(now time.Time) error {
	switch r.stateAt(now) {
	case approval.Waiting:
		return nil
	case approval.Expired:
		return spec.Refuse(spec.GateExpired, "", "no answer came before "+r.Ask.Until.String()+": it counts as no (G4)")
	case approval.Withdrawn:
		return spec.Refuse(spec.Conflict, "", joinWords("withdrawn: nothing is asked any more (G3)", r.Why))
	}
	return spec.Refuse(spec.Conflict, "", "already "+r.State+" (G3)")
}

// close settles an open ask, once and for good. What follows from it is the
// caller's, in the same turn.
func (t *turn) close(r *askRow, state approval.Outcome, why string) error {
	id := r.Ask.AskID.String()
	r.State, r.Why, r.Closed = string(state), why, t.now
	if r.Decision.IsZero() || why != "" { // what no signed decision says
		if err := t.note(r.Task, map[string]string{"ask": id, "state": r.State, "why": why}); err != nil {
			return err
		}
	}
	if err := asks.Put(t.Tx, id, r.Task, *r); err != nil {
		return err
	}
	if err := waiting.Delete(t.Tx, id); err != nil {
		return err
	}
	if err := t.frees(*r); err != nil {
		return err
	}
	return t.Settle(jobExpire, id)
}

// refuseGate is what a no, silence and new rules come to.
func (t *turn) refuseGate(row *taskRow, r askRow) (string, error) {
	word, text := string(spec.GateDenied), r.Why
	if r.State == string(approval.Expired) {
		word, text = string(spec.GateExpired), "nobody answered in time"
	}
	if r.State == string(approval.Withdrawn) { // the rules refuse it now (G12)
		word, text = string(spec.PolicyDenied), ""
	}
	switch r.Kind {
	case manifest.KindProposed:
		row.Dropped = word
		if err := t.putRow(*row); err != nil {
			return "", err
		}
		return "dropped", t.grouped(*row)
	case manifest.KindAsked:
		row.Change, row.Refused = nil, row.Task.InForce().Digest
		if err := t.putRow(*row); err != nil {
			return "", err
		}
		return "dropped", t.wants(*row) // a run that is parked on it ends
	case manifest.KindAnswered:
		f, err := t.answering(*row, r.Ask.SubjectDigest)
		if err != nil {
			return "", nil // nobody asks any more
		}
		f.Yes, f.Reason = false, word
		return t.sayNo(row, f)
	case manifest.KindDelegated:
		_, part, err := t.delegatingAgain(*row, r.Ask.SubjectDigest)
		if err != nil {
			return "", nil // nobody would hand it on any more
		}
		return "dropped", t.dropPart(part, word)
	case manifest.KindAccepted:
		return t.sayNo(row, manifest.Declined{Reason: word, Text: text, Counter: r.Counter})
	case manifest.KindCompleted:
		d, m := row.Task.Delivery(), row.Task.Manifest()
		if d == nil || row.Report == nil {
			return "", nil
		}
		if text == "" {
			text = "the owner said no"
		}
		report := *row.Report
		return t.sayNo(row, manifest.Rejected{Delivery: d.Digest, Report: report, Again: d.Revision-1 < m.Verification.MaxRetries, Text: text})
	}
	return "", nil
}

// sayNo says what a no comes to, where it may still be said: an ask that ends
// with the deadline ends with nothing left to say, and is expired all the same (H8).
func (t *turn) sayNo(row *taskRow, no manifest.Fact) (string, error) {
	if row.Task.Legal(t.g.Agent.DID(), manifest.Body{Fact: no}, t.now) != nil {
		return "", nil
	}
	_, err := t.say(row, no)
	return string(no.Kind()), err
}

// withdraw takes every open ask of a task away, and says why (G3).
func (t *turn) withdraw(key, why string) error {
	return t.withdrawIf(key, func(askRow) string { return why })
}

// withdrawMoved takes away the asks that the task has moved away from, in the
// step that moved it: an ending, a break, another contract or another delivery (G3).
func (t *turn) withdrawMoved(row taskRow) error {
	return t.withdrawIf(row.Key.String(), func(r askRow) string { return approval.Withdraws(r.Ask, row.Task) })
}

func (t *turn) withdrawIf(key string, why func(askRow) string) error {
	rows, err := asks.Group(t.Tx, key)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.V.State != string(approval.Waiting) {
			continue
		}
		if text := why(r.V); text != "" {
			if err := t.close(&r.V, approval.Withdrawn, text); err != nil {
				return err
			}
			if r.V.Call == "" {
				continue
			}
			if _, err := t.followCall(r.V); err != nil {
				return err
			}
		}
	}
	return nil
}

// expire settles an ask that nobody answered in time.
func (t *turn) expire(id string) error {
	r, ok, err := asks.Get(t.Tx, id)
	if err != nil || !ok || r.State != string(approval.Waiting) {
		return err
	}
	if r.stateAt(t.now) != approval.Expired {
		return t.oweAt(jobExpire, id, r.Ask.Until.Time(), nil)
	}
	if err := t.close(&r, approval.Expired, ""); err != nil {
		return err
	}
	_, err = t.follow(r)
	return err
}
