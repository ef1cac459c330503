package policy

import (
	"slices"

	"sealbridge/manifest"
)

// A standing yes is a decision over a bounded grant: it satisfies the contract
// gate of every contract within its bounds, until its uses or totals are spent
// (G6). Both owners count them, each in its own ledger: a use is moved in the
// step that says the event.

// StandingAccount counts the uses of one standing yes; with a meter, what its
// contracts agreed together. decision is the digest of the standing decision.
func StandingAccount(k Consent, m Meter) Account {
	if m == "" {
		return Account{Kind: StandingUses, Name: k.Decision.String()}
	}
	return Account{Kind: StandingTotal, Meter: m, Name: k.Decision.String()}
}

func (k Consent) standing() bool { return k.Lasts == manifest.LastsStanding && k.Grant != nil }

func standingAccounts(ks []Consent) (out []Account) {
	for _, k := range ks {
		if !k.standing() {
			continue
		}
		out = append(out, StandingAccount(k, ""))
		for _, m := range Meters() {
			out = append(out, StandingAccount(k, m))
		}
	}
	return out
}

// stands says whether k is a standing yes to exactly this gate. It is never one
// for an amendment, a delivery or what is handed on: their facts have no place for it.
func (l *law) stands(k Consent, g Gate) bool {
	if !k.standing() || k.Gate != g.Gate || k.Owner != g.Owner || k.Owner.IsZero() || k.Decision.IsZero() || k.Subject.IsZero() {
		return false
	}
	s, at := *k.Grant, l.At
	if !l.own {
		at = l.Event.At.Time()
	}
	if s.Gate != g.Gate || s.Side != l.author || s.Subject() != k.Subject || !s.At(at) || s.Covers(l.m, g.Owner) != nil {
		return false
	}
	switch f := l.fact.(type) {
	case manifest.Proposed:
		return l.names(s)
	case manifest.Accepted:
		return l.names(s) && s.CoversBox(f)
	}
	return false
}

// names says whether the event gives the grant in full, where it carries its decision.
func (l *law) names(s manifest.Standing) bool {
	use := manifest.StandingIn(l.fact)
	if manifest.DecisionIn(l.fact) == nil {
		return use == nil
	}
	return use != nil && use.Use >= 1 && use.Use <= s.Uses && use.Grant.Subject() == s.Subject()
}

// spend are the moves of one use: once for a task, and the figures as agreed.
func (l *law) spend(k Consent) []Move {
	key, _, _ := l.parties()
	hold, limits := TaskHold(key), l.m.Budget.Limits()
	one := func(a Account, limit, amount int64) []Move {
		return []Move{{Op: SetLimit, Account: a, Amount: limit}, {Op: Reserve, Account: a, Hold: hold, Amount: amount}, {Op: Commit, Account: a, Hold: hold, Amount: amount}}
	}
	out := one(StandingAccount(k, ""), k.Grant.Uses, 1)
	for _, m := range Meters() {
		out = append(out, one(StandingAccount(k, m), m.Of(k.Grant.Total), m.Of(limits))...)
	}
	return out
}

// usable leaves out the standing yeses that the owner's rules of today would not
// take: made by a presence that does not count any more, by fewer people than
// are asked now, for another agent, for a gate that asks again each time, or for
// one of several tasks (P4), which no grant names.
func (p Policy) usable(c Case) []Consent {
	a := p.Ask.Of(manifest.ContractGate)
	return slices.DeleteFunc(slices.Clone(c.Consents), func(k Consent) bool {
		return k.Lasts == manifest.LastsStanding && (k.Grant == nil || c.Together != "" || a.StepUp || a.Need > 1 || !slices.Contains(a.Kinds(), k.Presence) ||
			k.Grant.Agent != c.Caller || !c.Contact.Confirmed || c.Contact.Owner != k.Grant.Contact)
	})
}
