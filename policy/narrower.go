package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

func figureText(n int64) string   { return strconv.FormatInt(n, 10) }
func durationText(n int64) string { return Duration(n).String() }

// people: whoever is new, or may decide more or longer, is more authority.
func (c *comparer) people() {
	names := maps.Clone(c.old.People)
	if names == nil {
		names = map[string]Person{}
	}
	maps.Copy(names, c.next.People)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := c.old.People[name]
		is, has := c.next.People[name]
		path := "/people/" + name
		switch {
		case !had:
			c.add(Added, path, name+" may be asked: "+is.words(), "nobody of this name")
		case !has:
			c.add(Narrower, path, name+" is not asked any more", was.words())
		case was.Owner != is.Owner || was.Key != is.Key:
			c.add(Wider, path, name+" is somebody else: "+is.words(), was.words())
		default:
			c.set(Wider, path+"/gates", wordsOf(was.Gates), wordsOf(is.Gates), func(w string) string { return name + " may decide " + w })
			c.day(path+"/until", name, was.Until, is.Until)
		}
	}
}

func wordsOf(gs []GateWord) (out []string) {
	for _, g := range gs {
		out = append(out, string(g))
	}
	return out
}

func (p Person) words() string {
	if p.Owner {
		return "the owner"
	}
	s := "key " + p.Key.String()
	for i, g := range p.Gates {
		s += map[bool]string{true: " for ", false: ", "}[i == 0] + string(g)
	}
	if p.Until != "" {
		s += " until " + string(p.Until)
	}
	return s
}

// day compares the last day on which a person may decide; "" is no end.
func (c *comparer) day(path, name string, old, next Date) {
	text := func(d Date) string {
		if d == "" {
			return "without an end"
		}
		return "until " + string(d)
	}
	switch {
	case old == next:
	case next != "" && (old == "" || !next.End().After(old.End())):
		c.add(Narrower, path, name+" decides "+text(next), text(old))
	default:
		c.add(Wider, path, name+" decides "+text(next), text(old))
	}
}

// ask: more people, fewer votes, another way of being there, no step-up and a longer wait are each wider.
func (c *comparer) ask(w GateWord, old, next Ask) {
	path, gate := "/ask/"+string(w), string(w)
	c.set(Wider, path+"/who", old.Who, next.Who, func(s string) string { return gate + ": " + s + " may answer" })
	c.set(Wider, path+"/presence", old.Kinds(), next.Kinds(), func(s string) string { return gate + ": an answer by " + s + " counts" })
	was, is := max(1, old.Need), max(1, next.Need)
	switch {
	case is < was:
		c.add(Wider, path+"/need", fmt.Sprintf("%s: %d votes are enough", gate, is), figureText(int64(was)))
	case is > was:
		c.add(Narrower, path+"/need", fmt.Sprintf("%s: %d votes are needed", gate, is), figureText(int64(was)))
	}
	switch {
	case old.StepUp && !next.StepUp:
		c.add(Wider, path+"/step_up", gate+": what is irreversible is not asked again", "asked again")
	case !old.StepUp && next.StepUp:
		c.add(Narrower, path+"/step_up", gate+": what is irreversible is asked again", "not asked again")
	}
	before, after := int64(WaitFor(w.Gate(), old)), int64(WaitFor(w.Gate(), next))
	c.bound(path+"/wait", gate+": waits for an answer", &before, &after, durationText)
}

// bounds compares the figures of two rules of which each fits the same cases.
func (c *comparer) bounds(path, what string, om, nm AtMost, od, nd PerDay, oo, no *int64) {
	for _, x := range []struct {
		name      string
		old, next *int64
		text      func(int64) string
	}{
		{"at_most/input_tokens", figure(om.InputTokens), figure(nm.InputTokens), figureText},
		{"at_most/output_tokens", figure(om.OutputTokens), figure(nm.OutputTokens), figureText},
		{"at_most/tool_calls", figure(om.ToolCalls), figure(nm.ToolCalls), figureText},
		{"at_most/time", (*int64)(om.Time), (*int64)(nm.Time), durationText},
		{"at_most/delegation_depth", om.DelegationDepth, nm.DelegationDepth, figureText},
		{"per_day/tasks", figure(od.Tasks), figure(nd.Tasks), figureText},
		{"per_day/input_tokens", figure(od.InputTokens), figure(nd.InputTokens), figureText},
		{"per_day/output_tokens", figure(od.OutputTokens), figure(nd.OutputTokens), figureText},
		{"per_day/tool_calls", figure(od.ToolCalls), figure(nd.ToolCalls), figureText},
		{"at_once", oo, no, figureText},
	} {
		c.bound(path+"/"+x.name, what+", "+x.name, x.old, x.next, x.text)
	}
}

// checks: a command that a contract may have run is authority over this machine (M6).
func (c *comparer) checks() {
	c.set(Added, "/checks", c.old.Checks, c.next.Checks, func(s string) string { return "a contract may have run: " + s })
}

// defaults bind nobody, but a draft that says nothing gets them: fewer gates, a
// later deadline and a larger budget are wider all the same.
func (c *comparer) defaults() {
	o, n := c.old.Defaults, c.next.Defaults
	for _, w := range o.Gates {
		if !slices.Contains(n.Gates, w) {
			c.add(Wider, "/defaults/gates", "a draft does not ask for "+string(w)+" by itself", "asks")
		}
	}
	for _, w := range n.Gates {
		if !slices.Contains(o.Gates, w) {
			c.add(Narrower, "/defaults/gates", "a draft asks for "+string(w)+" by itself", "does not ask")
		}
	}
	for _, x := range []struct {
		name      string
		old, next int64
		text      func(int64) string
	}{
		{"deadline", int64(o.Deadline), int64(n.Deadline), durationText},
		{"budget/input_tokens", int64(o.Budget.InputTokens), int64(n.Budget.InputTokens), figureText},
		{"budget/output_tokens", int64(o.Budget.OutputTokens), int64(n.Budget.OutputTokens), figureText},
		{"budget/tool_calls", int64(o.Budget.ToolCalls), int64(n.Budget.ToolCalls), figureText},
		{"budget/time", int64(o.Budget.Time), int64(n.Budget.Time), durationText},
	} {
		c.bound("/defaults/"+x.name, "a draft's "+x.name, orNone(x.old), orNone(x.next), x.text)
	}
	switch {
	case o.Budget.Over == n.Budget.Over:
	case n.Budget.Over == "stop":
		c.add(Narrower, "/defaults/budget/over", "a draft stops at its budget", o.Budget.Over)
	default:
		c.add(Wider, "/defaults/budget/over", "a draft may ask for more budget", o.Budget.Over)
	}
}

// orNone: an absent default leaves the figure to the draft's own, so it bounds nothing here.
func orNone(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// Kinds are the kinds of presence that count for a yes (G10).
func (a Ask) Kinds() []string {
	if len(a.Presence) == 0 {
		return []string{"passkey", "device", "passphrase"}
	}
	return slices.Clone(a.Presence)
}

// ChangedBy says whether a yes to a change of this policy counts with this
// presence (G12). The owner's passphrase always does: the key behind it is above
// every approver, which it certifies (I5). No presence at all does where it
// counts for every gate, since a change can touch each. A policy-consent carries
// no assertion, so nothing else can be shown by it.
func (p Policy) ChangedBy(presence string) bool {
	switch presence {
	case "passphrase":
		return true
	case "none":
		return !slices.ContainsFunc(GateWords(), func(w GateWord) bool { return !slices.Contains(p.Ask.Of(w.Gate()).Kinds(), presence) })
	}
	return false
}
