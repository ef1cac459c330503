package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// other stands for every name that neither policy mentions: no text of a policy can be it, it is not UTF-8.
const other = "\xff"

// maxAtoms bounds a comparison in steps: contacts × task types, or × agents. A
// policy with more is not compared, and what is not compared is wider.
const maxAtoms = 20_000

// atom is one kind of case that both lists of rules tell apart from the rest.
type atom struct{ contact, second string }

// pairs groups the kinds of cases by the first rule of each list that fits
// them; -1 is none. Whatever the lists do not mention is in the kind other.
func pairs(contacts, seconds map[string]bool, old, next func(atom) int) map[[2]int][]atom {
	out := map[[2]int][]atom{}
	contacts[other], seconds[other] = true, true
	for _, a := range slices.Sorted(maps.Keys(contacts)) {
		for _, b := range slices.Sorted(maps.Keys(seconds)) {
			k := atom{a, b}
			at := [2]int{old(k), next(k)}
			out[at] = append(out[at], k)
		}
	}
	return out
}

func sortedPairs(m map[[2]int][]atom) [][2]int {
	return slices.SortedFunc(maps.Keys(m), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
}

func mention(lists ...[]string) map[string]bool {
	out := map[string]bool{}
	for _, l := range lists {
		for _, s := range l {
			out[s] = true
		}
	}
	return out
}

// firstIncoming is the index of the first rule that fits; -1 for none.
func firstIncoming(rules []Incoming) func(atom) int {
	return func(a atom) int {
		return slices.IndexFunc(rules, func(r Incoming) bool { return r.fits(a.contact, a.second) })
	}
}

func firstOutgoing(rules []Outgoing) func(atom) int {
	return func(a atom) int {
		return slices.IndexFunc(rules, func(r Outgoing) bool { return r.fits(a.contact, a.second) })
	}
}

// fits says whether the rule is about a contact and a task type.
func (r Incoming) fits(contact, taskType string) bool {
	return r.From.has(contact) && (len(r.Tasks) == 0 || slices.Contains(r.Tasks, taskType))
}

// fits says whether the rule is about a contact and an agent of ours; "" is the owner's own command.
func (r Outgoing) fits(contact, agent string) bool {
	return r.To.has(contact) && (r.Agent == "" || r.Agent == agent)
}

func (c *comparer) incoming() {
	var names, types [][]string
	for _, r := range slices.Concat(c.old.Incoming, c.next.Incoming) {
		names, types = append(names, r.From), append(types, r.Tasks)
	}
	contacts, kinds := mention(names...), mention(types...)
	if c.tooMany("/incoming", contacts, kinds) {
		return
	}
	m := pairs(contacts, kinds, firstIncoming(c.old.Incoming), firstIncoming(c.next.Incoming))
	for _, at := range sortedPairs(m) {
		var was, is Incoming
		if at[0] >= 0 {
			was = c.old.Incoming[at[0]]
		}
		if at[1] >= 0 {
			is = c.next.Incoming[at[1]]
		}
		what := "work from " + casesText(m[at], contacts, "of type", kinds)
		if !c.both("/incoming", at, what, was.Then, is.Then) {
			continue
		}
		path := fmt.Sprintf("/incoming/%d", at[1])
		switch {
		case was.Agent == is.Agent:
		case was.Agent == "":
			c.add(Narrower, path+"/agent", what+": by "+is.Agent+" only", "any agent of yours")
		default:
			c.add(Wider, path+"/agent", what+": by "+orAny(is.Agent), was.Agent)
		}
		c.bounds(path, what, was.AtMost, is.AtMost, was.PerDay, is.PerDay, was.AtOnce, is.AtOnce)
	}
}

func (c *comparer) outgoing() {
	var names [][]string
	agents := map[string]bool{}
	for _, r := range slices.Concat(c.old.Outgoing, c.next.Outgoing) {
		names = append(names, r.To)
		if r.Agent != "" {
			agents[r.Agent] = true
		}
	}
	contacts := mention(names...)
	if c.tooMany("/outgoing", contacts, agents) {
		return
	}
	m := pairs(contacts, agents, firstOutgoing(c.old.Outgoing), firstOutgoing(c.next.Outgoing))
	for _, at := range sortedPairs(m) {
		var was, is Outgoing
		if at[0] >= 0 {
			was = c.old.Outgoing[at[0]]
		}
		if at[1] >= 0 {
			is = c.next.Outgoing[at[1]]
		}
		what := "asking " + casesText(m[at], contacts, "by", agents)
		if !c.both("/outgoing", at, what, was.Then, is.Then) {
			if is.Then == ThenAsk {
				c.send(at, what, nil, is.MaySend)
			}
			continue
		}
		c.bounds(fmt.Sprintf("/outgoing/%d", at[1]), what, was.AtMost, is.AtMost, was.PerDay, is.PerDay, was.AtOnce, is.AtOnce)
		c.send(at, what, was.MaySend, is.MaySend)
	}
}

// both says whether both rules ask, so that their bounds matter; where only one does, that is the change.
func (c *comparer) both(section string, at [2]int, what string, was, is Then) bool {
	switch {
	case was != ThenAsk && is == ThenAsk:
		c.add(Added, fmt.Sprintf("%s/%d", section, at[1]), what+": you are asked", "refused")
	case was == ThenAsk && is != ThenAsk:
		path := section
		if at[1] >= 0 {
			path = fmt.Sprintf("%s/%d", section, at[1])
		}
		c.add(Narrower, path, what+": refused", "you were asked")
	}
	return was == ThenAsk && is == ThenAsk
}

// send compares the files that an agent may let leave: each glob must lie within one of the others.
func (c *comparer) send(at [2]int, what string, old, next []string) {
	within := func(g string, in []string) bool {
		return slices.ContainsFunc(in, func(o string) bool { return globWithin(g, o) })
	}
	path := fmt.Sprintf("/outgoing/%d/may_send", at[1])
	for _, g := range next {
		if !within(g, old) {
			c.add(Wider, path, what+": may send "+g, "not within what it might send")
		}
	}
	for _, g := range old {
		if !within(g, next) {
			c.add(Narrower, path, what+": not any more "+g, g)
		}
	}
}

func (c *comparer) tooMany(section string, a, b map[string]bool) bool {
	if (len(a)+1)*(len(b)+1) <= maxAtoms {
		return false
	}
	c.add(Wider, section, "more names than can be compared", "")
	return true
}

func orAny(agent string) string {
	if agent == "" {
		return "any agent of yours"
	}
	return agent
}

// casesText names kinds of cases: contacts, then what tells them apart further.
func casesText(as []atom, contacts map[string]bool, word string, seconds map[string]bool) string {
	var names, more []string
	for _, a := range as {
		if !slices.Contains(names, a.contact) {
			names = append(names, a.contact)
		}
		if !slices.Contains(more, a.second) {
			more = append(more, a.second)
		}
	}
	s := listed(names, len(contacts), "anyone", "anyone else")
	if len(seconds) > 1 && len(more) < len(seconds) {
		s += " " + word + " " + listed(more, len(seconds), "any", "any other")
	}
	return s
}

const namesShown = 5

func listed(names []string, all int, every, rest string) string {
	if all == 1 || len(names) == all {
		return every
	}
	var out []string
	for i, n := range names {
		if i == namesShown {
			out = append(out, fmt.Sprintf("%d more", len(names)-i))
			break
		}
		if n == other {
			n = rest
		}
		out = append(out, n)
	}
	return strings.Join(out, ", ")
}

// tools compares by names that stand for all: each text of a pattern, and each followed by something that no pattern has.
func (c *comparer) tools() {
	names := map[string]bool{other: true}
	for _, t := range slices.Concat(c.old.Tools, c.next.Tools) {
		text, _ := cutStar(t.Match)
		names[text], names[text+other] = true, true
	}
	rank := map[Then]int{ThenRefuse: 0, ThenAsk: 1, ThenAllow: 2}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, _ := c.old.Tool(name)
		is, at := c.next.Tool(name)
		what, path := "tool "+strings.ReplaceAll(name, other, "…"), "/tools"
		if at >= 0 {
			path = fmt.Sprintf("/tools/%d", at)
		}
		switch {
		case rank[is.Then] > rank[was.Then] && rank[was.Then] == 0:
			c.add(Added, path+"/then", what+": "+string(is.Then), string(was.Then))
		case rank[is.Then] > rank[was.Then]:
			c.add(Wider, path+"/then", what+": "+string(is.Then), string(was.Then))
		case rank[is.Then] < rank[was.Then]:
			c.add(Narrower, path+"/then", what+": "+string(is.Then), string(was.Then))
		}
		if rank[is.Then] == 0 || rank[was.Then] == 0 {
			continue
		}
		if !slices.Equal(was.Resource, is.Resource) {
			c.add(Wider, path+"/resource", what+": reaches "+orAnyArgument(is.Resource), orAnyArgument(was.Resource))
		}
		if a, b := was.defaultsText(), is.defaultsText(); a != b {
			c.add(Wider, path+"/defaults", what+": is given "+b+" where nothing is said", a)
		}
		c.effect(path+"/effect", what, was.Effect, is.Effect)
	}
}

