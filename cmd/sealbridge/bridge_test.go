package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/gatewaytest"
	"sealbridge/manifest/bridge"
)

const chipsULID = "01KBQ4T9YJ6W2M8Z3R5X7C1D0E"

// connected writes a table of a Chips workspace into somebody's configuration.
func connected(t *testing.T, s *gatewaytest.Side) {
	t.Helper()
	path := filepath.Join(s.Home.Dir, "config.yaml")
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table := "chips: {workspace: ws_" + chipsULID + ", lead: hrn_" + chipsULID + ", owner: usr_" + chipsULID + ", worker: agt_coder}\n"
	if err := os.WriteFile(path, append(old, table...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// answeredIn is what Chips stored when its owner answered an approval.request.
func answeredIn(t *testing.T, event, verdict string) string {
	t.Helper()
	var ask struct {
		ApprovalID string `json:"approval_id"`
	}
	if err := json.Unmarshal([]byte(event), &ask); err != nil || ask.ApprovalID == "" {
		t.Fatalf("%v: %s", err, event)
	}
	b, err := json.Marshal(map[string]any{"v": 1, "type": "approval.decision", "id": "evt_" + chipsULID, "ts": time.Now().UTC().Format(time.RFC3339), "workspace_id": "ws_" + chipsULID, "seq": 3,
		"actor": map[string]any{"kind": "person", "id": "usr_" + chipsULID}, "approval_id": ask.ApprovalID, "decision": verdict})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "answer.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnAskGoesToChipsAndItsAnswerComesBack(t *testing.T) { // J7
	ann, _ := homes(t)
	connected(t, ann)
	propose := func() (p gateway.Proposed) {
		t.Helper()
		if code, out, errs := of(ann, "propose", "--to", "Ben", "-m", "Say ok", "--json"); code != exitDone || json.Unmarshal([]byte(out), &p) != nil {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
		return p
	}
	first := propose()
	code, event, errs := of(ann, "export", first.Ask, "--as", "chips-approval")
	if code != exitDone || !strings.Contains(event, `"workspace_id":"ws_`+chipsULID) || strings.Contains(event, `"askId"`) {
		t.Fatalf("exit %d: %s%s", code, event, errs)
	}
	yes := answeredIn(t, event, "allow")
	if code, _, errs := of(ann, "import", "chips-decision", yes); code != exitNo || !strings.Contains(errs, "policy-denied") || !strings.Contains(errs, "hint: policy.yaml does not list channel:chips") {
		t.Errorf("a yes by a channel that the policy does not list: exit %d, %s", code, errs)
	}
	if code, out, errs := of(ann, "import", "chips-decision", answeredIn(t, event, "deny")); code != exitDone || !strings.Contains(out, "denied") {
		t.Errorf("a no: exit %d, %s%s", code, out, errs)
	}
	if code, _, errs := of(ann, "import", "chips-decision", yes); code != exitConflict {
		t.Errorf("a yes after the no: exit %d, %s", code, errs)
	}
	if code, _, errs := of(ann, "export", first.Ask, "--as", "chips-task"); code != exitNo {
		t.Errorf("an ask is no task: exit %d, %s", code, errs)
	}

	ann.Rules.Policy.Ask.Contract.Presence = []string{"passphrase", bridge.Channel}
	ann.Reload()
	second := propose()
	if _, event, errs = of(ann, "export", second.Ask, "--as", "chips-approval"); errs != "" {
		t.Fatal(errs)
	}
	if code, _, errs := of(ann, "import", "chips-decision", yes); code != exitConflict {
		t.Errorf("the answer to the other ask: exit %d, %s", code, errs)
	}
	if code, out, errs := of(ann, "import", "chips-decision", answeredIn(t, event, "allow")); code != exitDone || !strings.Contains(out, "allowed") {
		t.Errorf("a yes: exit %d, %s%s", code, out, errs)
	}
}
