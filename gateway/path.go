package gateway

import (
	"encoding/hex"
	"errors"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func hexOf(b []byte) string { return hex.EncodeToString(b) }

// Said is what came of an intent.
type Said struct {
	Outcome policy.Outcome
	Ask     *askRow // of a Hold; nil while it waits in line (B9)
}

// say is the path of an intent: decide, then hold or sign, apply, append, owe.
func (t *turn) say(row *taskRow, fact manifest.Fact) (Said, error) {
	if row.Recovery != "" {
		return Said{}, spec.Refuse(spec.Unavailable, "", "R4b: in recovery: "+row.Recovery)
	}
	c, err := t.caseOf(*row, fact)
	if err != nil {
		return Said{}, err
	}
	d := t.may(c)
	switch d.Outcome {
	case policy.Deny:
		return Said{}, t.refusing(row, c, d)
	case policy.Hold:
		ask, err := t.ask(row, c, d)
		return Said{Outcome: policy.Hold, Ask: ask}, err
	}
	if d.Consent != nil {
		if fact, err = t.withDecision(row.Key, fact, d.Consent.Decision); err != nil {
			return Said{}, err
		}
		c.Event.Body.Fact = fact
	}
	v, err := manifest.Sign(&c.Event, t.g.Agent, t.now)
	if err != nil {
		return Said{}, err
	}
	if v, err = t.trust.Admit(v.Signed, t.now); err != nil {
		return Said{}, err
	}
	if err := t.applyEvent(row, c, v, d.Moves); err != nil {
		return Said{}, err
	}
	return Said{Outcome: policy.Allow}, t.send(row.Peer, v.Signed, "", row.Key.String(), c.Event.Seq)
}

// hear is the path of the other side's event. A *task.GapError means: wait and ask again.
func (t *turn) hear(v manifest.Verified, e *manifest.Event) error {
	if v.Owner() == t.g.Owner {
		return t.returned(v, e)
	}
	row, err := t.rowFor(v, e)
	if err != nil {
		return err
	}
	c, err := t.caseOf(row, e.Body.Fact)
	if err != nil {
		return err
	}
	c.Event, c.By = *e, e.Author
	if err := checkBlocks(row, e, t.g.keys); err != nil {
		return err
	}
	if row.Task.Held(row.Role.Other(), v.Digest()) { // H5
		return t.owe(jobAck, row.Key.String(), nil)
	}
	var gap *task.GapError
	d := policy.Contract(c)
	next, err := task.Apply(row.Task, v)
	if errors.As(err, &gap) {
		return gap
	}
	if err == nil && d.Outcome != policy.Allow && row.Task.IsZero() {
		return d.Err() // a proposal that cannot be: refused, nothing is kept
	}
	if err == nil && d.Outcome != policy.Allow {
		row.Breach = d.Rule
		if err := t.keepRefusal(row.Key.String(), Refusal{Task: row.Key.ID.String(), With: row.Peer, Name: t.trust.Contacts[row.Peer].Name, By: byLaw, What: string(e.Body.Fact.Kind()),
			Word: d.Reason, Rule: d.Rule, Path: d.Path, Limit: d.Limit, Have: d.Have, Most: d.Most, At: t.now}); err != nil {
			return err
		}
		t.g.Log.Warn("the other side said what the contract does not allow", "task", row.Key.ID.String(), "kind", string(e.Body.Fact.Kind()), "rule", d.Rule)
	}
	var broke *task.TransitionError
	if err != nil && !errors.As(err, &broke) {
		return err
	}
	before := row.Task
	row.Task = next
	if broke != nil {
		if err := t.kept(&row, v); err != nil {
			return err
		}
		return t.dispute(&row, before, v, broke)
	}
	if err := t.move(c.Ledger, d.Moves); err != nil {
		return err
	}
	return t.kept(&row, v)
}

// dispute says in the same step that the other side's chain breaks, enclosing
// what breaks it; its seen holds fast the branch that we had applied (H6).
func (t *turn) dispute(row *taskRow, before task.Task, v manifest.Verified, broke *task.TransitionError) error {
	said := manifest.Disputed{Claim: "the other side's chain breaks at event " + itoa(broke.Seq) + ": " + cut(broke.Cause, 200),
		Evidence: []signing.Digest{v.Digest()}, Enclosed: []jcs.Value{v.Wire()}}
	e := before.Next(t.g.Agent.DID(), manifest.Body{Fact: said}, t.now)
	own, err := manifest.Sign(&e, t.g.Agent, t.now)
	if err != nil {
		return err
	}
	if own, err = t.trust.Admit(own.Signed, t.now); err != nil {
		return err
	}
	next, err := task.Apply(row.Task, own)
	if err != nil { // as after five disputes (H12): the break stands all the same
		t.g.Log.Warn("no dispute could be said", "task", row.Key.ID.String(), "error", err)
		return nil
	}
	row.Task = next
	if err := t.kept(row, own); err != nil {
		return err
	}
	return t.send(row.Peer, own.Signed, "", row.Key.String(), e.Seq)
}

// applyEvent applies our own event and keeps it.
func (t *turn) applyEvent(row *taskRow, c policy.Case, v manifest.Verified, moves []policy.Move) error {
	next, err := task.Apply(row.Task, v)
	if err != nil {
		return err
	}
	row.Task, row.Proposal = next, jcs.Value{}
	if _, ok := c.Event.Body.Fact.(manifest.Asked); ok {
		row.Change = nil
	}
	if err := t.move(c.Ledger, moves); err != nil {
		return err
	}
	return t.kept(row, v)
}

// kept appends an event, acknowledges it if it is theirs, and owes what the new state wants.
func (t *turn) kept(row *taskRow, v manifest.Verified) error {
	if err := t.append(recEvent, row.Key.String(), v.Wire().Bytes()); err != nil {
		return err
	}
	if v.Owner() != t.g.Owner {
		if err := t.owe(jobAck, row.Key.String(), nil); err != nil {
			return err
		}
	}
	if err := t.withdrawMoved(*row); err != nil {
		return err
	}
	if err := t.dealt(*row, v); err != nil {
		return err
	}
	if err := t.granted(*row, v); err != nil {
		return err
	}
	if err := t.countered(row, v); err != nil {
		return err
	}
	if err := t.introduced(*row, v); err != nil {
		return err
	}
	sentBack(row, v)
	if err := t.putRow(*row); err != nil {
		return err
	}
	if err := t.grouped(*row); err != nil {
		return err
	}
	return t.wants(*row)
}

// caseOf is all that a decision may look at.
func (t *turn) caseOf(row taskRow, fact manifest.Fact) (policy.Case, error) {
	contact := t.trust.Contacts[row.Peer]
	c := policy.Case{
		Event: row.Task.Next(t.g.Agent.DID(), manifest.Body{Fact: fact}, t.now),
		Role:  row.Role, By: t.g.Agent.DID(), Task: row.Task, At: t.now, Caller: row.Agent,
		Contact:         policy.Contact{Name: contact.Name, Owner: row.Peer, Confirmed: contact.Confirmed, Blocked: contact.Blocked},
		Files:           row.Files,
		ClaimedIsEnough: row.Claimed,
		Together:        row.Together,
		Zone:            t.g.Zone,
	}
	if row.Named {
		c.NamedFiles = row.Files
	}
	if _, ok := fact.(manifest.Asked); ok {
		c.Wished = row.Change != nil && row.Change.Wished
	}
	c.Filters = t.filters(t.rules.Agents[row.Agent])
	if t.g.Runner != nil {
		c.Isolation = t.g.Runner.Levels()
	}
	if row.Parent != "" && row.Task.IsZero() {
		parent, err := t.row(row.Parent)
		if err != nil {
			return c, err
		}
		c.Parent = parent.Task
	}
	var err error
	if c.Group, err = t.together(row); err != nil {
		return c, err
	}
	if c.Consents, err = t.consents(row.Key.String(), fact, row.Peer); err != nil {
		return c, err
	}
	c.Ledger, err = t.ledger(policy.Accounts(c))
	return c, err
}

// consents are our owner's yeses for the task, and the other owner's as its event carries it.
func (t *turn) consents(key string, fact manifest.Fact, peer signing.DID) ([]policy.Consent, error) {
	if !policy.Gated(fact) {
		return nil, nil
	}
	rows, err := asks.Group(t.Tx, key)
	if err != nil {
		return nil, err
	}
	var out []policy.Consent
	for _, r := range rows {
		if r.V.State == stateAllowed && !r.V.Used && t.stands(r.V) {
			out = append(out, r.V.Consent)
		}
	}
	doc := manifest.DecisionIn(fact)
	if doc == nil {
		more, err := t.standingYeses(fact, peer)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	if doc != nil {
		s, err := manifest.OpenValue(*doc, t.g.keys)
		if err != nil {
			return nil, spec.At("/body/decision", err)
		}
		v, err := t.trust.Admit(s, t.now)
		if spec.ReasonOf(err) == spec.CertificateExpired { // first seen too late, and it does not get better: no gap to wait for (T1)
			err = spec.Refuse(spec.Expired, "/certificateDigest", "I5: the approver's certificate ran out")
		}
		if err != nil {
			return nil, spec.At("/body/decision", err)
		}
		if d, ok := s.Document().(*manifest.GateDecision); ok && v.Owner() == peer && d.OwnerDid == peer && d.Verdict == "allow" {
			k := policy.Consent{Gate: d.Gate, AskDigest: d.AskDigest, Contract: d.ContractDigest, Subject: d.SubjectDigest,
				Owner: d.OwnerDid, Decision: s.Digest(), Lasts: d.Lasts}
			if use := manifest.StandingIn(fact); use != nil {
				k.Grant = &use.Grant
			}
			out = append(out, k)
		}
	}
	return out, nil
}

// withDecision puts the signed yes into the event that it allows (G11).
func (t *turn) withDecision(key manifest.TaskKey, fact manifest.Fact, digest signing.Digest) (manifest.Fact, error) {
	if f, ok, err := t.use(key, fact, digest); err != nil || ok {
		return f, err
	}
	rows, err := asks.Group(t.Tx, key.String())
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if r.V.Consent.Decision != digest || r.V.Decision.IsZero() {
			continue
		}
		r.V.Used = true // in the durable step before the act (G6)
		if err := asks.Put(t.Tx, r.Key, key.String(), r.V); err != nil {
			return nil, err
		}
		doc := r.V.Decision
		switch f := fact.(type) {
		case manifest.Proposed:
			f.Decision = &doc
			return f, nil
		case manifest.Accepted:
			f.Decision = &doc
			return f, nil
		case manifest.Asked:
			f.Decision = &doc
			return f, nil
		case manifest.Answered:
			f.Decision = &doc
			return f, nil
		case manifest.Delegated:
			f.Decision = &doc
			return f, nil
		case manifest.Completed:
			f.Decision = &doc
			return f, nil
		case manifest.Progressed:
			f.Opens = &manifest.Opens{Host: f.Opens.Host, Decision: &doc}
			return f, nil
		}
	}
	return nil, spec.Refuse(spec.Internal, "", "a consent without its decision")
}

// denied is a denial as people and agents see it: with the line of the rule.
func (t *turn) denied(d policy.Decision) error {
	err := d.Err()
	var e *spec.Error
	if d.Section == "" || !errors.As(err, &e) {
		return err
	}
	where := d.Rule
	if line := t.place(d); line != "" {
		where = d.Rule + " (" + line + ")"
	}
	c := *e
	c.Limit = joinWords(c.Limit, "rule: "+where)
	return &c
}

// place is where the rule of a decision stands; "" where the law decided, and
// while a change waits: the file says then what is not in force.
func (t *turn) place(d policy.Decision) string {
	if d.Section == "" || d.Index < 0 || t.g.Line == nil || t.law.Waiting != nil {
		return ""
	}
	return t.g.Line("/" + d.Section + "/" + itoa(d.Index))
}

func joinWords(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	}
	return a + "; " + b
}

