package schema

import (
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// number is the exact decimal value of the canonical text of a number.
func number(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return r
}

var comparisons = map[string]func(cmp int) bool{
	"minimum":          func(c int) bool { return c >= 0 },
	"maximum":          func(c int) bool { return c <= 0 },
	"exclusiveMinimum": func(c int) bool { return c > 0 },
	"exclusiveMaximum": func(c int) bool { return c < 0 },
}

// Any says whether every argument is let through.
func (c Closed) Any() bool { return c.root == nil }

// Check says why arguments are not within the constraints; the path is theirs.
func (c Closed) Check(arguments jcs.Value) error {
	if c.root == nil {
		return nil
	}
	s := closedSteps{left: MaxClosedSteps}
	return s.check(c.root, arguments, "")
}

// closedSteps counts what one check costs.
type closedSteps struct{ left int }

func beyond(path, limit string) error {
	return spec.Refuse(spec.CapabilityDenied, cut(path, maxPath), "C3: "+cut(limit, maxText/2))
}

func (s *closedSteps) check(n *closed, v jcs.Value, path string) error {
	if s.left -= 1 + len(v.String())*(1+len(n.values)+n.size); s.left < 0 {
		return spec.Refuse(spec.TooLarge, cut(path, maxPath), "C6: 2,000,000 steps")
	}
	if !n.isType(v) {
		return beyond(path, "type "+n.typ)
	}
	if n.values != nil && !n.has(v) {
		return beyond(path, "one of the values given")
	}
	switch n.typ {
	case "number", "integer":
		return n.numberFits(v, path)
	case "string":
		return n.textFits(v, path)
	case "array":
		return s.list(n, v, path)
	case "object":
		return s.object(n, v, path)
	}
	return nil
}

func (n *closed) isType(v jcs.Value) bool {
	switch n.typ {
	case "integer":
		return v.Kind() == '0' && !strings.ContainsAny(v.String(), ".e")
	case "number":
		return v.Kind() == '0'
	case "string":
		return v.Kind() == '"'
	case "boolean":
		return v.Kind() == 't' || v.Kind() == 'f'
	case "null":
		return v.Kind() == 'n'
	case "array":
		return v.Kind() == '['
	}
	return v.Kind() == '{'
}

// has compares canonical texts: equal values have one spelling.
func (n *closed) has(v jcs.Value) bool {
	for _, w := range n.values {
		if w.String() == v.String() {
			return true
		}
	}
	return false
}

func (n *closed) numberFits(v jcs.Value, path string) error {
	if len(n.bounds) == 0 {
		return nil
	}
	x := number(v.String())
	for _, b := range n.bounds {
		y := number(b.figure)
		compare := comparisons[b.word]
		switch {
		case x == nil || y == nil:
			return beyond(path, "a number")
		case compare == nil && (y.Sign() <= 0 || !new(big.Rat).Quo(x, y).IsInt()),
			compare != nil && !compare(x.Cmp(y)):
			return beyond(path, b.word+" "+b.figure)
		}
	}
	return nil
}

func (n *closed) textFits(v jcs.Value, path string) error {
	text, _ := v.Text()
	if k := utf8.RuneCountInString(text); k < n.length[0] || k > n.length[1] {
		return beyond(path, lengthText(n.length)+" characters")
	}
	if n.pattern != nil {
		if re := n.pattern(); re == nil || !re.MatchString(text) {
			return beyond(path, "pattern")
		}
	}
	return nil
}

func lengthText(l [2]int) string {
	if l[1] == noBound {
		return "at least " + strconv.Itoa(l[0])
	}
	return strconv.Itoa(l[0]) + " to " + strconv.Itoa(l[1])
}

func (s *closedSteps) list(n *closed, v jcs.Value, path string) error {
	i := 0
	for item := range v.Items() {
		if err := s.check(n.items, item, path+"/"+strconv.Itoa(i)); err != nil {
			return err
		}
		i++
	}
	if i < n.length[0] || i > n.length[1] {
		return beyond(path, lengthText(n.length)+" items")
	}
	return nil
}

// object: the members that it names, each of them, and no others.
func (s *closedSteps) object(n *closed, v jcs.Value, path string) error {
	seen := 0
	for name, m := range v.Members() {
		kid := n.members[name]
		at := path + "/" + escaper.Replace(name)
		if kid == nil {
			return beyond(at, "a member that is named")
		}
		if err := s.check(kid, m, at); err != nil {
			return err
		}
		seen++
	}
	if seen == len(n.members) {
		return nil
	}
	for _, name := range n.names {
		if _, there := v.Member(name); !there {
			return beyond(path+"/"+escaper.Replace(name), "a member that is there")
		}
	}
	return nil
}
