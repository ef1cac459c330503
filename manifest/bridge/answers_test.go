package bridge_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/bridge"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// ask is an ask of ours in Chips' shape, as policy/approval makes it.
func ask() jcs.Value {
	return must(jcs.Canonicalize(must(json.Marshal(object{
		"v": 1, "type": "approval.request", "id": "evt_" + ulid3, "ts": "2026-11-30T12:00:00Z", "workspace_id": "ws_" + ulid3, "run_id": "run_" + ulid3,
		"idempotency_key": "sb:x", "actor": object{"kind": "system", "id": "system"}, "approval_id": "apr_" + ulid1,
		"action":   object{"kind": "sealbridge.contract.accept", "input": object{"taskId": "task_x", "subject": "sha256:1"}, "external": true, "irreversible": false},
		"question": "Let “coder” work?", "effect": "It signs.", "lasts": "once", "preview": object{"format": "plain", "body": "…"}, "risk": []string{"external"},
		"sources": []any{}, "expires_in": 86400, "fallback": "deny", "approvers": []string{"owner"}, "editable": false,
		"askId": "apr_" + ulid1, "taskId": "task_x", "gate": "GATE_CONTRACT_ACCEPT", "subjectDigest": "sha256:1", "state": "open"}))))
}

func decision() object {
	e := envelope("approval.decision")
	maps.Copy(e, object{"approval_id": "apr_" + ulid1, "decision": "allow", "ts": "2026-11-30T12:30:00Z", "actor": object{"kind": "person", "id": "usr_" + ulid1}})
	return e
}

var until = noon.Add(time.Hour)

func answer(raw []byte) (string, error) {
	d, err := bridge.ReadDecision(raw)
	if err != nil {
		return "", err
	}
	return workspace().Answer(d, ask(), until)
}

