package schema

import (
	"strconv"
	"strings"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// node is one schema of the document with what the two walks need: bounds now,
// steps at each check.
type node struct {
	path string
	bool bool // true and false: no keywords

	here    []*node          // applied to the same value: allOf, not, if, $ref, …
	props   map[string]*node // properties
	match   []*node          // patternProperties
	members []*node          // additionalProperties, unevaluatedProperties
	names   []*node          // propertyNames
	prefix  []*node          // prefixItems
	items   []*node          // items, contains, unevaluatedItems
	aside   []*node          // $defs, definitions, contentSchema: only by reference
	refs    []string         // of $ref and $dynamicRef
	enum    []jcs.Value      // of enum and const
	lists   int              // names in required and dependentRequired
	numbers int              // steps of the number keywords
	pattern int              // instructions of pattern
	matches int              // instructions of the names of patternProperties
	unique  bool             // uniqueItems
	format  bool

	id       int32   // place in the document
	below    []*node // every schema inside this one and every one it refers to
	chain    int     // longest chain of here that starts at this node; -1 while it is walked
	expanded int     // schemas with references written out; -1 while it is walked
}

// how a keyword's value holds schemas.
type holds byte

const (
	plain   holds = iota // data, or checked by the meta-schema alone
	one                  // a schema
	list                 // a list of schemas
	dict                 // an object of schemas
	refused              // not in our dialect
)

type keyword struct {
	holds holds
	put   func(n *node, name string, k *node)
}

func here(n *node, _ string, k *node)    { n.here = append(n.here, k) }
func aside(n *node, _ string, k *node)   { n.aside = append(n.aside, k) }
func members(n *node, _ string, k *node) { n.members = append(n.members, k) }
func items(n *node, _ string, k *node)   { n.items = append(n.items, k) }
func props(n *node, name string, k *node) {
	if n.props == nil {
		n.props = make(map[string]*node)
	}
	n.props[name] = k
}

// keywords is 2020-12: core, applicator, unevaluated, validation, format,
// content and meta-data, and the two older names that its meta-schema knows.
var keywords = map[string]keyword{
	"$id": {holds: refused}, "$recursiveRef": {holds: refused}, "$recursiveAnchor": {holds: refused},
	"$schema": {}, "$ref": {}, "$dynamicRef": {}, "$anchor": {}, "$dynamicAnchor": {}, "$comment": {}, "$vocabulary": {},
	"$defs": {dict, aside}, "definitions": {dict, aside}, "contentSchema": {one, aside},
	"allOf": {list, here}, "anyOf": {list, here}, "oneOf": {list, here},
	"not": {one, here}, "if": {one, here}, "then": {one, here}, "else": {one, here},
	"dependentSchemas": {dict, here}, "dependencies": {dict, here},
	"properties": {dict, props}, "patternProperties": {dict, func(n *node, _ string, k *node) { n.match = append(n.match, k) }},
	"additionalProperties": {one, members}, "unevaluatedProperties": {one, members},
	"propertyNames": {one, func(n *node, _ string, k *node) { n.names = append(n.names, k) }},
	"prefixItems":   {list, func(n *node, _ string, k *node) { n.prefix = append(n.prefix, k) }},
	"items":         {one, items}, "contains": {one, items}, "unevaluatedItems": {one, items},
	"type": {}, "const": {}, "enum": {}, "multipleOf": {}, "maximum": {}, "exclusiveMaximum": {}, "minimum": {},
	"exclusiveMinimum": {}, "maxLength": {}, "minLength": {}, "pattern": {}, "maxItems": {}, "minItems": {},
	"uniqueItems": {}, "maxContains": {}, "minContains": {}, "maxProperties": {}, "minProperties": {}, "required": {},
	"dependentRequired": {}, "format": {}, "contentEncoding": {}, "contentMediaType": {},
	"title": {}, "description": {}, "default": {}, "deprecated": {}, "readOnly": {}, "writeOnly": {}, "examples": {},
}

// parser walks the document once.
type parser struct {
	nodes    []*node // in the order of the document
	anchors  map[string]*node
	refs     []*node // nodes that refer
	patterns int
	warnings []string
}

// Parse holds a schema against the bounds of M5, in time linear in its size.
// It does not say that the document is a valid schema: that is [Schema.Compile].
func Parse(doc jcs.Value) (Schema, error) {
	if doc.IsZero() {
		return Schema{}, spec.Refuse(spec.Malformed, "", "no schema")
	}
	if len(doc.String()) > MaxBytes {
		return Schema{}, spec.Refuse(spec.TooLarge, "", "a schema of 32 KiB")
	}
	if depth(doc.String()) > MaxDepth {
		return Schema{}, spec.Refuse(spec.TooLarge, "", "a schema of depth 32")
	}
	p := new(parser)
	root, err := p.schema(doc, "")
	if err != nil {
		return Schema{}, err
	}
	if err := p.resolve(); err != nil {
		return Schema{}, err
	}
	for _, n := range p.nodes {
		if err := n.measureChain(); err != nil {
			return Schema{}, err
		}
	}
	if root.measure() > MaxNodes {
		return Schema{}, spec.Refuse(spec.TooLarge, "", "10,000 schemas with references expanded")
	}
	return Schema{&state{doc: doc, root: root, warnings: p.warnings}}, nil
}

// depth counts nested arrays and objects of canonical text.
func depth(s string) (deepest int) {
	open, inString := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && inString:
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			open++
			deepest = max(deepest, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return deepest
}

func malformed(path, why string) error { return spec.Refuse(spec.Malformed, cut(path, maxPath), why) }

func (p *parser) schema(v jcs.Value, path string) (*node, error) {
	n := &node{path: path, id: int32(len(p.nodes))}
	p.nodes = append(p.nodes, n)
	switch v.Kind() {
	case 't', 'f':
		n.bool = true
		return n, nil
	case '{':
	default:
		return nil, malformed(path, "a schema is an object or a boolean")
	}
	for name, m := range v.Members() {
		k, known := keywords[name]
		at := path + "/" + escaper.Replace(name)
		if !known {
			p.warn(at, "unknown keyword")
			continue
		}
		if err := p.word(n, name, m, at); err != nil {
			return nil, err
		}
		if err := p.inside(n, name, k, m, at); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// inside walks the schemas that a keyword holds.
func (p *parser) inside(n *node, name string, k keyword, m jcs.Value, at string) error {
	add := func(v jcs.Value, tok, at string) error {
		kid, err := p.schema(v, at)
		if err == nil {
			k.put(n, tok, kid)
			n.below = append(n.below, kid)
		}
		return err
	}
	switch {
	case k.holds == refused:
		return malformed(at, "not in our dialect")
	case k.holds == one:
		return add(m, "", at)
	case k.holds == list && m.Kind() == '[':
		i := 0
		for v := range m.Items() {
			if err := add(v, "", at+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
			i++
		}
	case k.holds == dict && m.Kind() == '{':
		for tok, v := range m.Members() {
			if name == "dependencies" && v.Kind() == '[' {
				n.lists += len(v.String())
				continue
			}
			if err := add(v, tok, at+"/"+escaper.Replace(tok)); err != nil {
				return err
			}
		}
	case k.holds != plain:
		return malformed(at, "not of the right type")
	}
	return nil
}

// word notes what a keyword's own value costs or refers to.
func (p *parser) word(n *node, name string, m jcs.Value, at string) error {
	text, isText := m.Text()
	switch name {
	case "$schema":
		if at != "/$schema" || text != Dialect {
			return malformed(at, "2020-12 only")
		}
	case "$ref", "$dynamicRef":
		if !strings.HasPrefix(text, "#") {
			return malformed(at, "references stay inside")
		}
		if len(n.refs) == 0 {
			p.refs = append(p.refs, n)
		}
		n.refs = append(n.refs, text)
	case "$anchor", "$dynamicAnchor":
		if other := p.anchors[text]; !isText || text == "" || other != nil && other != n {
			return malformed(at, "an anchor once")
		}
		if p.anchors == nil {
			p.anchors = make(map[string]*node)
		}
		p.anchors[text] = n
	case "pattern":
		if !isText {
			return malformed(at, "not of the right type")
		}
		size, err := p.program(text, at)
		n.pattern = size
		return err
	case "patternProperties":
		for pattern := range m.Members() {
			size, err := p.program(pattern, at+"/"+escaper.Replace(pattern))
			if err != nil {
				return err
			}
			n.matches += size
		}
	case "enum":
		for v := range m.Items() {
			n.enum = append(n.enum, v)
		}
	case "const":
		n.enum = append(n.enum, m)
	case "type":
		if strings.Contains(m.String(), "integer") {
			n.numbers += numberSteps
		}
	case "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum":
		n.numbers += numberSteps
	case "multipleOf":
		n.numbers += divideSteps
	case "required", "dependentRequired":
		n.lists += len(m.String())
	case "uniqueItems":
		n.unique = true
	case "format":
		n.format = true
		if isText && !formats[text] {
			p.warn(at, "unknown format")
		}
	case "contentEncoding", "contentMediaType", "contentSchema":
		p.warn(at, "not checked")
	}
	return nil
}

func (p *parser) warn(at, why string) {
	if len(p.warnings) < MaxWarnings {
		p.warnings = append(p.warnings, cut(at, maxPath)+": "+why)
	}
}
