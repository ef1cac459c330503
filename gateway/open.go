package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// openings are our open proposals (M10), by the key that their id would make. They
// are no tasks: nothing of theirs binds anybody.
var openings = journal.NewTable[openRow]("open")

type openRow struct {
	Key     manifest.TaskKey    `json:"key"`
	Payload jcs.Value           `json:"payload"` // the manifest without worker and signatures
	Digest  signing.Digest      `json:"digest"`
	Title   string              `json:"title"`
	Until   time.Time           `json:"until"` // its deadline
	To      []signing.DID       `json:"to"`
	Files   []string            `json:"files"`
	Claimed bool                `json:"claimed"` // the draft said that a claimed isolation is enough
	State   string              `json:"state"`   // drafted, sent, picked, dropped
	Claims  map[string]claimRow `json:"claims"`  // by the owner who claimed
	Picked  string              `json:"picked"`  // the task that came of it
	At      time.Time           `json:"at"`
}

type claimRow struct {
	Claim  manifest.Claim `json:"claim"`
	Digest signing.Digest `json:"digest"`
	At     time.Time      `json:"at"` // when it came
}

// kindOpen is what is said after a yes to an open proposal: no event of any history.
const kindOpen manifest.Kind = "open"

// States of an open proposal of ours; past its deadline it is over, whatever it was.
const (
	openDrafted = "drafted"
	openSent    = "sent"
	openPicked  = "picked"
	openDropped = "dropped"
	openOver    = "over"
)

func (r openRow) state(now time.Time) string {
	if (r.State == openDrafted || r.State == openSent) && !now.Before(r.Until) {
		return openOver
	}
	return r.State
}

// Opening is one draft that several contacts may offer to do.
type Opening struct {
	Draft  manifest.Draft `json:"draft"`
	To     []string       `json:"to"`
	DryRun bool           `json:"dryRun"`
}

// Open makes an open proposal and asks the owner. Only a person opens one: an
// agent asks contacts, it does not look for them (K2).
func (g *Gateway) Open(ctx context.Context, by Caller, in Opening) (out Proposed, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	if n := len(in.To); n < 1 || n > policy.MaxOpenTo {
		return out, spec.Refuse(spec.Malformed, "/to", "M10: 1 to 20 contacts")
	}
	refs, files, err := g.importInputs(ctx, by, Proposal{Draft: in.Draft, To: in.To[0]})
	if err != nil {
		return out, err
	}
	id, err := g.newTaskID(g.Now())
	if err != nil {
		return out, err
	}
	err = g.turn(ctx, func(t *turn) error {
		row, err := t.newOpen(in, id, refs, files)
		if err != nil {
			return err
		}
		out = Proposed{Task: id.String(), Digest: row.Digest.String(), Manifest: row.Payload}
		ask, err := t.sayOpen(row)
		switch {
		case err != nil:
			return err
		case in.DryRun:
			return errDry
		case ask != nil:
			out.Ask, out.Until = ask.Ask.AskID.String(), ask.Ask.Until.Time()
		}
		return nil
	})
	if errors.Is(err, errDry) {
		err = nil
	}
	return out, err
}

func (t *turn) newOpen(in Opening, id manifest.TaskID, refs []manifest.ArtifactRef, files []string) (row openRow, err error) {
	row = openRow{Key: manifest.TaskKey{Owner: t.g.Owner, ID: id}, Files: files, Claimed: in.Draft.Sandbox.ClaimedOK, State: openDrafted, Claims: map[string]claimRow{}, At: t.now}
	for i, name := range in.To {
		owner, _, ok := t.trust.Named(name)
		switch {
		case !ok:
			return row, spec.Refuse(spec.NotFound, "/to/"+itoa(i), "no contact is called "+manifest.Display(name, 40))
		case slices.Contains(row.To, owner):
			return row, spec.Refuse(spec.Malformed, "/to/"+itoa(i), "M10: each contact once")
		}
		row.To = append(row.To, owner)
	}
	own, err := t.g.certificateTerms()
	if err != nil {
		return row, err
	}
	m, err := t.rules.Policy.Defaults.Fill(in.Draft).Manifest(manifest.Terms{ID: id, At: t.now, Inputs: refs, Requester: party(own)})
	if err != nil {
		return row, err
	}
	m.Worker = nil // whoever it will be
	if row.Payload, err = jcs.Encode(m); err != nil {
		return row, err
	}
	if _, err := manifest.ReadManifest(row.Payload); err != nil {
		return row, err
	}
	row.Digest, row.Title, row.Until = signing.DigestOf(row.Payload.Bytes()), m.Task.Title, m.Deadline.Time()
	return row, t.g.checkInput(m)
}

