package gateway_test

import (
	"context"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

var scribe = gateway.Caller{Agent: "scribe"}

// atDesk is a pair in which Ben's agent works in his session, and a task that both owners said yes to.
func atDesk(t *testing.T, change func(*manifest.Draft)) (ann, ben *side, id string) {
	t.Helper()
	ann, ben = pair(t)
	ben.rules.Agents = map[string]gateway.Agent{"scribe": {Session: true, Model: "own"}}
	ben.g.Reload(ben.rules)
	_, file := folder(t, "sales.csv")
	in := draft(file)
	if change != nil {
		change(&in.Draft)
	}
	p, err := ann.g.Propose(context.Background(), gateway.Owner, in)
	if err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.ContractGate)
	ben.ask(manifest.ContractGate)
	return ann, ben, p.Task
}

// ready waits until the input files are there.
func ready(t *testing.T, ben *side, id string) {
	t.Helper()
	ben.until("ready", func() bool {
		v, err := ben.g.AgentTask(context.Background(), scribe, gateway.Ref{Task: id})
		return err == nil && v.State == "accepted" && v.Ready
	})
}

func lines(n string) jcs.Value {
	v, err := jcs.Parse([]byte(`{"lines":` + n + `}`))
	if err != nil {
		panic(err)
	}
	return v
}

func TestAnAgentWorksInItsOwnersSession(t *testing.T) { // G13, X6, B4
	ann, ben, id := atDesk(t, nil)
	ctx := context.Background()
	v, err := ben.g.AgentTask(ctx, scribe, gateway.Ref{Task: id})
	if err != nil || v.Goal != "" || len(v.Criteria)+len(v.Inputs) != 0 || v.Title == "" || v.Limits.WallClockSeconds == 0 {
		t.Fatalf("before the owner's yes an agent sees %+v, %v", v, err)
	}
	for what, err := range map[string]error{
		"reads an input": second(ben.g.ReadInput(ctx, scribe, gateway.FileRef{Task: id, Name: "sales.csv", Limit: 9})),
		"starts":         second(ben.g.StartWork(ctx, scribe, gateway.Ref{Task: id})),
	} {
		if spec.ReasonOf(err) != spec.GateOpen {
			t.Errorf("before the owner's yes an agent %s: %v, want gate-open", what, err)
		}
	}
	if _, err := ben.g.AnswerOffer(ctx, scribe, gateway.OfferAnswer{Task: id, Accept: true}); err != nil {
		t.Fatal(err)
	}
	if v := ben.state(id); v.State != "proposed" {
		t.Fatalf("an agent's yes is no yes: %s (G1)", v.State)
	}
	ben.allow(manifest.ContractGate)
	ready(t, ben, id)
	if _, err := ben.g.StartWork(ctx, claude, gateway.Ref{Task: id}); spec.ReasonOf(err) != spec.NotFound {
		t.Errorf("another agent starts: %v, want not-found", err)
	}
	if _, err := ben.g.Checkpoint(ctx, scribe, gateway.Told{Task: id, Text: "early"}); spec.ReasonOf(err) != spec.IllegalTransition {
		t.Errorf("before its start: %v", err)
	}
	for range 2 {
		if v, err = ben.g.StartWork(ctx, scribe, gateway.Ref{Task: id}); err != nil || !v.Running || v.Left <= 0 || v.Goal == "" {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	part, err := ben.g.ReadInput(ctx, scribe, gateway.FileRef{Task: id, Name: "sales.csv", Limit: 100})
	if err != nil || string(part.Data) != "a,1\nb,2\nc,3\n" {
		t.Fatalf("%q, %v", part.Data, err)
	}
	if v, err = ben.g.Checkpoint(ctx, scribe, gateway.Told{Task: id, Text: "half", InputTokens: 700, OutputTokens: 30}); err != nil || v.Used.InputTokens != 700 {
		t.Fatalf("%+v, %v", v.Used, err)
	}
	done := gateway.Returned{Told: gateway.Told{Task: id, InputTokens: 900, OutputTokens: 50}, Output: jcs.EmptyObject}
	if _, err := ben.g.ReturnResult(ctx, scribe, done); spec.ReasonOf(err) != spec.VerificationFailed {
		t.Fatalf("a result that does not fit: %v", err)
	}
	done.Output, done.Evidence = lines("3"), []manifest.Evidence{{Criterion: v.Criteria[0].ID, Text: "counted"}}
	done.Files = []gateway.ReturnedFile{{Name: "../x", Data: []byte("x")}}
	if _, err := ben.g.ReturnResult(ctx, scribe, done); spec.ReasonOf(err) != spec.Malformed {
		t.Fatalf("a name that leads out: %v", err)
	}
	done.Files[0].Name = "count.txt"
	if v, err = ben.g.ReturnResult(ctx, scribe, done); err != nil || v.State != "delivered" || v.Running {
		t.Fatalf("%+v, %v", v, err)
	}
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(id).Released })
	ben.until("completed", func() bool { return ben.state(id).Outcome == "completed" })
	b, err := ben.g.Export(ctx, gateway.Owner, gateway.Ref{Task: id})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{})
	if err != nil || !rep.Verified || rep.Facts.Isolation.Enforced != "claimed" || rep.Facts.Used.InputTokens != 900 {
		t.Errorf("%v, %+v, %+v", err, rep.Findings, rep.Facts.Used)
	}
}