// rowFor finds the task of the other side's event, or makes the row of a new proposal.
func (t *turn) rowFor(v manifest.Verified, e *manifest.Event) (taskRow, error) {
	for _, owner := range []signing.DID{v.Owner(), t.g.Owner} {
		row, ok, err := tasks.Get(t.Tx, manifest.TaskKey{Owner: owner, ID: e.TaskID}.String())
		if err != nil {
			return row, err
		}
		if !ok || row.Peer != v.Owner() {
			continue
		}
		if row.Task.ManifestDigest() != e.ManifestDigest { // M11
			return row, spec.Refuse(spec.Conflict, "/manifestDigest", "M11: another contract under this id")
		}
		return row, nil
	}
	p, ok := e.Body.Fact.(manifest.Proposed)
	if !ok {
		return taskRow{}, &task.GapError{Author: e.Author, Need: 1}
	}
	m, err := manifest.OpenManifest(p.Manifest, p.Signature, manifest.Requester, t.g.keys)
	if err != nil {
		return taskRow{}, spec.At("/body", err)
	}
	switch {
	case m.Worker == nil || m.Worker.OwnerDid != t.g.Owner || m.Worker.AgentDid != t.g.Agent.DID():
		return taskRow{}, spec.Refuse(spec.WrongSigner, "/body/manifest/worker", "not this gateway")
	case m.Requester.OwnerDid != v.Owner() || m.Requester.AgentDid != e.Author:
		return taskRow{}, spec.Refuse(spec.WrongSigner, "/body/manifest/requester", "S6")
	case !t.trust.Contacts[v.Owner()].Confirmed: // K2
		return taskRow{}, spec.Refuse(spec.NotPermitted, "", "K2: the contact is not confirmed yet")
	}
	return taskRow{Key: manifest.TaskKey{Owner: v.Owner(), ID: e.TaskID}, Role: manifest.Worker, Peer: v.Owner(), Title: m.Task.Title,
		Together: p.Group, At: t.now, Here: map[string]bool{}}, nil
}

// checkBlocks holds the worker's block over the same payload, where the event carries it (S7: binding needs both).
func checkBlocks(row taskRow, e *manifest.Event, k *signing.Keys) error {
	if a, ok := e.Body.Fact.(manifest.Accepted); ok && !row.Task.IsZero() {
		_, err := manifest.OpenManifest(row.Task.Payload(), a.Signature, manifest.Worker, k)
		return spec.At("/body", err)
	}
	return nil
}
