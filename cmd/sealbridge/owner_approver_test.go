package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sealbridge/gateway"
)

// Two people answer with keys on devices of their own: neither is where the
// gateway runs, and one alone is not enough (G5, G10).
func TestDevicesElsewhereAnswerTogether(t *testing.T) {
	d, _ := story(t)
	ctx := t.Context()
	desk := t.TempDir()
	at := func(name string) string { return filepath.Join(desk, name) }
	here := func(code int, args ...string) string { // a command without a home
		t.Helper()
		got, out, errs := inProcess(nil, append([]string{"--home", at("nobody")}, args...)...)
		if got != code {
			t.Fatalf("sealbridge %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, out, errs)
		}
		return out
	}
	ann := func(code int, args ...string) string {
		t.Helper()
		got, out, errs := inProcess(nil, append([]string{"--home", filepath.Join(d.dir, "ann")}, args...)...)
		if got != code {
			t.Fatalf("sealbridge %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, out, errs)
		}
		return out
	}
	for _, step := range []error{d.startRelay(ctx), d.identities(ctx)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	t.Cleanup(d.stopAll)
	keys := map[string]string{}
	for _, who := range []string{"carl", "dora"} {
		keys[who] = strings.TrimSpace(here(0, "approver", "key", at(who+".key"), "--unsealed"))
		here(4, "approver", "key", at(who+".key"), "--unsealed")
	}
	rules := filepath.Join(d.dir, "ann", "policy.yaml")
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.NewReplacer("  me: owner\n", "  me: owner\n  carl: {key: "+keys["carl"]+", gates: [contract]}\n  dora: {key: "+keys["dora"]+", gates: [contract]}\n",
		"  contract: {who: [me], wait: 1d", "  contract: {who: [carl, dora], need: 2, wait: 1d").Replace(string(text)))
	if err := os.WriteFile(rules, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []error{d.lends(ctx), d.gateways(ctx), d.invite(ctx), d.words(ctx), d.agent(ctx), d.propose(ctx)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	if s := ann(0, "approver", "list"); !strings.Contains(s, "nobody but the owner key") {
		t.Errorf("at first: %s", s)
	}
	ann(1, "approver", "add", "--passkey", "0000-0000-0000")
	ann(2, "approver", "add", "--key", keys["carl"], "--gates", "everything")
	ann(2, "approver", "add")
	for _, who := range []string{"carl", "dora"} {
		if s := ann(0, "approver", "add", "--key", keys[who], "--person", who, "--gates", "contract", "--for", "30d", "-o", at(who+".json")); !strings.Contains(s, "device of "+who+" may answer contract until") {
			t.Errorf("added: %s", s)
		}
	}
	var asks []struct {
		ID string `json:"askId"`
	}
	if err := json.Unmarshal([]byte(ann(0, "gate", "list", "--json")), &asks); err != nil || len(asks) != 1 {
		t.Fatalf("%d questions, %v", len(asks), err)
	}
	id := asks[0].ID
	ann(0, "gate", "export", id, "-o", at("ask.json"))
	here(2, "gate", "allow", at("ask.json"), "--as", at("carl.key"))
	here(1, "gate", "allow", at("ask.json"), "--as", at("dora.key"), "--certificate", at("carl.json"), "-o", at("stolen.json")) // another key than the certificate's
	here(0, "gate", "allow", at("ask.json"), "--as", at("carl.key"), "--certificate", at("carl.json"), "-o", at("yes.json"))
	if s := ann(5, "gate", "send", at("yes.json")); !strings.Contains(s, "1 of 2 people have said yes") {
		t.Errorf("the first vote: %s", s)
	}
	ann(4, "gate", "send", at("yes.json"))
	ann(1, "gate", "allow", id) // the owner is not asked
	if s := ann(0, "gate", "allow", id, "--as", at("dora.key"), "--certificate", at("dora.json")); !strings.Contains(s, "allowed, so this gateway said: proposed") {
		t.Errorf("the second vote: %s", s)
	}
	if s := ann(0, "approver", "renew", "dora", "--for", "60d", "-o", at("dora.json")); !strings.Contains(s, "device of dora may answer contract until") {
		t.Errorf("renewed: %s", s)
	}
	ann(4, "approver", "renew", "dora") // there are two now: say which
	if s := ann(1, "doctor"); !strings.Contains(s, "device of carl, 29 days left") || !strings.Contains(s, "device of dora, 29 days left") {
		t.Errorf("doctor: %s", s)
	}
	ann(0, "approver", "revoke", "carl", "--reason", "phone lost")
	ann(1, "approver", "revoke", "carl")
	var list gateway.ApproverList
	if err := json.Unmarshal([]byte(ann(0, "approver", "list", "--json")), &list); err != nil || len(list.Approvers) != 2 || list.Approvers[0].Person != "dora" || list.Revocations != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	ann(0, "export", d.task, "-o", at("bundle.json"))
	if s := here(0, "verify", at("bundle.json")); !strings.Contains(s, "device, proven") || !strings.Contains(s, "contract votes: 2 of 2 are here") {
		t.Errorf("the evidence:\n%s", s)
	}
	if s := here(0, "verify", at("carl.json")); !strings.Contains(s, "VERIFIED · NOT BINDING") {
		t.Errorf("a certificate alone:\n%s", s)
	}
}
