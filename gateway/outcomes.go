package gateway

import (
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// refuseGate is what a no, an expiry and silence come to.
func (t *turn) refuseGate(row *taskRow, r askRow) (string, error) {
	word := string(spec.GateDenied)
	if r.State == string(approval.Expired) {
		word = string(spec.GateExpired)
	}
	switch r.Kind {
	case manifest.KindProposed:
		row.Dropped = word
		return "dropped", t.putRow(*row)
	case manifest.KindAccepted:
		_, err := t.say(row, manifest.Declined{Reason: word})
		return string(manifest.KindDeclined), err
	case manifest.KindCompleted:
		d, m := row.Task.Delivery(), row.Task.Manifest()
		if d == nil || row.Report == nil {
			return "", nil
		}
		report := *row.Report
		_, err := t.say(row, manifest.Rejected{Delivery: d.Digest, Report: report, Again: d.Revision-1 < m.Verification.MaxRetries, Text: "the owner said no"})
		return string(manifest.KindRejected), err
	}
	return "", nil
}

// withdraw takes the open asks of a task away in the step that ended it (G3).
func (t *turn) withdraw(key string) error {
	rows, err := asks.Group(t.Tx, key)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.V.State != string(approval.Waiting) {
			continue
		}
		r.V.State, r.V.Closed = string(approval.Withdrawn), t.now
		if err := asks.Put(t.Tx, r.Key, key, r.V); err != nil {
			return err
		}
		if err := t.Settle(jobExpire, r.Key); err != nil {
			return err
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
	if state, _ := approval.Settle(r.Ask, nil, t.now); state != approval.Expired {
		return t.oweAt(jobExpire, id, r.Ask.Until.Time(), nil)
	}
	r.State, r.Closed = string(approval.Expired), t.now
	if err := t.note(r.Task, map[string]string{"ask": id, "state": r.State}); err != nil {
		return err
	}
	if err := asks.Put(t.Tx, id, r.Task, r); err != nil {
		return err
	}
	_, err = t.follow(r)
	return err
}
