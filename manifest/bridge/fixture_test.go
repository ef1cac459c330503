package bridge_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/bridge"
	"sealbridge/manifest/schema"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
	"sealbridge/spec/vectors"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const (
	ulid1 = "01KBQ4T9YJ6W2M8Z3R5X7C1D0E"
	ulid2 = "01KBQ4T9YJ6W2M8Z3R5X7C1D0F"
	ulid3 = "01KBQ4T9YJ6W2M8Z3R5X7C1D0G"
)

func workspace() bridge.Workspace {
	return bridge.Workspace{ID: "ws_" + ulid1, Lead: "hrn_" + ulid1, Owner: "usr_" + ulid1, Contacts: map[string]string{"hrn_" + ulid2: "ben"},
		Locals: []string{"agt_helper"}, Autonomy: 2, Worker: "agt_coder"}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type object = map[string]any

// envelope is the common part of an event as Chips stored it.
func envelope(typ string) object {
	return object{"v": 1, "type": typ, "id": "evt_" + ulid1, "ts": "2026-11-30T12:00:00.123+01:00", "workspace_id": "ws_" + ulid1, "seq": 7,
		"idempotency_key": "k1", "actor": object{"kind": "harness", "id": "hrn_" + ulid1}}
}

func task() object {
	e := envelope("task")
	maps.Copy(e, object{"task_id": "lane_" + ulid1, "to": "hrn_" + ulid2, "on_behalf_of": "usr_" + ulid1, "goal": "Total sales.csv\nper region.",
		"constraints": []string{"Keep the order."}, "deadline": "2026-12-02T12:00:00Z", "autonomy": 1})
	return e
}

// without and with change a copy.
func (e edit) of(o object) []byte {
	o = maps.Clone(o)
	for name, v := range e {
		if v == nil {
			delete(o, name)
		} else {
			o[name] = v
		}
	}
	return must(json.Marshal(o))
}

// edit sets members; nil takes one out.
type edit map[string]any

func file(name, sum string, size int64) object {
	return object{"attachment_id": "att_" + ulid1, "filename": name, "mime_type": "text/csv", "byte_size": size, "sha256": sum}
}

var sum = strings.TrimPrefix(signing.DigestOf([]byte("a,1\n")).String(), "sha256:")

// seed is one of Chips' or Prickle's own schemas, from the external collection.
func seed(t *testing.T, name string) schema.Schema {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(vectors.External(t, filepath.Join("..", "seeds")), name))
	if err != nil {
		t.Fatal(err)
	}
	return must(schema.Parse(must(jcs.Canonicalize(raw)).Without("$id")))
}

// wants holds a word against an error's.
func wants(t *testing.T, what string, err error, want spec.Reason) {
	t.Helper()
	if got := spec.ReasonOf(err); got != want {
		t.Errorf("%s: %q (%v), want %q", what, got, err, want)
	}
}

var ann, annAgent, ben, benAgent = signing.NewKey([32]byte{1}), signing.NewKey([32]byte{2}), signing.NewKey([32]byte{3}), signing.NewKey([32]byte{4})

// contract makes the manifest of a draft, as a gateway does, and holds it against the law.
func contract(t *testing.T, in bridge.Imported) manifest.TaskManifest {
	t.Helper()
	var refs []manifest.ArtifactRef
	for _, f := range in.Files {
		refs = append(refs, manifest.ArtifactRef{Name: f.As, Digest: f.Digest, MediaType: "text/csv", SizeBytes: f.Size})
	}
	m, err := in.Draft.Manifest(manifest.Terms{ID: in.TaskID, At: noon, Inputs: refs,
		Requester: manifest.Party{OwnerDid: ann.DID(), AgentDid: annAgent.DID()}, Worker: manifest.Party{OwnerDid: ben.DID(), AgentDid: benAgent.DID()}})
	if err != nil {
		t.Fatal(err)
	}
	read, err := manifest.ReadManifest(must(jcs.Encode(m)))
	if err != nil {
		t.Fatalf("the law refuses it: %v", err)
	}
	return read
}
