package gateway_test

import (
	"context"
	"testing"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// A no with a draft: the other side sees the difference and takes it up in one
// command, once; its next signed document is the answer (G7).
func TestACounterProposalIsTakenUpInOneCommand(t *testing.T) {
	ann, ben := pair(t)
	ctx := context.Background()
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	v := ben.ask(manifest.ContractGate)
	for _, bad := range []manifest.Setting{{Key: "goal", Value: "x"}, {Key: "budget.time", Value: "15m"}, {Key: "deadline", Value: "2020-01-01T00:00:00Z"}} {
		if _, err := ben.g.DenyGate(ctx, gateway.Owner, gateway.Denial{Ask: v.Ask.AskID.String(), Set: []manifest.Setting{bad}}); err == nil {
			t.Fatalf("%+v is a counter-proposal", bad)
		}
	}
	set := []manifest.Setting{{Key: "budget.time", Value: "5m"}, {Key: "budget.output_tokens", Value: "10k"}}
	out, err := ben.g.DenyGate(ctx, gateway.Owner, gateway.Denial{Ask: v.Ask.AskID.String(), Reason: "with less", Set: set})
	if err != nil || out.State != string(approval.Denied) {
		t.Fatalf("%+v, %v", out, err)
	}
	ann.until("countered", func() bool { return ann.state(p.Task).Counter != nil })
	k := ann.state(p.Task).Counter
	if len(k.Terms) != 2 || k.Terms[1] != (manifest.Difference{Key: "budget.time", From: "15m", To: "5m"}) || k.Answered != "" {
		t.Fatalf("%+v", k)
	}
	ann.restart()
	if cs, err := ann.g.Counters(ctx, gateway.Owner, gateway.None{}); err != nil || len(cs) != 1 || cs[0].TaskID != p.Task {
		t.Fatalf("%+v, %v", cs, err)
	}
	if _, err := ann.g.TakeUpCounter(ctx, gateway.Caller{Agent: "another"}, gateway.TakeUp{Task: p.Task}); spec.ReasonOf(err) != spec.NotFound {
		t.Errorf("another agent takes it up: %v", err)
	}
	if dry, err := ann.g.TakeUpCounter(ctx, gateway.Owner, gateway.TakeUp{Task: p.Task, DryRun: true}); err != nil || dry.Ask != "" {
		t.Fatalf("%+v, %v", dry, err)
	}
	next, err := ann.g.TakeUpCounter(ctx, gateway.Owner, gateway.TakeUp{Task: p.Task})
	if err != nil || next.Task == p.Task || next.Ask == "" || next.Sent {
		t.Fatalf("%+v, %v", next, err)
	}
	if _, err := ann.g.TakeUpCounter(ctx, gateway.Owner, gateway.TakeUp{Task: p.Task}); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("taken up twice: %v", err)
	}
	if cs, _ := ann.g.Counters(ctx, gateway.Owner, gateway.None{}); len(cs) != 0 {
		t.Errorf("still waits: %+v", cs)
	}
	if got := ann.state(p.Task).Counter.Answered; got != next.Task {
		t.Errorf("answered by %q", got)
	}
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(next.Task).Released })
	if b := ann.state(next.Task).Budget["time"]; b.Limit != 300 {
		t.Errorf("the new contract's time is %d", b.Limit)
	}
}

// Only the worker of a contract can counter; a proposal of one's own is simply not sent.
func TestOnlyAContractOfAnotherCanBeCountered(t *testing.T) {
	ann, _ := pair(t)
	p := ann.propose()
	_, err := ann.g.DenyGate(context.Background(), gateway.Owner, gateway.Denial{Ask: p.Ask, Set: []manifest.Setting{{Key: "budget.time", Value: "5m"}}})
	if spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("%v, want not-permitted", err)
	}
	if gateOf(t, ann, p.Task).State != string(approval.Waiting) {
		t.Error("the ask was settled")
	}
}
