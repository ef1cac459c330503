package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// lawRow is the owner's policy in force. It stands in the journal and not in
// the file: what was written there while nobody looked is compared with it, at
// the next start too (G12).
type lawRow struct {
	Policy  policy.Policy  `json:"policy"`
	Digest  signing.Digest `json:"digest"`
	Since   time.Time      `json:"since"`
	Consent jcs.Value      `json:"consent"` // the owner's yes that put it in force; none for a first one and for one that narrowed
	Waiting *waitingLaw    `json:"waiting"`
}

// waitingLaw is a policy that permits more and waits for the owner's yes.
// Until then each decision is made by both, and the stricter counts.
type waitingLaw struct {
	Policy     policy.Policy     `json:"policy"`
	Digest     signing.Digest    `json:"digest"`
	Difference policy.Difference `json:"difference"`
	At         time.Time         `json:"at"`
}

var (
	laws     = journal.NewTable[lawRow]("law")
	consents = journal.NewTable[time.Time]("consent") // digests of policy-consents that were used: each once
)

// lawRecord is what the journal keeps of a policy that came in force.
type lawRecord struct {
	Policy  policy.Policy  `json:"policy"`
	Digest  signing.Digest `json:"digest"`
	From    signing.Digest `json:"from"`
	Consent jcs.Value      `json:"consent"`
}

// may is what the owner's rules say of a case: those in force, and while a
// change waits for its yes the stricter of both.
func (t *turn) may(c policy.Case) policy.Decision {
	d := t.rules.Policy.Decide(c)
	if w := t.law.Waiting; w != nil {
		d = policy.Stricter(d, w.Policy.Decide(c))
	}
	return d
}

// takePolicy compares what the file says with what is in force: a first policy
// and one that only narrows apply at once, one that permits more waits.
func (t *turn) takePolicy(p policy.Policy) error {
	d := p.Digest()
	switch w := t.law.Waiting; {
	case t.law.Digest.IsZero():
		return t.putInForce(p, jcs.Value{})
	case t.law.Digest == d && w == nil, w != nil && w.Digest == d:
		return nil
	case t.law.Digest == d: // the file was put back
		t.law.Waiting = nil
		return errors.Join(t.note(self, map[string]string{"policy": "no change waits any more"}), t.putLaw())
	}
	diff := policy.Compare(t.law.Policy, p)
	if !diff.Widens() {
		return t.putInForce(p, jcs.Value{})
	}
	t.law.Waiting = &waitingLaw{Policy: p, Digest: d, Difference: diff, At: t.now}
	if err := t.note(self, map[string]string{"policy": "a change waits for the owner", "from": t.law.Digest.String(), "to": d.String()}); err != nil {
		return err
	}
	if err := t.putLaw(); err != nil {
		return err
	}
	return t.tell()
}

// putInForce makes p the policy in force from this turn on.
func (t *turn) putInForce(p policy.Policy, consent jcs.Value) error {
	body, err := json.Marshal(lawRecord{p, p.Digest(), t.law.Digest, consent})
	if err != nil {
		return err
	}
	if err := t.append(recPolicy, self, body); err != nil {
		return err
	}
	t.law = lawRow{Policy: p, Digest: p.Digest(), Since: t.now, Consent: consent}
	return t.putLaw()
}

