package schema

import (
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
	length   [2]int // characters of a string, items of a list
	pattern  func() *regexp.Regexp
	size     int // instructions of the pattern
	required []string
	names    []string // of members, in canonical order
	members  map[string]*closed
	items    *closed
}

// bound is one of the words about a number, with its figure as it is written:
// exact decimals are made of it when a number is held against it.
type bound struct{ word, figure string }

// kinds are the types of the dialect, each a bit.
type kinds byte

const (
	ofText kinds = 1 << iota
	ofInteger
	ofNumber
	ofList
	ofObject
	ofOther
	ofAll kinds = 1<<iota - 1
)

var closedTypes = map[string]kinds{"string": ofText, "integer": ofInteger, "number": ofNumber, "array": ofList, "object": ofObject, "boolean": ofOther, "null": ofOther}

// words are the closed dialect: for each word the types that it is about. type is read apart.
var words = map[string]kinds{
	"const": ofAll, "enum": ofAll,
	"minimum": ofInteger | ofNumber, "maximum": ofInteger | ofNumber, "exclusiveMinimum": ofInteger | ofNumber, "exclusiveMaximum": ofInteger | ofNumber, "multipleOf": ofInteger | ofNumber,
	"minLength": ofText, "maxLength": ofText, "pattern": ofText,
	"minItems": ofList, "maxItems": ofList, "items": ofList,
	"properties": ofObject, "required": ofObject, "additionalProperties": ofObject,
}

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
	p := closedParser{left: MaxPatterns}
	root, err := p.schema(doc, "", "object")
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

// schema reads one; typ is its type where none is stated, "" where it must be.
func (p *closedParser) schema(v jcs.Value, path, typ string) (*closed, error) {
	if v.Kind() != '{' {
		return nil, malformed(path, "C3: an object")
	}
	if t, stated := v.Member("type"); stated {
		typ, _ = t.Text()
	}
	kind := closedTypes[typ]
	if kind == 0 {
		return nil, malformed(path+"/type", "C3: one type, stated")
	}
	n := &closed{typ: typ, length: [2]int{0, noBound}}
	for word, m := range v.Members() {
		at := path + "/" + escaper.Replace(word)
		if word == "type" {
			continue
		}
		if words[word]&kind == 0 {
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
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		switch figure := m.String(); {
		case m.Kind() != '0':
			return malformed(at, "C3: a number")
		case word == "multipleOf" && (figure == "0" || figure[0] == '-'):
			return malformed(at, "C3: a number above 0")
		default:
			n.bounds = append(n.bounds, bound{word, figure})
		}
	case "minLength", "minItems":
		n.length[0], err = size(m, at)
	case "maxLength", "maxItems":
		n.length[1], err = size(m, at)
	case "pattern":
		err = p.pattern(n, m, at)
	case "items":
		n.items, err = p.schema(m, at, "")
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
		kid, err := p.schema(v, at+"/"+escaper.Replace(name), "")
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
	re, err := syntax.Parse(body, syntax.Perl) // alone, so that no bracket of it closes ours
	if !ok || !begins || !ends || err != nil || strings.Contains(body, `\Q`) {
		return malformed(at, "C3: a pattern of RE2 between ^ and $, without \\Q")
	}
	whole := `\A(?:` + body + `)\z`
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
