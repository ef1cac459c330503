package audit_test

import (
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// An auditor holds the contract against the grant of a standing yes, which
// stands in the event in full, and says that the count is its owner's word (G6).
func TestAStandingYesIsHeldByTheAuditor(t *testing.T) {
	for what, c := range map[string]struct {
		mend func(*manifest.Standing, *manifest.GateDecision)
		ok   bool
	}{
		"of another task": {func(*manifest.Standing, *manifest.GateDecision) {}, true},
		"another contact": {func(s *manifest.Standing, _ *manifest.GateDecision) { s.Contact = eve.owner.DID() }, false},
		"the other side": {func(s *manifest.Standing, _ *manifest.GateDecision) {
			s.Side, s.Model, s.Box = manifest.Worker, "none", &manifest.Isolation{Level: "wasm", Enforced: "gateway"}
		}, false},
		"less":        {func(s *manifest.Standing, _ *manifest.GateDecision) { s.Each.InputTokens-- }, false},
		"less in all": {func(s *manifest.Standing, _ *manifest.GateDecision) { s.Total.OutputTokens = s.Each.OutputTokens - 1 }, false},
		"fewer files": {func(s *manifest.Standing, _ *manifest.GateDecision) { s.Files = 0 }, false},
		"over": {func(s *manifest.Standing, _ *manifest.GateDecision) {
			s.From, s.Until = signing.TimeOf(noon.Add(-time.Hour)), signing.TimeOf(noon)
		}, false},
		"by the agent":      {func(_ *manifest.Standing, d *manifest.GateDecision) { d.OwnerDid = ann.agent.DID() }, false},
		"a no":              {func(_ *manifest.Standing, d *manifest.GateDecision) { d.Verdict = "deny" }, false},
		"for a kind of its": {func(s *manifest.Standing, _ *manifest.GateDecision) { s.TaskType = "report" }, false},
	} {
		s := newStory(t)
		m := must(manifest.ReadManifest(s.payload))
		grant := manifest.Standing{Gate: manifest.ContractGate, Side: manifest.Requester, Contact: ben.owner.DID(), Agent: "claude", TaskType: m.Task.TaskType,
			Each: m.Budget.Limits(), Total: m.Budget.Limits(), Files: 100, Bytes: 1 << 30, Seconds: 90 * 86400, Retries: 10, Mode: m.Verification.Mode, Over: m.Budget.OnOverrun, Receipt: m.Verification.RequireUsageReceipt, Attest: m.Verification.RequireExecutionAttestation, Gates: []manifest.Gate{},
			Level: m.SandboxPolicy.IsolationLevel, Scope: m.SandboxPolicy.FilesystemScope, Model: "any", Uses: 9, From: signing.TimeOf(noon.Add(-time.Hour)), Until: signing.TimeOf(noon.Add(24 * time.Hour))}
		key := ann.owner
		if what == "by the agent" {
			key = ann.agent
		}
		d := s.decided(ann, key, func(g *manifest.GateDecision) {
			c.mend(&grant, g)
			g.Lasts, g.SubjectDigest, g.TaskID = manifest.LastsStanding, grant.Subject(), must(manifest.ParseTaskID("task_another_1"))
			g.ContractDigest, g.AskDigest = signing.DigestOf([]byte("another")), signing.DigestOf([]byte("ask"))
		})
		f := manifest.Proposed{Manifest: s.payload, Signature: s.block[manifest.Requester], Decision: d, Standing: &manifest.StandingUse{Grant: grant, Use: 7}}
		s.force(ann, s.task.Next(ann.agent.DID(), manifest.Body{Fact: f}, s.tick())).ack(ben)
		r := verify(t, s.export(ben))
		if r.Verified != c.ok {
			t.Errorf("%s: verified %v: %+v", what, r.Verified, r.Findings)
		}
		if !c.ok {
			continue
		}
		if a := r.Facts.Approvals; len(a) != 1 || a[0].Standing == nil || a[0].Standing.Use != 7 {
			t.Errorf("%s: %+v", what, a)
		}
		counted := false
		for _, e := range r.Claimed {
			counted = counted || e.Rule == "G6"
		}
		if !counted {
			t.Errorf("that nobody else counts the uses is not said: %+v", r.Claimed)
		}
	}
}
