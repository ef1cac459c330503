package jcs

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sealbridge/spec"
)

type word string

type colour struct{ s string }

func (c colour) MarshalText() ([]byte, error) { return []byte(c.s), nil }
func (c *colour) UnmarshalText(b []byte) error {
	if s := string(b); s != "red" && s != "blue" {
		return errors.New("no colour")
	}
	c.s = string(b)
	return nil
}

// pair reads itself: a list of exactly two numbers.
type pair struct{ a, b int64 }

func (p *pair) DecodeCanonical(v Value) error {
	var both []int64
	if err := Decode(v, &both); err != nil {
		return err
	}
	if len(both) != 2 {
		return malformed("", "two numbers")
	}
	p.a, p.b = both[0], both[1]
	return nil
}

func (p pair) EncodeCanonical() (Value, error) { return Encode([]int64{p.a, p.b}) }

type base struct {
	Name string `json:"name" rule:"len=1..4"`
}

type every struct {
	base
	Bool   bool           `json:"bool"`
	Colour colour         `json:"colour"`
	Count  uint           `json:"count" rule:"num=0..7"`
	Int    int            `json:"int"`
	Items  []word         `json:"items" rule:"items=0..3,unique,each.len=1..3"`
	Map    map[word]int64 `json:"map" rule:"items=0..4"`
	Maybe  *string        `json:"maybe"`
	Opt    string         `json:"opt,omitempty"`
	Pair   pair           `json:"pair"`
	Raw    Value          `json:"raw"`
	Sub    struct {
		Deep []base `json:"deep"`
	} `json:"sub"`
	Skipped string
}

const full = `{"bool":true,"colour":"red","count":7,"int":-3,"items":["a","b"],"map":{"\ud83d\ude00":1,"z":2},"maybe":null,"name":"abcd","pair":[1,2],"raw":{"any":[null]},"sub":{"deep":[{"name":"x"}]}}`

