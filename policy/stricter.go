package policy

import (
	"maps"
	"slices"

	"sealbridge/signing"
)

// Stricter is what two decisions about one case come to together: a no of
// either is no, a question of either is asked, with the requirements of both
// (G12). A case whose policy changed while it waited, or for which a change
// waits for its yes, is decided by both policies.
func Stricter(a, b Decision) Decision {
	switch {
	case a.Outcome == Deny:
		return a
	case b.Outcome == Deny:
		return b
	case a.Outcome == Hold && b.Outcome == Hold:
		return bothHold(a, b)
	case a.Outcome == Hold:
		return a
	case b.Outcome == Hold:
		return b
	}
	a.Moves = bothMoves(a.Moves, b.Moves)
	return a
}

// bothHold asks whom both would ask, for as long as both would wait.
func bothHold(a, b Decision) Decision {
	g, h := *a.Gate, *b.Gate
	if g.Gate != h.Gate || g.Subject != h.Subject || g.Contract != h.Contract || g.Owner != h.Owner {
		return deny("G12", a.Reason, "", "one question")
	}
	g.Who, g.Presence = common(g.Who, h.Who), common(g.Presence, h.Presence)
	g.Who = slices.DeleteFunc(g.Who, func(name string) bool { return a.Gate.Keys[name] != h.Keys[name] })
	g.Keys = maps.Clone(g.Keys)
	maps.DeleteFunc(g.Keys, func(name string, _ signing.DID) bool { return !slices.Contains(g.Who, name) })
	if len(g.Keys) == 0 {
		g.Keys = nil
	}
	g.Need, g.StepUp, g.Added = max(g.Need, h.Need), g.StepUp || h.StepUp, g.Added || h.Added
	if h.Until.Before(g.Until) {
		g.Until = h.Until
	}
	if g.persons() < g.Need || len(g.Presence) == 0 {
		return deny("G12", a.Reason, "", "somebody whose answer counts under both policies")
	}
	a.Gate = &g
	return a
}

// persons is how many votes the gate can get: a name without a key is the owner (G5).
func (g Gate) persons() int {
	n := len(g.Keys)
	if len(g.Who) > n {
		n++
	}
	return n
}

func common(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

// bothMoves charges every account that either charges, under the lower limit.
func bothMoves(a, b []Move) []Move {
	out := slices.Clone(a)
	for _, m := range b {
		i := slices.IndexFunc(out, func(o Move) bool { return o.Op == m.Op && o.Account == m.Account && o.Hold == m.Hold })
		switch {
		case i < 0:
			out = append(out, m)
		case m.Op == SetLimit && m.Account.Kind != MeterAccount:
			out[i].Amount = min(out[i].Amount, m.Amount)
		}
	}
	return out
}
