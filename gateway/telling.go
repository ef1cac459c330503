package gateway

import (
	"context"
	"strings"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy"
)

const (
	tellAfter = 2 * time.Second // a first ask waits this long for its like
	tellEvery = time.Minute     // from one note to the next: what comes between is one more
	tellTries = 12              // at growing distances, about half an hour; after that the asks themselves still wait
)

// tell owes a note to the owner; many asks in a short time are one (J12).
func (t *turn) tell() error {
	if t.g.Notifier == nil {
		return nil
	}
	last, _, err := notes.Get(t.Tx, self)
	if err != nil {
		return err
	}
	due := t.now.Add(tellAfter)
	if next := last.Add(tellEvery); next.After(due) {
		due = next
	}
	return t.oweAt(jobNotify, self, due, nil)
}

// doNotify tells a person that something waits. A note that did not arrive is
// told again, with the same id while nothing else began to wait.
func (g *Gateway) doNotify(ctx context.Context, jb journal.Job) error {
	var ids []string
	var last time.Time
	err := g.view(ctx, func(t *turn) error {
		open, err := waiting.All(t.Tx)
		for _, w := range open {
			ids = append(ids, w.Key)
		}
		if err != nil {
			return err
		}
		offered, err := counters.All(t.Tx)
		for _, c := range offered {
			ids = append(ids, c.V)
		}
		if err != nil {
			return err
		}
		differ, err := groups.Group(t.Tx, string(policy.GroupDisagreed))
		for _, g := range differ {
			ids = append(ids, g.Key)
		}
		if err != nil {
			return err
		}
		more, err := t.toLookAt()
		if err != nil {
			return err
		}
		ids = append(ids, more...)
		if t.law.Waiting != nil {
			ids = append(ids, "policy")
		}
		if err == nil {
			last, _, err = notes.Get(t.Tx, self)
		}
		return err
	})
	if err != nil {
		return err
	}
	tell := g.Notifier != nil && len(ids) > 0
	if tell {
		id := manifest.DerivedID("ntf_", "notification", last.UTC().Format(time.RFC3339Nano)+" "+strings.Join(ids, " "))
		if err := g.Notifier.Notify(ctx, id, ids); err != nil {
			if jb.Tries+1 < tellTries || ctx.Err() != nil {
				return err
			}
			g.Log.Warn("nobody could be told that something waits", "error", err)
		}
	}
	return g.turn(ctx, func(t *turn) error {
		now, ok, err := t.JobOf(jobNotify, self)
		if err != nil || !ok {
			return err
		}
		if err := t.Settle(jobNotify, self); err != nil {
			return err
		}
		if tell {
			if err := notes.Put(t.Tx, self, "", t.now); err != nil {
				return err
			}
		}
		if now.Gen == jb.Gen {
			return nil
		}
		return t.tell() // owed anew meanwhile: after a while, not at once
	})
}
