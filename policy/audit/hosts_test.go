package audit_test

import (
	"slices"
	"strings"
	"testing"

	"sealbridge/manifest"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// hostStory is a task whose agent may come to reach two hosts, at work.
func hostStory(tb testing.TB) *story {
	tb.Helper()
	m := contract()
	m.SandboxPolicy.NetworkAccess, m.SandboxPolicy.AllowedHosts = "allowlist_only", []string{"api.example.org", "other.example.org"}
	m.HITLPolicy.RequiredGates, m.Verification = []manifest.Gate{manifest.EffectGate}, manifest.Verification{Mode: "schema_only", MaxRetries: 1}
	s := &story{tb: tb, m: m, block: map[manifest.Role]signing.Block{}, at: noon, asks: map[manifest.Role][]jcs.Value{}}
	for _, p := range []person{ann, ben} {
		b, payload, err := manifest.SignManifest(m, p.role, p.agent, noon)
		if err != nil {
			tb.Fatal(err)
		}
		s.block[p.role], s.payload = b, payload
	}
	s.plainly(ann, manifest.Proposed{Manifest: s.payload, Signature: s.block[manifest.Requester]})
	s.plainly(ben, manifest.Accepted{Signature: s.block[manifest.Worker], Isolation: manifest.Isolation{Level: "subprocess_restricted", Enforced: "gateway"}, Model: "none", Providers: []string{}})
	return s.plainly(ben, manifest.Started{})
}

// plainly says a fact without asking anybody.
func (s *story) plainly(p person, f manifest.Fact) *story {
	s.tb.Helper()
	return s.force(p, s.task.Next(p.agent.DID(), manifest.Body{Fact: f}, s.tick()))
}

// open says that a host is opened, with the yes of Ben's owner.
func (s *story) open(host string) *story {
	f := manifest.Progressed{Usage: used(10), Waiting: "nobody", Opens: &manifest.Opens{Host: host}}
	return s.say(ben, f, func(v *jcs.Value) manifest.Fact {
		f.Opens = &manifest.Opens{Host: host, Decision: v}
		return f
	})
}

// reach delivers, and attests a host.
func (s *story) reach(host string) *story {
	d := manifest.Delivery{Contract: s.task.InForce().Digest, Revision: 1, Output: jcs.EmptyObject, Artifacts: []manifest.ArtifactRef{}, Evidence: []manifest.Evidence{},
		Attestation: &manifest.Attestation{Runner: "exec", Isolation: manifest.Isolation{Level: "subprocess_restricted", Enforced: "gateway"}, Enforces: []string{},
			Reached: []manifest.Reached{{Host: host, Port: 443, Addresses: []string{"9.1.1.1"}, Connections: 2, Sent: 1200, Received: 34000}}}}
	return s.plainly(ben, manifest.Delivered{Delivery: d, Usage: used(100)}).ack(ann)
}

func TestAnOpenedHostIsProvenAndWhatWasReachedIsClaimed(t *testing.T) { // X1, V4
	s := hostStory(t).open("api.example.org").reach("api.example.org")
	r := verify(t, s.export(ben))
	if !r.Verified || len(r.Facts.Opened) != 1 || !r.Facts.Opened[0].Approved || len(r.Facts.Approvals) != 1 || !r.Facts.Approvals[0].Shown {
		t.Errorf("verified %v, opened %+v, approvals %+v, %+v", r.Verified, r.Facts.Opened, r.Facts.Approvals, r.Findings)
	}
	if !slices.ContainsFunc(r.Claimed, func(e audit.Entry) bool {
		return e.Rule == "X1" && strings.Contains(e.What, "api.example.org port 443: 2 connections")
	}) {
		t.Errorf("claimed: %+v", r.Claimed)
	}
	if !slices.ContainsFunc(r.Limits, func(l audit.Limit) bool { return l.ID == "L6" && strings.Contains(l.Text, "nobody saw") }) {
		t.Errorf("limits: %+v", r.Limits)
	}
	var b strings.Builder
	if err := audit.Text(r, &b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"Opened", "api.example.org  by Ben's owner, for this task", "Reached", "2 connections, 1,200 bytes sent, 34,000 received"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
}

func TestAHostThatNobodyOpenedIsSeen(t *testing.T) { // X1, G11
	bare := manifest.Progressed{Usage: used(10), Waiting: "nobody", Opens: &manifest.Opens{Host: "api.example.org"}}
	foreign := manifest.Progressed{Usage: used(10), Waiting: "nobody", Opens: &manifest.Opens{Host: "evil.example"}}
	for name, c := range map[string]struct {
		s    *story
		want spec.Reason
	}{
		"opened without a decision":            {hostStory(t).plainly(ben, bare), spec.GateOpen},
		"a host of no contract":                {hostStory(t).plainly(ben, foreign), spec.NotPermitted},
		"reached and not opened":               {hostStory(t).open("api.example.org").reach("other.example.org"), spec.VerificationFailed},
		"reached, and the contract has it not": {hostStory(t).reach("evil.example"), spec.VerificationFailed},
	} {
		if r := verify(t, c.s.export(ben)); r.Verified || !has(r, c.want) {
			t.Errorf("%s: verified %v: %+v", name, r.Verified, r.Findings)
		}
	}
	// A yes to one host is none to another.
	s := hostStory(t).open("api.example.org")
	for _, w := range s.events {
		if e, ok := must(manifest.OpenValue(w, nil)).Document().(*manifest.Event); ok {
			if p, ok := e.Body.Fact.(manifest.Progressed); ok {
				s.plainly(ben, manifest.Progressed{Usage: used(11), Waiting: "nobody", Opens: &manifest.Opens{Host: "other.example.org", Decision: p.Opens.Decision}})
			}
		}
	}
	if r := verify(t, s.export(ben)); r.Verified || !has(r, spec.GateOpen) {
		t.Errorf("one yes for two hosts: verified %v: %+v", r.Verified, r.Findings)
	}
}