// putLaw writes the law and holds what is asked against it: an open ask that
// needs less than the rules do now is asked anew, or not any more.
func (t *turn) putLaw() error {
	if err := laws.Put(t.Tx, self, "", t.law); err != nil {
		return err
	}
	t.rules.Policy = t.law.Policy
	rows, err := t.askRows(false)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.stateAt(t.now) == approval.Waiting {
			if err := t.askAnew(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// askAnew makes the decision of an open ask again under the law of this turn.
func (t *turn) askAnew(r askRow) error {
	if r.Kind == kindOpen {
		return t.openAnew(r)
	}
	row, err := t.row(r.Task)
	if err != nil {
		return err
	}
	if r.Call != "" {
		return t.askCallAnew(r)
	}
	fact, err := t.factOf(row, r)
	if err != nil {
		return nil // withdrawn with its task
	}
	c, err := t.caseOf(row, fact)
	if err != nil {
		return err
	}
	d := t.may(c)
	if d.Outcome == policy.Hold && !looser(r.Ask, *d.Gate) {
		return nil
	}
	if err := t.close(&r, approval.Withdrawn, "your policy changed"); err != nil {
		return err
	}
	if d.Outcome == policy.Hold {
		_, err := t.ask(&row, c, d)
		return err
	}
	if r.Kind == manifest.KindCompleted {
		return nil // a delivery waits for its deadline, or for rules that ask about it
	}
	_, err = t.refuseGate(&row, r)
	return err
}

// looser says whether an ask takes an answer that the gate does not take now.
func looser(a approval.Ask, g policy.Gate) bool {
	more := func(have, allowed []string) bool {
		return slices.ContainsFunc(have, func(s string) bool { return !slices.Contains(allowed, s) })
	}
	for name, key := range a.ApproverKeys {
		if g.Keys[name] != key {
			return true
		}
	}
	return more(a.Presence, g.Presence) || more(a.Approvers, g.Who) || a.Need < int64(g.Need) || g.StepUp && !a.StepUp || a.Until.Time().After(g.Until)
}

// PolicyView is the policy in force, and the change that waits.
type PolicyView struct {
	InForce signing.Digest `json:"inForce"`
	Since   time.Time      `json:"since"`
	Signed  bool           `json:"signed"` // put in force by the owner's yes
	Policy  policy.Policy  `json:"policy"`
	Waiting *WaitingView   `json:"waiting,omitempty"`
}

// WaitingView is a policy that permits more and waits for the owner's yes.
type WaitingView struct {
	Digest     signing.Digest    `json:"digest"`
	At         time.Time         `json:"at"`
	Difference policy.Difference `json:"difference"`
}

func (r lawRow) view() PolicyView {
	v := PolicyView{InForce: r.Digest, Since: r.Since, Signed: !r.Consent.IsZero(), Policy: r.Policy}
	if w := r.Waiting; w != nil {
		v.Waiting = &WaitingView{w.Digest, w.At, w.Difference}
	}
	return v
}

// Policy says which policy is in force and what waits.
func (g *Gateway) Policy(ctx context.Context, by Caller, _ None) (out PolicyView, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	err = g.view(ctx, func(t *turn) error {
		out = t.law.view()
		return nil
	})
	return out, err
}

// ErrNoPolicy is a home that no gateway ever ran in.
var ErrNoPolicy = spec.Refuse(spec.NotFound, "", "no policy is in force yet: the first `sealbridge serve` takes the file")

// PolicyIn is the policy in force of a home whose gateway does not run.
func PolicyIn(ctx context.Context, j *journal.Journal) (out PolicyView, err error) {
	err = j.View(ctx, func(tx *journal.Tx) error {
		row, ok, err := laws.Get(tx, self)
		if err == nil && !ok {
			err = ErrNoPolicy
		}
		out = row.view()
		return err
	})
	return out, err
}

// PolicyChange asks for a policy to be in force. Consent is the owner's signed
// policy-consent; a change that only narrows needs none.
type PolicyChange struct {
	Policy  policy.Policy `json:"policy"`
	Consent string        `json:"consent,omitempty"`
}

// ChangePolicy puts a policy in force: in one turn that compares it anew with
// what is in force, and finds the owner's yes over just that difference (G12).
func (g *Gateway) ChangePolicy(ctx context.Context, by Caller, in PolicyChange) (out PolicyView, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	if err := in.Policy.Validate(); err != nil {
		return out, err
	}
	var s manifest.Signed
	if in.Consent != "" {
		if s, err = manifest.Open([]byte(in.Consent), g.keys); err != nil {
			return out, err
		}
	}
	err = g.turn(ctx, func(t *turn) error {
		diff := policy.Compare(t.law.Policy, in.Policy)
		if diff.Widens() {
			if err := t.agreed(s, diff); err != nil {
				return err
			}
		} else if diff.To == t.law.Digest {
			err := t.takePolicy(in.Policy)
			out = t.law.view()
			return err
		}
		if err := t.putInForce(in.Policy, s.Wire()); err != nil {
			return err
		}
		out = t.law.view()
		return nil
	})
	return out, err
}

// agreed holds the owner's yes against the difference that it must be over. It
// is used up here: the policy that it starts from cannot come back with it.
func (t *turn) agreed(s manifest.Signed, diff policy.Difference) error {
	if s.IsZero() {
		return spec.Refuse(spec.GateOpen, "", "G12: it permits more than the policy in force; `sealbridge policy apply` asks the owner")
	}
	c, ok := s.Document().(*manifest.PolicyConsent)
	if !ok {
		return spec.Refuse(spec.UnknownType, "/type", "a policy-consent")
	}
	v, err := t.trust.Admit(s, t.now)
	if err != nil {
		return err
	}
	_, used, err := consents.Get(t.Tx, s.Digest().String())
	at := c.DecidedAt.Time()
	switch {
	case err != nil:
		return err
	case v.Owner() != t.g.Owner || c.AgentDid != t.g.Agent.DID():
		return spec.Refuse(spec.WrongSigner, "/ownerDid", "G12: the owner of this gateway")
	case used:
		return spec.Refuse(spec.Replayed, "", "G12: this yes was used")
	case c.From != diff.From:
		return spec.Refuse(spec.Conflict, "/from", "G12: another policy is in force by now")
	case c.To != diff.To || c.Difference != diff.Digest():
		return spec.Refuse(spec.Conflict, "/difference", "G12: another change than the one that was shown")
	case at.After(t.now.Add(policy.MaxAhead)):
		return spec.Refuse(spec.Malformed, "/decidedAt", "T1: 60 s ahead at most")
	case at.Before(t.law.Since.Truncate(time.Second)):
		return spec.Refuse(spec.Malformed, "/decidedAt", "T1: not before the policy that it starts from")
	case !t.law.Policy.ChangedBy(c.Presence):
		return spec.Refuse(spec.PolicyDenied, "/presence", "G10: "+c.Presence+" does not count for a change of the policy in force")
	}
	return consents.Put(t.Tx, s.Digest().String(), "", t.now)
}
