package manifest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// notRead are the words of S4 that this package does not read: the relay reads
// its own, the rest belongs to later slices of the protocol.
var notRead = []string{"key-rotation", "relay-hello", "relay-binding", "custody-receipt", "checkpoint"}

// The words of S4, the schemas, the types and the vectors are four lists of one thing.
func TestFourListsAgree(t *testing.T) {
	read := map[string]bool{"task-manifest": true}
	for _, typ := range signing.Types() {
		name := strings.TrimPrefix(typ, "sealbridge/")
		v := with(canonical(`{}`), "/type", `"`+typ+`"`)
		block, err := signing.Sign(v, signing.Context(signing.ContextPrefix+name), annOwner, noon)
		if err != nil {
			t.Fatal(err)
		}
		_, err = manifest.Open(v.With("signature", must(jcs.Encode(block))).Bytes(), nil)
		if spec.ReasonOf(err) != spec.UnknownType {
			read[name] = true
		} else if !slices.Contains(notRead, name) {
			t.Errorf("%s is neither read nor on the list of what is not", name)
		}
	}
	if schemas := spec.SchemaNames(); !slices.Equal(schemas, sorted(read)) {
		t.Errorf("schemas of %v, types of %v", schemas, sorted(read))
	}
	vectors := map[string]bool{}
	for name := range everyWire(t) {
		first, _, _ := strings.Cut(name, " ")
		vectors[first] = true
	}
	if !maps.Equal(vectors, read) {
		t.Errorf("vectors of %v, types of %v", sorted(vectors), sorted(read))
	}
	if len(read)+len(notRead) != len(signing.Types())+1 {
		t.Errorf("%d read, %d not, of %d", len(read), len(notRead), len(signing.Types())+1)
	}
}
