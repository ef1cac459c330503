package policy

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func grantScene(t *testing.T, depth int64) *scene {
	return newScene(t, func(m *manifest.TaskManifest) {
		m.Permissions = manifest.Permissions{GrantedCapabilities: []manifest.Grant{grant()}, MaxDelegationDepth: depth}
	}).working()
}

func lets(d Decision) bool { return d.Outcome == Allow }

func TestTokensAreForTheGrantsOfTheirContract(t *testing.T) {
	s := grantScene(t, 2)
	good := func() *manifest.CapabilityToken { return rootToken(s.m, s.task.ManifestDigest(), 2) }
	say := func(by signing.Signer, ts ...*manifest.CapabilityToken) Decision {
		var docs []jcs.Value
		for _, k := range ts {
			docs = append(docs, must(manifest.Sign(k, by, t0)).Wire())
		}
		return Contract(s.draft(manifest.Requester, manifest.Requester, manifest.Granted{Tokens: docs}))
	}
	if d := say(ann.agent, good()); !lets(d) {
		t.Fatalf("a good token: %s %s %s", d.Rule, d.Path, d.Limit)
	}
	narrow := good()
	narrow.MaxInvocations, narrow.Depth, narrow.Resource = 3, 0, resource("mcp://docs/public/q1/*")
	if d := say(ann.agent, narrow); !lets(d) {
		t.Errorf("a narrower token: %s %s", d.Rule, d.Path)
	}
	for _, tt := range []struct {
		name string
		mend func(*manifest.CapabilityToken)
		rule string
		path string
	}{
		{"for another agent", func(k *manifest.CapabilityToken) { k.Audience = agentKey(7).DID() }, "C2", "/audience"},
		{"for another contract", func(k *manifest.CapabilityToken) { k.ManifestDigest = childDigest(1) }, "C2", "/manifestDigest"},
		{"for another task", func(k *manifest.CapabilityToken) { k.TaskID = childTask(1) }, "C2", "/manifestDigest"},
		{"for no grant", func(k *manifest.CapabilityToken) { k.CapabilityID = must(manifest.ParseCapabilityID("cap_other")) }, "C2", "/capabilityId"},
		{"a wider resource", func(k *manifest.CapabilityToken) { k.Resource = resource("mcp://docs/*") }, "C2e", "/resource"},
		{"a tool more", func(k *manifest.CapabilityToken) { k.AllowedTools = append([]string{"docs.write"}, k.AllowedTools...) }, "C2f", "/allowedTools/0"},
		{"a use more", func(k *manifest.CapabilityToken) { k.MaxInvocations++ }, "C2g", "/maxInvocations"},
		{"an hour more", func(k *manifest.CapabilityToken) { k.ExpiresAt = signing.TimeOf(k.ExpiresAt.Time().Add(time.Hour)) }, "C2h", "/expiresAt"},
		{"no constraints", func(k *manifest.CapabilityToken) { k.ArgConstraints = jcs.Value{} }, "C2", "/argConstraints"},
		{"a link more", func(k *manifest.CapabilityToken) { k.Depth++ }, "C2i", "/depth"},
		{"below what is not here", func(k *manifest.CapabilityToken) { d := childDigest(4); k.Parent = &d }, "C2a", "/parent"},
	} {
		k := good()
		tt.mend(k)
		if d := say(ann.agent, k); d.Outcome != Deny || d.Rule != tt.rule || d.Path != "/body/tokens/0"+tt.path {
			t.Errorf("%s: %v %s %s %s", tt.name, d.Outcome, d.Rule, d.Path, d.Limit)
		}
	}
	again := good()
	again.Nonce = tokenNonce(9)
	if d := say(ann.agent, good(), again); d.Outcome != Deny || d.Rule != "C2c" {
		t.Errorf("two tokens of one grant: %s", d.Rule)
	}
	stranger := good()
	stranger.Issuer = agentKey(9).DID()
	if d := say(agentKey(9), stranger); d.Outcome != Deny || d.Rule != "C2b" {
		t.Errorf("issued by a stranger: %s", d.Rule)
	}
	if d := Contract(s.draft(manifest.Requester, manifest.Requester, manifest.Granted{Tokens: []jcs.Value{canonical(`{"signature":{},"type":"sealbridge/capability-token"}`)}})); d.Outcome != Deny || lets(d) {
		t.Errorf("no token at all: %s", d.Limit)
	}
}

