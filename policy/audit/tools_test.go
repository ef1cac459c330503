package audit_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

var cleo = person{"Cleo", signing.NewKey([32]byte{11}), signing.NewKey([32]byte{12}), manifest.Worker}

func toolGrant() manifest.Grant {
	return manifest.Grant{CapabilityID: must(manifest.ParseCapabilityID("cap_docs")), Resource: "mcp://docs/public/*", AllowedTools: []string{"docs.read"},
		ArgConstraints: must(jcs.Canonicalize([]byte(`{"properties":{"head":{"maximum":100,"type":"integer"},"path":{"type":"string"}}}`))),
		MaxInvocations: 3, ExpiresAt: signing.TimeOf(noon.Add(24 * time.Hour))}
}

// toolStory is a task of which Ben may call a tool of Ann's, and what both gateways keep of the calls.
type toolStory struct {
	*story
	root  manifest.Verified
	child manifest.Verified // Cleo's link below it; zero where there is none
	docs  []jcs.Value
	calls int
	left  int64
	by    person // who answers; Ann if nobody is named
}

// plain says a fact without asking anybody.
func (s *toolStory) plain(p person, f manifest.Fact) {
	s.tb.Helper()
	s.force(p, s.task.Next(p.agent.DID(), manifest.Body{Fact: f}, s.tick()))
}

func newToolStory(tb testing.TB, handsOn bool) *toolStory {
	tb.Helper()
	m := contract()
	m.Permissions.GrantedCapabilities = []manifest.Grant{toolGrant()}
	m.HITLPolicy.RequiredGates, m.Verification = []manifest.Gate{}, manifest.Verification{Mode: "schema_only", MaxRetries: 1}
	if handsOn {
		m.Permissions.MaxDelegationDepth = 1
	}
	s := &toolStory{story: &story{tb: tb, m: m, block: map[manifest.Role]signing.Block{}, at: noon, asks: map[manifest.Role][]jcs.Value{}}, left: 3}
	for _, p := range []person{ann, ben} {
		b, payload, err := manifest.SignManifest(m, p.role, p.agent, noon)
		if err != nil {
			tb.Fatal(err)
		}
		s.block[p.role], s.payload = b, payload
	}
	s.plain(ann, manifest.Proposed{Manifest: s.payload, Signature: s.block[manifest.Requester]})
	s.plain(ben, manifest.Accepted{Signature: s.block[manifest.Worker], Isolation: manifest.Isolation{Level: "subprocess_restricted", Enforced: "gateway"}, Model: "none", Providers: []string{}})
	g := toolGrant()
	s.root = must(manifest.Sign(&manifest.CapabilityToken{Type: "sealbridge/capability-token", ProtocolVersion: manifest.ProtocolVersion, CapabilityID: g.CapabilityID,
		TaskID: m.TaskID, ManifestDigest: s.task.ManifestDigest(), Issuer: ann.agent.DID(), Audience: ben.agent.DID(), Resource: must(manifest.ParseResource(g.Resource)),
		AllowedTools: g.AllowedTools, ArgConstraints: g.ArgConstraints, MaxInvocations: g.MaxInvocations, ExpiresAt: g.ExpiresAt, Depth: m.Permissions.MaxDelegationDepth,
		MaxStaleness: 86400, Nonce: base64.RawURLEncoding.EncodeToString(make([]byte, 16))}, ann.agent, s.tick()))
	s.plain(ann, manifest.Granted{Tokens: []jcs.Value{s.root.Wire()}})
	s.plain(ben, manifest.Started{})
	return s
}

// introduced is the person's agent as an event introduces it (C7).
func (p person) introduced() *manifest.Introduction {
	id := p.identity()
	return &manifest.Introduction{Certificate: id[0], BoxKey: id[1]}
}