func TestEveryKindDecodesAndEncodesBack(t *testing.T) {
	v, err := Canonicalize([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	var e every
	if err := Decode(v, &e); err != nil {
		t.Fatal(err)
	}
	if e.Name != "abcd" || e.Count != 7 || e.Int != -3 || e.Map["😀"] != 1 || e.Pair != (pair{1, 2}) || e.Maybe != nil || e.Raw.String() != `{"any":[null]}` || e.Sub.Deep[0].Name != "x" {
		t.Errorf("%+v", e)
	}
	if back, err := Encode(e); err != nil || back != v {
		t.Errorf("%s comes back as %s, %v", v, back, err)
	}
}

func TestLengthsCountCodePoints(t *testing.T) {
	for in, ok := range map[string]bool{`{"name":"€€€€"}`: true, `{"name":"😀😀😀😀"}`: true, `{"name":"😀😀😀😀😀"}`: false, `{"name":"\n\n\n\n"}`: true} {
		v, err := Parse([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(v, new(base)); (err == nil) != ok {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestEveryRuleRefusesAtItsPlace(t *testing.T) {
	v, err := Canonicalize([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	raw := func(s string) Value {
		v, err := Parse([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct{ member, value, path string }{
		{"bool", `1`, "/bool"}, {"bool", `null`, "/bool"}, {"colour", `"green"`, "/colour"}, {"colour", `1`, "/colour"},
		{"count", `8`, "/count"}, {"count", `-1`, "/count"}, {"count", `1.5`, "/count"}, {"int", `"1"`, "/int"}, {"int", `1.5`, "/int"},
		{"items", `["a","a"]`, "/items/1"}, {"items", `["a","b","c","d"]`, "/items"}, {"items", `["abcd"]`, "/items/0"}, {"items", `{}`, "/items"},
		{"items", `null`, "/items"}, {"items", `[""]`, "/items/0"}, {"map", `{"a":"x"}`, "/map/a"}, {"map", `{"a":1,"b":2,"c":3,"d":4,"e":5}`, "/map"}, {"map", `[]`, "/map"},
		{"name", `""`, "/name"}, {"name", `"abcde"`, "/name"}, {"name", `"€€€€€"`, "/name"}, {"maybe", `1`, "/maybe"}, {"opt", `null`, "/opt"},
		{"pair", `[1]`, "/pair"}, {"pair", `[1,"2"]`, "/pair/1"}, {"sub", `{}`, "/sub/deep"}, {"sub", `{"deep":[{}]}`, "/sub/deep/0/name"}, {"sub", `{"deep":[],"x":1}`, "/sub/x"},
		{"Skipped", `"x"`, "/Skipped"}, {"NAME", `"x"`, "/NAME"}, {"base", `{"name":"x"}`, "/base"},
	} {
		err := Decode(v.With(c.member, raw(c.value)), new(every))
		if e, ok := err.(*spec.Error); !ok || e.Reason != spec.Malformed || e.Path != c.path {
			t.Errorf("%s = %s: %v, want malformed at %s", c.member, c.value, err, c.path)
		}
	}
	for name := range v.Members() {
		err := Decode(v.Without(name), new(every))
		if e, ok := err.(*spec.Error); !ok || e.Path != "/"+name || e.Limit != "missing" {
			t.Errorf("without %s: %v, want missing", name, err)
		}
	}
	for _, in := range []string{`[]`, `"x"`, `1`, `null`, `true`} {
		if err := Decode(raw(in), new(every)); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("%s: %v, want malformed", in, err)
		}
	}
	if err := Decode(Value{}, new(every)); spec.ReasonOf(err) != spec.Malformed {
		t.Errorf("no value: %v, want malformed", err)
	}
}

func TestAnEmptyListIsNoMissingList(t *testing.T) { // B009
	var s struct {
		Tools []string `json:"tools"`
	}
	for in, ok := range map[string]bool{`{"tools":[]}`: true, `{}`: false, `{"tools":null}`: false} {
		v, err := Parse([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(v, &s); (err == nil) != ok || ok && s.Tools == nil {
			t.Errorf("%s: %v, %v", in, s.Tools, err)
		}
	}
}

func TestARuleThatDoesNothingDoesNotPassInSilence(t *testing.T) {
	for name, in := range map[string]any{
		"len of a number": &struct {
			A int64 `json:"a" rule:"len=1..2"`
		}{},
		"num of a text": &struct {
			A string `json:"a" rule:"num=1..2"`
		}{},
		"enum of a list": &struct {
			A []string `json:"a" rule:"enum=a|b"`
		}{},
		"len of a text type": &struct {
			A colour `json:"a" rule:"len=1..2"`
		}{},
		"unique of lists": &struct {
			A [][]string `json:"a" rule:"unique"`
		}{},
		"each.len of numbers": &struct {
			A []int64 `json:"a" rule:"each.len=1..2"`
		}{},
		"unknown rule": &struct {
			A string `json:"a" rule:"max=2"`
		}{},
		"bounds of words": &struct {
			A string `json:"a" rule:"len=a..b"`
		}{},
		"a float": &struct {
			A float64 `json:"a"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			_ = Decode(Value{`{"a":0}`}, in)
		}()
	}
}

func TestWhatHasNoCanonicalFormIsAnError(t *testing.T) {
	for name, in := range map[string]any{
		"a float": 1.5, "invalid UTF-8": "\xff", "a noncharacter": "\ufffe", "an unsafe integer": int64(1 << 53), "a large count": uint64(1 << 63),
		"no value in a list": []Value{{}}, "a map by number": map[int]string{1: "a"}, "a rule broken": base{}, "a function": func() {},
	} {
		if v, err := Encode(in); err == nil || !v.IsZero() {
			t.Errorf("%s: %s, %v, want an error", name, v, err)
		}
	}
}

func TestAPointerNamesOnePlace(t *testing.T) {
	v, err := Parse([]byte(`{"":{"a/b":1,"c~d":[10,20]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		"": v.String(), "//a~1b": "1", "//c~0d/1": "20", "//c~0d": "[10,20]",
		"x": "", "//c~0d/01": "", "//c~0d/2": "", "//c~0d/-1": "", "//c~0d/+1": "", "//c~0d/": "", "/a": "", "//a~1b/0": "",
	} {
		if got, ok := v.At(at); got.String() != want || ok != (want != "") {
			t.Errorf("At(%q) = %s, %v, want %s", at, got, ok, want)
		}
	}
	if _, ok := (Value{}).At("/a"); ok {
		t.Error("no value has a member")
	}
}

func TestNothingMakesAValueThatIsNotCanonical(t *testing.T) {
	for name, v := range map[string]Value{
		"with no value": EmptyObject.With("a", Value{}), "a list of no value": List(Value{}), "with on a list": List().With("a", EmptyObject),
		"without on a text": Value{`"a"`}.Without("a"), "empty list": List(),
	} {
		if w, err := Parse(v.Bytes()); err != nil || w != v {
			t.Errorf("%s: %s: %v", name, v, err)
		}
	}
	for _, bad := range []string{"\xff", "\ufffe", "a\xc0\x80"} {
		if v, ok := Text(bad); ok {
			t.Errorf("Text(%q) = %s", bad, v)
		}
	}
}

func TestDecodeIsTheInverseOfEncode(t *testing.T) {
	text := rapid.StringN(1, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		in := every{
			base: base{Name: text.Draw(t, "name")}, Bool: rapid.Bool().Draw(t, "bool"), Colour: colour{"blue"},
			Count: rapid.UintRange(0, 7).Draw(t, "count"), Int: int(rapid.Int64Range(-maxSafe, maxSafe).Draw(t, "int")),
			Items: []word{}, Map: map[word]int64{}, Opt: rapid.String().Draw(t, "opt"), Raw: List(EmptyObject),
			Pair: pair{rapid.Int64Range(-9, 9).Draw(t, "a"), 0},
		}
		for k, n := range rapid.MapOfN(rapid.String(), rapid.Int64Range(0, 9), 0, 4).Draw(t, "map") {
			in.Map[word(k)] = n
		}
		in.Sub.Deep = []base{}
		v, err := Encode(in)
		if err != nil {
			if spec.ReasonOf(err) != spec.Malformed { // a noncharacter was drawn
				t.Fatal(err)
			}
			return
		}
		var out every
		if err := Decode(v, &out); err != nil || !reflect.DeepEqual(in, out) {
			t.Fatalf("%+v comes back as %+v (%v)", in, out, err)
		}
		if again, err := Encode(out); err != nil || again != v {
			t.Fatalf("%s comes back as %s (%v)", v, again, err)
		}
	})
}

// FuzzDecode: no panic, and what is read without optional zeros encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(strings.Replace(full, `"maybe":null`, `"maybe":"x"`, 1)))
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := Canonicalize(in)
		if err != nil {
			return
		}
		var e every
		if err := Decode(v, &e); err != nil {
			if spec.ReasonOf(err) != spec.Malformed {
				t.Fatalf("%s: %v, want malformed", v, err)
			}
			return
		}
		if e.Opt == "" {
			v = v.Without("opt")
		}
		if back, err := Encode(e); err != nil || back != v {
			t.Fatalf("%s comes back as %s (%v)", v, back, err)
		}
	})
}