// What a requester hands on stands below what it holds, and that is here too (C2).
func TestAGrantBelowATokenComesWithWhatStandsAbove(t *testing.T) {
	s := grantScene(t, 1)
	// Cleo's root for Ann, of an owner further up: Ann holds it and hands it to Ben.
	cleo := agentKey(5)
	above := rootToken(s.m, childDigest(20), 3)
	above.TaskID, above.Issuer, above.Audience, above.Nonce = childTask(20), cleo.DID(), ann.agent.DID(), tokenNonce(20)
	root := must(manifest.Sign(above, cleo, t0))
	chain := must(NewChain(root.Signed))
	k, err := Mint(s.task, grant().CapabilityID, &chain, tokenNonce(21))
	if err != nil || k.Depth != 1 || *k.Parent != root.Digest() {
		t.Fatalf("%+v %v", k, err)
	}
	issuer := introduction(agentKey(6), cleo)
	say := func(k *manifest.CapabilityToken, above ...jcs.Value) Decision {
		return Contract(s.draft(manifest.Requester, manifest.Requester, manifest.Granted{Tokens: []jcs.Value{must(manifest.Sign(k, ann.agent, t0)).Wire()}, Above: above, Issuer: issuer}))
	}
	if d := say(k, root.Wire()); !lets(d) {
		t.Errorf("%s %s %s", d.Rule, d.Path, d.Limit)
	}
	if d := say(k); d.Rule != "C2a" {
		t.Errorf("without it: %s", d.Rule)
	}
	if d := say(k, root.Wire(), root.Wire()); d.Outcome != Deny || lets(d) {
		t.Error("twice is once")
	}
	held := issuer
	for name, other := range map[string]*manifest.Introduction{"nobody": nil, "another agent": introduction(agentKey(7), agentKey(8))} {
		if issuer = other; say(k, root.Wire()).Rule != "C7" {
			t.Errorf("a link whose tools are %s's passes", name)
		}
	}
	issuer = held
	hs := Holdings(manifest.Granted{Tokens: []jcs.Value{must(manifest.Sign(k, ann.agent, t0)).Wire()}, Above: []jcs.Value{root.Wire()}})
	if len(hs) != 1 || hs[0].Chain.Len() != 2 || hs[0].Token.CapabilityID != k.CapabilityID {
		t.Errorf("Ben holds %v", hs)
	}
	small := *above
	small.MaxInvocations = 2
	narrow := must(NewChain(must(manifest.Sign(&small, cleo, t0)).Signed))
	if _, err := Mint(s.task, grant().CapabilityID, &narrow, tokenNonce(22)); spec.ReasonOf(err) != spec.NotAttenuated {
		t.Error("more is handed on than is held:", err)
	}
	small.MaxInvocations, small.Depth = above.MaxInvocations, 0
	last := must(NewChain(must(manifest.Sign(&small, cleo, t0)).Signed))
	if _, err := Mint(s.task, grant().CapabilityID, &last, tokenNonce(23)); spec.ReasonOf(err) != spec.DepthExceeded {
		t.Error("the last of a chain is handed on:", err)
	}
}

func TestWhatIsMintedIsWhatWasGranted(t *testing.T) {
	s := grantScene(t, 2)
	k, err := Mint(s.task, grant().CapabilityID, nil, tokenNonce(1))
	if err != nil || k.Depth != 2 || k.MaxStaleness != 86400 || k.Parent != nil || Covers(grant(), k.Grant()) != nil || Covers(k.Grant(), grant()) != nil {
		t.Errorf("%+v %v", k, err)
	}
	d := Contract(s.draft(manifest.Requester, manifest.Requester, manifest.Granted{Tokens: []jcs.Value{must(manifest.Sign(k, ann.agent, t0)).Wire()}}))
	if !lets(d) {
		t.Errorf("%s %s", d.Rule, d.Path)
	}
	if _, err := Mint(s.task, must(manifest.ParseCapabilityID("cap_none")), nil, tokenNonce(1)); err == nil {
		t.Error("minted from nothing")
	}
}