// handOn lets Ben hand two uses on to Cleo, as both chains say it.
func (s *toolStory) handOn() {
	id := must(manifest.ParseTaskID("task_child_0001"))
	m := s.m
	parent := s.m.TaskID
	m.TaskID, m.ParentTaskID, m.CreatedAt = id, &parent, signing.TimeOf(s.tick())
	m.Requester, m.Worker = *s.m.Worker, &manifest.Party{OwnerDid: cleo.owner.DID(), AgentDid: cleo.agent.DID(), DisplayName: "Cleo"}
	g := toolGrant()
	g.MaxInvocations = 2
	m.Permissions = manifest.Permissions{GrantedCapabilities: []manifest.Grant{g}}
	m.Budget.MaxToolInvocations = 2
	part := manifest.Child{Manifest: must(jcs.Encode(m))}
	s.plain(ben, manifest.Asked{Contract: s.task.InForce().Digest, Child: &part})
	s.plain(ann, manifest.Answered{Ask: s.task.Asks()[0].Event, Yes: true})
	s.plain(ben, manifest.Delegated{Child: part.Digest(), Reserved: m.Budget.Limits(), Answer: s.task.Asks()[0].Answer, Worker: cleo.introduced()})
	k := *s.root.Document().(*manifest.CapabilityToken)
	digest := s.root.Digest()
	k.TaskID, k.ManifestDigest, k.Issuer, k.Audience, k.Parent, k.Depth, k.MaxInvocations = id, part.Digest(), ben.agent.DID(), cleo.agent.DID(), &digest, 0, 2
	s.child = must(manifest.Sign(&k, ben.agent, s.tick()))
	s.docs = append(s.docs, cleo.identity()...)
}

// call is a call by p, with what mend makes of it, and Ann's answer, unless mend is told to give none.
func (s *toolStory) call(p person, mend func(*manifest.ToolCall), answer func(*manifest.ToolResult)) (call, result manifest.Verified) {
	s.tb.Helper()
	s.calls++
	c := &manifest.ToolCall{Type: "sealbridge/tool-call", ProtocolVersion: manifest.ProtocolVersion, CallID: must(manifest.ParseCallID(fmt.Sprintf("call_%08d", s.calls))), To: ann.agent.DID(),
		Root: s.root.Digest(), Links: []jcs.Value{}, TaskID: s.m.TaskID, Contract: s.task.InForce().Digest, Tool: "docs.read",
		Resources: []manifest.Resource{must(manifest.ParseResource("mcp://docs/public/a.csv"))}, Arguments: must(jcs.Parse([]byte(`{"path":"a.csv"}`))),
		At: signing.TimeOf(s.tick()), ExpiresAt: signing.TimeOf(s.at.Add(10 * time.Minute))}
	if p.name == cleo.name {
		c.Links, c.TaskID = []jcs.Value{s.child.Wire()}, s.child.Document().(*manifest.CapabilityToken).TaskID
	}
	if mend != nil {
		mend(c)
	}
	call = must(manifest.Sign(c, p.agent, s.at))
	s.left--
	r := &manifest.ToolResult{Type: "sealbridge/tool-result", ProtocolVersion: manifest.ProtocolVersion, To: p.agent.DID(), Call: call.Digest(), State: manifest.CallDone,
		Result: must(jcs.Parse([]byte(`{"content":[]}`))), Defaults: must(jcs.Parse([]byte(`{"head":10}`))), UsesLeft: max(0, s.left), At: signing.TimeOf(s.tick()), Revocations: manifest.RevocationMark{At: signing.TimeOf(s.at)}}
	if answer != nil {
		answer(r)
	}
	answers := ann.agent
	if s.by.agent != nil {
		answers = s.by.agent
	}
	result = must(manifest.Sign(r, answers, s.at))
	s.docs = append(s.docs, call.Wire(), result.Wire())
	return call, result
}

func (s *toolStory) report() audit.Report {
	return verify(s.tb, s.bundle(ann, append(s.documents(ann), s.docs...), s.heads(ann)))
}

// toolFindings are those that are not about the work that was handed on.
func toolFindings(r audit.Report) (out []audit.Finding) {
	for _, f := range r.Findings {
		if strings.HasPrefix(f.Rule, "P") || f.Rule == "G11" {
			continue
		}
		out = append(out, f)
	}
	return out
}

func TestCallsWithinTheirGrantHold(t *testing.T) {
	s := newToolStory(t, true)
	s.handOn()
	s.call(ben, nil, nil)
	s.call(cleo, nil, nil)
	s.call(ben, nil, func(r *manifest.ToolResult) {
		r.State, r.Result, r.Defaults, r.UsesLeft = manifest.CallRefused, jcs.Value{}, jcs.Value{}, 1
		r.Denial = &manifest.Denial{Reason: "capability-denied", Rule: "C3", Link: 1}
	})
	s.call(cleo, nil, func(r *manifest.ToolResult) { r.State, r.Result, r.UsesLeft = manifest.CallUnknown, jcs.Value{}, 0 })
	r := s.report()
	if fs := toolFindings(r); len(fs) > 0 {
		t.Fatalf("%+v", fs)
	}
	if len(r.Facts.Tools) != 1 || r.Facts.Tools[0].Used != 3 || r.Facts.Tools[0].Of != 3 || len(r.Facts.Tools[0].Calls) != 4 || r.Facts.Tools[0].Calls[1].Links != 2 {
		t.Errorf("%+v", r.Facts.Tools)
	}
	if !slices.ContainsFunc(r.Proven, func(e audit.Entry) bool { return e.Rule == "C5" && strings.Contains(e.What, "3 of 3") }) {
		t.Errorf("%+v", r.Proven)
	}
}

