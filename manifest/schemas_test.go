package manifest_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
	"sealbridge/spec/vectors"
)

func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	raw, ok := spec.Schema(name)
	if !ok {
		t.Fatalf("no schema of %s", name)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(name, err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(name, err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(name, err)
	}
	return s
}

func fits(t *testing.T, s *jsonschema.Schema, v jcs.Value) bool {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(v.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc) == nil
}

// beyond lists what the typed reader refuses and no schema can, or does, say.
// Each rule is named in the error's limit.
var beyond = []string{
	"M1", "M2", "M3", "M4", "M5", "M7", // of a contract
	"I1", "I4", "I5", "R2", "R5", "K1", // keys, terms and their spelling
	"D5", "D6", // one spelling: the seed's patterns are wider
	"S6", "S8", // who signed, and that digests fit what they stand beside
	"H1", "H:", "H10", "H11", // of the chains
	"G1", "G6", "G10", "B7", "V1", // presence, usage, parts signed by others
	"X2",                         // the spelling of an address
	"C1", "C2", "C3", "C4", "C5", // of a capability: what stands beside what
	"P1", "P2", // of a chain of delegation
	"a schema of",            // M5: the size of one
	"a URI",                  // one spelling of it
	"1 to 100 characters",    // an optional text that is empty is left out
	"1 to 196608 characters", // the same
}

// allowed says whether err is one of the rules beyond the schema.
func allowed(err error) bool {
	var e *spec.Error
	if !asSpec(err, &e) {
		return false
	}
	return slices.ContainsFunc(beyond, func(rule string) bool { return strings.Contains(e.Limit, rule) })
}

func asSpec(err error, to **spec.Error) bool {
	e, ok := err.(*spec.Error)
	*to = e
	return ok
}

// resign makes m a document again whose arithmetic holds, so that only its shape is judged.
func resign(m jcs.Value, by map[string]signing.Signer) (jcs.Value, bool) {
	if pair, ok := m.Member("signatures"); ok {
		payload := m.Without("signatures")
		a, err1 := signing.Sign(payload, signing.RequesterManifest, annAgent, noon)
		b, err2 := signing.Sign(payload, signing.WorkerManifest, benAgent, noon)
		if b, _ := pair.Member("workerSignature"); b.Kind() != '{' && err1 == nil { // M10
			v, err := manifest.Assemble(payload, &a, nil)
			return v, err == nil
		}
		if err1 != nil || err2 != nil || pair.Kind() != '{' {
			return m, false
		}
		v, err := manifest.Assemble(payload, &a, &b)
		return v, err == nil
	}
	block, ok := m.Member("signature")
	if !ok {
		return m, false
	}
	signer, _ := block.At("/signerDid")
	did, _ := signer.Text()
	typ, _ := m.Member("type")
	name, _ := typ.Text()
	c, known := signing.ContextFor(name)
	if by[did] == nil || !known {
		return m, false
	}
	b, err := signing.Sign(m.Without("signature"), c, by[did], noon)
	if err != nil {
		return m, false
	}
	return m.With("signature", must(jcs.Encode(b))), true
}

func TestReaderAndSchemaGiveOneVerdict(t *testing.T) {
	keys := map[string]signing.Signer{}
	for _, k := range []signing.Signer{annOwner, annAgent, annPhone, benOwner, benAgent, eveAgent} {
		keys[k.DID().String()] = k
	}
	tried, stricter := 0, 0
	for name, v := range everyWire(t) {
		s := compiled(t, manifest.TypeName(v))
		if !fits(t, s, v) {
			t.Errorf("%s: the good document does not fit its schema", name)
		}
		mutations(v, func(what string, m jcs.Value) {
			if strings.HasPrefix(what, "/signature") || strings.HasPrefix(what, "-signature") || strings.HasPrefix(what, "/type") ||
				strings.HasPrefix(what, "/body/signature") || strings.HasPrefix(what, "/body/manifest") || strings.HasPrefix(what, "/body/child/manifest") || strings.HasPrefix(what, "/draft") {
				return // arithmetic or the schema of a manifest comes first there: the forgery table walks them
			}
			m, ok := resign(m, keys)
			if !ok {
				return
			}
			tried++
			_, err := manifest.Open(m.Bytes(), nil)
			good := fits(t, s, m)
			switch {
			case err == nil && !good:
				t.Errorf("%s %s: read, but does not fit the schema", name, what)
			case err != nil && good && !allowed(err):
				t.Errorf("%s %s: fits the schema, refused by a rule that is not listed: %v", name, what, err)
			case err != nil && good:
				stricter++
			}
		})
	}
	t.Logf("%d documents, %d refused by a rule beyond the schema", tried, stricter)
	if tried < 3000 {
		t.Errorf("%d mutations", tried)
	}
}

// bare is a schema without its titles and descriptions; properties keep theirs.
func bare(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = bare(v[i])
		}
	case map[string]any:
		for _, word := range []string{"title", "description"} {
			if _, text := v[word].(string); text {
				delete(v, word)
			}
		}
		for k := range v {
			v[k] = bare(v[k])
		}
	}
	return v
}

func TestManifestSchemaHasTheSeedsConstraints(t *testing.T) {
	seed, err := os.ReadFile(filepath.Join(vectors.External(t, "../seeds"), "sealbridge-task-manifest.0.2.0.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	own, _ := spec.Schema("task-manifest")
	var a, b any
	if err := json.Unmarshal(seed, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(own, &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(bare(a), bare(b)) {
		t.Error("the constraints differ")
	}
	if bytes.Contains(own, []byte("Cross-owner agent collaboration")) {
		t.Error("the words are not our own")
	}
}
