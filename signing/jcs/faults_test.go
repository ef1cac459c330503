package jcs

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sealbridge/spec"
)

// doors reads a text as the wire does and as a file is read.
var doors = map[string]func([]byte) (Value, error){"wire": Parse, "file": Canonicalize}

func TestLargeIntegersNeverCollapse(t *testing.T) { // B001
	for name, read := range doors {
		for _, in := range []string{
			`{"arguments":{"order_id":36028797018963969}}`, `{"arguments":{"order_id":36028797018963968}}`,
			`{"arguments":{"order_id":9007199254740992}}`, `{"arguments":{"order_id":-9007199254740993}}`,
			`{"arguments":{"order_id":9.007199254740993e15}}`, `{"arguments":{"order_id":1e30}}`,
		} {
			_, err := read([]byte(in))
			e, ok := err.(*spec.Error)
			if !ok || e.Reason != spec.Malformed || e.Path != "/arguments/order_id" || !strings.Contains(e.Limit, "string") {
				t.Errorf("%s, %s: %v, want malformed at the member, with the way out", name, in, err)
			}
		}
		if _, err := read([]byte(`{"arguments":{"order_id":9007199254740991}}`)); err != nil {
			t.Errorf("%s: the largest safe integer: %v", name, err)
		}
	}
}

func TestDuplicateNamesAreRefusedAtEveryDepthAndInEverySpelling(t *testing.T) { // B002
	for name, read := range doors {
		for in, path := range map[string]string{
			`{"max_invocations":2,"z":0,"max_invocations":200}`: "/max_invocations",
			`{"max_invocations":2,"max_\u0069nvocations":200}`:  "/max_invocations",
			`{"args":{"limit":{"max":1,"max":1}}}`:              "/args/limit/max",
			`[[{"a":{"b":[{"c":1,"\u0063":2}]}}]]`:              "/0/0/a/b/0/c",
			`{"":1,"":2}`:                                       "/",
			`{"a\/b":1,"a/b":2}`:                                "/a~1b",
		} {
			_, err := read([]byte(in))
			if e, ok := err.(*spec.Error); !ok || e.Reason != spec.Malformed || e.Path != path {
				t.Errorf("%s, %s: %v, want malformed at %s", name, in, err, path)
			}
		}
	}
}

// At each limit the text is taken, one step beyond it is too large, and the
// wire and a file say the same.
func TestLimitsHoldExactly(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("0,", n-1), ",") + "]" }
	number := func(n int) string { return "0." + strings.Repeat("0", n-3) + "1" }
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	for _, l := range []Limits{ManifestLimits, DocumentLimits} {
		for name, c := range map[string]struct{ at, beyond string }{
			"bytes":  {text(l.Bytes), text(l.Bytes + 1)},
			"depth":  {nested(l.Depth), nested(l.Depth + 1)},
			"values": {list(l.Values), list(l.Values + 1)},
		} {
			for door, read := range map[string]func([]byte, Limits) (Value, error){"wire": ParseWithin, "file": CanonicalizeWithin} {
				if _, err := read([]byte(c.at), l); err != nil {
					t.Errorf("%s, %s: at the limit: %v", name, door, err)
				}
				_, err := read([]byte(c.beyond), l)
				if e, ok := err.(*spec.Error); !ok || e.Reason != spec.TooLarge || e.Limit == "" {
					t.Errorf("%s, %s: beyond the limit: %v, want too-large with the limit", name, door, err)
				}
			}
		}
	}
	l := DocumentLimits
	if _, err := Canonicalize([]byte(number(l.Number))); err != nil {
		t.Errorf("a number of %d characters: %v", l.Number, err)
	}
	for door, read := range doors {
		if _, err := read([]byte(number(l.Number + 1))); spec.ReasonOf(err) != spec.TooLarge {
			t.Errorf("%s: a number of %d characters: %v, want too-large", door, l.Number+1, err)
		}
	}
}

// White space of a file counts against its own bound: four times the canonical size.
func TestLayoutHasItsOwnBound(t *testing.T) {
	l := Limits{Bytes: 100, Depth: 4, Values: 10, Number: 8}
	if _, err := CanonicalizeWithin([]byte("{}"+strings.Repeat(" ", 398)), l); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	if _, err := CanonicalizeWithin([]byte("{}"+strings.Repeat(" ", 399)), l); spec.ReasonOf(err) != spec.TooLarge {
		t.Errorf("beyond it: %v, want too-large", err)
	}
	if _, err := CanonicalizeWithin([]byte(`"`+strings.Repeat("x", 120)+`"`), l); spec.ReasonOf(err) != spec.TooLarge {
		t.Errorf("a canonical form beyond the limit: %v, want too-large", err)
	}
}