// A whole task of which a tool was used binds, in both owners' hands.
func TestATaskWithCallsBinds(t *testing.T) {
	s := newToolStory(t, false)
	s.call(ben, nil, nil)
	s.call(ben, nil, nil)
	c := s.task.InForce()
	d := manifest.Delivery{Contract: c.Digest, Revision: 1, Output: jcs.EmptyObject, Artifacts: []manifest.ArtifactRef{}, Evidence: []manifest.Evidence{}}
	s.plain(ben, manifest.Delivered{Delivery: d, Usage: used(1)})
	digest := s.task.Delivery().Digest
	s.plain(ann, manifest.Completed{Delivery: digest, Report: manifest.Report{Delivery: digest, Contract: c.Digest, Mode: "schema_only", Checks: []manifest.CheckResult{{Check: "schema", Kind: "json_schema", Result: "pass"}}, Verdict: "pass", At: signing.TimeOf(s.tick())}})
	s.ack(ben)
	for _, p := range []person{ann, ben} {
		r := verify(t, s.bundle(p, append(s.documents(p), s.docs...), s.heads(p)))
		if !r.Verified || !r.Binding || len(r.Findings) > 0 || len(r.Facts.Tools) != 1 || r.Facts.Tools[0].Used != 2 {
			t.Errorf("%s: verified %v, binding %v, %+v %+v", p.name, r.Verified, r.Binding, r.Findings, r.Missing)
		}
	}
	// What the worker says that it used is held against what was answered (B7).
	few := newToolStory(t, false)
	few.call(ben, nil, nil)
	usage := used(1)
	usage.ToolInvocations = 0
	few.plain(ben, manifest.Failed{Reason: "internal", Usage: usage})
	if r := few.report(); !slices.ContainsFunc(r.Findings, func(f audit.Finding) bool { return f.Rule == "B7" && f.Severity == audit.Note }) {
		t.Errorf("a difference of the counts is not found: %+v", r.Findings)
	}
}

