package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/spec"
)

// draft is the usual task with another budget and gates.
func (s *side) proposeWith(change func(*manifest.Draft)) gateway.Proposed {
	s.t.Helper()
	in := filepath.Join(s.t.TempDir(), "sales.csv")
	if err := os.WriteFile(in, []byte("a,1\nb,2\nc,3\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	d := manifest.Draft{Title: "Count lines", Goal: "Count the lines of sales.csv", Inputs: []manifest.DraftInput{{File: in}},
		Output: map[string]any{"type": "object", "required": []any{"lines"}}, Sandbox: manifest.DraftSandbox{ClaimedOK: true}}
	change(&d)
	out, err := s.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: d})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *side) verifies(task string) audit.Report {
	s.t.Helper()
	s.until("acknowledged", func() bool {
		st, err := s.g.Status(context.Background(), gateway.Owner, gateway.None{})
		return err == nil && st.Outgoing == 0
	})
	b, err := s.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: task})
	if err != nil {
		s.t.Fatal(err)
	}
	rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{})
	if err != nil || !rep.Verified || !rep.Binding {
		s.t.Errorf("%s's bundle: %v, %+v", s.home.Config.Name, err, rep.Findings)
	}
	return rep
}

func ptr[T any](v T) *T { return &v }

func TestAnAmendmentIsInForceOnceBothOwnersSaidYes(t *testing.T) { // H9, H10
	ann, ben := pair(t)
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	first := ann.ask(manifest.DeliveryGate)
	later := ann.state(p.Task).Deadline.Add(24 * time.Hour)
	out, err := ann.g.Amend(t.Context(), gateway.Owner, gateway.Change{Task: p.Task, Deadline: &later, Retries: ptr(int64(2))})
	if err != nil || out.Sent || out.Ask == "" {
		t.Fatalf("%+v, %v: the asker's own owner decides first", out, err)
	}
	ann.allow(manifest.ContractGate)
	ben.restart() // what is asked is kept
	if got := ben.ask(manifest.ContractGate); !strings.Contains(got.Ask.Question, "Change the contract") {
		t.Errorf("Ben is asked %q", got.Ask.Question)
	}
	if !ben.state(p.Task).Deadline.Before(later) {
		t.Error("in force before the second yes")
	}
	ben.allow(manifest.ContractGate)
	for _, s := range []*side{ann, ben} {
		s.until("amended", func() bool { return s.state(p.Task).Deadline.Equal(later.Truncate(time.Second)) })
		if c := s.state(p.Task).Changes; len(c) != 1 || c[0].Status != "yes" || c[0].By != manifest.Requester {
			t.Errorf("%s sees %+v", s.home.Config.Name, c)
		}
	}
	if _, err := ann.answer(first, approval.Allow); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("the question about the contract before: %v, want conflict", err)
	}
	ann.until("asked anew", func() bool { return ann.ask(manifest.DeliveryGate).Ask.AskID != first.Ask.AskID })
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	ben.until("completed", func() bool { return ben.state(p.Task).Outcome == "completed" })
	ann.verifies(p.Task)
	ben.verifies(p.Task)
}

func TestAnAmendmentThatIsRefusedChangesNothing(t *testing.T) { // H9
	ann, ben := pair(t)
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.ask(manifest.DeliveryGate)
	before := ann.state(p.Task).Deadline
	later := before.Add(24 * time.Hour)
	change := gateway.Change{Task: p.Task, Deadline: &later}
	if _, err := ann.g.Amend(t.Context(), gateway.Owner, change); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.answer(ann.ask(manifest.ContractGate), approval.Deny); err != nil {
		t.Fatal(err)
	}
	if c := ann.state(p.Task).Changes; len(c) != 0 {
		t.Errorf("our own owner said no, and it was asked all the same: %+v", c)
	}
	if _, err := ann.g.Amend(t.Context(), gateway.Owner, change); err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.ContractGate)
	if _, err := ben.answer(ben.ask(manifest.ContractGate), approval.Deny); err != nil {
		t.Fatal(err)
	}
	ann.until("answered", func() bool { c := ann.state(p.Task).Changes; return len(c) == 1 && c[0].Status == "no" })
	if at := ann.state(p.Task).Deadline; !at.Equal(before) {
		t.Errorf("deadline %v, want %v", at, before)
	}
	for what, c := range map[string]gateway.Change{
		"nothing":               {Task: p.Task},
		"31 days longer":        {Task: p.Task, Deadline: ptr(before.Add(31 * 24 * time.Hour))},
		"eleven retries":        {Task: p.Task, Retries: ptr(int64(11))},
		"a negative budget":     {Task: p.Task, OutputTokens: ptr(int64(-1))},
		"a task that is nobody": {Task: "ZZZZ"},
	} {
		if _, err := ann.g.Amend(t.Context(), gateway.Owner, c); err == nil {
			t.Errorf("%s: asked", what)
		}
	}
	if _, err := ann.g.Amend(t.Context(), gateway.Caller{Agent: "claude"}, change); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("an agent: %v", err)
	}
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	ben.until("completed", func() bool { return ben.state(p.Task).Outcome == "completed" })
	ann.verifies(p.Task)
	ben.verifies(p.Task)
}

