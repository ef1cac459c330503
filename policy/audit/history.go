package audit

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// event is one event of this task, verified.
type event struct {
	doc  *document
	e    *manifest.Event
	role manifest.Role
}

// consent is a person's yes and where it stands.
type consent struct {
	policy.Consent
	decision *manifest.GateDecision
	by       manifest.Verified
	doc      *document
	path     string
}

// replay folds both chains with the law that enforced them: each event is held
// against [policy.Contract] in its author's view, then applied. The order of
// the documents does not matter (H1); what names an event that is not here
// waits, and what is left waiting is a gap.
func (a *audit) replay() {
	a.decisions()
	var waiting []*event
	have := map[signing.Digest]bool{}
	for _, d := range a.sorted {
		e, ok := eventIn(d)
		if !ok || have[d.whole] {
			continue // H5
		}
		have[d.whole] = true
		r, _ := a.role(e.Author)
		waiting = append(waiting, &event{doc: d, e: e, role: r})
	}
	sortEvents(waiting)
	for len(waiting) > 0 {
		var gaps []*event
		for _, ev := range waiting {
			if !a.apply(ev) {
				gaps = append(gaps, ev)
			}
		}
		if len(gaps) == len(waiting) {
			a.gaps(gaps)
			return
		}
		waiting = gaps
	}
}

func eventIn(d *document) (*manifest.Event, bool) {
	if !d.used || d.by.IsZero() {
		return nil, false
	}
	e, ok := d.signed.Document().(*manifest.Event)
	return e, ok
}

// apply is one step of the replay; false means that the event must wait.
func (a *audit) apply(ev *event) bool {
	next, err := task.Apply(a.task, ev.doc.by)
	var gap *task.GapError
	var broke *task.TransitionError
	switch {
	case errors.As(err, &gap):
		return false
	case errors.As(err, &broke):
		a.task = next
		a.events = append(a.events, ev)
		a.find(Wrong, spec.ReasonOf(broke.Unwrap()), ev.doc, "", orText(ruleIn(broke.Cause), "H6"),
			fmt.Sprintf("%s's event %d, %s: %s", a.name(broke.Author), broke.Seq, broke.Kind, broke.Cause))
		return true
	case err != nil:
		a.wrong(ev.doc, "", err)
		return true
	}
	if !a.task.Broken() {
		a.lawful(ev)
	}
	a.task = next
	a.events = append(a.events, ev)
	if _, ok := ev.e.Body.Fact.(manifest.Accepted); ok {
		a.rep.Signatures++ // Apply held the worker's block
	}
	return true
}

// lawful holds the event against the law, as both gateways had to (steps 3–5).
func (a *audit) lawful(ev *event) {
	var consents []policy.Consent
	if d := manifest.DecisionIn(ev.e.Body.Fact); d != nil {
		if c, ok := a.consents[signing.DigestOf(d.Bytes())]; ok {
			consents = append(consents, c.Consent)
		}
	}
	d := policy.Contract(policy.Case{Event: *ev.e, By: ev.e.Author, Task: a.task, Consents: consents, At: ev.e.At.Time()})
	switch {
	case d.Outcome == policy.Allow && d.Consent != nil:
		a.approved(ev, a.consents[d.Consent.Decision])
	case d.Outcome != policy.Allow:
		a.find(Wrong, d.Reason, ev.doc, d.Path, orText(d.Rule, "V4"),
			fmt.Sprintf("%s's event %d, %s: %s", a.name(ev.role), ev.e.Seq, ev.e.Body.Fact.Kind(), denial(d)))
	}
}

func denial(d policy.Decision) string {
	if d.Reason == spec.GateOpen {
		return "no decision by the owner satisfies " + d.Limit
	}
	return orText(d.Limit, string(d.Reason))
}

// decisions opens every gate-decision, alone or inside an event, and keeps the
// yeses whose signer is the owner that they name (G1).
func (a *audit) decisions() {
	a.consents, a.asks, a.votes = map[signing.Digest]consent{}, map[signing.Digest]*document{}, map[signing.Digest][]manifest.Verified{}
	for _, d := range a.sorted {
		if d.ask != nil && d.err == nil {
			a.asks[d.whole] = d
		}
	}
	for _, d := range a.sorted {
		if e, ok := eventIn(d); ok {
			if v := manifest.DecisionIn(e.Body.Fact); v != nil {
				a.decisionInside(d, decisionPath(e.Body.Fact), *v, manifest.StandingIn(e.Body.Fact))
			}
		}
		if g, ok := d.signed.Document().(*manifest.GateDecision); ok && !d.by.IsZero() {
			a.consent(d, "", d.by, g, nil)
		}
	}
}

// decisionPath is where an event carries its decision.
func decisionPath(f manifest.Fact) string {
	if f.Kind() == manifest.KindProgressed {
		return "/body/opens/decision"
	}
	return "/body/decision"
}

