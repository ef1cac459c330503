package gateway

import (
	"context"
	"sort"
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

// standings are the standing yeses of our owner (G6), by the digest of their
// decision, in groups of a contact and a side. What they have left is in the ledger.
var standings = journal.NewTable[standingRow]("standing")

type standingRow struct {
	Decision jcs.Value      `json:"decision"`
	Consent  policy.Consent `json:"consent"`
	Ask      string         `json:"ask"` // that it answered: how people name it
	At       time.Time      `json:"at"`
	Uses     []StandingUsed `json:"uses"` // at most a hundred
	Revoked  time.Time      `json:"revoked"`
	Why      string         `json:"why"`
}

// StandingUsed is one use: a contract that our side signed without asking again.
type StandingUsed struct {
	Task string    `json:"taskId"`
	Use  int64     `json:"use"`
	At   time.Time `json:"at"`
}

func standingGroup(peer signing.DID, side manifest.Role) string {
	return peer.String() + " " + string(side)
}

// decideStanding takes a standing yes: it answers the ask, and what waits is said as its first use.
func (t *turn) decideStanding(v manifest.Verified, d *manifest.GateDecision, grant manifest.Standing) (out Decided, err error) {
	r, ok, err := asks.Get(t.Tx, d.AskID.String())
	switch {
	case err != nil:
		return out, err
	case !ok:
		return out, spec.Refuse(spec.NotFound, "/askId", "ask")
	}
	if r.Kind == kindOpen {
		return out, spec.Refuse(spec.NotPermitted, "", "G6: of contracts, not of an open proposal")
	}
	if err := r.closed(t.now); err != nil {
		return out, err
	}
	consent, err := approval.Stand(r.Ask, v, grant, t.now)
	if err != nil {
		return out, err
	}
	if err := t.append(recDecision, r.Task, v.Wire().Bytes()); err != nil {
		return out, err
	}
	s := standingRow{Decision: v.Wire(), Consent: consent, Ask: d.AskID.String(), At: t.now, Uses: []StandingUsed{}}
	if err := standings.Put(t.Tx, consent.Decision.String(), standingGroup(grant.Contact, grant.Side), s); err != nil {
		return out, err
	}
	r.Decision, r.Used = v.Wire(), true // what it lets happen is a use of the standing yes
	if err := t.close(&r, approval.Allowed, ""); err != nil {
		return out, err
	}
	said, err := t.follow(r)
	return Decided{Ask: s.Ask, State: r.State, Outcome: said, Task: r.Ask.TaskID.String()}, err
}

// standingYeses are those of our owner that may serve what we would say to a contact.
func (t *turn) standingYeses(fact manifest.Fact, peer signing.DID) (out []policy.Consent, err error) {
	side := manifest.Requester
	switch fact.(type) {
	case manifest.Proposed:
	case manifest.Accepted:
		side = manifest.Worker
	default:
		return nil, nil
	}
	rows, err := standings.Group(t.Tx, standingGroup(peer, side))
	for _, r := range rows {
		if r.V.state(t.now) != standingInForce {
			continue
		}
		v, ok := t.again(r.V.Decision) // its signer may still decide (G5), and it was not taken back (I7)
		if ok && !t.trust.IsRevoked(t.g.Owner, v.Digest()) {
			out = append(out, r.V.Consent)
		}
	}
	return out, err
}

// use spends a standing yes for an event, in the step that says it; ok is false where digest is no standing one's.
func (t *turn) use(key manifest.TaskKey, fact manifest.Fact, digest signing.Digest) (_ manifest.Fact, ok bool, err error) {
	s, ok, err := standings.Get(t.Tx, digest.String())
	if err != nil || !ok {
		return fact, false, err
	}
	u := StandingUsed{Task: key.ID.String(), Use: int64(len(s.Uses)) + 1, At: t.now}
	s.Uses = append(s.Uses, u)
	grant := *s.Consent.Grant
	if err := t.note(key.String(), map[string]string{"standing": digest.String(), "use": itoa(u.Use)}); err != nil {
		return fact, true, err
	}
	if err := standings.Put(t.Tx, digest.String(), standingGroup(grant.Contact, grant.Side), s); err != nil {
		return fact, true, err
	}
	named := &manifest.StandingUse{Grant: grant, Use: u.Use}
	switch f := fact.(type) {
	case manifest.Proposed:
		f.Decision, f.Standing = &s.Decision, named
		return f, true, nil
	case manifest.Accepted:
		f.Decision, f.Standing = &s.Decision, named
		return f, true, nil
	}
	return fact, true, spec.Refuse(spec.Internal, "", "G6: a standing yes for what it cannot serve")
}

// States of a standing yes.
const (
	standingInForce = "in force"
	standingUsedUp  = "used up"
	standingOver    = "over"
	standingRevoked = "revoked"
)

func (s standingRow) state(now time.Time) string {
	switch {
	case !s.Revoked.IsZero():
		return standingRevoked
	case int64(len(s.Uses)) >= s.Consent.Grant.Uses:
		return standingUsedUp
	case !s.Consent.Grant.At(now):
		return standingOver
	}
	return standingInForce
}

// StandingView is one standing yes as people see it.
type StandingView struct {
	ID       string            `json:"id"` // of the ask that it answered
	Contact  string            `json:"contact"`
	State    string            `json:"state"` // in force, used up, over, revoked
	Grant    manifest.Standing `json:"grant"`
	Decision string            `json:"decision"`
	Presence string            `json:"presence"`
	Left     manifest.Meters   `json:"left"` // of the total
	Uses     []StandingUsed    `json:"uses"`
	At       time.Time         `json:"at"`
	Revoked  time.Time         `json:"revoked,omitzero"`
	Why      string            `json:"why,omitempty"`
}

// Standing lists the standing yeses of our owner with every use, newest first.
func (g *Gateway) Standing(ctx context.Context, by Caller, _ None) (out []StandingView, err error) {
	if err := by.Person(); err != nil {
		return nil, err
	}
	out = []StandingView{}
	err = g.view(ctx, func(t *turn) error {
		rows, err := standings.All(t.Tx)
		if err != nil {
			return err
		}
		for _, r := range rows {
			v, err := t.standingView(r.V)
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return nil
	})
	sort.SliceStable(out, func(i, k int) bool { return out[i].At.After(out[k].At) })
	return out, err
}

func (t *turn) standingView(s standingRow) (StandingView, error) {
	grant := *s.Consent.Grant
	v := StandingView{ID: s.Ask, Contact: t.trust.Contacts[grant.Contact].Name, State: s.state(t.now), Grant: grant, Decision: s.Consent.Decision.String(),
		Presence: s.Consent.Presence, Uses: s.Uses, At: s.At, Revoked: s.Revoked, Why: s.Why}
	var as []policy.Account
	for _, m := range policy.Meters() {
		as = append(as, policy.StandingAccount(s.Consent, m))
	}
	l, err := t.ledger(as)
	left := func(m policy.Meter) int64 {
		return m.Of(grant.Total) - l.Of(policy.StandingAccount(s.Consent, m)).Committed
	}
	v.Left = manifest.Meters{InputTokens: left(policy.InputTokens), OutputTokens: left(policy.OutputTokens),
		ToolInvocations: left(policy.ToolInvocations), WallClockSeconds: left(policy.WallClockSeconds)}
	return v, err
}

// Revoking takes a standing yes back.
type Revoking struct {
	ID     string `json:"id"` // any unique ending
	Reason string `json:"reason,omitempty"`
}

// RevokeStanding ends a standing yes in this step. It only narrows what our own
// gateway says, so it needs no key, as a no does; what was said stands (T2).
func (g *Gateway) RevokeStanding(ctx context.Context, by Caller, in Revoking) (out StandingView, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	err = g.turn(ctx, func(t *turn) error {
		rows, err := standings.All(t.Tx)
		if err != nil {
			return err
		}
		var found []journal.Row[standingRow]
		for _, r := range rows {
			if r.V.Ask == in.ID || len(in.ID) >= 4 && strings.HasSuffix(strings.ToLower(r.V.Ask), strings.ToLower(in.ID)) {
				found = append(found, r)
			}
		}
		switch {
		case len(found) == 0:
			return spec.Refuse(spec.NotFound, "", "no standing yes ends in "+manifest.Display(in.ID, 40))
		case len(found) > 1:
			return spec.Refuse(spec.Conflict, "", "more than one standing yes ends in "+manifest.Display(in.ID, 40))
		}
		s := found[0].V
		if !s.Revoked.IsZero() {
			return spec.Refuse(spec.Conflict, "", "already revoked")
		}
		if err := t.revoke(&s, orWhy(cut(in.Reason, 1000), "by its owner")); err != nil {
			return err
		}
		out, err = t.standingView(s)
		return err
	})
	return out, err
}

func orWhy(text, def string) string {
	if text == "" {
		return def
	}
	return text
}

func (t *turn) revoke(s *standingRow, why string) error {
	s.Revoked, s.Why = t.now, why
	grant := s.Consent.Grant
	if err := t.note(grant.Contact.String(), map[string]string{"standing": s.Consent.Decision.String(), "revoked": why}); err != nil {
		return err
	}
	return standings.Put(t.Tx, s.Consent.Decision.String(), standingGroup(grant.Contact, grant.Side), *s)
}

// revokeAll takes back every standing yes to a contact, or to all with the zero DID.
func (t *turn) revokeAll(contact signing.DID, why string) error {
	rows, err := standings.All(t.Tx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.V.Revoked.IsZero() && (contact.IsZero() || r.V.Consent.Grant.Contact == contact) {
			if err := t.revoke(&r.V, why); err != nil {
				return err
			}
		}
	}
	return nil
}

// byStanding are the uses in a task, as gates of it.
func (t *turn) byStanding(row taskRow) (out []GateView, err error) {
	rows, err := standings.Group(t.Tx, standingGroup(row.Peer, row.Role))
	for _, r := range rows {
		for _, u := range r.V.Uses {
			if u.Task == row.Key.ID.String() && u.Use > 1 { // the first stands under its own ask
				out = append(out, GateView{AskID: r.V.Ask, Gate: manifest.GateWord(r.V.Consent.Gate), State: stateAllowed, Until: r.V.Consent.Grant.Until.String(), Closed: u.At,
					Why: "standing yes, use " + itoa(u.Use) + " of " + itoa(r.V.Consent.Grant.Uses)})
			}
		}
	}
	return out, err
}
