package policy

import (
	"slices"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// ask says who is asked for a held gate, and until when (G4). Where nobody can
// answer, the answer is no.
func (p Policy) ask(l *law, d Decision) Decision {
	g := *d.Gate
	a := p.Ask.Of(g.Gate)
	g.Who, g.Need, g.StepUp = p.who(g.Gate, a, l.At), max(1, a.Need), a.StepUp
	g.Presence = a.Kinds()
	g.Keys = p.keys(g.Who)
	g.Until = until(l, WaitFor(g.Gate, a))
	switch {
	case p.persons(g.Who) < g.Need:
		return deny("G5", spec.PolicyDenied, "", "somebody in ask/"+string(WordOf(g.Gate))+"/who")
	case !g.Until.After(l.At):
		return deny("G4", spec.GateExpired, "", "the task's deadline")
	}
	d.Gate = &g
	return d
}

// who may answer now: an owner always, an approver for its gates until its day ends.
func (p Policy) who(g manifest.Gate, a Ask, at time.Time) []string {
	var out []string
	for _, name := range a.Who {
		who, ok := p.People[name]
		switch {
		case !ok || slices.Contains(out, name):
		case who.Owner, slices.Contains(who.Gates, WordOf(g)) && (who.Until == "" || at.Before(who.Until.End())):
			out = append(out, name)
		}
	}
	return out
}

// keys are those of the people who are not the owner; nil where there is none.
func (p Policy) keys(who []string) map[string]signing.DID {
	var out map[string]signing.DID
	for _, name := range who {
		if k := p.People[name].Key; !k.IsZero() {
			if out == nil {
				out = map[string]signing.DID{}
			}
			out[name] = k
		}
	}
	return out
}

// persons is how many votes the names have at most: the owner is one, whatever it is called (G5).
func (p Policy) persons(who []string) (n int) {
	owner := false
	for _, name := range who {
		if p.People[name].Owner {
			owner = true
		} else {
			n++
		}
	}
	if owner {
		n++
	}
	return n
}

// WaitFor is how long an ask for the gate stays open before the fallback, which is no.
func WaitFor(g manifest.Gate, a Ask) time.Duration {
	if a.Wait > 0 {
		return min(time.Duration(a.Wait), MaxAskWait)
	}
	switch g {
	case manifest.EffectGate:
		return WaitEffect
	case manifest.BudgetGate:
		return WaitBudget
	case manifest.SubGate:
		return WaitDelegation
	case manifest.DeliveryGate:
		return WaitDelivery
	}
	return WaitContract
}

// until is never later than the deadline in force nor than the earliest grant (G4).
func until(l *law, wait time.Duration) time.Time {
	end := l.At.Add(wait)
	if d := l.contract.Deadline.Time(); d.Before(end) {
		end = d
	}
	switch l.fact.(type) {
	case manifest.Proposed, manifest.Accepted: // a grant that has ended is no part of what is asked about later
		for _, g := range l.m.Permissions.GrantedCapabilities {
			if t := g.ExpiresAt.Time(); t.Before(end) {
				end = t
			}
		}
	}
	return end
}

// Tool is what the rules say of one of our own tools, called by another under a
// contract, and the rule's place; refused where none fits.
func (p Policy) Tool(name string) (Tool, int) {
	for i, t := range p.Tools {
		begin, star := cutStar(t.Match)
		if name != "" && (t.Match == name || star && len(name) >= len(begin) && name[:len(begin)] == begin) {
			return t, i
		}
	}
	return Tool{Then: ThenRefuse}, -1
}

func cutStar(match string) (string, bool) {
	if n := len(match) - 1; n >= 0 && match[n] == '*' {
		return match[:n], true
	}
	return match, false
}

// Worker is the agent that the first fitting rule names for a contact's work of a type; "" where none does.
func (p Policy) Worker(contact, taskType string) string {
	for _, in := range p.Incoming {
		if in.fits(contact, taskType) {
			return in.Agent
		}
	}
	return ""
}

// base is the contract that an amendment builds on, and the decision that the second one names.
type base struct {
	of    signing.Digest
	first *signing.Digest
}

// change is the amendment that the event asks for or says yes to; nil for another event.
func (l *law) change() (a *manifest.Amendment, b base, yes bool) {
	switch f := l.fact.(type) {
	case manifest.Asked:
		return f.Amendment, base{of: f.Contract}, false
	case manifest.Answered:
		if k, ok := l.view.Ask(f.Ask); ok && f.Yes {
			return k.Amendment, base{k.Base, orNil(k.Decision)}, true
		}
	}
	return nil, base{}, false
}

// other is the owner of the side that is not ours.
func (l *law) other() signing.DID {
	if l.Role == manifest.Requester && l.m.Worker != nil {
		return l.m.Worker.OwnerDid
	}
	return l.m.Requester.OwnerDid
}
