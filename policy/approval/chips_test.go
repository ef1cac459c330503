package approval_test

import (
	"os"
	"path/filepath"
	"testing"

	"sealbridge/manifest/schema"
	"sealbridge/policy/approval"
	"sealbridge/signing/jcs"
	"sealbridge/spec/vectors"
)

// The shape is Chips' own schema's, for every gate (G14).
func TestChipsShape(t *testing.T) {
	folder := vectors.External(t, filepath.Join("..", "seeds"))
	raw, err := os.ReadFile(filepath.Join(folder, "chips-approval.request.v1.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Parse(must(jcs.Canonicalize(raw)).Without("$id"))
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range gates(t) {
		a := h.ask(t)
		v := approval.Chips(a, approval.Waiting)
		keep(t, name, v)
		if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v\n%s", name, err, v)
		}
		if err := s.Validate(v.Without("approval_id")); err == nil {
			t.Fatal("the schema refuses nothing")
		}
		for member, want := range map[string]string{"taskId": a.TaskID.String(), "gate": string(a.Gate), "subjectDigest": a.SubjectDigest.String(),
			"state": "open", "lasts": "once", "fallback": "deny", "approval_id": "apr_01KBQ4T9YJ6W2M8Z3R5X7C1D0E"} {
			m, _ := v.Member(member)
			if text, _ := m.Text(); text != want {
				t.Errorf("%s: %s is %q, want %q", name, member, text, want)
			}
		}
		if seconds, _ := v.At("/expires_in"); seconds.String() == "0" || approval.Chips(a, approval.Waiting) != v {
			t.Errorf("%s: expires_in %s", name, seconds)
		}
	}
}

// keep writes an ask where .ci/asks holds it against the schema by a validator that is not ours.
func keep(t *testing.T, name string, v jcs.Value) {
	t.Helper()
	if dir := os.Getenv("SEALBRIDGE_ASKS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "approval-"+name+".ndjson"), []byte(v.String()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