// waits works until a file is there that the test makes, and delivers then.
const waits = `#!/bin/sh
while [ ! -e "$0.go" ]; do :; done
printf '{"output":{"lines":3},"evidence":[{"criterion":"ac_1","text":"counted"}]}'
`

// slow makes Ben's agent one that is done when the test says so.
func (s *side) slow() (done func()) {
	s.t.Helper()
	script := filepath.Join(s.t.TempDir(), "slow.sh")
	if err := os.WriteFile(script, []byte(waits), 0o755); err != nil {
		s.t.Fatal(err)
	}
	s.rules.Agents["coder"] = gateway.Agent{Command: []string{"/bin/sh", script}, ReadOnly: []string{filepath.Dir(script)}}
	s.adopt()
	return func() {
		if err := os.WriteFile(script+".go", nil, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

func overrun(over string) func(*manifest.Draft) {
	return func(d *manifest.Draft) {
		d.Budget.Over = over
		d.Budget.Time = "1s"
	}
}

func TestWorkingTimeUsedUpWaitsForBothOwners(t *testing.T) { // B5
	ann, ben := pair(t)
	done := ben.slow()
	p := ann.proposeWith(overrun("ask"))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ben.allow(manifest.BudgetGate) // the asker's owner first (H10)
	if c := ann.ask(manifest.BudgetGate); c.Ask.Side != manifest.Requester {
		t.Fatalf("%+v", c.Ask)
	}
	if b := ben.state(p.Task).Budget["time"]; b.Limit != 1 || b.Committed+b.Reserved > b.Limit {
		t.Errorf("while it waits: %+v", b)
	}
	done() // the program stands still: it cannot see it yet
	ann.allow(manifest.BudgetGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	ben.until("completed", func() bool { return ben.state(p.Task).Outcome == "completed" })
	if b := ben.state(p.Task).Budget["time"]; b.Limit != 2 || b.Committed > 2 || b.Reserved != 0 {
		t.Errorf("in the end: %+v", b)
	}
	ann.verifies(p.Task)
	ben.verifies(p.Task)
}

func TestWorkingTimeThatNobodyGivesEndsTheTask(t *testing.T) { // B5
	for name, c := range map[string]struct {
		over string
		say  func(ann, ben *side)
	}{
		"hard stop":          {"stop", func(ann, ben *side) {}},
		"the worker's owner": {"ask", func(ann, ben *side) { ben.answer(ben.ask(manifest.BudgetGate), approval.Deny) }},
		"the requester's owner": {"ask", func(ann, ben *side) {
			ben.allow(manifest.BudgetGate)
			ann.answer(ann.ask(manifest.BudgetGate), approval.Deny)
		}},
		"a restart while it waits": {"ask", func(ann, ben *side) {
			ben.ask(manifest.BudgetGate)
			ben.restart()
			ben.answer(ben.ask(manifest.BudgetGate), approval.Deny)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ann, ben := pair(t)
			ben.slow()
			p := ann.proposeWith(overrun(c.over))
			ann.allow(manifest.ContractGate)
			ben.allow(manifest.ContractGate)
			c.say(ann, ben)
			ann.until("failed", func() bool { return ann.state(p.Task).Outcome == "failed" })
			h := ann.state(p.Task).History
			if last := h[len(h)-1]; !strings.HasPrefix(last.Text, "budget-exhausted") {
				t.Errorf("%+v", last)
			}
			if b := ben.state(p.Task).Budget["time"]; b.Committed > 1 || b.Reserved != 0 {
				t.Errorf("%+v", b)
			}
			ann.verifies(p.Task)
		})
	}
}

func TestWorkGoesOnAfterARestartWhenMoreIsGiven(t *testing.T) { // B5, G8
	ann, ben := pair(t)
	done := ben.slow()
	p := ann.proposeWith(overrun("ask"))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ben.ask(manifest.BudgetGate)
	done()
	ben.restart()
	ben.allow(manifest.BudgetGate)
	ann.allow(manifest.BudgetGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	if b := ben.state(p.Task).Budget["time"]; b.Limit != 2 || b.Committed > 2 {
		t.Errorf("%+v", b)
	}
}
