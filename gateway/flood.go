package gateway

import (
	"slices"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
)

// Floods of one contact (B9): what it may have us ask at once, and how often we tell it no.
var (
	asked    = journal.NewTable[string]("asked")       // open asks by id, grouped by contact, with their task
	line     = journal.NewTable[lineRow]("line")       // held intents that are not asked about yet, by task, grouped by contact
	refusals = journal.NewTable[refusalRow]("refused") // by contact
)

// lineRow is a held intent that waits for a place among its contact's asks.
type lineRow struct {
	Kind    manifest.Kind  `json:"kind"`
	Subject signing.Digest `json:"subject"`
	At      time.Time      `json:"at"`
}

type refusalRow struct {
	Hour time.Time `json:"hour"`
	N    int64     `json:"n"`
}

// full says whether as many asks about a contact are open as may be at once, and
// puts the intent in line then. What the owner's own command asked for is not
// held up: it is the person itself who asks.
func (t *turn) full(row *taskRow, kind manifest.Kind, subject signing.Digest) (bool, error) {
	if row.Named {
		return false, nil
	}
	n, err := asked.Count(t.Tx, row.Peer.String())
	if err != nil || n < policy.MaxOpenAsks {
		return false, err
	}
	key := row.Key.String()
	at := t.now
	if before, ok, err := line.Get(t.Tx, key); err != nil {
		return false, err
	} else if ok {
		at = before.At
	} else {
		t.g.count("asks in line")
	}
	if err := line.Put(t.Tx, key, row.Peer.String(), lineRow{kind, subject, at}); err != nil {
		return false, err
	}
	return true, t.putRow(*row)
}

// opens counts a new ask among its contact's, and takes its task out of the line.
func (t *turn) opens(row *taskRow, id string) error {
	if err := line.Delete(t.Tx, row.Key.String()); err != nil || row.Named {
		return err
	}
	return asked.Put(t.Tx, id, row.Peer.String(), row.Key.String())
}

// frees gives the place of a closed ask back; the next in line is asked about in a turn of its own.
func (t *turn) frees(r askRow) error {
	id := r.Ask.AskID.String()
	if _, ok, err := asked.Get(t.Tx, id); err != nil || !ok {
		return err
	}
	if err := asked.Delete(t.Tx, id); err != nil {
		return err
	}
	return t.owe(jobLine, r.Ask.From.OwnerDid.String(), nil)
}

// advance asks about those in line, in the order in which they came, while there is a place.
func (t *turn) advance(peer string) error {
	rows, err := line.Group(t.Tx, peer)
	if err != nil {
		return err
	}
	slices.SortStableFunc(rows, func(a, b journal.Row[lineRow]) int { return a.V.At.Compare(b.V.At) })
	for _, r := range rows {
		n, err := asked.Count(t.Tx, peer)
		if err != nil || n >= policy.MaxOpenAsks {
			return err
		}
		if err := line.Delete(t.Tx, r.Key); err != nil {
			return err
		}
		if err := t.askNow(r.Key, r.V); err != nil {
			return err
		}
	}
	return nil
}

// askNow makes the decision about an intent that was in line; what the rules refuse by now is refused.
func (t *turn) askNow(key string, l lineRow) error {
	row, err := t.row(key)
	if err != nil || row.Dropped != "" || row.Task.Ended() {
		return err
	}
	r := askRow{Task: key, Kind: l.Kind, State: string(approval.Withdrawn), Ask: approval.Ask{SubjectDigest: l.Subject}}
	fact, err := t.factOf(row, r)
	if err == nil {
		_, err = t.say(&row, fact)
	}
	if err := t.keepFrom(err); err != nil {
		return err
	}
	if _, no := denial(err); !no || l.Kind == manifest.KindCompleted {
		if no {
			return nil
		}
		return err
	}
	_, err = t.refuseGate(&row, r)
	return err
}

// inLine says that a task's question waits behind others about the same contact.
func (t *turn) inLine(row taskRow) (bool, error) {
	_, ok, err := line.Get(t.Tx, row.Key.String())
	return ok, err
}

// mayRefuse counts one more refusal to a contact in this hour of the clock; past the limit it hears nothing.
func (t *turn) mayRefuse(owner signing.DID) (bool, error) {
	row, _, err := refusals.Get(t.Tx, owner.String())
	if err != nil {
		return false, err
	}
	if hour := t.now.UTC().Truncate(time.Hour); !row.Hour.Equal(hour) {
		row = refusalRow{Hour: hour}
	}
	if row.N >= policy.MaxRefusalsAnHour {
		t.g.count("silent refusals")
		return false, nil
	}
	row.N++
	t.g.count("refusals")
	return true, refusals.Put(t.Tx, owner.String(), "", row)
}