// FuzzParse is the malleability test: what the wire takes has one spelling.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5,1e-7],"b":"\u001f\n€😀"}`, `{"":{"":[]}}`, `[0,9007199254740991]`, `"\\\""`, `{"\ud83d\ude00":1}`, `1e400`, `-0`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := Parse(in)
		if err != nil {
			if !v.IsZero() || spec.ReasonOf(err) == spec.Internal {
				t.Fatalf("%q: %v and %q", in, err, v)
			}
			return
		}
		if !bytes.Equal(v.Bytes(), in) {
			t.Fatalf("%q became %q", in, v)
		}
		if file, err := Canonicalize(in); err != nil || file != v {
			t.Fatalf("%q as a file: %q, %v", in, file, err)
		}
		if again := rebuilt(v); again != v.String() {
			t.Fatalf("%q rebuilt from its parts: %q", in, again)
		}
	})
}

// rebuilt writes v again from what its methods say of it.
func rebuilt(v Value) string {
	var parts []string
	switch v.Kind() {
	case '{':
		for name, m := range v.Members() {
			if got, ok := v.Member(name); !ok || got != m {
				return "member " + name
			}
			parts = append(parts, quote(name)+":"+rebuilt(m))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case '[':
		for item := range v.Items() {
			parts = append(parts, rebuilt(item))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case '"':
		text, _ := v.Text()
		return quote(text)
	}
	return v.String()
}

// Every control character has one escape on the wire (RFC 8785, 3.2.2.2).
func TestEachControlCharacterHasOneEscape(t *testing.T) {
	short := map[byte]string{'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`}
	for c := byte(0); c < 0x20; c++ {
		want := short[c]
		if want == "" {
			want = fmt.Sprintf(`\u%04x`, c)
		}
		for _, in := range []string{want, fmt.Sprintf(`\u%04x`, c), fmt.Sprintf(`\u%04X`, c)} {
			v, err := Parse([]byte(`"` + in + `"`))
			if in == want && err != nil || in != want && spec.ReasonOf(err) != spec.NotCanonical {
				t.Errorf("%s on the wire: %s, %v", in, v, err)
			}
			if v, err := Canonicalize([]byte(`"` + in + `"`)); err != nil || v.String() != `"`+want+`"` {
				t.Errorf("%s in a file: %s, %v, want %s", in, v, err, want)
			}
		}
	}
	for _, in := range []string{`\/`, `\u0020`, `\u007f`, `\u00e9`, `\ud83d\ude00`} {
		if v, err := Parse([]byte(`"` + in + `"`)); spec.ReasonOf(err) != spec.NotCanonical {
			t.Errorf("%s on the wire: %s, %v, want not-canonical", in, v, err)
		}
	}
}

// A duplicate is found whatever the order of the names around it.
func TestADuplicateIsFoundInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.IntRange(0, 12), 1, 14).Draw(t, "names")
		seen, want := map[int]bool{}, ""
		var parts []string
		for _, n := range list {
			if seen[n] && want == "" {
				want = fmt.Sprintf("/%d", n)
			}
			seen[n] = true
			parts = append(parts, fmt.Sprintf(`"%d":0`, n))
		}
		_, err := Canonicalize([]byte("{" + strings.Join(parts, ",") + "}"))
		got := ""
		if e, ok := err.(*spec.Error); ok {
			got = e.Path
		}
		if got != want || (err == nil) != (want == "") {
			t.Fatalf("%v: %v, want a duplicate at %q", list, err, want)
		}
	})
}

// A name that stands twice is found wherever it stands, among names in any order.
func TestANameThatStandsTwiceIsFoundInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{0,6}`), 1, 300, rapid.ID[string]).Draw(t, "names")
		names = rapid.Permutation(names).Draw(t, "order")
		text := func(names []string) []byte { return []byte(`{"` + strings.Join(names, `":0,"`) + `":0}`) }
		if _, err := Canonicalize(text(names)); err != nil {
			t.Fatalf("%d names that differ: %v", len(names), err)
		}
		again := rapid.SampledFrom(names).Draw(t, "again")
		for _, list := range [][]string{append(slices.Clone(names), again), append([]string{again}, names...)} {
			for door, read := range doors {
				if _, err := read(text(list)); spec.ReasonOf(err) != spec.Malformed || !strings.Contains(err.Error(), "duplicate") {
					t.Fatalf("%s: %q twice among %d names: %v", door, again, len(names), err)
				}
			}
		}
	})
}
