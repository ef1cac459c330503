// Package jcs answers one question: which bytes? A [Value] holds the RFC 8785
// canonical form of one I-JSON text (RFC 7493) and cannot hold anything else.
//
// There is one reader. Bytes from the wire must be canonical already ([Parse]);
// a file may be laid out as its owner likes ([Canonicalize]) and is then read
// like the wire. From there on only the canonical bytes are validated, decoded
// and digested (protocol D1–D4).
//
// # Typed reading
//
// [Decode] and [Encode] map a canonical object to a struct and back. A field
// with the tag `json:"name"` is required; with `json:"name,omitempty"` it may be
// absent and is left out when zero; a pointer without omitempty is required and
// may be null. Names match exactly, unknown members are refused (D3). A tag
// `rule:"…"` bounds a field: len=1..200 (code points), num=0..10, items=1..50,
// unique, object, enum=a|b, const=0.2.0, and each.len, each.enum for the items
// of a list. A rule that can do nothing for its field's type is a panic at the
// first use of the struct. A text type reads itself through [TextReader] or
// encoding.TextUnmarshaler; a struct without a name of its own lends its fields.
package jcs

import (
	"fmt"

	"github.com/gowebpki/jcs"

	"sealbridge/spec"
)

// Value is canonical JSON. The zero Value is no value at all.
type Value struct{ b string }

// Limits bound a text before it is read (D1).
type Limits struct {
	Bytes  int // of the canonical form
	Depth  int // of nested arrays and objects
	Values int // of all kinds, names not counted
	Number int // characters of one number
}

var (
	// ManifestLimits keep a manifest small enough to travel inside an event.
	ManifestLimits = Limits{Bytes: 192 << 10, Depth: 56, Values: 20000, Number: 32}
	// DocumentLimits hold for every other document: the manifest and its wrapping.
	DocumentLimits = Limits{Bytes: 256 << 10, Depth: 64, Values: 20000, Number: 32}
)

// layoutFactor is how much larger than its canonical form a file may be.
const layoutFactor = 4

// Parse takes bytes from the wire and refuses what is not already canonical.
func Parse(wire []byte) (Value, error) { return ParseWithin(wire, DocumentLimits) }

// ParseWithin is Parse under other limits. What is bad is malformed at every
// door alike; not-canonical is said only of a good text in another spelling.
func ParseWithin(wire []byte, l Limits) (Value, error) {
	if len(wire) > l.Bytes {
		return Value{}, tooLarge("", "%d bytes", l.Bytes)
	}
	s := scanner{src: string(wire), lim: l}
	if s.canonical() {
		return Value{s.src}, nil
	}
	t := scanner{src: s.src, lim: l}
	if err := t.tolerant(); err != nil {
		return Value{}, err
	}
	return Value{}, spec.Refuse(spec.NotCanonical, "", "RFC 8785")
}

// Canonicalize forgives the layout of a file and nothing else.
func Canonicalize(file []byte) (Value, error) { return CanonicalizeWithin(file, DocumentLimits) }

// CanonicalizeWithin is Canonicalize under other limits. The limits are held
// against the raw bytes first, because a text that rounds or folds on the way
// is no longer the text that was signed.
func CanonicalizeWithin(file []byte, l Limits) (Value, error) {
	if len(file) > layoutFactor*l.Bytes {
		return Value{}, tooLarge("", "%d bytes", layoutFactor*l.Bytes)
	}
	s := scanner{src: string(file), lim: l}
	if len(file) <= l.Bytes && s.canonical() {
		return Value{s.src}, nil // nothing to forgive
	}
	s = scanner{src: s.src, lim: l}
	if err := s.tolerant(); err != nil {
		return Value{}, err
	}
	out, err := jcs.Transform(file)
	if err != nil {
		return Value{}, &spec.Error{Reason: spec.Malformed, Err: err}
	}
	return ParseWithin(out, l)
}

func tooLarge(path, format string, args ...any) error {
	return spec.Refuse(spec.TooLarge, path, fmt.Sprintf(format, args...))
}

func malformed(path, what string) error { return spec.Refuse(spec.Malformed, path, what) }

func (v Value) IsZero() bool   { return v.b == "" }
func (v Value) Bytes() []byte  { return []byte(v.b) }
func (v Value) String() string { return v.b }

// Kind is the first byte: { [ " t f n, or 0 for a number.
func (v Value) Kind() byte {
	if v.b == "" {
		return 'n'
	}
	switch c := v.b[0]; c {
	case '{', '[', '"', 't', 'f', 'n':
		return c
	}
	return '0'
}

// MarshalJSON lets a Value stand in other JSON; the zero Value is null.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.b == "" {
		return []byte("null"), nil
	}
	return []byte(v.b), nil
}

// UnmarshalJSON is the inverse; it canonicalises, under no limit of D1. What
// encoding/json left as it was is canonical still, and read at once.
func (v *Value) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*v = Value{}
		return nil
	}
	out, err := ParseWithin(b, storedLimits)
	if err != nil {
		out, err = CanonicalizeWithin(b, storedLimits)
	}
	*v = out
	return err
}

// storedLimits are for what we wrote ourselves: wide enough for any table row.
var storedLimits = Limits{Bytes: 64 << 20, Depth: 200, Values: 10_000_000, Number: 64}
