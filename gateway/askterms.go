package gateway

import (
	"io"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
)

func (t *turn) terms(row *taskRow, d policy.Decision) (approval.Terms, error) {
	text, err := t.g.mint("apr_", t.now)
	if err != nil {
		return approval.Terms{}, err
	}
	id, err := manifest.ParseAskID(text)
	if err != nil {
		return approval.Terms{}, err
	}
	contact := t.trust.Contacts[row.Peer]
	x := approval.Terms{ID: id, Policy: t.rules.Policy.Digest(), Contact: contact.Name, Confirmed: contact.Confirmed, Agent: row.Agent, Usage: row.Task.Usage()}
	if x.Agent == "" {
		x.Agent = "you"
	}
	if _, err := io.ReadFull(t.g.Chance, x.Nonce[:]); err != nil {
		return x, err
	}
	if d.Section != "" && t.g.Line != nil && d.Index >= 0 {
		x.Because = t.g.Line("/" + d.Section + "/" + itoa(d.Index))
	}
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
	x.Last, x.Finished, err = t.lastWith(row.Peer, row.Role)
	return x, err
}

// lastWith is the last contract with a contact that was accepted on this side, and how many tasks were completed with it.
func (t *turn) lastWith(peer signing.DID, role manifest.Role) (last *manifest.TaskManifest, finished int64, err error) {
	rows, err := tasks.Group(t.Tx, groupEnded)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range rows {
		if r.V.Peer != peer || r.V.Task.IsZero() {
			continue
		}
		if r.V.Task.Outcome(t.now) == string(manifest.KindCompleted) {
			finished++
			if r.V.Role == role {
				m := r.V.Task.Manifest()
				last = &m
			}
		}
	}
	return last, finished, nil
}
