package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// The inputs of B020: wherever a cancel finds a task, the task ends for both
// sides, its gates close and what it held comes back; after another end, and a
// second time, it is a harmless repeat.
func TestACancelAlwaysLeavesAFinalState(t *testing.T) { // B020
	ctx := context.Background()
	for name, c := range map[string]struct {
		reach func(t *testing.T, ann, ben *side, id string) // where the cancel finds it
		want  string
		down  bool // the worker's gateway is down meanwhile
	}{
		"queued: the worker has not heard of it": {func(_ *testing.T, ann, ben *side, _ string) {
			ben.stop()
			ann.allow(manifest.ContractGate)
		}, "cancelled", true},
		"its own gate is open": {func(_ *testing.T, ann, _ *side, _ string) { ann.ask(manifest.ContractGate) }, "dropped", false},
		"the worker's gate is open": {func(_ *testing.T, ann, ben *side, _ string) {
			ann.allow(manifest.ContractGate)
			ben.ask(manifest.ContractGate)
		}, "cancelled", false},
		"the agent works": {func(_ *testing.T, ann, ben *side, id string) {
			ann.allow(manifest.ContractGate)
			ben.allow(manifest.ContractGate)
			ben.until("work", func() bool { return ben.state(id).Budget[string(policy.WallClockSeconds)].Reserved > 0 })
		}, "cancelled", false},
		"the agent is dead, and its gateway too": {func(_ *testing.T, ann, ben *side, id string) {
			ann.allow(manifest.ContractGate)
			ben.allow(manifest.ContractGate)
			ann.until("hear of the work", func() bool { return ann.state(id).State == "working" })
			ben.stop()
		}, "cancelled", true},
		"the delivery waits for a person": {func(t *testing.T, ann, ben *side, _ string) {
			ben.rules.Agents["coder"] = script(t, "printf '{\"output\":{}}'")
			ben.adopt()
			ann.allow(manifest.ContractGate)
			ben.allow(manifest.ContractGate)
			ann.ask(manifest.DeliveryGate)
		}, "cancelled", false},
		"it is completed": {func(t *testing.T, ann, ben *side, id string) {
			ben.rules.Agents["coder"] = script(t, "printf '{\"output\":{}}'")
			ben.adopt()
			ann.allow(manifest.ContractGate)
			ben.allow(manifest.ContractGate)
			ann.allow(manifest.DeliveryGate)
			ann.until("complete", func() bool { return ann.state(id).Outcome == "completed" })
		}, "completed", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ann, ben := pair(t)
			ben.rules.Agents["coder"] = script(t, "sleep 300")
			ben.adopt()
			one := int64(1)
			ann.rules.Policy.Outgoing[0].AtOnce = &one
			ann.adopt()
			draft := gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "Nothing", Goal: "Do nothing", Sandbox: manifest.DraftSandbox{ClaimedOK: true}, Check: []manifest.DraftCheck{{Word: "person"}}}}
			p, err := ann.g.Propose(ctx, gateway.Owner, draft)
			if err != nil {
				t.Fatal(err)
			}
			c.reach(t, ann, ben, p.Task)
			for range 2 {
				v, err := ann.g.Cancel(ctx, gateway.Owner, gateway.Cancellation{Task: p.Task})
				if err != nil || v.State != c.want {
					t.Errorf("Cancel = %s, %v, want %s", v.State, err, c.want)
				}
			}
			as, err := ann.g.Asks(ctx, gateway.Owner, false)
			if err != nil || len(as) != 0 {
				t.Errorf("Ann's asks after the end: %+v, %v", as, err)
			}
			if _, err := ann.g.Propose(ctx, gateway.Owner, draft); err != nil {
				t.Errorf("the one place among the open tasks did not come back: %v", err)
			}
			if c.want != "cancelled" {
				return
			}
			if c.down {
				ben.start()
			}
			ben.until("hear the end", func() bool { return ben.state(p.Task).Outcome == "cancelled" })
			ben.until("give back what it held", func() bool {
				for _, b := range ben.state(p.Task).Budget {
					if b.Reserved != 0 {
						return false
					}
				}
				as, err := ben.g.Asks(ctx, gateway.Owner, false)
				return err == nil && len(as) == 0
			})
			for _, g := range ben.state(p.Task).Gates {
				if g.State == string(approval.Waiting) {
					t.Errorf("a gate is open: %+v", g)
				}
			}
			if _, err := ben.g.Cancel(ctx, gateway.Owner, gateway.Cancellation{Task: p.Task}); spec.ReasonOf(err) != spec.NotPermitted {
				t.Errorf("the worker cancels: %v", err)
			}
		})
	}
}

// script is an agent that runs a shell script.
func script(t *testing.T, body string) gateway.Agent {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return gateway.Agent{Command: []string{"/bin/sh", path}, ReadOnly: []string{filepath.Dir(path)}}
}
