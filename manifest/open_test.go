package manifest_test

import (
	"slices"
	"testing"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
	"sealbridge/spec/vectors"
)

func TestEveryBlockHasItsOwnWord(t *testing.T) {
	cases := vectors.Signatures(t)
	for _, c := range cases {
		v, err := jcs.Canonicalize(c.Document)
		if err != nil {
			t.Fatal(c.Name, err)
		}
		var got []string
		for _, w := range manifest.Blocks(v, nil) {
			if (w.Word == "") != (w.Err == nil) || w.Err != nil && spec.ReasonOf(w.Err) != w.Word {
				t.Errorf("%s: word %q and error %v differ", c.Name, w.Word, w.Err)
			}
			word := string(w.Word)
			if word == "" {
				word = "ok"
			}
			got = append(got, word)
		}
		if !slices.Equal(got, c.Expect) {
			t.Errorf("%s (%s): %v, want %v", c.Name, c.Why, got, c.Expect)
		}
	}
	if len(cases) != 20 {
		t.Errorf("%d cases", len(cases))
	}
}

func TestOpenNeedsEveryPresentBlockGood(t *testing.T) {
	for _, c := range vectors.Signatures(t) {
		v, err := jcs.Canonicalize(c.Document)
		if err != nil {
			t.Fatal(c.Name, err)
		}
		want := ""
		for _, e := range c.Expect {
			if want == "" && e != "ok" {
				want = e
			}
		}
		s, err := manifest.Open(v.Bytes(), nil)
		if string(spec.ReasonOf(err)) != want {
			t.Errorf("%s: Open says %v, want %q", c.Name, err, want)
		}
		if (err == nil) == s.IsZero() {
			t.Errorf("%s: a document and an error, or neither", c.Name)
		}
		if err == nil && (len(s.Marks()) != len(c.Expect) || s.Wire().String() != v.String()) {
			t.Errorf("%s: %d marks", c.Name, len(s.Marks()))
		}
	}
}
