package schema

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func closedValue(t testing.TB, text string) jcs.Value {
	t.Helper()
	v, err := jcs.Canonicalize([]byte(text))
	if err != nil {
		t.Fatal(text, err)
	}
	return v
}

func TestTheClosedDialectRefusesWhatItDoesNotName(t *testing.T) { // C3
	for _, tt := range []struct{ doc, path string }{
		{`{"$ref":"#"}`, "/$ref"}, {`{"$schema":"https://json-schema.org/draft/2020-12/schema"}`, "/$schema"}, {`{"title":"x"}`, "/title"},
		{`{"anyOf":[]}`, "/anyOf"}, {`{"not":{}}`, "/not"}, {`{"patternProperties":{}}`, "/patternProperties"}, {`{"minProperties":1}`, "/minProperties"},
		{`{"type":"string"}`, "/type"}, {`{"type":["object"]}`, "/type"}, {`{"type":"string integer"}`, "/type"}, {`{"type":"Object"}`, "/type"},
		{`{"additionalProperties":true}`, "/additionalProperties"}, {`{"additionalProperties":{}}`, "/additionalProperties"},
		{`{"properties":[]}`, "/properties"}, {`{"properties":{"a":true}}`, "/properties/a"}, {`{"properties":{"a":{}}}`, "/properties/a/type"},
		{`{"properties":{"a":{"type":"string","format":"date"}}}`, "/properties/a/format"},
		{`{"properties":{"a":{"type":"string","minimum":1}}}`, "/properties/a/minimum"},
		{`{"properties":{"a":{"type":"integer","minLength":1}}}`, "/properties/a/minLength"},
		{`{"properties":{"a":{"type":"array"}}}`, "/properties/a/items"},
		{`{"properties":{"a":{"type":"array","items":{"type":"string"},"uniqueItems":true}}}`, "/properties/a/uniqueItems"},
		{`{"properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{}}}}}}`, "/properties/a/items/properties/b/type"},
		{`{"properties":{"a":{"type":"string","pattern":"a"}}}`, "/properties/a/pattern"}, {`{"properties":{"a":{"type":"string","pattern":"^a"}}}`, "/properties/a/pattern"},
		{`{"properties":{"a":{"type":"string","pattern":"^a\\$"}}}`, "/properties/a/pattern"}, {`{"properties":{"a":{"type":"string","pattern":"^a)|(b$"}}}`, "/properties/a/pattern"},
		{`{"properties":{"a":{"type":"string","pattern":"^\\Qa$"}}}`, "/properties/a/pattern"}, {`{"properties":{"a":{"type":"string","pattern":"^(?=a)$"}}}`, "/properties/a/pattern"},
		{`{"properties":{"a":{"type":"string","pattern":7}}}`, "/properties/a/pattern"}, {`{"properties":{"a":{"type":"string","pattern":"^(((a{100}){100}){100})$"}}}`, "/properties/a/pattern"},
		{`{"properties":{"a":{"type":"string","const":1}}}`, "/properties/a/enum"}, {`{"properties":{"a":{"type":"string","const":"x","enum":["x"]}}}`, "/properties/a/enum"},
		{`{"properties":{"a":{"type":"string","enum":"x"}}}`, "/properties/a/enum"}, {`{"properties":{"a":{"type":"number","minimum":"1"}}}`, "/properties/a/minimum"},
		{`{"properties":{"a":{"type":"number","multipleOf":0}}}`, "/properties/a/multipleOf"}, {`{"properties":{"a":{"type":"string","maxLength":-1}}}`, "/properties/a/maxLength"},
		{`{"properties":{"a":{"type":"string","maxLength":1.5}}}`, "/properties/a/maxLength"}, {`{"required":["a"]}`, "/required/0"}, {`{"required":[1]}`, "/required"}, {`{"required":{}}`, "/required"},
		{`{"properties":{"a":{"type":"string"}},"required":["b"]}`, "/required/0"}, {`[]`, ""}, {`true`, ""},
		{`{"properties":{"a":` + strings.Repeat(`{"type":"array","items":`, 20) + `{"type":"null"}` + strings.Repeat("}", 20) + `}}`, "-"},
		{`{"properties":{"a":` + strings.Repeat(`{"type":"array","items":`, 35) + `{"type":"null"}` + strings.Repeat("}", 35) + `}}`, ""},
		{`{"properties":{"a":{"type":"string","const":"` + strings.Repeat("a", 33000) + `"}}}`, ""},
	} {
		c, err := ParseClosed(closedValue(t, tt.doc))
		if tt.path == "-" {
			if err != nil {
				t.Errorf("%.60s: %v", tt.doc, err)
			}
			continue
		}
		known, ok := err.(*spec.Error)
		if !ok || known.Path != tt.path || !c.Any() {
			t.Errorf("%.90s: %v, want a refusal at %s", tt.doc, err, tt.path)
		}
	}
}

