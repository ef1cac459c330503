package manifest_test

import (
	"errors"
	"testing"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// TestTheStructuredInputFitsItsSchema is M12: one channel, and absent means {}.
func TestTheStructuredInputFitsItsSchema(t *testing.T) {
	month := `{"type":"object","required":["month"],"properties":{"month":{"type":"string"}}}`
	for what, c := range map[string]struct {
		schema, file string
		want         spec.Reason
		path         string
	}{
		"nothing where nothing is asked":  {`{}`, "", "", ""},
		"anything where nothing is asked": {`{}`, `[1]`, "", ""},
		"what is asked":                   {month, "{\n  \"month\": \"2026-11\"\n}\n", "", ""},
		"nothing where something is":      {month, "", spec.VerificationFailed, "/input.json"},
		"something else":                  {month, `{"month":11}`, spec.VerificationFailed, "/input.json/month"},
		"no JSON":                         {month, `month: 11`, spec.Malformed, "/input.json"},
		"no JSON where nothing is asked":  {`{}`, `month: 11`, spec.Malformed, "/input.json"},
		"a member twice":                  {month, `{"month":"a","month":"b"}`, spec.Malformed, "/input.json/month"},
	} {
		m := contract()
		m.IO.InputSchema = must(jcs.Canonicalize([]byte(c.schema)))
		var file []byte
		if c.file != "" {
			file = []byte(c.file)
		}
		err := m.CheckInput(file)
		var e *spec.Error
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &e) || e.Reason != c.want || e.Path != c.path) {
			t.Errorf("%s: %v, want %s at %s", what, err, c.want, c.path)
		}
	}
	m := contract()
	m.IO.InputArtifacts = []manifest.ArtifactRef{{Name: "data/input.json"}, {Name: "Input.json"}}
	if ref, ok := m.Input(); ok {
		t.Errorf("%s is taken for the structured input", ref.Name)
	}
}
