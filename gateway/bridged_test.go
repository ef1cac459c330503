package gateway_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/manifest/bridge"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

const lane = "01KBQ4T9YJ6W2M8Z3R5X7C1D0E"

func chips() bridge.Workspace {
	return bridge.Workspace{ID: "ws_" + lane, Lead: "hrn_" + lane, Owner: "usr_" + lane, Contacts: map[string]string{"hrn_01KBQ4T9YJ6W2M8Z3R5X7C1D0F": "Ben"}, Autonomy: 1, Worker: "agt_coder"}
}

// laneEvent is a Chips task as it was stored, with one attachment.
func laneEvent(t *testing.T, goal, sum string, seq int) []byte {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"v": 1, "type": "task", "id": "evt_" + lane, "ts": "2026-11-30T12:00:00Z", "workspace_id": "ws_" + lane, "seq": seq,
		"idempotency_key": "k", "actor": map[string]any{"kind": "harness", "id": "hrn_" + lane}, "task_id": "lane_" + lane, "to": "hrn_01KBQ4T9YJ6W2M8Z3R5X7C1D0F",
		"on_behalf_of": "usr_" + lane, "goal": goal, "autonomy": 1, "attachments": []any{map[string]any{"attachment_id": "att_" + lane, "filename": "../sales.csv",
			"mime_type": "text/html", "byte_size": 4, "sha256": sum}}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// bring proposes a Chips task; the file lies in a folder of its own each time.
func (s *side) bring(goal, file string, seq int) (gateway.Proposed, error) {
	s.t.Helper()
	named := strings.TrimPrefix(signing.DigestOf([]byte("a,1\n")).String(), "sha256:")
	path := filepath.Join(s.t.TempDir(), "att")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		s.t.Fatal(err)
	}
	read, err := bridge.ReadTask(laneEvent(s.t.(*testing.T), goal, named, seq), bridge.Stored)
	if err != nil {
		s.t.Fatal(err)
	}
	in, err := chips().Import(read, bridge.Terms{ClaimedOK: true}, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := in.Place(func(bridge.File) (string, bool) { return path, true }); err != nil {
		s.t.Fatal(err)
	}
	return s.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: in.Contact, Draft: in.Draft, ID: "chips/" + in.TaskID.String()[5:],
		Bridged: &gateway.Bridged{Task: in.TaskID, Sidecar: in.Sidecar, Chosen: in.Invented}})
}

func TestAChipsTaskIsTakenAtOnceAndOnce(t *testing.T) { // J2, J8, J9
	ann, ben := pair(t)
	if _, err := ann.bring("Total sales", "b,2\n", 7); spec.ReasonOf(err) != spec.BadDigest {
		t.Errorf("other bytes than the event names: %v, want bad-digest", err)
	}
	first, err := ann.bring("Total sales", "a,1\n", 7)
	if err != nil || first.Ask == "" || first.Sent {
		t.Fatalf("%+v, %v: an answer with the ask that waits is due at once", first, err)
	}
	// Nobody picked it up within a minute, so Chips handed the lane on: another event, the same work.
	again, err := ann.bring("Total sales", "a,1\n", 8)
	if err != nil || again.Task != first.Task || again.Ask != first.Ask || !again.Joined {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := ann.bring("Total something else", "a,1\n", 9); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("another body under the same lane: %v, want conflict", err)
	}
	ann.restart()
	ask := ann.ask(manifest.ContractGate)
	if ask.Ask.AskID.String() != first.Ask {
		t.Error("another ask after a restart")
	}
	if text := approval.Card(ask.Ask, time.Now(), 80, time.UTC); !strings.Contains(text, "deadline, budget, sandbox, checks, gates: by this gateway") {
		t.Errorf("the card does not say what was chosen here:\n%s", text)
	}
	c, err := ann.g.Contract(context.Background(), gateway.Owner, gateway.Ref{Task: first.Task})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := bridge.OpenSidecar(c.Sidecar); err != nil || !strings.Contains(s.Raw, `"seq":7`) || s.Names["00_sales.csv"] != "../sales.csv" {
		t.Errorf("sidecar %+v, %v", s, err)
	}
	if _, err := ann.g.Contract(context.Background(), gateway.Caller{Agent: "claude"}, gateway.Ref{Task: first.Task}); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("an agent reads it: %v", err)
	}
	ann.allow(manifest.ContractGate)
	got := ben.ask(manifest.ContractGate)
	if theirs, err := ben.g.Contract(context.Background(), gateway.Owner, gateway.Ref{Task: first.Task}); err != nil || theirs.Accepted || !theirs.Sidecar.IsZero() {
		t.Errorf("Ben holds %+v, %v", theirs, err)
	}
	shown := approval.View(got.Ask, 80) + got.Ask.Subject.String()
	for _, inside := range []string{"lane_", "evt_", "ws_", "usr_", "hrn_", "att_", "../"} {
		if strings.Contains(shown, inside) {
			t.Errorf("%q left Ann's gateway", inside)
		}
	}
	bundle, err := ann.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: first.Task})
	if err != nil || strings.Contains(bundle.Text, "lane_"+lane) {
		t.Errorf("the sidecar is in the bundle: %v", err)
	}
	if _, err := ann.g.Propose(context.Background(), gateway.Caller{Agent: "claude"}, gateway.Proposal{To: "Ben", Bridged: &gateway.Bridged{}}); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("an agent brings one in: %v", err)
	}
}

