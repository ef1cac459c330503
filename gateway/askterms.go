package gateway

import (
	"io"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
)

// bareTerms are those of any question: its id, its nonce, the law and the rule that ask.
func (t *turn) bareTerms(d policy.Decision) (x approval.Terms, err error) {
	text, err := t.g.mint("apr_", t.now)
	if err != nil {
		return x, err
	}
	if x.ID, err = manifest.ParseAskID(text); err != nil {
		return x, err
	}
	x.Policy, x.Because = t.rules.Policy.Digest(), t.place(d)
	_, err = io.ReadFull(t.g.Chance, x.Nonce[:])
	return x, err
}

// terms are what a card says beside the case: names that we gave, and what was looked up.
func (t *turn) terms(row *taskRow, c policy.Case, d policy.Decision) (approval.Terms, error) {
	x, err := t.bareTerms(d)
	if err != nil {
		return x, err
	}
	contact := t.trust.Contacts[row.Peer]
	x.Contact, x.Confirmed, x.Agent, x.Usage, x.Left = contact.Name, contact.Confirmed, row.Agent, row.Task.Usage(), approval.LeftToday(d, c.Ledger)
	if x.Agent == "" {
		x.Agent = "you"
	}
	if f, ok := c.Event.Body.Fact.(manifest.Progressed); ok && f.Opens != nil {
		x.Reach = t.reaches(f.Opens.Host)
	}
	x.Chosen = row.Chosen
	if row.Role == manifest.Requester && len(row.Files) > 0 {
		x.Offered = row.Files
	}
	if del := row.Task.Delivery(); del != nil && d.Gate.Gate == manifest.DeliveryGate {
		full, err := t.deliveryOf(*row)
		if err != nil {
			return x, err
		}
		x.Delivery = &full
	}
	if x.Together, err = t.asTold(row); err != nil {
		return x, err
	}
	if err := t.thirdIn(*row, c, &x); err != nil {
		return x, err
	}
	x.Last, x.Finished, err = t.lastWith(row.Peer, row.Role)
	return x, err
}

// dealingRow is what a card says of a contact: the last contract that got our
// owner's yes on one side, and how many tasks were completed. It is a row, so
// that an ask costs the same after ten thousand tasks.
type dealingRow struct {
	Last     *manifest.TaskManifest `json:"last"`
	Finished int64                  `json:"finished"`
}

func dealingKey(peer signing.DID, side manifest.Role) string {
	return peer.String() + " " + string(side)
}

// lastWith is the last contract with a contact that got a yes on this side, and how many tasks were completed with it on either.
func (t *turn) lastWith(peer signing.DID, side manifest.Role) (last *manifest.TaskManifest, finished int64, err error) {
	for _, s := range []manifest.Role{manifest.Requester, manifest.Worker} {
		d, _, err := dealings.Get(t.Tx, dealingKey(peer, s))
		if err != nil {
			return nil, 0, err
		}
		finished += d.Finished
		if s == side {
			last = d.Last
		}
	}
	return last, finished, nil
}

// dealt keeps what the next card says of the contact: our own yes to a contract, and the completion of a task.
func (t *turn) dealt(row taskRow, v manifest.Verified) error {
	e, ok := v.Document().(*manifest.Event)
	if !ok {
		return nil
	}
	key := dealingKey(row.Peer, row.Role)
	change := func(f func(*dealingRow)) error {
		d, _, err := dealings.Get(t.Tx, key)
		if err != nil {
			return err
		}
		f(&d)
		return dealings.Put(t.Tx, key, "", d)
	}
	switch f := e.Body.Fact.(type) {
	case manifest.Proposed, manifest.Accepted:
		if v.Owner() == t.g.Owner && manifest.DecisionIn(f) != nil {
			m := row.Task.Manifest()
			return change(func(d *dealingRow) { d.Last = &m })
		}
	case manifest.Completed:
		if row.Task.Outcome(t.now) == string(manifest.KindCompleted) {
			return change(func(d *dealingRow) { d.Finished++ })
		}
	}
	return nil
}