func (a *audit) decisionInside(d *document, path string, v jcs.Value, use *manifest.StandingUse) {
	s, err := manifest.OpenValue(v, a.keys)
	if err != nil {
		a.wrong(d, path, err)
		return
	}
	a.rep.Signatures++
	by, err := a.admit(s)
	if err != nil {
		a.wrong(d, path, err)
		return
	}
	if g, ok := s.Document().(*manifest.GateDecision); ok {
		a.consent(d, path, by, g, use)
	}
}

// consent keeps a decision that holds. A standing one is of the task in which it
// was asked for, and counts only with the grant beside it in an event (G6).
func (a *audit) consent(d *document, path string, by manifest.Verified, g *manifest.GateDecision, use *manifest.StandingUse) {
	standing := g.Lasts == manifest.LastsStanding
	if by.Owner() != g.OwnerDid || g.TaskID != a.m.TaskID && !standing {
		a.find(Wrong, spec.WrongSigner, d, path, "G1", "a decision for another owner than it names, or for another task")
		return
	}
	if ask, ok := a.asks[g.AskDigest]; ok {
		ask.used = true
		err := approval.Answers(*ask.ask, g.AskDigest, *g)
		if standing {
			if use == nil {
				return
			}
			err = approval.AnswersStanding(*ask.ask, g.AskDigest, *g, use.Grant)
		}
		if err != nil {
			a.wrong(d, path, err)
			return
		}
	}
	a.votes[g.AskDigest] = append(a.votes[g.AskDigest], by)
	if g.Verdict != approval.Allow {
		return
	}
	if have, ok := a.consents[by.Digest()]; ok && have.path != "" {
		return
	}
	c := consent{doc: d, path: path, decision: g, by: by, Consent: policy.Consent{Gate: g.Gate, AskDigest: g.AskDigest,
		Contract: g.ContractDigest, Subject: g.SubjectDigest, Owner: g.OwnerDid, Decision: by.Digest(), Lasts: g.Lasts}}
	if use != nil {
		c.Grant = &use.Grant
	}
	a.consents[by.Digest()] = c
}

// approved notes a decision that satisfied a gate.
func (a *audit) approved(ev *event, c consent) {
	if c.decision == nil {
		return
	}
	if c.decision.DecidedAt.Time().After(ev.e.At.Time().Add(policy.MaxAhead)) {
		a.find(Wrong, spec.Malformed, ev.doc, decisionPath(ev.e.Body.Fact)+"/decidedAt", "T1", "decided after what it allows")
	}
	ask := a.asks[c.AskDigest]
	ap := Approval{Gate: c.Gate, By: ev.role, Presence: c.decision.Presence, Proven: approval.Proven(c.by.Signed),
		At: c.decision.DecidedAt, Decision: c.Decision, Shown: ask != nil, On: ev.e.Body.Fact.Kind()}
	if cert, ok := c.by.Approver(); ok {
		ap.Person = cert.Person
		if !ev.e.At.Before(cert.ExpiresAt) {
			a.find(Wrong, spec.CertificateExpired, ev.doc, decisionPath(ev.e.Body.Fact)+"/certificateDigest", "G5", "the approver's certificate had run out when this was said")
		}
	}
	if use := manifest.StandingIn(ev.e.Body.Fact); use != nil {
		ap.Standing = &Standing{Use: use.Use, Uses: use.Grant.Uses, Until: use.Grant.Until}
	} else if ask != nil {
		ap.Need, ap.Votes = max(1, ask.ask.Need), approval.Yeses(*ask.ask, a.votes[c.AskDigest], c.decision.DecidedAt.Time())
	}
	a.rep.Facts.Approvals = append(a.rep.Facts.Approvals, ap)
}

// gaps says which events are missing: those that the rest names.
func (a *audit) gaps(waiting []*event) {
	if len(a.docs) == 1 {
		a.missing("the task's history before this event", "both sides", "H1", "", "")
		return
	}
	once := map[string]bool{}
	for _, ev := range waiting {
		_, err := task.Apply(a.task, ev.doc.by)
		var gap *task.GapError
		if !errors.As(err, &gap) {
			continue
		}
		role, ok := a.role(gap.Author)
		if !ok {
			role = manifest.Requester
		}
		what := fmt.Sprintf("%s's event %d", a.name(role), gap.Need)
		if once[what] {
			continue
		}
		once[what] = true
		a.find(Wrong, spec.NotFound, ev.doc, "", "H1", what+" is missing; this one names it")
		a.missing(what, a.name(role), "H1", ev.doc.path, a.name(role)+": event "+fmt.Sprint(gap.Need)+" as sent")
	}
}

// clock is the instant from which deadlines are looked at.
func (a *audit) clock() time.Time {
	if a.o.At != nil {
		return *a.o.At
	}
	var at time.Time
	for d := range a.evidence() {
		if t := signedAt(d.signed); t.After(at) {
			at = t
		}
	}
	return at
}

// evidence walks the documents of this task that hold.
func (a *audit) evidence() iter.Seq[*document] {
	return func(yield func(*document) bool) {
		for _, d := range a.sorted {
			if d.used && d.good() && !yield(d) {
				return
			}
		}
	}
}
