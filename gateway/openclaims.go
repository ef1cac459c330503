package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// claimed takes what a contact says of an open proposal of ours.
func (t *turn) claimed(v manifest.Verified, d *manifest.Claim) error {
	if d.To != t.g.Agent.DID() {
		return spec.Refuse(spec.WrongSigner, "/to", "S6")
	}
	key := manifest.TaskKey{Owner: t.g.Owner, ID: d.TaskID}.String()
	row, ok, err := openings.Get(t.Tx, key)
	switch {
	case err != nil:
		return err
	case !ok || row.Digest != d.Digest || !slices.Contains(row.To, v.Owner()):
		return spec.Refuse(spec.Conflict, "/digest", "M10: no open proposal of ours to you")
	}
	if known, there := row.Claims[v.Owner().String()]; there && known.Digest == v.Digest() { // the same again
		return t.confirmDocument(v)
	}
	if state := row.state(t.now); state != openSent {
		return spec.Refuse(spec.Conflict, "/digest", "M10: it is "+state)
	}
	m, err := manifest.ReadManifest(row.Payload)
	if err != nil {
		return err
	}
	if _, err := d.TermsOf(m); err != nil {
		return err
	}
	if err := t.append(recOpen, key, v.Wire().Bytes()); err != nil {
		return err
	}
	row.Claims[v.Owner().String()] = claimRow{*d, v.Digest(), t.now}
	if err := openings.Put(t.Tx, key, "", row); err != nil {
		return err
	}
	return errors.Join(t.confirmDocument(v), t.tell())
}

// Choice picks one contact's claim.
type Choice struct {
	Open   string `json:"open"` // id of the open proposal, or an ending
	To     string `json:"to"`
	DryRun bool   `json:"dryRun"`
}

// Pick sends whoever claimed a contract: a new task under the claim's terms,
// decided and asked about like any other (M10).
func (g *Gateway) Pick(ctx context.Context, by Caller, in Choice) (out Proposed, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	id, err := g.newTaskID(g.Now())
	if err != nil {
		return out, err
	}
	err = g.turn(ctx, func(t *turn) error {
		open, err := t.findOpen(in.Open)
		if err != nil {
			return err
		}
		row, err := t.picked(open, in.To, id)
		if err != nil {
			return err
		}
		if in.DryRun {
			out = Proposed{Task: id.String(), Digest: signing.DigestOf(row.Proposal.Bytes()).String(), Manifest: row.Proposal}
			return t.dry(row)
		}
		if out, err = t.sayProposal(&row); err != nil {
			return err
		}
		open.State, open.Picked = openPicked, id.String()
		if err := t.note(open.Key.String(), map[string]string{"picked": in.To, "task": id.String()}); err != nil {
			return err
		}
		return openings.Put(t.Tx, open.Key.String(), "", open)
	})
	return out, err
}

// picked is the directed contract: the claim's terms, whoever claimed, and today's certificates.
func (t *turn) picked(open openRow, name string, id manifest.TaskID) (row taskRow, err error) {
	owner, _, ok := t.trust.Named(name)
	claim, there := open.Claims[owner.String()]
	switch state := open.state(t.now); {
	case !ok || !there:
		return row, spec.Refuse(spec.NotFound, "/to", "M10: "+manifest.Display(name, 40)+" has not claimed it")
	case state != openSent:
		return row, spec.Refuse(spec.Conflict, "", "M10: it is "+joinWords(state, open.Picked))
	}
	m, err := manifest.ReadManifest(open.Payload)
	if err != nil {
		return row, err
	}
	if m, err = claim.Claim.TermsOf(m); err != nil {
		return row, err
	}
	payload, err := t.between(&m, owner, id)
	if err != nil {
		return row, err
	}
	return taskRow{Key: manifest.TaskKey{Owner: t.g.Owner, ID: id}, Role: manifest.Requester, Peer: owner, Title: m.Task.Title,
		Proposal: payload, Files: open.Files, Named: true, Claimed: open.Claimed, At: t.now, Here: map[string]bool{}}, nil
}

func (t *turn) findOpen(ref string) (row openRow, err error) {
	rows, err := openings.All(t.Tx)
	if err != nil {
		return row, err
	}
	var found []openRow
	for _, r := range rows {
		if endsIn(r.V.Key.ID.String(), ref) {
			found = append(found, r.V)
		}
	}
	return oneOf(found, "open proposal", ref)
}

// endsIn says whether ref is an id or an ending of it that may be typed (surface: Habits).
func endsIn(id, ref string) bool {
	return id == ref || len(ref) >= 4 && strings.HasSuffix(strings.ToLower(id), strings.ToLower(ref))
}

func oneOf[T any](found []T, what, ref string) (one T, err error) {
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return one, spec.Refuse(spec.NotFound, "", "no "+what+" ends in "+manifest.Display(ref, 40))
	}
	return one, spec.Refuse(spec.Conflict, "", "more than one "+what+" ends in "+manifest.Display(ref, 40))
}