func TestAClaimedBoxIsRefusedUnlessTheDraftSaysItIsEnough(t *testing.T) { // X6
	ann, ben, id := atDesk(t, func(d *manifest.Draft) { d.Sandbox.ClaimedOK = false })
	ben.allow(manifest.ContractGate)
	ann.until("cancelled", func() bool { return ann.state(id).Outcome == "cancelled" })
}

func TestAnAgentsNoIsANo(t *testing.T) {
	ann, ben, id := atDesk(t, nil)
	if v, err := ben.g.AnswerOffer(context.Background(), scribe, gateway.OfferAnswer{Task: id, Reason: "no time"}); err != nil || v.Outcome != "declined" {
		t.Fatalf("%+v, %v", v, err)
	}
	ann.until("declined", func() bool { return ann.state(id).Outcome == "declined" })
	as, err := ben.g.Asks(context.Background(), gateway.Owner, true)
	if err != nil || len(as) != 1 || as[0].State != string(approval.Withdrawn) {
		t.Errorf("its owner's ask: %+v, %v", as, err)
	}
}

func TestASessionsBudgetHolds(t *testing.T) { // B2, B5
	for name, tt := range map[string]struct {
		change func(*manifest.Draft)
		work   func(*testing.T, *side, string)
	}{
		"tokens": {func(d *manifest.Draft) { d.Budget.OutputTokens = "100" }, func(t *testing.T, ben *side, id string) {
			if v, err := ben.g.Checkpoint(context.Background(), scribe, gateway.Told{Task: id, OutputTokens: 101}); err != nil || v.Outcome != "failed" || v.Used.OutputTokens != 100 {
				t.Errorf("%+v, %v", v, err)
			}
		}},
		"time":                  {func(d *manifest.Draft) { d.Budget.Time = "1s" }, func(*testing.T, *side, string) {}},
		"time across a restart": {func(d *manifest.Draft) { d.Budget.Time = "1s" }, func(_ *testing.T, ben *side, _ string) { ben.restart() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ann, ben, id := atDesk(t, tt.change)
			ben.allow(manifest.ContractGate)
			ready(t, ben, id)
			if _, err := ben.g.StartWork(context.Background(), scribe, gateway.Ref{Task: id}); err != nil {
				t.Fatal(err)
			}
			tt.work(t, ben, id)
			ann.until("failed", func() bool { return ann.state(id).Outcome == "failed" })
			if _, err := ben.g.ReturnResult(context.Background(), scribe, gateway.Returned{Told: gateway.Told{Task: id}, Output: lines("3")}); spec.ReasonOf(err) != spec.IllegalTransition {
				t.Errorf("after the end: %v, want illegal-transition", err)
			}
		})
	}
}