func TestAClosedSchemaTakesWhatItNamesAndNothingElse(t *testing.T) { // C3, B009
	const path = `{"properties":{"p":{"type":"string","pattern":"^[a-z]+(/[a-z]+)*$","maxLength":8}}}`
	for _, tt := range []struct {
		doc, args string
		path      string // "-": within
	}{
		{`{}`, `{"any":[1,{"thing":null}]}`, "-"},
		{`{"type":"object"}`, `{}`, "-"}, {`{"type":"object"}`, `{"a":1}`, "/a"}, {`{"properties":{}}`, `{"a":1}`, "/a"},
		{path, `{"p":"a/b"}`, "-"}, {path, `{"p":"a/../b"}`, "/p"}, {path, `{"p":"A"}`, "/p"}, {path, `{"p":"abcdefghi"}`, "/p"}, {path, `{}`, "/p"}, {path, `{"p":1}`, "/p"},
		{path, `{"p":"a\n"}`, "/p"}, {path, `{"p":"a","q":1}`, "/q"}, {path, `{"P":"a"}`, "/P"}, {path, `{"p":null}`, "/p"},
		{`{"properties":{"p":{"type":"string","pattern":"^a|b$"}}}`, `{"p":"a"}`, "-"}, {`{"properties":{"p":{"type":"string","pattern":"^a|b$"}}}`, `{"p":"ax"}`, "/p"}, {`{"properties":{"p":{"type":"string","pattern":"^a|b$"}}}`, `{"p":"xb"}`, "/p"},
		{`{"properties":{"p":{"type":"string","pattern":"^(?m)a$"}}}`, `{"p":"a\na"}`, "/p"}, {`{"properties":{"p":{"type":"string","pattern":"^$"}}}`, `{"p":""}`, "-"},
		{`{"properties":{"n":{"type":"integer","minimum":1,"maximum":5}}}`, `{"n":5}`, "-"}, {`{"properties":{"n":{"type":"integer","minimum":1,"maximum":5}}}`, `{"n":6}`, "/n"}, {`{"properties":{"n":{"type":"integer","minimum":1,"maximum":5}}}`, `{"n":1.5}`, "/n"},
		{`{"properties":{"n":{"type":"integer"}}}`, `{"n":1.0}`, "-"}, {`{"properties":{"n":{"type":"integer"}}}`, `{"n":"1"}`, "/n"}, {`{"properties":{"n":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}}}`, `{"n":0}`, "/n"},
		{`{"properties":{"n":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}}}`, `{"n":0.5}`, "-"}, {`{"properties":{"n":{"type":"number","multipleOf":0.01}}}`, `{"n":0.07}`, "-"}, {`{"properties":{"n":{"type":"number","multipleOf":0.01}}}`, `{"n":0.075}`, "/n"},
		{`{"properties":{"n":{"type":"number","maximum":1e-300}}}`, `{"n":1e-299}`, "/n"},
		{`{"properties":{"e":{"type":"string","enum":[]}}}`, `{"e":"x"}`, "/e"}, {`{"properties":{"e":{"type":"string","enum":["x","y"]}}}`, `{"e":"y"}`, "-"}, {`{"properties":{"e":{"type":"boolean","const":true}}}`, `{"e":false}`, "/e"},
		{`{"properties":{"e":{"type":"number","const":1}}}`, `{"e":1.0}`, "-"},
		{`{"properties":{"l":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2}}}`, `{"l":[]}`, "/l"}, {`{"properties":{"l":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2}}}`, `{"l":["a","b"]}`, "-"},
		{`{"properties":{"l":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2}}}`, `{"l":["a",1]}`, "/l/1"}, {`{"properties":{"l":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2}}}`, `{"l":["a","b","c"]}`, "/l"},
		{`{"properties":{"o":{"type":"object","properties":{"a":{"type":"null"}}}}}`, `{"o":{"a":null}}`, "-"}, {`{"properties":{"o":{"type":"object","properties":{"a":{"type":"null"}}}}}`, `{"o":{"a":null,"b":1}}`, "/o/b"}, {`{"properties":{"o":{"type":"object","properties":{"a":{"type":"null"}}}}}`, `{"o":{}}`, "/o/a"},
	} {
		c, err := ParseClosed(closedValue(t, tt.doc))
		if err != nil {
			t.Errorf("%s: %v", tt.doc, err)
			continue
		}
		err = c.Check(closedValue(t, tt.args))
		known, _ := err.(*spec.Error)
		if tt.path == "-" && err != nil || tt.path != "-" && (known == nil || known.Path != tt.path || known.Reason != spec.CapabilityDenied) {
			t.Errorf("%s under %s: %v, want %s", tt.args, tt.doc, err, tt.path)
		}
	}
}

