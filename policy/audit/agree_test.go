package audit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// enforcer is Ann's gateway as far as the law goes: it decides, counts and answers.
type enforcer struct {
	s      *toolStory
	trust  manifest.Trust
	ledger policy.Ledger
	chains *policy.Chains
}

func (e *enforcer) decide(call manifest.Verified) policy.CallDecision {
	doc := call.Document().(*manifest.ToolCall)
	chain, err := e.chains.ChainOf(nil, doc, e.s.root.Wire())
	if err != nil {
		n := policy.DenialOf(err)
		return policy.CallDecision{Decision: policy.Decision{Rule: n.Rule}}
	}
	c := policy.CallCase{Call: call, Chain: chain, Self: ann.agent.DID(), Task: e.s.task, Trust: e.trust, Ledger: e.ledger, At: e.s.at, Heard: map[signing.DID]time.Time{},
		Table:    policy.ToolTable{"docs.read": {Templates: []policy.Template{must(policy.ParseTemplate("mcp://docs/public/{path}"))}, Defaults: must(jcs.Parse([]byte(`{"head":10}`))), Effects: []string{"none"}}},
		Children: map[signing.Digest]manifest.TaskManifest{}}
	for owner := range e.trust.Contacts {
		c.Heard[owner] = e.s.at
	}
	for _, child := range e.s.task.Children() {
		for _, ask := range e.s.task.Asks() {
			if ask.Part != nil && ask.Child == child.Manifest {
				c.Children[child.Manifest] = must(ask.Part.Contract())
			}
		}
	}
	d := policy.Calls(c)
	if d.Outcome == policy.Allow {
		e.ledger = must(e.ledger.Apply(d.Moves...))
		e.ledger = must(e.ledger.Apply(policy.CallEnds(e.ledger, c.Task.Key(), chain, call.Digest(), true)...))
		e.s.left--
	}
	return d
}

// trusted is what Ann's gateway knows of the three.
func trusted() manifest.Trust {
	t := manifest.NewTrust(ann.owner.DID())
	for _, p := range []person{ann, ben, cleo} {
		t = t.Put(p.owner.DID(), manifest.Contact{Confirmed: true})
		for _, doc := range p.identity() {
			t = must(t.Apply(must(t.Admit(must(manifest.OpenValue(doc, nil)), noon))))
		}
	}
	return t
}

// callChanges are what a caller might try; the first two are good.
var callChanges = []func(*manifest.ToolCall){
	func(*manifest.ToolCall) {},
	func(c *manifest.ToolCall) { c.Arguments = must(jcs.Parse([]byte(`{"head":3,"path":"a.csv"}`))) },
	func(c *manifest.ToolCall) { c.Tool = "docs.write" },
	func(c *manifest.ToolCall) { c.Arguments = must(jcs.Parse([]byte(`{"head":101,"path":"a.csv"}`))) },
	func(c *manifest.ToolCall) { c.Arguments = must(jcs.Parse([]byte(`{"path":"a.csv","raw":1}`))) },
	func(c *manifest.ToolCall) { c.TaskID = must(manifest.ParseTaskID("task_another_1")) },
	func(c *manifest.ToolCall) { c.Links = append(c.Links, c.Links...) },
	func(c *manifest.ToolCall) { c.To = ben.agent.DID() },
}

// Issuer, enforcer and offline auditor come to the same answer: what the enforcer
// answered, the auditor finds nothing wrong with; what it refused, the auditor
// finds wrong had it been answered.
func TestIssuerEnforcerAndAuditorAgree(t *testing.T) {
	allowed, refused := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		s := newToolStory(t, true)
		s.handOn()
		e := &enforcer{s: s, trust: trusted(), chains: policy.NewChains()}
		var forged []jcs.Value // a call that was refused, with an answer all the same
		for n := range rapid.IntRange(1, 7).Draw(r, "calls") {
			if rapid.IntRange(0, 9).Draw(r, fmt.Sprintf("before %d", n)) == 0 {
				target := rapid.SampledFrom([]manifest.Verified{s.root, s.child}).Draw(r, "taken back")
				v := must(manifest.Sign(&manifest.Revocation{Type: "sealbridge/revocation", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: ann.owner.DID(), Target: "capability-token",
					TargetDigest: target.Digest(), Seq: int64(n + 1), Reason: "no more", Stands: []manifest.Stand{}, At: signing.TimeOf(s.tick())}, ann.owner, s.at))
				e.trust = must(e.trust.Apply(must(e.trust.Admit(v.Signed, s.at))))
				s.docs = append(s.docs, v.Wire())
				s.tick()
			}
			who := rapid.SampledFrom([]person{ben, cleo}).Draw(r, "who")
			mend := rapid.SampledFrom(callChanges).Draw(r, "change")
			var d policy.CallDecision
			before := len(s.docs)
			s.left++ // the enforcer counts
			call, result := s.call(who, mend, nil)
			d = e.decide(call)
			honest := *result.Document().(*manifest.ToolResult)
			honest.UsesLeft, honest.Defaults = s.left, d.Defaults
			if d.Outcome == policy.Allow {
				allowed++
				s.docs = append(s.docs[:before], call.Wire(), must(manifest.Sign(&honest, ann.agent, s.at)).Wire())
				continue
			}
			refused++
			forged = []jcs.Value{call.Wire(), result.Wire()}
			honest.State, honest.Result, honest.Defaults, honest.Denial = manifest.CallRefused, jcs.Value{}, jcs.Value{}, &manifest.Denial{Reason: "capability-denied", Rule: "C2"}
			s.docs = append(s.docs[:before], call.Wire(), must(manifest.Sign(&honest, ann.agent, s.at)).Wire())
		}
		errors := func(f audit.Finding) bool { return f.Severity == audit.Wrong }
		if fs := toolFindings(s.report()); slices.ContainsFunc(fs, errors) {
			r.Fatalf("the auditor does not agree with an honest enforcer: %+v", fs)
		}
		if forged == nil {
			return
		}
		s.docs = append(slices.DeleteFunc(s.docs, func(d jcs.Value) bool { return d == forged[0] }), forged...)
		if fs := toolFindings(s.report()); !slices.ContainsFunc(fs, func(f audit.Finding) bool { return errors(f) || f.Severity == audit.Absent }) {
			r.Fatalf("a call that the enforcer refused and that was answered is not found: %+v", fs)
		}
	})
	if allowed == 0 || refused == 0 {
		t.Errorf("%d allowed, %d refused: the draw is lopsided", allowed, refused)
	}
}