// Each row is a call that was answered and may not have been, or an answer that is none.
func TestACallThatMayNotBeIsSeenOffline(t *testing.T) {
	revoke := func(s *toolStory, owner signing.Signer, digest signing.Digest) {
		s.docs = append(s.docs, must(manifest.Sign(&manifest.Revocation{Type: "sealbridge/revocation", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: owner.DID(), Target: "capability-token",
			TargetDigest: digest, Seq: 1, Reason: "no more", Stands: []manifest.Stand{}, At: signing.TimeOf(s.tick())}, owner, s.at)).Wire())
	}
	for _, tt := range []struct {
		name string
		do   func(*toolStory)
		word spec.Reason
		rule string
		sev  string
	}{
		{"a use over the count", func(s *toolStory) {
			for range 4 {
				s.call(ben, nil, nil)
			}
		}, spec.CapabilityExhausted, "C5", audit.Wrong},
		{"more than the link has", func(s *toolStory) {
			for range 3 {
				s.call(cleo, nil, nil)
			}
		}, spec.CapabilityExhausted, "C5", audit.Wrong},
		{"after it was taken back", func(s *toolStory) { revoke(s, ann.owner, s.root.Digest()); s.call(ben, nil, nil) }, spec.Revoked, "C2k", audit.Wrong},
		{"after the link was taken back", func(s *toolStory) { revoke(s, ben.owner, s.child.Digest()); s.call(cleo, nil, nil) }, spec.Revoked, "C2k", audit.Wrong},
		{"after the link was taken back from above", func(s *toolStory) { revoke(s, ann.owner, s.child.Digest()); s.call(cleo, nil, nil) }, spec.Revoked, "C2k", audit.Wrong},
		{"after the ending", func(s *toolStory) { s.plain(ann, manifest.Cancelled{Reason: "no"}); s.call(ben, nil, nil) }, spec.CapabilityDenied, "C2", audit.Wrong},
		{"another tool", func(s *toolStory) { s.call(ben, func(c *manifest.ToolCall) { c.Tool = "docs.write" }, nil) }, spec.CapabilityDenied, "C2f", audit.Wrong},
		{"another resource", func(s *toolStory) {
			s.call(ben, func(c *manifest.ToolCall) {
				c.Resources = []manifest.Resource{must(manifest.ParseResource("mcp://docs/private/a.csv"))}
			}, nil)
		}, spec.CapabilityDenied, "C1", audit.Wrong},
		{"other arguments", func(s *toolStory) {
			s.call(ben, func(c *manifest.ToolCall) { c.Arguments = must(jcs.Parse([]byte(`{"head":101,"path":"a.csv"}`))) }, nil)
		}, spec.CapabilityDenied, "C3", audit.Wrong},
		{"without the default", func(s *toolStory) { s.call(ben, nil, func(r *manifest.ToolResult) { r.Defaults = jcs.Value{} }) }, spec.CapabilityDenied, "C3", audit.Wrong},
		{"by another agent", func(s *toolStory) {
			s.call(cleo, func(c *manifest.ToolCall) { c.Links, c.TaskID = []jcs.Value{}, s.m.TaskID }, nil)
		}, spec.CapabilityDenied, "C4", audit.Wrong},
		{"under a root of nobody", func(s *toolStory) { s.call(ben, func(c *manifest.ToolCall) { c.Root = signing.DigestOf(nil) }, nil) }, spec.NotFound, "C5", audit.Absent},
		{"an answer to nobody", func(s *toolStory) { s.call(ben, nil, func(r *manifest.ToolResult) { r.To = cleo.agent.DID() }) }, spec.WrongSigner, "C5", audit.Wrong},
		{"an answer without a call", func(s *toolStory) {
			s.call(ben, nil, nil)
			s.docs = slices.Delete(s.docs, len(s.docs)-2, len(s.docs)-1)
		}, spec.NotFound, "C5", audit.Absent},
		{"a call without an answer", func(s *toolStory) { s.call(ben, nil, nil); s.docs = s.docs[:len(s.docs)-1] }, spec.NotFound, "C5", audit.Note},
		{"two answers", func(s *toolStory) {
			_, r := s.call(ben, nil, nil)
			other := *r.Document().(*manifest.ToolResult)
			other.Result = must(jcs.Parse([]byte(`{"content":[1]}`)))
			s.docs = append(s.docs, must(manifest.Sign(&other, ann.agent, s.at)).Wire())
		}, spec.Conflict, "C4", audit.Wrong},
		{"more uses left than there are", func(s *toolStory) {
			s.call(ben, nil, nil)
			s.call(ben, nil, func(r *manifest.ToolResult) { r.UsesLeft = 2 })
		}, spec.VerificationFailed, "B7", audit.Note},
		{"a caller whom nobody certified", func(s *toolStory) { s.docs = s.docs[2:]; s.call(cleo, nil, nil) }, spec.UnknownKey, "I4", audit.Absent},
		{"a link that is wider", func(s *toolStory) {
			k := *s.child.Document().(*manifest.CapabilityToken)
			k.MaxInvocations = 50
			s.child = must(manifest.Sign(&k, ben.agent, s.at))
			s.call(cleo, nil, nil)
		}, spec.NotAttenuated, "C2g", audit.Wrong},
		{"a link for a child of nobody", func(s *toolStory) {
			k := *s.child.Document().(*manifest.CapabilityToken)
			k.ManifestDigest = signing.DigestOf([]byte("another child"))
			s.child = must(manifest.Sign(&k, ben.agent, s.at))
			s.call(cleo, nil, nil)
		}, spec.CapabilityDenied, "C2d", audit.Wrong},
	} {
		s := newToolStory(t, true)
		s.handOn()
		tt.do(s)
		r := s.report()
		if !slices.ContainsFunc(r.Findings, func(f audit.Finding) bool {
			return f.Code == string(tt.word) && f.Rule == tt.rule && f.Severity == tt.sev
		}) {
			t.Errorf("%s: no %s %s by %s in %+v", tt.name, tt.sev, tt.word, tt.rule, toolFindings(r))
		}
		if r.Binding {
			t.Errorf("%s: binding", tt.name)
		}
	}
}