func orAnyArgument(templates Words) string {
	if len(templates) == 0 {
		return "whatever it is given"
	}
	return strings.Join(templates, ", ")
}

// effect: an owner who says less about what a tool does outside is asked less.
// No word at all means that nothing is known, which is the strictest.
func (c *comparer) effect(path, what string, old, next Words) {
	text := func(w Words) string {
		if len(w) == 0 {
			return "unknown"
		}
		return strings.Join(w, ", ")
	}
	less := func(a, b Words) bool { // every effect of b is one of a
		return len(a) == 0 || len(b) > 0 && !slices.ContainsFunc(b, func(s string) bool { return s != "none" && !slices.Contains(a, s) })
	}
	switch {
	case less(next, old) && less(old, next):
	case less(next, old):
		c.add(Narrower, path, what+": does "+text(next), text(old))
	default:
		c.add(Wider, path, what+": does "+text(next), text(old))
	}
}

// globWithin says whether every path of one glob is provably one of another's:
// a star is covered by a star only. It may say no where the answer is yes.
func globWithin(inner, outer string) bool {
	if _, err := compileGlob(inner); err != nil {
		return true // lets no file leave
	}
	if _, err := compileGlob(outer); err != nil {
		return false
	}
	return segmentsWithin(strings.Split(inner, "/"), strings.Split(outer, "/"), &steps{left: 10_000})
}

type steps struct{ left int }

func segmentsWithin(in, out []string, s *steps) bool {
	if s.left--; s.left < 0 {
		return false
	}
	switch {
	case len(in) == 0 || len(out) == 0:
		return len(in) == len(out)
	case out[0] == "**": // one segment or more
		return segmentsWithin(in[1:], out[1:], s) || segmentsWithin(in[1:], out, s)
	case in[0] == "**":
		return false
	}
	return partWithin(in[0], out[0], s) && segmentsWithin(in[1:], out[1:], s)
}

// partWithin matches the text of a part against another; a star in it is matched by a star only.
func partWithin(in, out string, s *steps) bool {
	if s.left--; s.left < 0 {
		return false
	}
	if out == "" {
		return in == ""
	}
	if out[0] == '*' {
		return partWithin(in, out[1:], s) || in != "" && partWithin(in[1:], out, s)
	}
	return in != "" && in[0] == out[0] && partWithin(in[1:], out[1:], s)
}