func TestAnAskGoesOutAsThisHarnessAndNothingOfOursBesideIt(t *testing.T) {
	v, err := workspace().Request(ask(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	if err := seed(t, "chips-approval.request.v1.schema.json").Validate(v); err != nil {
		t.Errorf("Chips' own schema: %v", err)
	}
	for _, name := range []string{"askId", "taskId", "gate", "subjectDigest", "state", "seq"} {
		if _, there := v.Member(name); there {
			t.Errorf("%s is in it", name)
		}
	}
	for path, want := range map[string]string{"/workspace_id": `"ws_` + ulid1 + `"`, "/actor/kind": `"harness"`, "/actor/id": `"hrn_` + ulid1 + `"`,
		"/expires_in": "3600", "/approvers": `["owner"]`, "/fallback": `"deny"`, "/lasts": `"once"`, "/editable": "false", "/approval_id": `"apr_` + ulid1 + `"`} {
		if got, _ := v.At(path); got.String() != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	long, _ := workspace().Request(ask(), 1<<40)
	if got, _ := long.At("/expires_in"); got.String() != "604800" {
		t.Errorf("expires_in %s", got)
	}
	_, err = workspace().Request(ask(), 0)
	wants(t, "an ask that has ended", err, spec.GateExpired)
	if q, err := bridge.ReadQuestion(v.Bytes(), bridge.Sent); err != nil || q.Kind != "sealbridge.contract.accept" {
		t.Errorf("our own reader: %+v, %v", q, err)
	}
}

func TestOnlyTheOwnersOwnStoredAnswerCounts(t *testing.T) { // J7
	if verdict, err := answer(edit{}.of(decision())); err != nil || verdict != "allow" {
		t.Fatalf("a good one: %q, %v", verdict, err)
	}
	if verdict, err := answer(edit{"input": object{"taskId": "task_x", "subject": "sha256:1"}, "lasts": "once"}.of(decision())); err != nil || verdict != "allow" {
		t.Errorf("with the input as it was asked: %q, %v", verdict, err)
	}
	if verdict, err := answer(edit{"decision": "deny", "lasts": "standing", "input": object{"less": true}}.of(decision())); err != nil || verdict != "deny" {
		t.Errorf("a no with an edit: %q, %v", verdict, err)
	}
	for what, c := range map[string]struct {
		edit edit
		want spec.Reason
	}{
		"by a non-approver":       {edit{"actor": object{"kind": "person", "id": "usr_" + ulid2}}, spec.NotPermitted},
		"by a routed person":      {edit{"actor": object{"kind": "person", "id": "usr_" + ulid2}, "routed_from": "usr_" + ulid1}, spec.NotPermitted},
		"by the lead":             {edit{"actor": object{"kind": "harness", "id": "hrn_" + ulid1}}, spec.NotPermitted},
		"by an agent as owner":    {edit{"actor": object{"kind": "agent", "id": "usr_" + ulid1}}, spec.NotPermitted},
		"by system":               {edit{"actor": object{"kind": "system", "id": "system"}}, spec.NotPermitted},
		"at the end":              {edit{"ts": "2026-11-30T13:00:00Z"}, spec.GateExpired},
		"after expiry":            {edit{"ts": "2026-11-30T14:00:00Z"}, spec.GateExpired},
		"after, in another zone":  {edit{"ts": "2026-11-30T12:59:00-01:00"}, spec.GateExpired},
		"with edits":              {edit{"input": object{"taskId": "task_x", "subject": "sha256:2"}}, spec.PolicyDenied},
		"with an empty edit":      {edit{"input": nil, "Input": 1}, ""},
		"a standing yes":          {edit{"lasts": "standing"}, spec.PolicyDenied},
		"about another ask":       {edit{"approval_id": "apr_" + ulid2}, spec.Conflict},
		"in another workspace":    {edit{"workspace_id": "ws_" + ulid2}, spec.NotPermitted},
		"as it was sent":          {edit{"seq": nil}, spec.Malformed},
		"a word we do not know":   {edit{"decision": "always"}, spec.Malformed},
		"a routing, no decision":  {edit{"type": "approval.routed"}, spec.UnknownType},
		"a chat message says yes": {edit{"type": "message"}, spec.UnknownType},
	} {
		_, err := answer(c.edit.of(decision()))
		wants(t, what, err, c.want)
	}
}

func question() object {
	e := envelope("approval.request")
	maps.Copy(e, object{"approval_id": "apr_" + ulid2, "action": object{"kind": "email.send", "input": object{"to": "x"}}, "risk": []string{}, "expires_in": 3600, "approvers": []string{"owner"}})
	return e
}

func TestAHarnesssQuestionIsReadStrictly(t *testing.T) {
	deadline := noon.Add(48 * time.Hour)
	for what, c := range map[string]struct {
		edit edit
		may  bridge.Profile
		want spec.Reason
	}{
		"lead from a harness":               {edit{"seq": nil, "approvers": []string{"lead"}}, bridge.Sent, spec.NotPermitted},
		"a harness as approver":             {edit{"seq": nil, "approvers": []string{"hrn_" + ulid2}}, bridge.Sent, spec.NotPermitted},
		"lead, as Chips resolved it":        {edit{"approvers": []string{"lead"}}, bridge.Stored, ""},
		"an approver that is no ULID":       {edit{"approvers": []string{"usr_ZZZZZZZZZZZZZZZZZZZZZZZZZZ"}}, bridge.Stored, spec.Malformed},
		"a kind with a hyphen":              {edit{"action": object{"kind": "GATE-CONTRACT.x"}}, bridge.Stored, spec.Malformed},
		"a kind without a dot":              {edit{"action": object{"kind": "send"}}, bridge.Stored, spec.Malformed},
		"a negative amount":                 {edit{"action": object{"kind": "a.b", "money_usd": -1}}, bridge.Stored, spec.Malformed},
		"a risk we do not know":             {edit{"risk": []string{"harmless"}}, bridge.Stored, spec.Malformed},
		"a credential without a grant":      {edit{"risk": []string{"credential"}}, bridge.Stored, spec.CapabilityDenied},
		"a standing question":               {edit{"lasts": "standing"}, bridge.Stored, spec.PolicyDenied},
		"one that has ended":                {edit{"ts": "2026-11-30T10:00:00Z"}, bridge.Stored, spec.GateExpired},
		"allow at expiry, and it is ended":  {edit{"ts": "2026-11-30T10:00:00Z", "fallback": "allow", "risk": []string{"external"}}, bridge.Stored, spec.GateExpired},
		"a good one":                        {edit{"ts": "2026-11-30T11:59:00Z"}, bridge.Stored, ""},
		"one that would allow at its end":   {edit{"ts": "2026-11-30T11:59:00Z", "fallback": "allow", "risk": []string{"external"}}, bridge.Stored, ""},
		"one that says it is only internal": {edit{"ts": "2026-11-30T11:59:00Z", "action": object{"kind": "internal.note"}}, bridge.Stored, ""},
	} {
		q, err := bridge.ReadQuestion(c.edit.of(question()), c.may)
		var j bridge.Judged
		if err == nil {
			j, err = q.Judge(noon, deadline)
		}
		wants(t, what, err, c.want)
		if err == nil && (j.Gate != manifest.EffectGate || !j.Until.After(noon)) {
			t.Errorf("%s: %+v", what, j)
		}
	}
}

func TestFlagsAndRiskAreTakenTogether(t *testing.T) {
	q := must(bridge.ReadQuestion(edit{"action": object{"kind": "pay.now", "external": true, "irreversible": true, "money_usd": 0.5}, "risk": []string{"privacy", "privacy"}}.of(question()), bridge.Stored))
	if want := []string{"external", "financial", "irreversible", "privacy"}; !slices.Equal(q.Risk, want) {
		t.Errorf("%v, want %v", q.Risk, want)
	}
}

func TestNoQuestionOutlivesTheContract(t *testing.T) {
	q := must(bridge.ReadQuestion(edit{"expires_in": 604800, "ts": "2026-11-30T12:00:00Z"}.of(question()), bridge.Stored))
	deadline := noon.Add(time.Hour)
	if j, err := q.Judge(noon, deadline); err != nil || !j.Until.Equal(deadline) {
		t.Errorf("until %s, %v, want the deadline", j.Until, err)
	}
	ahead := must(bridge.ReadQuestion(edit{"expires_in": 604800, "ts": "2027-11-30T12:00:00Z"}.of(question()), bridge.Stored))
	if j, err := ahead.Judge(noon, noon.Add(90*24*time.Hour)); err != nil || j.Until.After(noon.Add(7*24*time.Hour)) {
		t.Errorf("until %s, %v, want at most 7 days", j.Until, err)
	}
}
