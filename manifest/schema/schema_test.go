package schema

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func js(t testing.TB, text string) jcs.Value {
	t.Helper()
	v, err := jcs.Canonicalize([]byte(text))
	if err != nil {
		t.Fatalf("%.100s: %v", text, err)
	}
	return v
}

func mustParse(t testing.TB, text string) Schema {
	t.Helper()
	s, err := Parse(js(t, text))
	if err != nil {
		t.Fatalf("Parse(%.200s) = %v", text, err)
	}
	return s
}

func wantReason(t *testing.T, what string, err error, want spec.Reason) {
	t.Helper()
	if got := spec.ReasonOf(err); got != want {
		t.Errorf("%s: reason %q (%v), want %q", what, got, err, want)
	}
}

func TestParseRefusesWhatIsNotInTheDialect(t *testing.T) {
	tests := []struct {
		name, schema string
		want         spec.Reason
	}{
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#"}`, spec.Malformed},
		{"http spelling of 2020-12", `{"$schema":"http://json-schema.org/draft/2020-12/schema"}`, spec.Malformed},
		{"with a fragment", `{"$schema":"` + Dialect + `#"}`, spec.Malformed},
		{"below the root", `{"not":{"$schema":"` + Dialect + `"}}`, spec.Malformed},
		{"exact", `{"$schema":"` + Dialect + `"}`, ""},
		{"$id", `{"$id":"https://example.invalid/x"}`, spec.Malformed},
		{"$id below", `{"properties":{"a":{"$id":"urn:x"}}}`, spec.Malformed},
		{"a property named $id", `{"properties":{"$id":{"type":"string"},"$ref":{"type":"string"}}}`, ""},
		{"$id in data", `{"const":{"$id":"urn:x","$ref":"http://x"}}`, ""},
		{"remote", `{"$ref":"https://example.invalid/x"}`, spec.Malformed},
		{"relative", `{"$ref":"other.json"}`, spec.Malformed},
		{"empty reference", `{"$ref":""}`, spec.Malformed},
		{"dynamic remote", `{"items":{"$dynamicRef":"x#n"}}`, spec.Malformed},
		{"no text", `{"$ref":{}}`, spec.Malformed},
		{"into nothing", `{"$ref":"#/$defs/none"}`, spec.Malformed},
		{"into data", `{"const":{"type":"string"},"items":{"$ref":"#/const"}}`, spec.Malformed},
		{"into an unknown keyword", `{"x":{"type":"string"},"items":{"$ref":"#/x"}}`, spec.Malformed},
		{"no such anchor", `{"items":{"$ref":"#none"}}`, spec.Malformed},
		{"bad escape", `{"items":{"$ref":"#/%zz"}}`, spec.Malformed},
		{"escaped pointer", `{"$defs":{"a/b~c d":{}},"items":{"$ref":"#/$defs/a~1b~0c%20d"}}`, ""},
		{"anchor", `{"$defs":{"a":{"$anchor":"x"}},"items":{"$ref":"#x"}}`, ""},
		{"anchor twice", `{"$defs":{"a":{"$anchor":"x"},"b":{"$dynamicAnchor":"x"}}}`, spec.Malformed},
		{"to itself", `{"$ref":"#"}`, spec.Malformed},
		{"around", `{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, spec.Malformed},
		{"a tree descends", `{"properties":{"kids":{"items":{"$ref":"#"}}}}`, ""},
		{"recursiveRef", `{"items":{"$recursiveRef":"#"}}`, spec.Malformed},
		{"lookahead", `{"pattern":"^(?!x)"}`, spec.Malformed},
		{"lookahead in a name", `{"patternProperties":{"(?=x)":true}}`, spec.Malformed},
		{"huge pattern", `{"pattern":"(abcdefghij){1,900}"}`, spec.TooLarge},
		{"repeated too often", `{"pattern":"(a{1,90}){1,90}"}`, spec.Malformed},
		{"not a schema", `1`, spec.Malformed},
		{"a list for an object", `{"properties":[]}`, spec.Malformed},
		{"an object for a list", `{"allOf":{}}`, spec.Malformed},
	}
	for _, test := range tests {
		_, err := Parse(js(t, test.schema))
		wantReason(t, test.name, err, test.want)
	}
	_, err := Parse(jcs.Value{})
	wantReason(t, "no value", err, spec.Malformed)
}

func TestParseHoldsTheBounds(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"not":`, n) + "true" + strings.Repeat("}", n) }
	bomb := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"$defs":{"a0":{}`)
		for i := 1; i <= n; i++ {
			fmt.Fprintf(&b, `,"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i-1, i-1)
		}
		fmt.Fprintf(&b, `},"items":{"$ref":"#/$defs/a%d"}}`, n)
		return b.String()
	}
	chain := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"$defs":{"a0":{}`)
		for i := 1; i <= n; i++ {
			fmt.Fprintf(&b, `,"a%d":{"$ref":"#/$defs/a%d"}`, i, i-1)
		}
		return b.String() + "}}"
	}
	for _, test := range []struct {
		name, schema string
		fits         bool
	}{
		{"depth 32", nested(32), true}, {"depth 33", nested(33), false},
		{"32 KiB", `{"title":"` + strings.Repeat("x", MaxBytes-12) + `"}`, true},
		{"32 KiB and a byte", `{"title":"` + strings.Repeat("x", MaxBytes-11) + `"}`, false},
		{"references that double 8 times", bomb(8), true}, {"30 times", bomb(30), false},
		{"a chain of 63 references", chain(63), true}, {"of 64", chain(64), false},
	} {
		_, err := Parse(js(t, test.schema))
		if test.fits && err != nil || !test.fits && spec.ReasonOf(err) != spec.TooLarge {
			t.Errorf("%s: %v, want fits %v", test.name, err, test.fits)
		}
	}
	large := mustParse(t, `{"title":"`+strings.Repeat("x", MaxBytes-12)+`"}`)
	if err := CheckTotal(large, large, large); err != nil {
		t.Errorf("three of 32 KiB: %v", err)
	}
	wantReason(t, "four", CheckTotal(large, large, large, mustParse(t, `{}`)), spec.TooLarge)
}

func TestASchemaThatDoesNotCompileIsMalformed(t *testing.T) {
	for _, text := range []string{`{"type":"int"}`, `{"type":[]}`, `{"multipleOf":0}`, `{"required":"a"}`, `{"minLength":-1}`} {
		s := mustParse(t, text)
		wantReason(t, text, s.Compile(), spec.Malformed)
		wantReason(t, text, s.Validate(js(t, "1")), spec.Malformed)
	}
	wantReason(t, "zero", Schema{}.Validate(js(t, "1")), spec.Malformed)
}

func TestFormatsAreAsserted(t *testing.T) { // B006
	const body = `"required":["due_at"],"properties":{"due_at":{"format":"date-time"},"link":{"format":"uri"}}}`
	for _, head := range []string{`{`, `{"$schema":"` + Dialect + `",`} {
		s := mustParse(t, head+body)
		err := s.Validate(js(t, `{"due_at":"next tuesday","link":"not a uri"}`))
		if err == nil || err.Error() != "verification-failed: /due_at: format" {
			t.Errorf("%s: Validate = %v, want /due_at", head, err)
		}
		err = s.Validate(js(t, `{"due_at":"2030-01-02T03:04:05Z","link":"a b:c"}`))
		if err == nil || err.Error() != "verification-failed: /link: format" {
			t.Errorf("%s: Validate = %v, want /link", head, err)
		}
		if err := s.Validate(js(t, `{"due_at":"2030-01-02T03:04:05Z","link":"https://a.example/b"}`)); err != nil {
			t.Errorf("a good one: %v", err)
		}
	}
	if _, err := Parse(js(t, `{"$schema":"http://json-schema.org/draft-07/schema#",`+body)); spec.ReasonOf(err) != spec.Malformed {
		t.Errorf("draft 7 = %v, want malformed", err)
	}
}

func TestNothingIsLoaded(t *testing.T) { // B007
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hits := make(chan struct{}, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(hits)
				return
			}
			hits <- struct{}{}
			c.Close()
		}
	}()
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"secret":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String() + "/s.json"
	for _, text := range []string{
		`{"$ref":"` + url + `"}`, `{"$ref":"file://` + secret + `"}`, `{"$schema":"` + url + `"}`, `{"$id":"` + url + `","$ref":"x"}`,
	} {
		_, err := Parse(js(t, text))
		wantReason(t, text, err, spec.Malformed)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error quotes the file: %v", err)
		}
		// The compiler refuses too, should a bound ever have a hole.
		if _, err := compile(js(t, text)); err == nil {
			t.Errorf("compile(%s) succeeds", text)
		}
	}
	l.Close()
	for range hits {
		t.Errorf("a schema dialled")
	}
	s := mustParse(t, `{"$defs":{"item":{"type":"string"}},"items":{"$ref":"#/$defs/item"}}`)
	wantReason(t, "an inner reference", s.Validate(js(t, `["a",1]`)), spec.VerificationFailed)
}

func TestErrorsNameThePathAndNothingElse(t *testing.T) {
	long := strings.Repeat("é", 5000)
	for _, test := range []struct{ schema, instance, want string }{
		{`{"properties":{"b":{"type":"string"},"a":{"maxLength":1}}}`, `{"a":"secret","b":1}`, "verification-failed: /a: maxLength"},
		{`{"items":{"anyOf":[{"const":1},{"const":2}]}}`, `[1,"secret"]`, "verification-failed: /1: anyOf"},
		{`{"required":["x"]}`, `{}`, "verification-failed: required"},
		{`{"not":{}}`, `1`, "verification-failed: not"},
		{`false`, `1`, "verification-failed: false"},
		{`{"additionalProperties":false}`, `{"secret":1}`, "verification-failed: additionalProperties"},
		{`{"properties":{"a/b":{"$ref":"#/$defs/x"}},"$defs":{"x":{"allOf":[{"enum":["y"]}]}}}`, `{"a/b":"secret"}`, "verification-failed: /a~1b: enum"},
	} {
		if err := mustParse(t, test.schema).Validate(js(t, test.instance)); err == nil || err.Error() != test.want {
			t.Errorf("Validate(%s) = %v, want %s", test.instance, err, test.want)
		}
	}
	err := mustParse(t, `{"additionalProperties":{"type":"null"}}`).Validate(js(t, `{"`+long+`":"`+long+`"}`))
	if err == nil || len(err.Error()) > 200 || !strings.Contains(err.Error(), "…") {
		t.Errorf("a long path is told as %v", err)
	}
}

func TestUnknownWordsAreWarnings(t *testing.T) {
	s := mustParse(t, `{"additionalPropertes":false,"properties":{"a":{"format":"did"},"b":{"contentEncoding":"base64"}}}`)
	want := []string{"/additionalPropertes: unknown keyword", "/properties/a/format: unknown format", "/properties/b/contentEncoding: not checked"}
	if got := s.Warnings(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("Warnings = %q, want %q", got, want)
	}
	if err := s.Validate(js(t, `{"a":"x"}`)); err != nil {
		t.Errorf("an unknown keyword refuses: %v", err)
	}
}

func TestTooMuchWorkIsRefusedBeforeItIsDone(t *testing.T) {
	recursive := mustParse(t, `{"$defs":{"n":{"anyOf":[{"properties":{"c":{"$ref":"#/$defs/n"}},"required":["z"]},{"properties":{"c":{"$ref":"#/$defs/n"}},"required":["y"]}]}},"$ref":"#/$defs/n"}`)
	deep := strings.Repeat(`{"c":`, 30) + `{}` + strings.Repeat(`}`, 30)
	wantReason(t, "2^30 evaluations", recursive.Validate(js(t, deep)), spec.TooLarge)
	var list strings.Builder
	for i := range 400 {
		fmt.Fprintf(&list, `{"k":%d},`, i)
	}
	wide := mustParse(t, `{"items":{"enum":[`+strings.TrimSuffix(list.String(), ",")+`]}}`)
	wantReason(t, "400 x 9,000 comparisons", wide.Validate(js(t, `[`+strings.Repeat(`{"k":-1},`, 8999)+`{}]`)), spec.TooLarge)
	regex := mustParse(t, `{"format":"regex"}`)
	wantReason(t, "a huge pattern in an instance", regex.Validate(js(t, `"`+strings.Repeat("[a-z]{1000}", 10)+`"`)), spec.VerificationFailed)
	wantReason(t, "2^4", recursive.Validate(js(t, `{"c":{"c":{"c":{}}}}`)), spec.VerificationFailed)
}

func TestTheSameInputGetsTheSameAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := rapid.SampledFrom([]string{
			`{"properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"maxItems":1}},"additionalProperties":false}`,
			`{"$defs":{"x":{"items":{"$ref":"#/$defs/x"},"maxItems":2}},"properties":{"a":{"$ref":"#/$defs/x"},"b":{"$ref":"#/$defs/x"}}}`,
		}).Draw(t, "schema")
		in := rapid.SampledFrom([]string{`{"a":1,"b":"x","c":[1,2],"d":1}`, `{"a":[[1,2,3],[4,5,6]],"b":[1,2,3]}`, `{}`}).Draw(t, "instance")
		schema, err := jcs.Parse([]byte(canonicalText(doc)))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(schema)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jcs.Canonicalize([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		first := fmt.Sprint(s.Validate(v))
		for range 5 {
			if again := fmt.Sprint(s.Validate(v)); again != first {
				t.Fatalf("%s, then %s", first, again)
			}
		}
	})
}

func canonicalText(text string) string {
	v, err := jcs.Canonicalize([]byte(text))
	if err != nil {
		panic(err)
	}
	return v.String()
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"$defs":{"a":{"$anchor":"x"}},"items":{"$ref":"#x"},"pattern":"^a+$"}`), []byte(`["a"]`))
	f.Add([]byte(`{"anyOf":[{"enum":[1,"a",{"b":[]}]},{"patternProperties":{"^x":{"multipleOf":0.1}}}],"uniqueItems":true}`), []byte(`{"xy":3}`))
	f.Fuzz(func(t *testing.T, schema, instance []byte) {
		doc, err := jcs.Parse(schema)
		if err != nil {
			return
		}
		s, err := Parse(doc)
		if err != nil {
			return
		}
		v, err := jcs.Parse(instance)
		if err != nil {
			return
		}
		if err := s.Validate(v); err != nil && (spec.ReasonOf(err) == spec.Internal || len(spec.ReasonOf(err)) == 0) {
			t.Fatalf("Validate = %v", err)
		}
	})
}

const typical = `{"type":"object","additionalProperties":false,"required":["rows","summary"],"properties":{"summary":{"type":"string","maxLength":2000},"rows":{"type":"array","maxItems":100,"items":{"type":"object","required":["id","due"],"properties":{"id":{"type":"string","pattern":"^[a-z0-9-]{1,40}$"},"due":{"type":"string","format":"date-time"},"n":{"type":"integer","minimum":0}}}}}}`

func BenchmarkParse(b *testing.B) {
	doc := js(b, typical)
	for b.Loop() {
		if _, err := Parse(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	doc := js(b, typical)
	for b.Loop() {
		s, _ := Parse(doc)
		if err := s.Compile(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	s := mustParse(b, typical)
	v := js(b, `{"summary":"x","rows":[{"id":"a-1","due":"2030-01-02T03:04:05Z","n":4},{"id":"a-2","due":"2030-01-02T03:04:05Z"}]}`)
	for b.Loop() {
		if err := s.Validate(v); err != nil {
			b.Fatal(err)
		}
	}
}
