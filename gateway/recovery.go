package gateway

import (
	"context"
	"errors"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
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
		row.Task = next
		return t.kept(&row, v)
	}
	t.g.count("dropped our own")
	return nil
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

// recovered ends a recovery once its term is over and the peer holds no event of ours that we lack.
func (t *turn) recovered(key string) error {
	row, err := t.row(key)
	if err != nil || row.Recovery == "" {
		return err
	}
	mine := row.Task.Head(row.Role)
	whole := row.PeerHas == nil || mine != nil && mine.Seq >= row.PeerHas.Seq
	if t.now.Before(row.RecoveryUntil) || !whole || row.PeerAsked.Before(row.RecoveryUntil) {
		if err := t.owe(jobHistory, key, nil); err != nil {
			return err
		}
		return t.oweAt(jobRecovered, key, t.now.Add(time.Hour), nil)
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
