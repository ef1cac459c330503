package schema

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
	"sealbridge/spec/vectors"
)

// built is a text of the hostile vectors: written out, or described.
type built struct {
	Head, Unit, Mid, Tail string
	Count                 int
	TailCount             int `json:"tail_count"`
}

func (b *built) text(plain string) string {
	if b == nil {
		return plain
	}
	return b.Head + strings.Repeat(b.Unit, b.Count) + b.Mid + strings.Repeat(b.Tail, b.TailCount)
}

// ours are the verdicts where the vectors leave the answer to a stated policy,
// or where we refuse earlier than they ask.
var ours = map[string]string{
	"instance_exp_negative": "refuse_instance", // D1: a number that would become 0
	"instance_long_digits":  "refuse_instance", // D1: 32 characters a number
	"deep_instance_9000":    "refuse_instance", // D1: depth 64
	"multiple_of_tiny":      "refuse_instance", // D1: 1e300 is whole and beyond 2^53-1
	"typo_keyword":          "accept",          // a warning
	"format_ignored":        "refuse_instance", // M5: formats are asserted
	"ref_bomb_all_of_16":    "refuse_schema",   // M5: 10,000 nodes
	"id_duplicate":          "refuse_schema",
}

func TestHostileSchemas(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(vectors.External(t, "json-schema-hostile"), "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Verdict, Schema, Instance string
		SchemaBuild                     *built `json:"schema_build"`
		InstanceBuild                   *built `json:"instance_build"`
		Either                          bool   `json:"implementation_defined"`
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 66 {
		t.Fatalf("%d cases, want 66", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			got, why := verdict(c.SchemaBuild.text(c.Schema), c.InstanceBuild.text(c.Instance))
			want := c.Verdict
			if own, ok := ours[c.Name]; ok {
				want = own
			}
			fits := got == want || want == "refuse" && strings.HasPrefix(got, "refuse")
			if !fits {
				t.Errorf("%s (%v), want %s", got, why, want)
			}
			if why != nil && len(why.Error()) > 300 {
				t.Errorf("an error of %d bytes", len(why.Error()))
			}
		})
	}
}

func verdict(schema, instance string) (string, error) {
	doc, err := jcs.Canonicalize([]byte(schema))
	if err != nil {
		return "refuse_schema", err
	}
	s, err := Parse(doc)
	if err != nil {
		return "refuse_schema", err
	}
	if err := s.Compile(); err != nil {
		return "refuse_schema", err
	}
	v, err := jcs.Canonicalize([]byte(instance))
	if err != nil {
		return "refuse_instance", err
	}
	if err := s.Validate(v); err != nil {
		return "refuse_instance", err
	}
	return "accept", nil
}

// outside counts, file by file, the groups of the required 2020-12 files that
// our dialect refuses: those with an $id, another $schema, a reference that
// leaves the document, or (const.json) an integer beyond 2^53. format.json takes
// formats for notes and is left out. Everything else is answered as the suite says.
var outside = map[string]int{
	"anchor.json": 3, "const.json": 1, "defs.json": 1, "dynamicRef.json": 20, "ref.json": 22, "refRemote.json": 15,
	"unevaluatedItems.json": 1, "unevaluatedProperties.json": 1, "vocabulary.json": 2,
}

func TestRequiredFilesOf202012(t *testing.T) {
	dir := filepath.Join(vectors.External(t, "json-schema-2020-12"), "tests", "draft2020-12")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	refused, groups, tests := map[string]int{}, 0, 0
	for _, file := range files {
		name := filepath.Base(file)
		if name == "format.json" { // formats as notes: not our dialect
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
		for _, g := range list {
			groups++
			doc, err := jcs.Canonicalize(g.Schema)
			var s Schema
			if err == nil {
				s, err = Parse(doc)
			}
			if err != nil {
				refused[name]++
				continue
			}
			for _, c := range g.Tests {
				v, err := jcs.Canonicalize(c.Data)
				if err != nil {
					t.Logf("no I-JSON: %s: %s: %s: %v", name, g.Description, c.Description, err)
					continue
				}
				tests++
				if err := s.Validate(v); (err == nil) != c.Valid || err != nil && spec.ReasonOf(err) != spec.VerificationFailed {
					t.Errorf("%s: %s: %s: %v, want valid %v", name, g.Description, c.Description, err, c.Valid)
				}
			}
		}
	}
	t.Logf("%d groups, %d tests answered", groups, tests)
	if !maps.Equal(refused, outside) {
		t.Errorf("groups outside the dialect: %v, want %v", refused, outside)
	}
}