func TestACancelledSessionSaysItsLastWord(t *testing.T) { // B3
	ann, ben, id := atDesk(t, nil)
	ben.allow(manifest.ContractGate)
	ready(t, ben, id)
	if _, err := ben.g.StartWork(context.Background(), scribe, gateway.Ref{Task: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.g.Cancel(context.Background(), gateway.Owner, gateway.Cancellation{Task: id}); err != nil {
		t.Fatal(err)
	}
	ann.until("stopped", func() bool {
		h := ann.state(id).History
		return len(h) > 0 && h[len(h)-1].Kind == manifest.KindStopped
	})
	v := ben.state(id)
	if b := v.Budget["wall_clock_seconds"]; b.Reserved != 0 {
		t.Errorf("%+v is still reserved", b)
	}
}

func TestARejectedDeliveryComesBackToItsAgent(t *testing.T) {
	ann, ben, id := atDesk(t, nil)
	ben.allow(manifest.ContractGate)
	ready(t, ben, id)
	ctx := context.Background()
	for n, verdict := range []string{approval.Deny, approval.Allow} {
		if _, err := ben.g.StartWork(ctx, scribe, gateway.Ref{Task: id}); err != nil {
			t.Fatal(err)
		}
		if v, err := ben.g.ReturnResult(ctx, scribe, gateway.Returned{Told: gateway.Told{Task: id}, Output: lines("3")}); err != nil || v.Delivery.Revision != int64(n+1) {
			t.Fatalf("%+v, %v", v, err)
		}
		if _, err := ann.answer(ann.ask(manifest.DeliveryGate), verdict); err != nil {
			t.Fatal(err)
		}
		want := []string{"working", "completed"}[n]
		ben.until(want, func() bool { return ben.state(id).State == want })
	}
}

func TestAnAgentAsksForMoreAndGoesOn(t *testing.T) { // H10, G8, B5
	ann, ben, id := atDesk(t, func(d *manifest.Draft) { d.Budget.OutputTokens, d.Budget.Time, d.Budget.Over = "100", "15m", "stop" })
	ben.allow(manifest.ContractGate)
	ready(t, ben, id)
	ctx := context.Background()
	if _, err := ben.g.StartWork(ctx, scribe, gateway.Ref{Task: id}); err != nil {
		t.Fatal(err)
	}
	wish := gateway.BudgetWish{Task: id, OutputTokens: ptr(int64(300)), Seconds: ptr(int64(1800))}
	out, err := ben.g.RequestBudget(ctx, scribe, wish)
	if err != nil || out.Sent || out.Ask == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	again, err := ben.g.RequestBudget(ctx, scribe, wish)
	if err != nil || again.Ask != out.Ask {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	for name, w := range map[string]gateway.BudgetWish{
		"another meanwhile": {Task: id, OutputTokens: ptr(int64(400))},
		"nothing":           {Task: id},
		"as it is":          {Task: id, OutputTokens: ptr(int64(100))},
		"less of something": {Task: id, OutputTokens: ptr(int64(400)), Seconds: ptr(int64(1))},
		"less than nothing": {Task: id, OutputTokens: ptr(int64(-1))},
	} {
		if _, err := ben.g.RequestBudget(ctx, scribe, w); err == nil {
			t.Errorf("%s: asked", name)
		}
	}
	if _, err := ben.g.RequestBudget(ctx, gateway.Caller{Agent: "other"}, wish); spec.ReasonOf(err) != spec.NotFound {
		t.Errorf("another agent: %v", err)
	}
	if _, err := ben.g.RequestBudget(ctx, gateway.Owner, wish); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("the owner: %v", err)
	}
	ben.allow(manifest.BudgetGate)
	ann.allow(manifest.BudgetGate)
	ben.until("amended", func() bool { return ben.state(id).Budget["output_tokens"].Limit == 300 })
	v, err := ben.g.Checkpoint(ctx, scribe, gateway.Told{Task: id, Text: "half", OutputTokens: 250}) // more than the run began with
	if err != nil || v.Outcome != "" {
		t.Fatalf("%+v, %v", v, err)
	}
	if _, err := ben.g.ReturnResult(ctx, scribe, gateway.Returned{Told: gateway.Told{Task: id, OutputTokens: 260}, Output: lines("3")}); err != nil {
		t.Fatal(err)
	}
	if b := ben.state(id).Budget["output_tokens"]; b.Committed != 260 {
		t.Errorf("%+v", b)
	}
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(id).Released })
	ann.verifies(id)
}

func TestAReportThatIsNoFigureChangesNothing(t *testing.T) { // B6
	_, ben, id := atDesk(t, nil)
	ben.allow(manifest.ContractGate)
	ready(t, ben, id)
	ctx := context.Background()
	if _, err := ben.g.StartWork(ctx, scribe, gateway.Ref{Task: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := ben.g.Checkpoint(ctx, scribe, gateway.Told{Task: id, Text: "some", InputTokens: 50, OutputTokens: 10}); err != nil {
		t.Fatal(err)
	}
	before := ben.state(id)
	for _, in := range []gateway.Told{{InputTokens: -1}, {OutputTokens: -1 << 62}, {InputTokens: 1<<53 + 1}, {OutputTokens: 1<<63 - 1}} {
		in.Task, in.Text = id, "x"
		if _, err := ben.g.Checkpoint(ctx, scribe, in); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("%+v: %v", in, err)
		}
	}
	after, err := ben.g.Checkpoint(ctx, scribe, gateway.Told{Task: id, Text: "less than before", InputTokens: 1, OutputTokens: 1}) // a figure that falls says nothing
	if err != nil || after.Outcome != "" {
		t.Fatalf("%+v, %v", after, err)
	}
	for _, m := range []string{"input_tokens", "output_tokens"} {
		if a, b := before.Budget[m], ben.state(id).Budget[m]; a != b {
			t.Errorf("%s: %+v, then %+v", m, a, b)
		}
	}
}
