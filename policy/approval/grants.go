package approval

import (
	"fmt"
	"strings"

	"sealbridge/manifest"
	"sealbridge/policy"
)

// maxGrantLines leaves room for the rest of a card; what is more stands in the contract.
const maxGrantLines = 20

// lend says to the requester's owner which of her tools others may call (C1a, C3).
func (w *words) lend() {
	w.tools("lend", w.who+"'s agent may call ", "nothing of yours")
}

// mayCall says to the worker's owner which tools of the requester its agent may call.
func (w *words) mayCall() {
	w.tools("call", w.who+"'s ", "no tools")
}

func (w *words) tools(word, begin, none string) {
	grants := w.m.Permissions.GrantedCapabilities
	for i, g := range grants {
		if i == maxGrantLines {
			w.line(Newly, word, fmt.Sprintf("and %d grants more, which stand in the contract under its digest", len(grants)-i))
			return
		}
		mark, was := Newly, ""
		if w.x.Last != nil && !coveredBy(w.x.Last.Permissions.GrantedCapabilities, g) {
			if mark, was = Wider, granted(w.x.Last.Permissions.GrantedCapabilities); was == "" {
				was = none
			}
		}
		w.line(mark, word, begin+grant(g), arguments(g), was)
	}
}

// grant is one grant in our words. Names of tools are the requester's: escaped.
func grant(g manifest.Grant) string {
	times := fmt.Sprintf("%s times", count(g.MaxInvocations))
	if g.MaxInvocations == 1 {
		times = "once"
	}
	return fmt.Sprintf("%s on %s, %s, until %s", manifest.Display(strings.Join(g.AllowedTools, ", "), 300), manifest.Display(reach(g), 520), times, g.ExpiresAt)
}

// reach is what a grant reaches: a tool without a template reaches whatever it is given (C1a).
func reach(g manifest.Grant) string {
	if strings.HasPrefix(g.Resource, "tool://any/") {
		return "whatever it is given"
	}
	return g.Resource
}

// arguments says what a grant takes: any argument, where nothing is said (C3).
func arguments(g manifest.Grant) string {
	if c := g.ArgConstraints.String(); !g.ArgConstraints.IsZero() && c != "{}" {
		return "only with arguments like " + manifest.Display(c, 700)
	}
	return "with any argument"
}

func granted(gs []manifest.Grant) string {
	var out []string
	for _, g := range gs {
		out = append(out, grant(g))
	}
	return strings.Join(out, "; ")
}

// coveredBy says whether an owner said yes to as much before: nothing but the time may be later.
func coveredBy(last []manifest.Grant, g manifest.Grant) bool {
	for _, l := range last {
		l.ExpiresAt = g.ExpiresAt
		if policy.Covers(l, g) == nil && l.ArgConstraints.String() == g.ArgConstraints.String() {
			return true
		}
	}
	return false
}
