package gateway

import (
	"context"
	"errors"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing"
)

// recoveryTerm is how long a home that was put back signs nothing in open
// tasks: what it may have sent before has then expired at the relay (R4b).
const recoveryTerm = envelopeTerm

// recover stops us from signing in a task whose own chain we may not hold whole, and asks the peer for it.
func (t *turn) recover(row *taskRow, why string) error {
	if row.Recovery == "" {
		t.g.Log.Error("recovery", "task", row.Key.ID.String(), "why", why)
		row.RecoveryUntil = t.now.Add(recoveryTerm)
	}
	row.Recovery = why
	if err := t.revokeAll(row.Peer, "recovery: uses may have been lost"); err != nil {
		return err
	}
	if row.Role == manifest.Requester {
		if err := t.takeBackAll(row.Peer, row.Key.String(), lostUses); err != nil {
			return err
		}
	}
	if err := t.withdraw(row.Key.String(), "this home is in recovery"); err != nil { // asks start anew
		return err
	}
	if err := t.putRow(*row); err != nil {
		return err
	}
	if err := t.oweAt(jobRecovered, row.Key.String(), row.RecoveryUntil, nil); err != nil {
		return err
	}
	return t.owe(jobHistory, row.Key.String(), nil)
}

// returned takes an event of our own that a peer gave back to a home that had lost it.
func (t *turn) returned(v manifest.Verified, e *manifest.Event) error {
	rows, err := tasks.All(t.Tx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		row := r.V
		if row.Key.ID != e.TaskID || row.Task.ManifestDigest() != e.ManifestDigest || row.Recovery == "" {
			continue
		}
		if row.Task.Held(row.Role, v.Digest()) {
			return nil
		}
		next, err := task.Apply(row.Task, v)
		var gap *task.GapError
		if errors.As(err, &gap) {
			return nil // it comes again after the one before it
		}
		if err != nil {
			return err
		}
		if err := t.charge(row, *e); err != nil {
			return err
		}
		row.Task = next
		return t.kept(&row, v)
	}
	t.g.count("dropped our own")
	return nil
}

// charge moves what an event of ours moved when it was said first, and commits
// the usage that it stated.
func (t *turn) charge(row taskRow, e manifest.Event) error {
	c, err := t.caseOf(row, e.Body.Fact)
	if err != nil {
		return err
	}
	c.Event, c.By = e, e.Author
	if err := t.move(c.Ledger, policy.Moves(c)); err != nil {
		return err
	}
	var said manifest.Usage
	switch f := e.Body.Fact.(type) {
	case manifest.Delivered:
		said = f.Usage
	case manifest.Progressed:
		said = f.Usage
	default:
		return nil // endings charge themselves
	}
	return t.commitUpTo(row, said.Meters, policy.HoldID("returned-"+itoa(e.Seq)))
}

// commitUpTo commits what is missing to a stated usage, as far as there is anything left.
func (t *turn) commitUpTo(row taskRow, used manifest.Meters, hold policy.HoldID) error {
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return err
	}
	var ms []policy.Move
	for _, m := range policy.Meters() {
		acc := policy.MeterOf(row.Key, m)
		b := l.Of(acc)
		if more := min(m.Of(used)-b.Committed, b.Free()); more > 0 {
			ms = append(ms, policy.Move{Op: policy.Reserve, Account: acc, Hold: hold, Amount: more},
				policy.Move{Op: policy.Commit, Account: acc, Hold: hold, Amount: more})
		}
	}
	return t.move(l, ms)
}

// unknownRun charges a run that this home may have begun before it was put back
// and knows no end of (B1): working time from when the turn was ours until the
// recovery began, and all tokens where the agent had a model.
func (t *turn) unknownRun(row taskRow) error {
	if row.Role != manifest.Worker || row.Task.State() != task.Working {
		return nil
	}
	wires, err := t.events(row.Key.String())
	if err != nil {
		return err
	}
	var turned time.Time
	for _, w := range wires {
		s, err := manifest.OpenValue(w, t.g.keys)
		if err != nil {
			return err
		}
		e, ok := s.Document().(*manifest.Event)
		if !ok {
			continue
		}
		switch e.Body.Fact.(type) {
		case manifest.Started, manifest.Rejected:
			turned = e.At.Time()
		}
	}
	began := row.RecoveryUntil.Add(-recoveryTerm)
	worked := int64(began.Sub(turned)/time.Second) + 1
	if turned.IsZero() || worked <= 0 || turned.After(began) {
		return nil
	}
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return err
	}
	used := manifest.Meters{WallClockSeconds: l.Of(policy.MeterOf(row.Key, policy.WallClockSeconds)).Committed + worked}
	if row.accepted().Model != modelNone {
		limits := row.Task.Limits()
		used.InputTokens, used.OutputTokens = limits.InputTokens, limits.OutputTokens
	}
	return t.commitUpTo(row, used, "unknown-run")
}

// Recover puts every open task into recovery: the home was put back from a
// backup and cannot know what it had said since.
func (g *Gateway) Recover(ctx context.Context, why string) error {
	return g.turn(ctx, func(t *turn) error {
		rows, err := tasks.Group(t.Tx, groupOpen)
		if err != nil {
			return err
		}
		for _, r := range rows {
			row := r.V
			if row.Task.IsZero() { // nothing of it left this gateway that the journal does not show; it is asked anew
				row.Dropped = "recovery"
				if err := t.withdraw(r.Key, "this home is in recovery"); err != nil {
					return err
				}
				if err := t.putRow(row); err != nil {
					return err
				}
				continue
			}
			if err := t.recover(&row, why); err != nil {
				return err
			}
		}
		if err := t.revokeAll(signing.DID{}, "recovery: uses may have been lost"); err != nil { // R4b
			return err
		}
		return t.note(self, map[string]string{"recovery": why})
	})
}

// returned says whether the term is over and the peer has then shown that it holds no event of ours that we lack.
func (r taskRow) returned(now time.Time) bool {
	mine := r.Task.Head(r.Role)
	whole := r.PeerHas == nil || mine != nil && mine.Seq >= r.PeerHas.Seq
	return whole && !now.Before(r.RecoveryUntil) && !r.PeerAsked.Before(r.RecoveryUntil)
}

// recovered ends a recovery once its term is over and the peer holds no event of ours that we lack.
func (t *turn) recovered(key string) error {
	row, err := t.row(key)
	if err != nil || row.Recovery == "" {
		return err
	}
	if !row.returned(t.now) {
		if err := t.owe(jobHistory, key, nil); err != nil {
			return err
		}
		return t.oweAt(jobRecovered, key, t.now.Add(time.Hour), nil)
	}
	if err := t.unknownRun(row); err != nil {
		return err
	}
	row.Recovery = ""
	if err := t.note(key, map[string]string{"recovered": "the peer returned our chain"}); err != nil {
		return err
	}
	if err := t.putRow(row); err != nil {
		return err
	}
	return t.wants(row)
}
