package main

import (
	"encoding/json"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
)

func TestWhySaysRuleValueAndWhoActs(t *testing.T) { // E1
	ann, ben := homes(t)
	zero := policy.Amount(0)
	p := ann.Rules.Policy
	ann.Rules.Policy.Outgoing = []policy.Outgoing{{Name: "nothing today", To: policy.Names{"anyone"}, PerDay: policy.PerDay{Tasks: &zero}, Then: policy.ThenAsk}}
	ann.Reload()
	file := draft(t)
	if code, _, errs := of(ann, "propose", file, "--to", "Ben"); code != exitNo || !strings.Contains(errs, "quota") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	code, out, errs := of(ann, "why")
	for _, want := range []string{"proposed   quota   by your rules", "“Count lines”", "rule      nothing today", "limit     per_day/tasks", "values    0 and 1 more, held against 0"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("no %q: exit %d, %s%s", want, code, out, errs)
		}
	}
	ann.Rules.Policy = p
	ann.Reload()
	_, out, _ = of(ann, "propose", file, "--to", "Ben", "--json")
	var made gateway.Proposed
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := of(ann, "why", made.Task[len(made.Task)-5:]); code != 0 || !strings.Contains(out, "next: you   say yes or no: contract") || !strings.Contains(out, "then the draft is dropped") || !strings.Contains(out, "nothing was refused") {
		t.Errorf("exit %d: %s", code, out)
	}
	ann.Allow(manifest.ContractGate)
	ben.Answer(manifest.ContractGate, approval.Deny)
	if code, out, _ := of(ben, "why", made.Task); code != 0 || !strings.Contains(out, "gate-denied   you said no") || !strings.Contains(out, "explain G1") {
		t.Errorf("exit %d: %s", code, out)
	}
	code, out, _ = of(ben, "why", made.Task, "--json")
	var w gateway.Reasons
	if err := json.Unmarshal([]byte(out), &w); code != 0 || err != nil || w.Task.TaskID != made.Task || len(w.Refused) != 2 || w.Refused[0].Word != "gate-denied" {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, _, _ := of(ann, "why", "nope"); code != exitNo {
		t.Errorf("no such task: exit %d", code)
	}
}
