package jcs

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"sealbridge/spec"
)

func collect(r io.Reader, l Limits) (out []string, err error) {
	for v, e := range Documents(r, l) {
		if e != nil {
			return out, e
		}
		out = append(out, v.String())
	}
	return out, nil
}

func TestDocumentsReadsEveryLayout(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"one", `{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{"pretty", "{\n \"a\" : [ 1 , {\"x\":\"}\\\"\"} ]\n}\n", `{"a":[1,{"x":"}\""}]}`},
		{"lines", "{\"a\":1}\n{\"a\":2}\n", `{"a":1} {"a":2}`},
		{"nothing", " \n", ``},
		{"bundle", `{"type":"b","documents":[{"z":1},` + "\n" + `{"a":[]}` + "\n" + `]}`, `{"z":1} {"a":[]} {"documents":[],"type":"b"}`},
		{"bundle in canonical order", `{"documents":[{"z":1}],"type":"b"}`, `{"z":1} {"documents":[],"type":"b"}`},
		{"empty bundle", `{"documents":[ ],"type":"b"}`, `{"documents":[],"type":"b"}`},
		{"a list that is no list of documents", `{"documents":["sha256:00"],"type":"ack"}`, `{"documents":["sha256:00"],"type":"ack"}`},
		{"deeper down it is any member", `{"a":{"documents":[{}]}}`, `{"a":{"documents":[{}]}}`},
		{"two bundles", `{"documents":[{}]}{"documents":[{"a":1}]}`, `{} {"documents":[]} {"a":1} {"documents":[]}`},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
			got, err := collect(r, DocumentLimits)
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("%s: %q, %v; want %q", c.name, strings.Join(got, " "), err, c.want)
			}
		}
	}
}

func TestDocumentsRefusesWhatIsBroken(t *testing.T) {
	small := Limits{Bytes: 40, Depth: 5, Values: 20, Number: 10}
	for _, c := range []struct {
		name, in, path string
		word           spec.Reason
	}{
		{"no object", `[{}]`, "", spec.Malformed},
		{"mark at the start", "\ufeff{}", "", spec.Malformed},
		{"cut", `{"a":1`, "", spec.Malformed},
		{"cut in a string", `{"a":"x\`, "", spec.Malformed},
		{"cut list", `{"documents":[{}`, "/documents/0", spec.Malformed},
		{"comma too many", `{"documents":[{},]}`, "/documents/1", spec.Malformed},
		{"no comma", `{"documents":[{}{}]}`, "/documents/0", spec.Malformed},
		{"no document", `{"documents":[{},1]}`, "/documents/1", spec.Malformed},
		{"twice a name", `{"documents":[{"a":1,"a":2}]}`, "/documents/0/a", spec.Malformed},
		{"two lists", `{"documents":[{}],"documents":[{}]}`, "/documents", spec.Malformed},
		{"numbers do not run together", `{"a":1 2}`, "/a", spec.Malformed},
		{"after the object", `{} x`, "", spec.Malformed},
		{"closed by the wrong bracket", `{"a":[1}`, "", spec.Malformed},
		{"large", `{"a":"` + strings.Repeat("x", 40) + `"}`, "", spec.TooLarge},
		{"large layout", `{"a":` + strings.Repeat(" ", 200) + `1}`, "", spec.TooLarge},
		{"large in a list", `{"documents":[{},{"a":"` + strings.Repeat("x", 40) + `"}]}`, "/documents/1", spec.TooLarge},
		{"deep", `{"a":[[[[[1]]]]]}`, "/a/0/0/0/0", spec.TooLarge},
	} {
		_, err := collect(strings.NewReader(c.in), small)
		var e *spec.Error
		if !errors.As(err, &e) || e.Reason != c.word || e.Path != c.path {
			t.Errorf("%s: %v, want %s at %q", c.name, err, c.word, c.path)
		}
	}
}

func TestDocumentsStopsWhenNobodyListens(t *testing.T) {
	n := 0
	for range Documents(strings.NewReader(`{}{}{}`), DocumentLimits) {
		n++
		break
	}
	for v, err := range Documents(iotest.ErrReader(io.ErrClosedPipe), DocumentLimits) {
		if !errors.Is(err, io.ErrClosedPipe) || !v.IsZero() {
			t.Errorf("an error of the reader: %v, %v", v, err)
		}
	}
	if n != 1 {
		t.Errorf("%d documents after the break, want 1", n)
	}
}

// FuzzDocuments: no panic, and what comes out is canonical.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte(`{"type":"b","documents":[{"z":1},{"a":[]}]}`))
	f.Add([]byte("{\"a\":1}\n{\"documents\":[\"x\"]}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		for v, err := range Documents(strings.NewReader(string(in)), DocumentLimits) {
			if err != nil {
				return
			}
			if w, err := Parse(v.Bytes()); err != nil || w != v {
				t.Errorf("not canonical: %s", v)
			}
		}
	})
}