func TestAClosedCheckHasABoundOfSteps(t *testing.T) { // C6
	c, err := ParseClosed(closedValue(t, `{"properties":{"p":{"type":"string","pattern":"^(a|b|ab){1,200}$"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(closedValue(t, `{"p":"`+strings.Repeat("ab", 20000)+`"}`)); spec.ReasonOf(err) != spec.TooLarge {
		t.Error(err)
	}
	if err := c.Check(closedValue(t, `{"p":"`+strings.Repeat("ab", 50)+`"}`)); err != nil {
		t.Error(err)
	}
}

// drawClosed draws a schema of the dialect, and drawFor a value that is often one of it.
func drawClosed(t *rapid.T, depth int) string {
	kinds := []string{"string", "integer", "number", "boolean", "null"}
	if depth > 0 {
		kinds = append(kinds, "array", "object")
	}
	switch k := rapid.SampledFrom(kinds).Draw(t, "type"); k {
	case "string":
		return rapid.SampledFrom([]string{`{"type":"string"}`, `{"type":"string","minLength":1,"maxLength":3}`, `{"type":"string","pattern":"^[ab]*$"}`, `{"type":"string","pattern":"^a|b$"}`, `{"type":"string","enum":["a","b"]}`, `{"type":"string","enum":[]}`}).Draw(t, k)
	case "integer":
		return rapid.SampledFrom([]string{`{"type":"integer"}`, `{"type":"integer","minimum":0,"maximum":3}`, `{"type":"integer","multipleOf":2}`, `{"type":"integer","const":1}`}).Draw(t, k)
	case "number":
		return rapid.SampledFrom([]string{`{"type":"number"}`, `{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":2}`, `{"type":"number","multipleOf":0.5}`}).Draw(t, k)
	case "array":
		return `{"type":"array","maxItems":3,"minItems":` + rapid.SampledFrom([]string{"0", "1"}).Draw(t, k) + `,"items":` + drawClosed(t, depth-1) + `}`
	case "object":
		return `{"type":"object",` + drawMembers(t, depth-1) + `}`
	default:
		return `{"type":"` + k + `"}`
	}
}

func drawMembers(t *rapid.T, depth int) string {
	var out []string
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID[string]).Draw(t, "names") {
		out = append(out, `"`+name+`":`+drawClosed(t, depth))
	}
	return `"properties":{` + strings.Join(out, ",") + `}`
}

func drawValue(t *rapid.T, depth int) string {
	all := []string{`"a"`, `"b"`, `"ax"`, `""`, `"aba"`, "0", "1", "2", "4", "0.5", "1.5", "-1", "true", "false", "null"}
	if depth > 0 {
		all = append(all, "[", "{")
	}
	switch v := rapid.SampledFrom(all).Draw(t, "value"); v {
	case "[":
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			items = append(items, drawValue(t, depth-1))
		}
		return "[" + strings.Join(items, ",") + "]"
	case "{":
		return drawObject(t, depth-1)
	default:
		return v
	}
}

func drawObject(t *rapid.T, depth int) string {
	var out []string
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID[string]).Draw(t, "members") {
		out = append(out, `"`+name+`":`+drawValue(t, depth))
	}
	return "{" + strings.Join(out, ",") + "}"
}

// Whatever the closed dialect takes, a validator of 2020-12 takes too.
func TestTheClosedDialectIsNeverWiderThanJSONSchema(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		doc, err := jcs.Canonicalize([]byte("{" + drawMembers(t, 2) + "}"))
		if err != nil {
			t.Fatal(err)
		}
		args, err := jcs.Canonicalize([]byte(drawObject(t, 2)))
		if err != nil {
			t.Fatal(err)
		}
		c, err := ParseClosed(doc)
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		if c.Check(args) != nil {
			return
		}
		taken++
		s, err := Parse(doc)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(args); err != nil {
			t.Fatalf("%s under %s: taken, but %v", args, doc, err)
		}
	})
	if taken == 0 {
		t.Error("nothing was taken")
	}
}

func FuzzParseClosed(f *testing.F) {
	f.Add(`{"properties":{"a":{"type":"string","pattern":"^a|b$"},"n":{"type":"number","multipleOf":0.1}}}`, `{"a":"b","n":0.3}`)
	f.Add(`{"properties":{"l":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer","enum":[1,2]}}}}}}`, `{"l":[{"x":2}]}`)
	f.Fuzz(func(t *testing.T, doc, args string) {
		d, err := jcs.Parse([]byte(doc))
		if err != nil {
			return
		}
		c, err := ParseClosed(d)
		if err != nil {
			if !c.Any() {
				t.Fatal("a schema and an error")
			}
			return
		}
		a, err := jcs.Parse([]byte(args))
		if err != nil || a.Kind() != '{' || c.Check(a) != nil || d.String() == "{}" {
			return
		}
		s, err := Parse(d)
		if err != nil {
			return // a bound that only strangers' schemas have
		}
		if err := s.Compile(); err != nil {
			return
		}
		if err := s.Validate(a); err != nil && spec.ReasonOf(err) != spec.TooLarge {
			t.Fatalf("%s is taken under %s, but %v", args, doc, err)
		}
	})
}
