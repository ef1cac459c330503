package schema

import (
	"unicode/utf8"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// What a keyword costs, in steps of about 20 ns: measured against the library,
// rounded up.
const (
	visitSteps  = 50 // a schema applied to a value, its failure written down
	numberSteps = 10 // a comparison of exact numbers
	divideSteps = 20 // multipleOf
	equalSteps  = 4  // comparing two values, and numberSteps for each value inside
	formatSteps = 16 // a byte of a text with a format: the dearest is regex
	hashSteps   = 20 // a value inside a list whose items are unique
)

// value is an instance as far as counting needs it.
type value struct {
	kind  byte
	id    int32
	kids  []*value
	names []string
	text  int // bytes of a string
	size  int // values in it, itself included
}

// counter adds up what the library would do at most: every branch taken, every
// pattern matched. What a schema costs at a value is counted once and then
// known, so that counting is cheap where validating would not be.
type counter struct {
	values int32
	known  map[[2]int32]int
}

// countSteps refuses an instance that would take more than MaxSteps.
func countSteps(root *node, instance jcs.Value) error {
	c := &counter{known: make(map[[2]int32]int)}
	if c.cost(root, c.value(instance)) > MaxSteps {
		return spec.Refuse(spec.TooLarge, "", "50,000,000 steps of validation")
	}
	return nil
}

func (c *counter) value(v jcs.Value) *value {
	out := &value{kind: v.Kind(), id: c.values, size: 1}
	c.values++
	add := func(kid jcs.Value) {
		k := c.value(kid)
		out.kids = append(out.kids, k)
		out.size += k.size
	}
	switch out.kind {
	case '"':
		out.text = len(v.String())
	case '{':
		for name, kid := range v.Members() {
			out.names = append(out.names, name)
			add(kid)
		}
	case '[':
		for kid := range v.Items() {
			add(kid)
		}
	}
	return out
}

func (c *counter) cost(n *node, v *value) int {
	if n.bool {
		return 1
	}
	if len(v.kids) == 0 && len(n.here) == 0 {
		return n.own(v)
	}
	key := [2]int32{n.id, v.id}
	if known, ok := c.known[key]; ok {
		return known
	}
	if len(c.known) >= maxPairs {
		return MaxSteps + 1
	}
	total := c.walk(n, v)
	c.known[key] = total
	return total
}

// walk adds up n at v and all that n applies to v or to what is in v.
func (c *counter) walk(n *node, v *value) int {
	total := n.own(v)
	add := func(ks []*node, v *value) {
		for _, k := range ks {
			if total <= MaxSteps {
				total += c.cost(k, v)
			}
		}
	}
	add(n.here, v)
	switch v.kind {
	case '{':
		for i, kid := range v.kids {
			if k := n.props[v.names[i]]; k != nil {
				add([]*node{k}, kid)
			}
			add(n.match, kid)
			add(n.members, kid)
			if len(n.names) > 0 {
				name := &value{kind: '"', id: c.values, text: len(v.names[i]), size: 1}
				c.values++
				add(n.names, name)
			}
		}
	case '[':
		for i, kid := range v.kids {
			if i < len(n.prefix) {
				add(n.prefix[i:i+1], kid)
			}
			add(n.items, kid)
		}
	}
	return min(total, MaxSteps+1)
}

// own is what the keywords of n cost at v without the schemas they hold.
func (n *node) own(v *value) int {
	total := visitSteps + 2*len(v.kids) + v.text/64
	for _, e := range n.enum {
		total += equal(e, v)
	}
	switch v.kind {
	case '0':
		total += n.numbers
	case '"':
		total += n.pattern * (v.text/8 + 1)
		if n.format {
			total += visitSteps + formatSteps*v.text
		}
	case '{':
		total += n.lists / 4
		for _, name := range v.names {
			total += 2*len(n.match) + n.matches*len(name)/64
		}
	case '[':
		switch few := len(v.kids) <= 20; {
		case n.unique && few: // each with each
			total += numberSteps * v.size * len(v.kids)
		case n.unique:
			total += hashSteps * v.size
		}
	}
	return min(total, MaxSteps+1)
}

// equal is what comparing a listed value with v costs.
func equal(e jcs.Value, v *value) int {
	switch {
	case e.Kind() != v.kind:
		return 1
	case v.kind == '0':
		return numberSteps
	case v.size > 1:
		return equalSteps + numberSteps*min(v.size, len(e.String())/2)
	}
	return equalSteps + min(v.text, utf8.RuneCountInString(e.String()))/64
}
