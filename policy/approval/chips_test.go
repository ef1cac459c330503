package approval_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

// What Chips leaves open or to the asker is said, and said strictly: no by
// silence, the owner alone, not to be edited, once, and flags that agree with
// the risks (adapters 2.3).
func TestAnAskSaysWhatChipsLeavesOpen(t *testing.T) {
	keys := map[string]string{}
	for name, h := range gates(t) {
		a := h.ask(t)
		v := approval.Chips(a, approval.Waiting)
		at := func(path string) string {
			m, ok := v.At(path)
			if !ok {
				t.Fatalf("%s: no %s", name, path)
			}
			return m.String()
		}
		for path, want := range map[string]string{"/fallback": `"deny"`, "/approvers": `["owner"]`, "/editable": "false", "/lasts": `"once"`, "/preview/format": `"plain"`,
			"/action/external": fmt.Sprint(slices.Contains(a.Risk, "external")), "/action/irreversible": fmt.Sprint(slices.Contains(a.Risk, "irreversible"))} {
			if got := at(path); got != want {
				t.Errorf("%s: %s is %s, want %s", name, path, got, want)
			}
		}
		if len(a.Risk) == 0 {
			t.Errorf("%s: no risk is named", name)
		}
		seconds, err := strconv.ParseInt(at("/expires_in"), 10, 64)
		if err != nil || seconds < 1 || seconds > 604800 || a.At.Time().Add(time.Duration(seconds)*time.Second).After(a.Ends.Time()) {
			t.Errorf("%s: expires in %s, and the contract ends %s", name, at("/expires_in"), a.Ends)
		}
		key := at("/idempotency_key")
		if len(key) > 202 || !strings.Contains(key, a.AskID.String()) {
			t.Errorf("%s: key %s", name, key)
		}
		key += a.OwnerDid.String() // each owner has a workspace of its own
		if other, twice := keys[key]; twice {
			t.Errorf("%s and %s have one key", name, other)
		}
		keys[key] = name
	}
}

// Our templates hold no word of others, whatever they wrote: it stands in the
// preview, escaped, and where the card points at it.
func TestOurWordsHoldNoneOfTheirs(t *testing.T) {
	for name, h := range gates(t) {
		h.x.Last = nil
		a := h.ask(t)
		ours := []string{a.Question, a.Effect, a.Because}
		for _, l := range a.Lines {
			ours = append(ours, l.Word, l.Text, l.More, l.Was)
		}
		m := contract()
		theirs := []string{m.Task.Title, "total_eur", "ASK AGAIN", "trust", m.Task.AcceptanceCriteria[0].Description}
		for _, line := range ours {
			for _, word := range theirs {
				if strings.Contains(line, word) {
					t.Errorf("%s: %q is in %q", name, word, line)
				}
			}
		}
	}
}
