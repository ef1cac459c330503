// Package schema answers one question: does a value fit a stranger's schema?
//
// A schema inside a manifest is a stranger's program (protocol M5). Our dialect
// is JSON Schema 2020-12 without its ways out:
//
//   - $schema is absent or exactly [Dialect], at the root only; $id is refused
//     everywhere, so is $recursiveRef
//   - $ref and $dynamicRef name a schema inside the document: "#", "#/pointer"
//     or "#anchor"
//   - patterns are RE2 and, as the standard says, not anchored
//   - format is asserted for the formats we know; others are a warning, as is
//     an unknown keyword
//   - the bounds of limits.go
//
// [Parse] holds a schema against these bounds and is quick enough for every
// manifest that comes. The schema is compiled when it is first used, by a fresh
// compiler that loads nothing, and never without recover: the library panics
// and hangs on known inputs. [Schema.Validate] first counts the steps that an
// instance may cost and refuses too many; it knows no clock (C6).
//
//	s, err := schema.Parse(doc)
//	err = s.Validate(output) // verification-failed: /rows/0/due: format
//
// It is the only door to santhosh-tekuri/jsonschema.
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Dialect is the only $schema.
const Dialect = "https://json-schema.org/draft/2020-12/schema"

// Schema is a stranger's schema within our bounds. It may be used by many
// goroutines. The zero value fits nothing.
type Schema struct{ s *state }

type state struct {
	doc      jcs.Value
	root     *node
	warnings []string

	once     sync.Once // guards what follows
	compiled *jsonschema.Schema
	err      error
}

// Value returns the document.
func (s Schema) Value() jcs.Value {
	if s.s == nil {
		return jcs.Value{}
	}
	return s.s.doc
}

// Warnings lists, in the order of the document, what the schema says and
// nobody here checks: unknown keywords and formats. At most [MaxWarnings].
func (s Schema) Warnings() []string {
	if s.s == nil {
		return nil
	}
	return slices.Clone(s.s.warnings)
}

// CheckTotal holds the schemas of one manifest against [MaxTotal] together.
func CheckTotal(schemas ...Schema) error {
	total := 0
	for _, s := range schemas {
		total += len(s.Value().String())
	}
	if total > MaxTotal {
		return spec.Refuse(spec.TooLarge, "", "96 KiB of schemas")
	}
	return nil
}

// Compile compiles the schema if that is still to be done. The error is
// malformed and says nothing about any instance: who makes a manifest asks for
// it, who receives one need not.
func (s Schema) Compile() error {
	if s.s == nil {
		return spec.Refuse(spec.Malformed, "", "no schema")
	}
	s.s.once.Do(func() { s.s.compiled, s.s.err = compile(s.s.doc) })
	return s.s.err
}

// location is where the compiler believes the schema to be. It is never dialled.
const location = "sealbridge:schema"

func compile(doc jcs.Value) (out *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, &spec.Error{Reason: spec.Malformed, Limit: "not a schema of 2020-12", Err: fmt.Errorf("compiling: panic: %v", r)}
		}
	}()
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc.Bytes()))
	if err != nil {
		return nil, &spec.Error{Reason: spec.Malformed, Err: err}
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseRegexpEngine(pattern)
	registerFormats(c)
	if err := c.AddResource(location, tree); err != nil {
		return nil, &spec.Error{Reason: spec.Malformed, Limit: "not a schema of 2020-12", Err: short(err)}
	}
	if out, err = c.Compile(location); err != nil {
		return nil, &spec.Error{Reason: spec.Malformed, Limit: "not a schema of 2020-12", Err: short(err)}
	}
	return out, nil
}

// short keeps an error of the library, which repeats its input whole, fit for a log.
func short(err error) error { return errors.New(cut(err.Error(), maxText)) }

// cut shortens s to at most n bytes, on a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Validate says whether the instance fits. The errors are malformed for a
// schema that does not compile, too-large for an instance that would cost more
// than [MaxSteps], verification-failed for one that does not fit; path and
// keyword are the first place in the order of paths. The text is at most 200
// bytes and repeats nothing of the instance but its path.
func (s Schema) Validate(instance jcs.Value) error {
	if err := s.Compile(); err != nil {
		return err
	}
	if instance.IsZero() {
		return spec.Refuse(spec.VerificationFailed, "", "no value")
	}
	if err := countSteps(s.s.root, instance); err != nil {
		return err
	}
	return validate(s.s.compiled, instance)
}

func validate(compiled *jsonschema.Schema, instance jcs.Value) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &spec.Error{Reason: spec.VerificationFailed, Limit: "the validator gave up", Err: errors.New(cut(fmt.Sprint(r), maxText))}
		}
	}()
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(instance.Bytes()))
	if err != nil {
		return &spec.Error{Reason: spec.Malformed, Err: err}
	}
	err = compiled.Validate(tree)
	if err == nil {
		return nil
	}
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return &spec.Error{Reason: spec.VerificationFailed, Limit: "the validator gave up", Err: short(err)}
	}
	path, keyword := first(v)
	return spec.Refuse(spec.VerificationFailed, cut(path, maxPath), cut(keyword, maxKeyword))
}

// first finds the failure with the least path and keyword: the library walks
// maps and so lists failures in any order. What failed inside a choice is told
// as the choice.
func first(v *jsonschema.ValidationError) (path, keyword string) {
	switch v.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		found := false
		for _, c := range v.Causes {
			p, k := first(c)
			if !found || p < path || p == path && k < keyword {
				path, keyword, found = p, k, true
			}
		}
		if found {
			return path, keyword
		}
	}
	return pointer(v.InstanceLocation), keywordOf(v.ErrorKind)
}

// keywordOf names the keyword, never what stands under it.
func keywordOf(k jsonschema.ErrorKind) string {
	switch k.(type) {
	case *kind.FalseSchema:
		return "false"
	case *kind.Not:
		return "not"
	}
	if p := k.KeywordPath(); len(p) > 0 {
		return p[0]
	}
	return "schema"
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		if b.Len() > maxPath {
			break
		}
		b.WriteString("/" + escaper.Replace(t))
	}
	return b.String()
}
