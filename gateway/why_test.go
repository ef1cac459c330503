package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

func (s *side) why(ref string) gateway.Reasons {
	s.t.Helper()
	w, err := s.g.Why(context.Background(), gateway.Owner, gateway.Ref{Task: ref})
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// refusal finds the no of a kind.
func refusal(w gateway.Reasons, by string) (gateway.Refusal, bool) {
	i := slices.IndexFunc(w.Refused, func(r gateway.Refusal) bool { return r.By == by })
	if i < 0 {
		return gateway.Refusal{}, false
	}
	return w.Refused[i], true
}

func (s *side) draftOf(mend func(*manifest.Draft)) (gateway.Proposed, error) {
	d := manifest.Draft{Title: "Count", Goal: "Count.", Sandbox: manifest.DraftSandbox{ClaimedOK: true}}
	if mend != nil {
		mend(&d)
	}
	return s.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: d})
}

func amountOf(n int64) *policy.Amount { a := policy.Amount(n); return &a }

func TestWhyNamesRulePlaceAndValuesOfWhatWasNeverSaid(t *testing.T) { // E1
	ann, _ := pair(t)
	ann.rules.Policy.Outgoing = []policy.Outgoing{{Name: "small ones", To: policy.Names{"anyone"}, AtMost: policy.AtMost{InputTokens: amountOf(100_000)}, Then: policy.ThenAsk}}
	ann.adopt()
	for range 2 {
		if _, err := ann.draftOf(nil); spec.ReasonOf(err) != spec.PolicyDenied {
			t.Fatalf("over the rule: %v", err)
		}
	}
	if ts, err := ann.g.Tasks(context.Background(), gateway.Owner, gateway.None{}); err != nil || len(ts) != 0 {
		t.Fatalf("%d tasks, %v", len(ts), err)
	}
	w := ann.why("")
	if len(w.Refused) != 1 {
		t.Fatalf("%+v", w.Refused)
	}
	r := w.Refused[0]
	r.At = time.Time{}
	if want := (gateway.Refusal{With: r.With, Name: "Ben", Title: "Count", By: "rules", What: "proposed", Word: spec.PolicyDenied, Rule: "small ones",
		Path: "/budget/maxInputTokens", Limit: "at_most/input_tokens 100000", Have: "200000", Most: "100000", Times: 2}); r != want {
		t.Errorf("kept %+v\nwant %+v", r, want)
	}
	ann.restart()
	if len(ann.why("").Refused) != 1 {
		t.Error("forgotten at a start")
	}
}

func TestWhyIsAnsweredAtBothSides(t *testing.T) {
	ann, by := circle(t, map[string]string{"Ben": `{"n":7}`})
	ben := by["Ben"]
	ben.rules.Policy.Incoming = []policy.Incoming{{Name: "one a day", From: policy.Names{"anyone"}, Agent: "coder", PerDay: policy.PerDay{Tasks: amountOf(1)}, Then: policy.ThenAsk}}
	ben.adopt()
	for i := range 2 {
		p, err := ann.draftOf(nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := ann.why(p.Task).Next; n.Who != "you" || n.Ask != p.Ask || n.Then != "the draft is dropped" || n.Until.IsZero() {
			t.Errorf("while Ann is asked: %+v", n)
		}
		ann.allow(manifest.ContractGate)
		if i == 0 {
			if n := ann.why(p.Task).Next; n.Who != "Ben" || n.What != "decide about the contract" {
				t.Errorf("while Ben is asked: %+v", n)
			}
			ben.allow(manifest.ContractGate)
			a := ann.ask(manifest.DeliveryGate)
			if _, err := ann.answer(a, approval.Deny); err != nil {
				t.Fatal(err)
			}
			if r, ok := refusal(ann.why(p.Task), "person"); !ok || r.Word != spec.GateDenied || r.What != "completed" {
				t.Errorf("after a no: %+v", ann.why(p.Task))
			}
			continue
		}
		ann.until("declined", func() bool { return ann.state(p.Task).Outcome == "declined" })
		r, ok := refusal(ben.why(p.Task), "rules")
		if !ok || r.Word != spec.Quota || r.Rule != "one a day" || r.Limit != "per_day/tasks" || r.Have != "1 and 1 more" || r.Most != "1" {
			t.Errorf("Ben's own reason: %+v", ben.why(p.Task).Refused)
		}
		if r, ok := refusal(ann.why(p.Task), "contact"); !ok || r.What != "declined" || r.Words != "quota" || r.Name != "Ben" {
			t.Errorf("what Ann knows of it: %+v", ann.why(p.Task).Refused)
		}
		if w := ann.why(p.Task); strings.Contains(fmt.Sprint(w.Refused), "one a day") {
			t.Error("Ben's rules left his gateway")
		}
	}
}

func TestWhySaysThatNobodyAnswered(t *testing.T) { // G4
	synctest.Test(t, func(t *testing.T) {
		ann, _ := pair(t)
		p, err := ann.draftOf(nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Hour)
		if r, ok := refusal(ann.why(p.Task), "time"); !ok || r.Word != spec.GateExpired || r.Rule != "G4" {
			t.Errorf("%+v", ann.why(p.Task))
		}
	})
}

func TestWhyNamesTheCheckThatFailed(t *testing.T) { // V2
	ann, ben := circle(t, map[string]string{"Ben": `{"n":"seven"}`})
	p, err := ann.draftOf(func(d *manifest.Draft) {
		d.Output = map[string]any{"type": "object", "required": []any{"n"}}
		d.Check = []manifest.DraftCheck{{SHA256: strings.Repeat("0", 64)}}
		d.Verify.Retries = ptr(int64(0))
	})
	if err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.ContractGate)
	ben["Ben"].allow(manifest.ContractGate)
	ann.until("rejected", func() bool { return ann.state(p.Task).Outcome == "rejected" })
	if r, ok := refusal(ann.why(p.Task), "check"); !ok || r.Rule != "V2" || r.Path != "chk_1" || r.Have != "fail" || r.Words == "" {
		t.Errorf("%+v", ann.why(p.Task).Refused)
	}
}

func TestRefusalsAreBounded(t *testing.T) { // E1
	ann, _ := pair(t)
	ann.rules.Policy.Outgoing = []policy.Outgoing{{Name: "none", To: policy.Names{"anyone"}, AtMost: policy.AtMost{InputTokens: amountOf(0)}, Then: policy.ThenAsk}}
	ann.adopt()
	for i := range 120 { // agents that differ: each a refusal of its own
		_, err := ann.g.Propose(context.Background(), gateway.Caller{Agent: fmt.Sprintf("a%d", i)}, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "x", Goal: "x"}})
		if spec.ReasonOf(err) != spec.PolicyDenied {
			t.Fatal(err)
		}
	}
	if n := ann.g.Denials(); n != 100 {
		t.Errorf("%d are kept, want 100", n)
	}
	if w := ann.why(""); len(w.Refused) != 30 || w.Refused[29].Agent != "a119" {
		t.Errorf("%d are shown, the last of %q", len(w.Refused), w.Refused[len(w.Refused)-1].Agent)
	}
	if _, err := ann.g.Why(context.Background(), gateway.Owner, gateway.Ref{Task: "nope"}); spec.ReasonOf(err) != spec.NotFound {
		t.Errorf("no such task: %v", err)
	}
}
