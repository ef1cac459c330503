package audit_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

var (
	noon     = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	relayKey = signing.NewKey([32]byte{9})
	ann      = person{"Ann", signing.NewKey([32]byte{1}), signing.NewKey([32]byte{3}), manifest.Requester}
	ben      = person{"Ben", signing.NewKey([32]byte{2}), signing.NewKey([32]byte{4}), manifest.Worker}
	eve      = person{"Eve", signing.NewKey([32]byte{5}), signing.NewKey([32]byte{6}), manifest.Worker}
)

type person struct {
	name         string
	owner, agent signing.Signer
	role         manifest.Role
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ptr[T any](v T) *T { return &v }

func (p person) other() person {
	if p.role == manifest.Requester {
		return ben
	}
	return ann
}

// identity is the person's certificate and box-key.
func (p person) identity() []jcs.Value {
	cert := must(manifest.Sign(&manifest.AgentCertificate{Type: "sealbridge/agent-certificate", ProtocolVersion: manifest.ProtocolVersion,
		OwnerDid: p.owner.DID(), AgentDid: p.agent.DID(), Serial: 1, IssuedAt: signing.TimeOf(noon.Add(-time.Hour)), ExpiresAt: signing.TimeOf(noon.Add(30 * 24 * time.Hour)),
		DisplayName: p.name, Relay: manifest.RelayRef{Endpoint: "wss://relay.example.org", Did: relayKey.DID()}, NextKey: signing.DigestOf([]byte("next"))}, p.owner, noon.Add(-time.Hour)))
	raw := []byte("key of " + p.name)
	key := must(manifest.Sign(&manifest.BoxKey{Type: "sealbridge/box-key", ProtocolVersion: manifest.ProtocolVersion, AgentDid: p.agent.DID(), OwnerDid: p.owner.DID(),
		CertificateDigest: cert.Digest(), Seq: 1, Kid: signing.DigestOf(raw), Key: base64.RawURLEncoding.EncodeToString(raw),
		NotBefore: signing.TimeOf(noon.Add(-time.Hour)), NotAfter: signing.TimeOf(noon.Add(14 * 24 * time.Hour))}, p.agent, noon.Add(-time.Hour)))
	return []jcs.Value{cert.Wire(), key.Wire()}
}

// story is a task as it is lived through: both sides hold themselves to the
// law, people are asked and answer, everything arrives.
type story struct {
	tb       testing.TB
	m        manifest.TaskManifest
	payload  jcs.Value
	block    map[manifest.Role]signing.Block
	task     task.Task
	at       time.Time
	events   []jcs.Value
	authors  []person
	asks     map[manifest.Role][]jcs.Value
	acks     []jcs.Value
	delivery manifest.Delivery
	asked    int
	decide   func(person, approval.Ask) manifest.Verified // how a person says yes; nil: with the owner's passphrase
}

func contract() manifest.TaskManifest {
	return manifest.TaskManifest{
		ProtocolVersion: manifest.ProtocolVersion, TaskID: must(manifest.ParseTaskID("task_01KBQ4T9YJ6W2M8Z3R5X7C1D0E")),
		CreatedAt: signing.TimeOf(noon), Deadline: signing.TimeOf(noon.Add(48 * time.Hour)),
		Requester: manifest.Party{OwnerDid: ann.owner.DID(), AgentDid: ann.agent.DID(), DisplayName: "Ann"},
		Worker:    &manifest.Party{OwnerDid: ben.owner.DID(), AgentDid: ben.agent.DID(), DisplayName: "Ben"},
		Task: manifest.Work{Title: "Revenue per region", Description: "Add up sales.csv\nper region", AcceptanceCriteria: []manifest.Criterion{
			{ID: must(manifest.ParseCriterionID("ac_1")), Description: "a total for each region", Required: true}}},
		IO: manifest.IO{InputSchema: jcs.EmptyObject, OutputSchema: jcs.EmptyObject, InputArtifacts: []manifest.ArtifactRef{
			{Name: "sales.csv", Digest: signing.DigestOf([]byte("sales")), MediaType: "text/csv", SizeBytes: 812}}},
		Verification: manifest.Verification{Mode: "hybrid", RequireUsageReceipt: true, MaxRetries: 1,
			Checks: []manifest.Check{{CheckID: must(manifest.ParseCheckID("chk_1")), Kind: "json_schema", Target: "output"}}},
		Budget: manifest.Budget{CostBearer: "worker_byok", MaxInputTokens: 200000, MaxOutputTokens: 20000, MaxToolInvocations: 40,
			MaxWallClockSeconds: 900, OnOverrun: "request_hitl_amendment"},
		Permissions:   manifest.Permissions{GrantedCapabilities: []manifest.Grant{}},
		SandboxPolicy: manifest.SandboxPolicy{IsolationLevel: "subprocess_restricted", NetworkAccess: "none", FilesystemScope: "read_only_inputs"},
		HITLPolicy:    manifest.HITLPolicy{RequiredGates: []manifest.Gate{manifest.ContractGate, manifest.BudgetGate, manifest.DeliveryGate}},
	}
}

func newStory(tb testing.TB) *story {
	tb.Helper()
	s := &story{tb: tb, m: contract(), block: map[manifest.Role]signing.Block{}, at: noon, asks: map[manifest.Role][]jcs.Value{}}
	for _, p := range []person{ann, ben} {
		b, payload, err := manifest.SignManifest(s.m, p.role, p.agent, noon)
		if err != nil {
			tb.Fatal(err)
		}
		s.block[p.role], s.payload = b, payload
	}
	return s
}

func (s *story) tick() time.Time { s.at = s.at.Add(time.Second); return s.at }

// rules ask Ann and Ben about each other.
func rules(other person) policy.Policy {
	p := policy.Policy{Version: policy.Version1, People: map[string]policy.Person{"me": {Owner: true}}}
	for _, a := range []*policy.Ask{&p.Ask.Contract, &p.Ask.Effect, &p.Ask.Budget, &p.Ask.Delivery} {
		*a = policy.Ask{Who: []string{"me"}}
	}
	p.Incoming = []policy.Incoming{{Name: "in", From: policy.Names{other.name}, Then: policy.ThenAsk}}
	p.Outgoing = []policy.Outgoing{{Name: "out", To: policy.Names{other.name}, Then: policy.ThenAsk}}
	return p
}

// say lets p say f, with its owner's yes where the law wants one; put sets the yes.
func (s *story) say(p person, f manifest.Fact, put func(*jcs.Value) manifest.Fact) *story {
	s.tb.Helper()
	e := s.task.Next(p.agent.DID(), manifest.Body{Fact: f}, s.tick())
	c := policy.Case{Event: e, Role: p.role, By: p.agent.DID(), Task: s.task, At: s.at, Caller: "coder",
		Contact:   policy.Contact{Name: p.other().name, Owner: p.other().owner.DID(), Confirmed: true},
		Isolation: []string{"subprocess_restricted"}}
	d := rules(p.other()).Decide(c)
	switch d.Outcome {
	case policy.Deny:
		s.tb.Fatalf("%s may not say %s: %+v", p.name, f.Kind(), d)
	case policy.Hold:
		ask, yes := s.ask(p, c, d)
		v := yes.Wire()
		e.Body.Fact = put(&v)
		_, k := approval.Settle(ask, []manifest.Verified{yes}, s.at)
		c.Event, c.Consents = e, []policy.Consent{k}
		if d = rules(p.other()).Decide(c); d.Outcome != policy.Allow {
			s.tb.Fatalf("%s said yes to %s: %+v", p.name, f.Kind(), d)
		}
	}
	return s.force(p, e)
}

// ask asks p's owner, who says yes.
func (s *story) ask(p person, c policy.Case, d policy.Decision) (approval.Ask, manifest.Verified) {
	s.tb.Helper()
	s.asked++
	id := must(manifest.ParseAskID("apr_01KBQ4T9YJ6W2M8Z3R5X7C1D" + string("0123456789"[s.asked/10]) + string("0123456789"[s.asked%10])))
	a, err := approval.New(c, d, approval.Terms{ID: id, Nonce: [16]byte{byte(s.asked)}, Policy: signing.DigestOf([]byte("policy")),
		Contact: p.other().name, Confirmed: true, Agent: "coder", Delivery: &s.delivery})
	if err != nil {
		s.tb.Fatalf("asking %s about %s: %v", p.name, d.Gate.Gate, err)
	}
	s.asks[p.role] = append(s.asks[p.role], must(a.Value()))
	if s.decide != nil {
		return a, s.decide(p, a)
	}
	g := approval.Decide(a, approval.Allow, "passphrase", s.at)
	return a, must(manifest.Sign(&g, p.owner, s.at))
}

// force says an event without asking anybody.
func (s *story) force(p person, e manifest.Event) *story {
	s.tb.Helper()
	v, err := manifest.Sign(&e, p.agent, s.at)
	if err != nil {
		s.tb.Fatalf("%s says %s: %v", p.name, e.Body.Fact.Kind(), err)
	}
	if s.task, err = task.Apply(s.task, v); err != nil {
		s.tb.Fatalf("%s says %s: %v", p.name, e.Body.Fact.Kind(), err)
	}
	s.events, s.authors = append(s.events, v.Wire()), append(s.authors, p)
	return s
}

// ack is p's acknowledgement of all that there is.
func (s *story) ack(p person) *story {
	v := must(manifest.Sign(&manifest.Acknowledgement{Type: "sealbridge/acknowledgement", ProtocolVersion: manifest.ProtocolVersion, To: p.other().agent.DID(),
		Task: ptr(s.heads(p)), At: signing.TimeOf(s.tick()), Revocations: manifest.RevocationMark{At: signing.TimeOf(s.at)}}, p.agent, s.at))
	s.acks = append(s.acks, v.Wire())
	return s
}

func (s *story) heads(p person) manifest.Heads {
	return manifest.Heads{TaskID: s.m.TaskID, ManifestDigest: s.task.ManifestDigest(), Yours: s.task.Head(p.role.Other()), Mine: s.task.Head(p.role)}
}

func used(n int64) manifest.Usage {
	return manifest.Usage{Meters: manifest.Meters{InputTokens: n, OutputTokens: n / 10, ToolInvocations: 2, WallClockSeconds: 250}, Source: manifest.Sources{
		InputTokens: "metered", OutputTokens: "metered", ToolInvocations: "metered", WallClockSeconds: "metered"}}
}

func (s *story) propose() *story {
	f := manifest.Proposed{Manifest: s.payload, Signature: s.block[manifest.Requester]}
	return s.say(ann, f, func(v *jcs.Value) manifest.Fact { f.Decision = v; return f })
}

func (s *story) accept() *story {
	f := manifest.Accepted{Signature: s.block[manifest.Worker], Isolation: manifest.Isolation{Level: "subprocess_restricted", Enforced: "gateway"}, Model: "none", Providers: []string{}}
	return s.say(ben, f, func(v *jcs.Value) manifest.Fact { f.Decision = v; return f })
}

// amend raises the budget with the yes of both owners.
func (s *story) amend() *story {
	a := manifest.Asked{Contract: s.task.InForce().Digest, Amendment: &manifest.Amendment{Budget: &manifest.Meters{InputTokens: 200000, OutputTokens: 30000, ToolInvocations: 40, WallClockSeconds: 900}}}
	s.say(ben, a, func(v *jcs.Value) manifest.Fact { a.Decision = v; return a })
	y := manifest.Answered{Ask: s.task.Asks()[0].Event, Yes: true}
	return s.say(ann, y, func(v *jcs.Value) manifest.Fact { y.Decision = v; return y })
}

func (s *story) deliver() *story {
	c := s.task.InForce()
	receipt := must(manifest.Sign(&manifest.UsageReceipt{Type: "sealbridge/usage-receipt", ProtocolVersion: manifest.ProtocolVersion, TaskID: s.m.TaskID,
		ManifestDigest: s.task.ManifestDigest(), Contract: c.Digest, AgentDid: ben.agent.DID(), Revision: 1, Limits: c.Limits, Usage: used(61204),
		Children: []signing.Digest{}, Complete: true, Missing: []string{}, At: signing.TimeOf(s.tick())}, ben.agent, s.at)).Wire()
	s.delivery = manifest.Delivery{Contract: c.Digest, Revision: 1, Output: must(jcs.Parse([]byte(`{"totals":{"north":1.5}}`))),
		Artifacts: []manifest.ArtifactRef{{Name: "revenue.csv", Digest: signing.DigestOf([]byte("revenue")), MediaType: "text/csv", SizeBytes: 812}},
		Evidence:  []manifest.Evidence{{Criterion: must(manifest.ParseCriterionID("ac_1")), Text: "see revenue.csv"}}, Receipt: &receipt}
	return s.say(ben, manifest.Delivered{Delivery: s.delivery, Usage: used(61204)}, nil)
}

func (s *story) complete() *story {
	d := s.task.Delivery()
	f := manifest.Completed{Delivery: d.Digest, Report: manifest.Report{Delivery: d.Digest, Contract: d.Contract, Mode: s.m.Verification.Mode,
		Checks: []manifest.CheckResult{{Check: "chk_1", Kind: "json_schema", Result: "pass"}}, Verdict: "pass", At: signing.TimeOf(s.tick())}}
	return s.say(ann, f, func(v *jcs.Value) manifest.Fact { f.Decision = v; return f })
}

// finished is a whole task: twelve events of both sides, both gates, an amendment, an acknowledged ending.
func finished(tb testing.TB) *story {
	tb.Helper()
	s := newStory(tb).propose().ack(ben).accept().ack(ann)
	s.say(ben, manifest.Started{}, nil)
	for i := range int64(5) {
		s.say(ben, manifest.Progressed{Checkpoint: "2 of 3 \u202efiles", Usage: used(1000 * (i + 1)), Waiting: "nobody"}, nil)
	}
	return s.amend().ack(ann).deliver().ack(ann).complete().ack(ben)
}

// documents are all that p's bundle holds, the seal not.
func (s *story) documents(p person) []jcs.Value {
	var r, w *signing.Block
	if len(s.events) > 0 {
		r = ptr(s.block[manifest.Requester])
	}
	if s.task.Accepted() != nil {
		w = ptr(s.block[manifest.Worker])
	}
	out := []jcs.Value{must(manifest.Assemble(s.payload, r, w))}
	out = append(append(out, ann.identity()...), ben.identity()...)
	out = append(append(append(out, s.events...), s.asks[p.role]...), s.acks...)
	receipt := relay.Receipt{RelayDid: relayKey.DID(), EnvelopeDigest: signing.DigestOf([]byte("e")), Commit: signing.DigestOf([]byte("c")), To: ben.agent.DID(), Sequence: 7,
		At: signing.TimeOf(noon), Sync: relay.SyncAlways, Origin: "relay.example.org/log", LeafIndex: 0}
	return append(out, must(receipt.Sign(relayKey)))
}

// bundle writes documents and seals them as p with these heads.
func (s *story) bundle(p person, docs []jcs.Value, heads manifest.Heads) string {
	s.tb.Helper()
	var b strings.Builder
	w := audit.NewWriter(&b)
	for _, d := range docs {
		if err := w.Add(d); err != nil {
			s.tb.Fatal(err)
		}
	}
	if err := w.Seal(heads, p.other().agent.DID(), manifest.RevocationMark{At: signing.TimeOf(s.at)}, p.agent, s.at.Add(time.Minute)); err != nil {
		s.tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		s.tb.Fatal(err)
	}
	return b.String()
}

// export is the bundle that p's gateway writes.
func (s *story) export(p person) string { return s.bundle(p, s.documents(p), s.heads(p)) }

func verify(tb testing.TB, text string) audit.Report {
	tb.Helper()
	r, err := audit.Verify(strings.NewReader(text), audit.Options{})
	if err != nil {
		tb.Fatalf("Verify: %v", err)
	}
	return r
}