// answerIn signs what a person said in Chips.
func (s *side) answerIn(a gateway.AskView, event map[string]any) (gateway.Decided, error) {
	s.t.Helper()
	raw, err := json.Marshal(event)
	if err != nil {
		s.t.Fatal(err)
	}
	d, err := bridge.ReadDecision(raw)
	if err != nil {
		return gateway.Decided{}, err
	}
	verdict, err := chips().Answer(d, approval.Chips(a.Ask, approval.Waiting), a.Ask.Until.Time())
	if err != nil {
		return gateway.Decided{}, err
	}
	g := approval.Decide(a.Ask, verdict, bridge.Channel, time.Now())
	v, err := manifest.Sign(&g, s.owner(), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return s.g.DecideGate(context.Background(), gateway.Owner, gateway.Answer{Decision: v.Wire().String(), Channel: string(raw)})
}

func TestAYesInChipsCountsOnlyWhereThePolicySaysSo(t *testing.T) { // J7, G10
	ann, ben := pair(t)
	p := ann.propose()
	a := ann.ask(manifest.ContractGate)
	id, _ := approval.Chips(a.Ask, approval.Waiting).At("/approval_id")
	text, _ := id.Text()
	event := map[string]any{"v": 1, "type": "approval.decision", "id": "evt_" + lane, "ts": time.Now().UTC().Format(time.RFC3339), "workspace_id": "ws_" + lane, "seq": 9,
		"actor": map[string]any{"kind": "person", "id": "usr_" + lane}, "approval_id": text, "decision": "allow"}
	if _, err := ann.answerIn(a, event); spec.ReasonOf(err) != spec.PolicyDenied {
		t.Fatalf("a yes by a channel that the policy does not list: %v, want policy-denied", err)
	}
	// An ask keeps the presence that was asked for: the owner lists the channel, and the next ask takes it.
	if _, err := ann.g.Cancel(context.Background(), gateway.Owner, gateway.Cancellation{Task: p.Task}); err != nil {
		t.Fatal(err)
	}
	ann.rules.Policy.Ask.Contract.Presence = []string{"passphrase", bridge.Channel}
	ann.adopt()
	ann.propose()
	a = ann.ask(manifest.ContractGate)
	if _, err := ann.answerIn(a, event); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("a yes to the other ask: %v, want conflict", err)
	}
	id, _ = approval.Chips(a.Ask, approval.Waiting).At("/approval_id")
	event["approval_id"], _ = id.Text()
	ann.restart() // while the gate is open
	out, err := ann.answerIn(a, event)
	if err != nil || out.State != string(approval.Allowed) {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := ann.answerIn(a, event); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("twice: %v, want conflict", err)
	}
	shown := ben.ask(manifest.ContractGate)
	if strings.Contains(shown.Ask.Subject.String(), "usr_") {
		t.Error("the event left Ann's gateway")
	}
	bundle, err := ann.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: a.Task})
	if err != nil || strings.Contains(bundle.Text, "approval.decision") || !strings.Contains(bundle.Text, bridge.Channel) {
		t.Errorf("the bundle has the presence and not the event: %v", err)
	}
	if c, err := ann.g.Contract(context.Background(), gateway.Owner, gateway.Ref{Task: a.Task}); err != nil || c.Sidecar != (jcs.Value{}) {
		t.Errorf("an answer is taken for where the task came from: %v, %v", c.Sidecar, err)
	}
}