func TestAGrantThatCannotBeComparedCannotBeGiven(t *testing.T) { // B008, B009
	for _, tt := range []struct {
		name string
		mend func(*manifest.Grant)
		path string
	}{
		{"no tail", func(g *manifest.Grant) { g.Resource = "mcp://docs" }, "/resource"},
		{"two stars", func(g *manifest.Grant) { g.Resource = "mcp://docs/**" }, "/resource"},
		{"a star inside", func(g *manifest.Grant) { g.Resource = "mcp://docs/*/a" }, "/resource"},
		{"a parent segment", func(g *manifest.Grant) { g.Resource = "mcp://docs/../*" }, "/resource"},
		{"an encoded one", func(g *manifest.Grant) { g.Resource = "mcp://docs/%2e%2e" }, "/resource"},
		{"upper case", func(g *manifest.Grant) { g.Resource = "mcp://Docs/a" }, "/resource"},
		{"a tool twice", func(g *manifest.Grant) { g.AllowedTools = []string{"a", "a"} }, "/allowedTools/1"},
		{"a word of the whole language", func(g *manifest.Grant) {
			g.ArgConstraints = canonical(`{"properties":{"a":{"type":"string","format":"email"}}}`)
		}, "/argConstraints/properties/a/format"},
		{"a member of no type", func(g *manifest.Grant) { g.ArgConstraints = canonical(`{"properties":{"a":{"const":1}}}`) }, "/argConstraints/properties/a/type"},
		{"half an anchor", func(g *manifest.Grant) {
			g.ArgConstraints = canonical(`{"properties":{"a":{"type":"string","pattern":"^a"}}}`)
		}, "/argConstraints/properties/a/pattern"},
		{"an open object", func(g *manifest.Grant) { g.ArgConstraints = canonical(`{"additionalProperties":true}`) }, "/argConstraints/additionalProperties"},
	} {
		g := grant()
		tt.mend(&g)
		m := contract(func(m *manifest.TaskManifest) { m.Permissions.GrantedCapabilities = []manifest.Grant{g} })
		err := Grantable(m)
		if spec.ReasonOf(err) != spec.CapabilityDenied || pathOf(err) != "/permissions/grantedCapabilities/0"+tt.path {
			t.Errorf("%s: %v", tt.name, err)
		}
		if s := newScene(t, func(n *manifest.TaskManifest) { *n = m }); Contract(s.draft(manifest.Requester, manifest.Worker, s.proposal())).Outcome != Deny {
			t.Errorf("%s: proposed", tt.name)
		}
	}
	if err := Grantable(contract(func(m *manifest.TaskManifest) { m.Permissions.GrantedCapabilities = []manifest.Grant{grant()} })); err != nil {
		t.Error("a good one:", err)
	}
	if got := must(manifest.ParseResource("mcp://docs/" + strings.Repeat("a", 400))); got.IsZero() {
		t.Error("no resource")
	}
}

// introduction is an agent as somebody else introduces it.
func introduction(owner, agent signing.Signer) *manifest.Introduction {
	cert := must(manifest.Sign(&manifest.AgentCertificate{Type: "sealbridge/agent-certificate", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: owner.DID(), AgentDid: agent.DID(), Serial: 1,
		IssuedAt: signing.TimeOf(t0), ExpiresAt: signing.TimeOf(t0.Add(time.Hour)), DisplayName: "x", Relay: manifest.RelayRef{Endpoint: "wss://r", Did: signing.NewKey([32]byte{77}).DID()}, NextKey: signing.DigestOf(nil)}, owner, t0))
	text := base64.RawURLEncoding.EncodeToString([]byte("key"))
	box := must(manifest.Sign(&manifest.BoxKey{Type: "sealbridge/box-key", ProtocolVersion: manifest.ProtocolVersion, AgentDid: agent.DID(), OwnerDid: owner.DID(), CertificateDigest: cert.Digest(), Seq: 1,
		Kid: signing.DigestOf([]byte("key")), Key: text, NotBefore: signing.TimeOf(t0), NotAfter: signing.TimeOf(t0.Add(time.Hour))}, agent, t0))
	return &manifest.Introduction{Certificate: cert.Wire(), BoxKey: box.Wire()}
}
