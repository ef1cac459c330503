package schema

import (
	"math/big"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"sync"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// The closed dialect of C3 says which arguments a call may have. It has the
// words of JSON Schema and is stricter: an unknown word is a refusal, a word
// stands only with the type that it is about, an object has the members that it
// names and no others, and each of them is there. So nothing that a later
// version of a tool understands slips through, and a call is held against it in
// counted steps. Everything that it takes, 2020-12 takes too.

// MaxClosedSteps of one check: a few milliseconds. A step is one value, one
// byte compared or one instruction of a pattern at one byte (C6).
const MaxClosedSteps = 2_000_000

// Closed are constraints of arguments. The zero Closed, like {} or none at all,
// means any arguments.
type Closed struct{ root *closed }

// closed is one schema of the dialect.
type closed struct {
	typ      string
	values   []jcs.Value // of const and enum; nil: any
	bounds   []bound
	multiple *big.Rat
	step     string // of multiple, as it is written
	length   [2]int // characters of a string, items of a list
	pattern  func() *regexp.Regexp
	size     int // instructions of the pattern
	required []string
	names    []string // of members, in canonical order
	members  map[string]*closed
	items    *closed
}

// bound is one of the four words for the size of a number.
type bound struct {
	word string // as it is written: minimum 5
	n    *big.Rat
	fits func(cmp int) bool
}

// words are the closed dialect: for each word the types that it is about; ""
// is every type. type and additionalProperties are read apart.
var words = map[string]string{
	"const": "", "enum": "",
	"minimum": "number integer", "maximum": "number integer", "exclusiveMinimum": "number integer", "exclusiveMaximum": "number integer", "multipleOf": "number integer",
	"minLength": "string", "maxLength": "string", "pattern": "string",
	"minItems": "array", "maxItems": "array", "items": "array",
	"properties": "object", "required": "object", "additionalProperties": "object",
}

var closedTypes = map[string]bool{"string": true, "integer": true, "number": true, "boolean": true, "null": true, "object": true, "array": true}

const noBound = 1 << 30

// ParseClosed reads constraints, in time linear in their size (M5).
func ParseClosed(doc jcs.Value) (Closed, error) {
	switch {
	case doc.IsZero() || doc.String() == "{}":
		return Closed{}, nil
	case len(doc.String()) > MaxBytes:
		return Closed{}, spec.Refuse(spec.TooLarge, "", "M5: a schema of 32 KiB")
	case depth(doc.String()) > MaxDepth:
		return Closed{}, spec.Refuse(spec.TooLarge, "", "M5: a schema of depth 32")
	case doc.Kind() != '{':
		return Closed{}, malformed("", "C3: an object")
	}
	if _, stated := doc.Member("type"); !stated {
		object, _ := jcs.Text("object")
		doc = doc.With("type", object) // arguments are an object
	}
	p := closedParser{left: MaxPatterns}
	root, err := p.schema(doc, "")
	if err == nil && root.typ != "object" {
		err = malformed("/type", "C3: arguments are an object")
	}
	if err != nil {
		return Closed{}, err
	}
	return Closed{root}, nil
}

// closedParser bounds the patterns of one document together.
type closedParser struct{ left int }

func (p *closedParser) schema(v jcs.Value, path string) (*closed, error) {
	if v.Kind() != '{' {
		return nil, malformed(path, "C3: an object")
	}
	t, _ := v.Member("type")
	typ, ok := t.Text()
	if !ok || !closedTypes[typ] {
		return nil, malformed(path+"/type", "C3: one type, stated")
	}
	n := &closed{typ: typ, length: [2]int{0, noBound}}
	for word, m := range v.Members() {
		at := path + "/" + escaper.Replace(word)
		if word == "type" {
			continue
		}
		about, known := words[word]
		if !known || about != "" && !strings.Contains(" "+about+" ", " "+typ+" ") {
			return nil, malformed(at, "C3: no word of the closed dialect for "+typ)
		}
		if err := p.word(n, word, m, at); err != nil {
			return nil, err
		}
	}
	return n, n.complete(path)
}

// complete holds what one word says against the others.
func (n *closed) complete(path string) error {
	if n.typ == "array" && n.items == nil {
		return malformed(path+"/items", "C3: a list states its items")
	}
	for i := range n.values {
		if !n.isType(n.values[i]) {
			return malformed(path+"/enum", "C3: values of the type")
		}
	}
	for i, name := range n.required {
		if n.members[name] == nil {
			return malformed(path+"/required/"+strconv.Itoa(i), "C3: one of properties")
		}
	}
	return nil
}

func (p *closedParser) word(n *closed, word string, m jcs.Value, at string) (err error) {
	switch word {
	case "const":
		if n.values != nil {
			return malformed(at, "C3: const or enum")
		}
		n.values = []jcs.Value{m}
	case "enum":
		if n.values != nil || m.Kind() != '[' {
			return malformed(at, "C3: const, or enum with a list")
		}
		n.values = []jcs.Value{} // an empty list is nothing, not everything
		for v := range m.Items() {
			n.values = append(n.values, v)
		}
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		b := bound{word: word + " " + m.String(), n: number(m), fits: comparisons[word]}
		if b.n == nil {
			return malformed(at, "C3: a number")
		}
		n.bounds = append(n.bounds, b)
	case "multipleOf":
		if n.multiple, n.step = number(m), m.String(); n.multiple == nil || n.multiple.Sign() <= 0 {
			return malformed(at, "C3: a number above 0")
		}
	case "minLength", "minItems":
		n.length[0], err = size(m, at)
	case "maxLength", "maxItems":
		n.length[1], err = size(m, at)
	case "pattern":
		err = p.pattern(n, m, at)
	case "items":
		n.items, err = p.schema(m, at)
	case "properties":
		err = p.properties(n, m, at)
	case "required":
		if m.Kind() != '[' {
			return malformed(at, "C3: a list of names")
		}
		for v := range m.Items() {
			name, ok := v.Text()
			if !ok {
				return malformed(at, "C3: a list of names")
			}
			n.required = append(n.required, name)
		}
	case "additionalProperties":
		if m.String() != "false" {
			return malformed(at, "C3: false")
		}
	}
	return err
}

func (p *closedParser) properties(n *closed, m jcs.Value, at string) error {
	if m.Kind() != '{' {
		return malformed(at, "C3: an object")
	}
	n.members = map[string]*closed{}
	for name, v := range m.Members() {
		kid, err := p.schema(v, at+"/"+escaper.Replace(name))
		if err != nil {
			return err
		}
		n.members[name], n.names = kid, append(n.names, name)
	}
	return nil
}

// pattern takes one that is anchored at both ends. It is matched against the
// whole text, whatever its anchors bind to: ^a|b$ is a or b and nothing longer.
func (p *closedParser) pattern(n *closed, m jcs.Value, at string) error {
	text, ok := m.Text()
	body, begins := strings.CutPrefix(text, "^")
	body, ends := strings.CutSuffix(body, "$")
	re, err := syntax.Parse(text, syntax.Perl)
	whole := `\A(?:` + body + `)\z`
	if err == nil {
		_, err = syntax.Parse(whole, syntax.Perl)
	}
	if !ok || !begins || !ends || err != nil {
		return malformed(at, "C3: a pattern of RE2 between ^ and $")
	}
	n.size = instructions(re) + 8
	if p.left -= n.size; n.size > MaxPattern || p.left < 0 {
		return spec.Refuse(spec.TooLarge, cut(at, maxPath), "M5: 5,000 instructions a pattern, 20,000 a schema")
	}
	n.pattern = sync.OnceValue(func() *regexp.Regexp {
		re, err := regexp.Compile(whole)
		if err != nil {
			return nil // matches nothing
		}
		return re
	})
	return nil
}

func size(m jcs.Value, at string) (int, error) {
	n, ok := m.Int()
	if !ok || n < 0 || n > noBound {
		return 0, malformed(at, "C3: a whole number from 0")
	}
	return int(n), nil
}

// number is the exact decimal value of a number; nil for anything else.
func number(v jcs.Value) *big.Rat {
	if v.Kind() != '0' {
		return nil
	}
	r, ok := new(big.Rat).SetString(v.String())
	if !ok {
		return nil
	}
	return r
}
