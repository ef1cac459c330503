package policy

import (
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

var (
	t0       = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	deadline = t0.Add(48 * time.Hour)
)

type party struct{ owner, agent signing.Signer }

var (
	ann = party{signing.NewKey([32]byte{1}), signing.NewKey([32]byte{3})} // requester
	ben = party{signing.NewKey([32]byte{2}), signing.NewKey([32]byte{4})} // worker
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (party) payload() jcs.Value { return must(jcs.Encode(contract(nil))) }

// contract is a small one with every gate, as the mend has it.
func contract(mend func(*manifest.TaskManifest)) manifest.TaskManifest {
	empty := must(jcs.Parse([]byte("{}")))
	m := manifest.TaskManifest{
		ProtocolVersion: manifest.ProtocolVersion, TaskID: must(manifest.ParseTaskID("task_01KBQ4T9YJ6W2M8Z3R5X7C1D0E")),
		CreatedAt: signing.TimeOf(t0), Deadline: signing.TimeOf(deadline),
		Requester: manifest.Party{OwnerDid: ann.owner.DID(), AgentDid: ann.agent.DID()},
		Worker:    &manifest.Party{OwnerDid: ben.owner.DID(), AgentDid: ben.agent.DID()},
		Task: manifest.Work{Title: "Total", Description: "Total sales per region", AcceptanceCriteria: []manifest.Criterion{
			{ID: must(manifest.ParseCriterionID("ac_1")), Description: "a total", Required: true}}},
		IO:            manifest.IO{InputSchema: empty, OutputSchema: empty},
		Verification:  manifest.Verification{Mode: "schema_only", MaxRetries: 1},
		Budget:        manifest.Budget{CostBearer: "worker_byok", MaxInputTokens: 1000, MaxOutputTokens: 500, MaxToolInvocations: 10, MaxWallClockSeconds: 600, OnOverrun: "hard_stop"},
		Permissions:   manifest.Permissions{GrantedCapabilities: []manifest.Grant{}},
		SandboxPolicy: manifest.SandboxPolicy{IsolationLevel: "subprocess_restricted", NetworkAccess: "none", FilesystemScope: "ephemeral_workspace_only"},
		HITLPolicy:    manifest.HITLPolicy{RequiredGates: []manifest.Gate{manifest.ContractGate, manifest.BudgetGate, manifest.DeliveryGate}},
	}
	if mend != nil {
		mend(&m)
	}
	return m
}

// scene is one task as both sides hold it; everything said has arrived.
type scene struct {
	t     testing.TB
	m     manifest.TaskManifest
	block [2]signing.Block
	raw   jcs.Value
	task  task.Task
}

func newScene(t testing.TB, mend func(*manifest.TaskManifest)) *scene {
	t.Helper()
	s := &scene{t: t, m: contract(mend)}
	var err error
	if s.block[0], s.raw, err = manifest.SignManifest(s.m, manifest.Requester, ann.agent, t0); err != nil {
		t.Fatal(err)
	}
	if s.block[1], s.raw, err = manifest.SignManifest(s.m, manifest.Worker, ben.agent, t0); err != nil {
		t.Fatal(err)
	}
	return s
}

func who(r manifest.Role) party {
	if r == manifest.Requester {
		return ann
	}
	return ben
}

// say lets a side say a fact; no gate is asked, as of a gateway that does not hold itself to any.
func (s *scene) say(r manifest.Role, f manifest.Fact) *scene {
	s.t.Helper()
	e := s.task.Next(who(r).agent.DID(), manifest.Body{Fact: f}, t0)
	v, err := manifest.Sign(&e, who(r).agent, t0)
	if err == nil {
		s.task, err = task.Apply(s.task, v)
	}
	if err != nil {
		s.t.Fatalf("saying %s: %v", f.Kind(), err)
	}
	return s
}

// accepted and working bring the scene to that state.
func (s *scene) accepted() *scene {
	return s.say(manifest.Requester, s.proposal()).say(manifest.Worker, s.acceptance())
}
func (s *scene) working() *scene { return s.accepted().say(manifest.Worker, manifest.Started{}) }
func (s *scene) delivered() *scene {
	return s.working().say(manifest.Worker, s.delivery())
}

func (s *scene) proposal() manifest.Proposed {
	return manifest.Proposed{Manifest: s.raw, Signature: s.block[0]}
}

func (s *scene) acceptance() manifest.Accepted {
	return manifest.Accepted{Signature: s.block[1], Isolation: manifest.Isolation{Level: "subprocess_restricted", Enforced: "gateway"},
		Model: "none", Providers: []string{}}
}

func used(n int64) manifest.Usage {
	return manifest.Usage{Meters: manifest.Meters{InputTokens: n, OutputTokens: n / 10}, Source: manifest.Sources{
		InputTokens: "metered", OutputTokens: "metered", ToolInvocations: "metered", WallClockSeconds: "metered"}}
}

func (s *scene) delivery() manifest.Delivered {
	return manifest.Delivered{Usage: used(100), Delivery: manifest.Delivery{Contract: s.task.InForce().Digest, Revision: 1,
		Output: must(jcs.Parse([]byte("{}"))), Artifacts: []manifest.ArtifactRef{}, Evidence: []manifest.Evidence{}}}
}

func (s *scene) completion() manifest.Completed {
	d := s.task.Delivery()
	return manifest.Completed{Delivery: d.Digest, Report: manifest.Report{Delivery: d.Digest, Contract: d.Contract,
		Mode: s.m.Verification.Mode, Checks: []manifest.CheckResult{{Check: "schema", Kind: "json_schema", Result: "pass"}},
		Verdict: "pass", At: signing.TimeOf(t0)}}
}

func (s *scene) asks(n int64) manifest.Asked {
	return manifest.Asked{Contract: s.task.InForce().Digest, Amendment: &manifest.Amendment{
		Budget: &manifest.Meters{InputTokens: n, OutputTokens: 500, ToolInvocations: 10, WallClockSeconds: 600}}}
}

// draft is the case in which side r would say f, decided by side by's gateway.
func (s *scene) draft(r, by manifest.Role, f manifest.Fact) Case {
	other := who(by.Other())
	return Case{Event: s.task.Next(who(r).agent.DID(), manifest.Body{Fact: f}, t0), Role: by, By: who(r).agent.DID(),
		Task: s.task, Ledger: limits(s.task), At: t0, Caller: "coder", Isolation: []string{"subprocess_restricted"},
		Contact: Contact{Name: "other", Owner: other.owner.DID(), Confirmed: true}}
}

// limits is the worker's ledger after it accepted.
func limits(t task.Task) Ledger {
	l := Ledger{}
	for _, m := range Meters() {
		l = l.With(MeterOf(t.Key(), m), Balance{Limit: m.Of(t.Limits())})
	}
	return l
}

// yes is the consent that a Hold waits for.
func yes(g *Gate) Consent {
	return Consent{Gate: g.Gate, AskDigest: signing.DigestOf([]byte("ask")), Contract: g.Contract, Subject: g.Subject, Owner: g.Owner,
		Decision: signing.DigestOf([]byte(`{"decision":1}`)), Lasts: LastsOnce, Until: t0.Add(time.Hour)}
}

func holdDecision() *jcs.Value { v := must(jcs.Parse([]byte(`{"decision":1}`))); return &v }
