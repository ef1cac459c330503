package policy

import (
	"cmp"
	"slices"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// Mark says what a change is to the authority that a policy gives away.
type Mark string

const (
	Added    Mark = "+" // newly permitted
	Wider    Mark = "~" // permits more than before, or cannot be shown to permit less
	Narrower Mark = "-" // permits less
)

// Change is one line of a Difference, in our words.
type Change struct {
	Mark Mark   `json:"mark"`
	Path string `json:"path"` // JSON pointer into the policy that has the member: the new one, or the old where it is gone
	Text string `json:"text"`
	Was  string `json:"was"` // in the old policy
}

// Difference is what putting one policy in the place of another changes: what
// it newly permits first. It is a function of the two policies alone, so
// whoever has both can compute what an owner was shown.
type Difference struct {
	From  signing.Digest `json:"from"`
	To    signing.Digest `json:"to"`
	Lines []Change       `json:"lines"`
}

// Widens says whether the change needs the owner's yes (G12).
func (d Difference) Widens() bool {
	return slices.ContainsFunc(d.Lines, func(c Change) bool { return c.Mark != Narrower })
}

// Digest names the difference; a policy-consent is over it.
func (d Difference) Digest() signing.Digest {
	v, err := jcs.Encode(d)
	if err != nil {
		return signing.Digest{}
	}
	return signing.DigestOf(v.Bytes())
}

// Compare says how next differs from old in what it permits (G12). It is
// conservative: a line is Narrower only if it is provably so, everything else
// that is not equal is Added or Wider. If it has no such line there is no case
// in which next decides more permissively than old: what old denies it denies,
// what old holds it holds for no fewer requirements. Names of rules and the
// order of rules that never fit one case together change nothing.
//
//	d := policy.Compare(inForce, file)
//	if !d.Widens() { … } // applies at once
func Compare(old, next Policy) Difference {
	c := comparer{old: old, next: next}
	if old.Version != next.Version {
		c.add(Wider, "/version", "version "+figureText(int64(next.Version)), figureText(int64(old.Version)))
	}
	c.people()
	for _, w := range GateWords() {
		c.ask(w, old.Ask.Of(w.Gate()), next.Ask.Of(w.Gate()))
	}
	c.incoming()
	c.outgoing()
	c.tools()
	c.reach()
	c.checks()
	c.defaults()
	rank := map[Mark]int{Added: 0, Wider: 1, Narrower: 2}
	slices.SortStableFunc(c.lines, func(a, b Change) int { return cmp.Compare(rank[a.Mark], rank[b.Mark]) })
	return Difference{From: old.Digest(), To: next.Digest(), Lines: slices.Concat([]Change{}, c.lines)}
}

// comparer collects the lines of one comparison.
type comparer struct {
	old, next Policy
	lines     []Change
}

func (c *comparer) add(m Mark, path, text, was string) {
	line := Change{Mark: m, Path: path, Text: clip(text), Was: clip(was)}
	if !slices.Contains(c.lines, line) {
		c.lines = append(c.lines, line)
	}
}

// bound compares a figure above which something is refused; nil is no bound.
func (c *comparer) bound(path, what string, old, next *int64, text func(int64) string) {
	word := func(b *int64) string {
		if b == nil {
			return "no bound"
		}
		return "at most " + text(*b)
	}
	switch {
	case old == nil && next == nil, old != nil && next != nil && *old == *next:
	case next == nil || old != nil && *next > *old:
		c.add(Wider, path, what+": "+word(next), word(old))
	default:
		c.add(Narrower, path, what+": "+word(next), word(old))
	}
}

// set compares two sets of words: what next has more is m, what it lacks is Narrower.
func (c *comparer) set(m Mark, path string, old, next []string, text func(string) string) {
	for _, s := range next {
		if !slices.Contains(old, s) {
			c.add(m, path, text(s), "not there")
		}
	}
	for _, s := range old {
		if !slices.Contains(next, s) {
			c.add(Narrower, path, "not any more: "+text(s), text(s))
		}
	}
}

// clip keeps one line of a card readable; the policy's digest covers the rest.
func clip(s string) string {
	if r := []rune(s); len(r) > MaxPolicyText {
		return string(r[:MaxPolicyText-1]) + "…"
	}
	return s
}
