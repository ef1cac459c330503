package gateway

import (
	"context"
	"fmt"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// The states of an ask are approval's outcomes.
const stateAllowed = string(approval.Allowed)

// ask opens the question that a held intent waits for, or joins the one that is
// open (G8); nil where it waits in line behind others about the contact (B9).
func (t *turn) ask(row *taskRow, c policy.Case, d policy.Decision) (*askRow, error) {
	key := row.Key.String()
	rows, err := asks.Group(t.Tx, key)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if r.V.State == string(approval.Waiting) && r.V.Ask.SubjectDigest == d.Gate.Subject && r.V.Ask.Gate == d.Gate.Gate {
			return &r.V, nil
		}
	}
	if full, err := t.full(row, c.Event.Body.Fact.Kind(), d.Gate.Subject); err != nil || full {
		return nil, err
	}
	x, err := t.terms(row, c, d)
	if err != nil {
		return nil, err
	}
	a, err := approval.New(c, d, x)
	if err != nil {
		return nil, fmt.Errorf("making an ask: %w", err)
	}
	r := askRow{Ask: a, Task: key, Kind: c.Event.Body.Fact.Kind(), State: string(approval.Waiting), Rule: x.Because, At: t.now}
	if err := t.opens(row, a.AskID.String()); err != nil {
		return nil, err
	}
	if err := t.putRow(*row); err != nil {
		return nil, err
	}
	return &r, t.keepAsk(r)
}

// keepAsk keeps a new ask: from now on a person is waited for.
func (t *turn) keepAsk(r askRow) error {
	doc, err := r.Ask.Value()
	if err != nil {
		return err
	}
	id := r.Ask.AskID.String()
	if err := t.append(recAsk, r.Task, doc.Bytes()); err != nil {
		return err
	}
	if err := asks.Put(t.Tx, id, r.Task, r); err != nil {
		return err
	}
	if err := waiting.Put(t.Tx, id, "", r.Task); err != nil {
		return err
	}
	if err := t.oweAt(jobExpire, id, r.Ask.Until.Time(), nil); err != nil {
		return err
	}
	return t.tell()
}

// Answer is a person's signed decision, as it enters by the people's door.
type Answer struct {
	Decision string             `json:"decision"`           // the signed gate-decision, canonical
	Reason   string             `json:"reason,omitempty"`   // of a no: what the other side is told
	Standing *manifest.Standing `json:"standing,omitempty"` // the grant, of a standing decision (G6)
	Channel  string             `json:"channel,omitempty"`  // the event of another system that the owner's key signed for (J7): kept here, sent to nobody
}

// Decided says what an answer came to.
type Decided struct {
	Ask     string `json:"ask"`
	State   string `json:"state"`
	Outcome string `json:"outcome"` // what was said because of it: proposed, accepted, …
	Task    string `json:"task"`
	Votes   int64  `json:"votes,omitempty"` // while it stays open: yeses so far, and how many it needs (G5)
	Need    int64  `json:"need,omitempty"`
}

// DecideGate takes a person's decision. The deciding yes and the record of what
// it lets happen are one turn, which reads the clock and finds the ask open (G3).
func (g *Gateway) DecideGate(ctx context.Context, by Caller, in Answer) (out Decided, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	s, err := manifest.Open([]byte(in.Decision), g.keys)
	if err != nil {
		return out, err
	}
	d, ok := s.Document().(*manifest.GateDecision)
	if !ok {
		return out, spec.Refuse(spec.UnknownType, "/type", "a gate-decision")
	}
	err = g.turn(ctx, func(t *turn) error {
		v, err := t.trust.Admit(s, t.now)
		if err != nil {
			return err
		}
		if v.Owner() != g.Owner {
			return spec.Refuse(spec.WrongSigner, "/ownerDid", "G1: our own owner")
		}
		if in.Standing != nil {
			out, err = t.decideStanding(v, d, *in.Standing)
			return err
		}
		if out, err = t.decide(v, d, in.Reason); err == nil && in.Channel != "" {
			err = t.answeredIn(d, in.Channel)
		}
		return err
	})
	return out, err
}

func (t *turn) decide(v manifest.Verified, d *manifest.GateDecision, why string) (out Decided, err error) {
	id := d.AskID.String()
	r, ok, err := asks.Get(t.Tx, id)
	switch {
	case err != nil:
		return out, err
	case !ok:
		return out, spec.Refuse(spec.NotFound, "/askId", "ask")
	}
	if err := r.closed(t.now); err != nil {
		return out, err
	}
	if err := approval.Counts(r.Ask, v, t.now); err != nil {
		return out, err
	}
	votes := append(t.votes(r), v)
	state, consent := approval.Settle(r.Ask, votes, t.now)
	if err := t.append(recDecision, r.Task, v.Wire().Bytes()); err != nil {
		return out, err
	}
	if state == approval.Waiting {
		return t.vote(r, votes)
	}
	r.Decision, r.Consent = v.Wire(), consent
	if state != approval.Denied {
		why = ""
	}
	if err := t.close(&r, state, cut(why, 1000)); err != nil {
		return out, err
	}
	said, err := t.follow(r)
	return Decided{Ask: id, State: r.State, Outcome: said, Task: r.Ask.TaskID.String()}, err
}

// Denial is a no as the owner's command says it.
type Denial struct {
	Ask    string             `json:"ask"`
	Reason string             `json:"reason,omitempty"` // what the other side is told
	Set    []manifest.Setting `json:"set,omitempty"`    // the terms under which it would be a yes: a counter-proposal (G7)
}

// DenyGate settles an ask with a no. It needs no signature: a no takes nothing
// from the owner that silence would not, and whoever stands at the people's
// door may say it (G10). A yes always needs the signed decision.
func (g *Gateway) DenyGate(ctx context.Context, by Caller, in Denial) (out Decided, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	err = g.turn(ctx, func(t *turn) error {
		r, ok, err := asks.Get(t.Tx, in.Ask)
		switch {
		case err != nil:
			return err
		case !ok:
			return spec.Refuse(spec.NotFound, "/ask", "ask")
		}
		if err := r.closed(t.now); err != nil {
			return err
		}
		if len(in.Set) > 0 {
			if r.Counter, err = counterTo(r.Ask, in.Set, t.now); err != nil {
				return err
			}
		}
		if err := t.close(&r, approval.Denied, cut(in.Reason, 1000)); err != nil {
			return err
		}
		said, err := t.follow(r)
		out = Decided{Ask: in.Ask, State: r.State, Outcome: said, Task: r.Ask.TaskID.String()}
		return err
	})
	return out, err
}

// follow does what a settled ask lets happen, in the same step.
func (t *turn) follow(r askRow) (said string, err error) {
	if r.Call != "" {
		return t.followCall(r)
	}
	if r.Kind == kindOpen {
		return t.followOpen(r)
	}
	row, err := t.row(r.Task)
	if err != nil {
		return "", err
	}
	if r.State == stateAllowed {
		fact, err := t.factOf(row, r)
		if err != nil {
			return "", err
		}
		said, err := t.say(&row, fact)
		if err == nil && said.Outcome != policy.Allow {
			err = spec.Refuse(spec.Conflict, "", "G2: the question is another one by now; nothing was done")
		}
		return string(r.Kind), err
	}
	return t.refuseGate(&row, r)
}