// A tool of a third owner's, used under a link: the chain and what it covers are
// held, the owner's own contract is not here.
func TestCallsOnAThirdOwnersToolHoldAsFarAsTheirChainSays(t *testing.T) {
	made := func() *toolStory {
		s := newToolStory(t, false)
		top := *s.root.Document().(*manifest.CapabilityToken)
		top.TaskID, top.ManifestDigest, top.Depth = must(manifest.ParseTaskID("task_above_0001")), signing.DigestOf([]byte("above")), 1
		top.Issuer, top.Audience = cleo.agent.DID(), ann.agent.DID()
		root := must(manifest.Sign(&top, cleo.agent, s.at))
		link := *s.root.Document().(*manifest.CapabilityToken)
		digest := root.Digest()
		link.Parent, link.MaxInvocations = &digest, 2
		s.root, s.child = root, must(manifest.Sign(&link, ann.agent, s.tick()))
		s.plain(ann, manifest.Granted{Tokens: []jcs.Value{s.child.Wire()}, Above: []jcs.Value{root.Wire()}, Issuer: cleo.introduced()})
		s.docs = append(s.docs, cleo.identity()...)
		return s
	}
	call := func(s *toolStory, mend func(*manifest.ToolCall)) {
		s.by = cleo
		s.call(ben, func(c *manifest.ToolCall) {
			c.To, c.Links = cleo.agent.DID(), []jcs.Value{s.child.Wire()}
			if mend != nil {
				mend(c)
			}
		}, nil)
	}
	s := made()
	call(s, nil)
	call(s, nil)
	r := s.report()
	if fs := toolFindings(r); len(fs) > 0 || len(r.Facts.Tools) != 1 || r.Facts.Tools[0].Used != 2 || r.Facts.Tools[0].Calls[0].Links != 2 {
		t.Errorf("%+v %+v", fs, r.Facts.Tools)
	}
	for _, tt := range []struct {
		name string
		do   func(*toolStory)
		rule string
	}{
		{"a third use", func(s *toolStory) { call(s, nil); call(s, nil); call(s, nil) }, "C5"},
		{"another tool", func(s *toolStory) { call(s, func(c *manifest.ToolCall) { c.Tool = "docs.write" }) }, "C2f"},
		{"another resource", func(s *toolStory) {
			call(s, func(c *manifest.ToolCall) {
				c.Resources = []manifest.Resource{must(manifest.ParseResource("mcp://docs/x"))}
			})
		}, "C1"},
		{"other arguments", func(s *toolStory) {
			call(s, func(c *manifest.ToolCall) { c.Arguments = must(jcs.Parse([]byte(`{"path":7}`))) })
		}, "C3"},
		{"answered by another", func(s *toolStory) {
			call(s, nil)
			s.by = ann
			s.call(ben, func(c *manifest.ToolCall) { c.To, c.Links = cleo.agent.DID(), []jcs.Value{s.child.Wire()} }, nil)
		}, "C5"},
	} {
		s := made()
		tt.do(s)
		if r := s.report(); !slices.ContainsFunc(r.Findings, func(f audit.Finding) bool { return f.Rule == tt.rule }) {
			t.Errorf("%s: %+v", tt.name, toolFindings(r))
		}
	}
}

// F5: no byte of a token, a call or an answer can change, alone or in a bundle.
func TestNoByteOfACallCanChange(t *testing.T) {
	s := newToolStory(t, true)
	s.handOn()
	call, result := s.call(cleo, nil, nil)
	for _, v := range []manifest.Verified{s.root, s.child, call, result} {
		raw := v.Wire().Bytes()
		if !holds(string(raw)) {
			t.Fatalf("a good %s does not hold", manifest.TypeName(v.Wire()))
		}
		for i := range raw {
			if testing.Short() && i%7 != 0 {
				continue
			}
			raw[i] ^= 1
			if holds(string(raw)) {
				t.Fatalf("%s: byte %d changed, and it still holds", manifest.TypeName(v.Wire()), i)
			}
			raw[i] ^= 1
		}
	}
	docs := append(s.documents(ann), s.docs...)
	good := len(toolFindings(s.report()))
	for i := range docs {
		if typ := manifest.TypeName(docs[i]); typ != "tool-call" && typ != "tool-result" {
			continue
		}
		cut := slices.Delete(slices.Clone(docs), i, i+1)
		if r := verify(t, s.bundle(ann, cut, s.heads(ann))); len(toolFindings(r)) <= good {
			t.Errorf("a %s left out is not noticed", manifest.TypeName(docs[i]))
		}
	}
}