// openCase is the open proposal as it is decided about.
func (t *turn) openCase(row openRow) (c policy.Case, to []policy.Contact, err error) {
	c = policy.Case{Event: manifest.Event{TaskID: row.Key.ID, ManifestDigest: row.Digest, Author: t.g.Agent.DID(), At: signing.TimeOf(t.now),
		Body: manifest.Body{Fact: manifest.Proposed{Manifest: row.Payload}}}, Role: manifest.Requester, By: t.g.Agent.DID(), At: t.now, Opens: true,
		Files: row.Files, NamedFiles: row.Files, ClaimedIsEnough: row.Claimed}
	rows, err := asks.Group(t.Tx, row.Key.String())
	for _, r := range rows {
		if r.V.State == stateAllowed && !r.V.Used && t.stands(r.V) {
			c.Consents = append(c.Consents, r.V.Consent)
		}
	}
	for _, owner := range row.To {
		k := t.trust.Contacts[owner]
		to = append(to, policy.Contact{Name: k.Name, Owner: owner, Confirmed: k.Confirmed, Blocked: k.Blocked})
	}
	return c, to, err
}

// sayOpen is the path of an open proposal: decide, then ask, or sign and send to each.
func (t *turn) sayOpen(row openRow) (*askRow, error) {
	c, to, err := t.openCase(row)
	if err != nil {
		return nil, err
	}
	d := t.rules.Policy.Open(c, to)
	if w := t.law.Waiting; w != nil {
		d = policy.Stricter(d, w.Policy.Open(c, to))
	}
	switch d.Outcome {
	case policy.Deny:
		return nil, t.denied(d)
	case policy.Hold:
		return t.askOpen(row, c, d)
	}
	if err := t.useYes(row.Key.String(), d.Consent.Decision); err != nil {
		return nil, err
	}
	var m manifest.TaskManifest
	if err := jcs.Decode(row.Payload, &m); err != nil {
		return nil, err
	}
	b, payload, err := manifest.SignManifest(m, manifest.Requester, t.g.Agent, t.now)
	if err != nil {
		return nil, err
	}
	wire, err := manifest.Assemble(payload, &b, nil)
	if err != nil {
		return nil, err
	}
	s, err := manifest.OpenValue(wire, t.g.keys)
	if err != nil {
		return nil, err
	}
	if err := t.append(recOpen, row.Key.String(), wire.Bytes()); err != nil {
		return nil, err
	}
	for _, owner := range row.To {
		if err := t.send(owner, s, "", "", 0); err != nil {
			return nil, err
		}
	}
	row.State = openSent
	return nil, openings.Put(t.Tx, row.Key.String(), "", row)
}

// useYes spends the owner's yes, in the durable step before the act (G6).
func (t *turn) useYes(key string, decision signing.Digest) error {
	rows, err := asks.Group(t.Tx, key)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.V.Consent.Decision == decision {
			r.V.Used = true
			return asks.Put(t.Tx, r.Key, key, r.V)
		}
	}
	return spec.Refuse(spec.Internal, "", "a consent without its decision")
}

func (t *turn) askOpen(row openRow, c policy.Case, d policy.Decision) (*askRow, error) {
	names := make([]string, len(row.To))
	for i, owner := range row.To {
		names[i] = t.trust.Contacts[owner].Name
	}
	x, err := t.bareTerms(d)
	if err != nil {
		return nil, err
	}
	x.Contact, x.Confirmed, x.Agent, x.Open = cut(strings.Join(names, ", "), 100), true, "you", names
	if len(row.Files) > 0 {
		x.Offered = row.Files
	}
	a, err := approval.New(c, d, x)
	if err != nil {
		return nil, err
	}
	if err := openings.Put(t.Tx, row.Key.String(), "", row); err != nil {
		return nil, err
	}
	r := askRow{Ask: a, Task: row.Key.String(), Kind: kindOpen, State: string(approval.Waiting), Rule: x.Because, At: t.now}
	return &r, t.keepAsk(r)
}

// followOpen is what the owner's answer, or silence, comes to.
func (t *turn) followOpen(r askRow) (string, error) {
	row, ok, err := openings.Get(t.Tx, r.Task)
	switch {
	case err != nil || !ok || row.state(t.now) != openDrafted:
		return "", err
	case r.State == stateAllowed:
		ask, err := t.sayOpen(row)
		if err == nil && ask != nil {
			err = spec.Refuse(spec.Conflict, "", "G2: the question is another one by now; nothing was done")
		}
		return string(kindOpen), err
	}
	row.State = openDropped
	return openDropped, openings.Put(t.Tx, row.Key.String(), "", row)
}

// openAnew decides about an open proposal again under the law of this turn.
func (t *turn) openAnew(r askRow) error {
	row, ok, err := openings.Get(t.Tx, r.Task)
	if err != nil || !ok {
		return err
	}
	c, to, err := t.openCase(row)
	if err != nil {
		return err
	}
	d := t.rules.Policy.Open(c, to)
	if d.Outcome == policy.Hold && !looser(r.Ask, *d.Gate) {
		return nil
	}
	if err := t.close(&r, approval.Withdrawn, "your policy changed"); err != nil {
		return err
	}
	if d.Outcome == policy.Hold {
		_, err = t.askOpen(row, c, d)
		return err
	}
	row.State = openDropped
	return openings.Put(t.Tx, r.Task, "", row)
}
