package policy

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// More owners, for chains: each works for the one before it.
func agentKey(n int) signing.Signer { return signing.NewKey([32]byte{100, byte(n)}) }
func ownerKey(n int) signing.Signer { return signing.NewKey([32]byte{101, byte(n)}) }

// holder is the agent that holds link n: ben the root, then the others.
func holder(n int) signing.Signer {
	if n == 1 {
		return ben.agent
	}
	return agentKey(n)
}

func ownerOf(n int) signing.DID {
	if n == 1 {
		return ben.owner.DID()
	}
	return ownerKey(n).DID()
}

func canonical(text string) jcs.Value { return must(jcs.Canonicalize([]byte(text))) }

func tokenNonce(n byte) string {
	return base64.RawURLEncoding.EncodeToString(append(make([]byte, 15), n))
}

func grant() manifest.Grant {
	return manifest.Grant{CapabilityID: must(manifest.ParseCapabilityID("cap_docs")), Resource: "mcp://docs/public/*", AllowedTools: []string{"docs.read", "docs.list", "docs.now"},
		ArgConstraints: canonical(`{"properties":{"head":{"maximum":100,"minimum":1,"type":"integer"},"path":{"type":"string"}}}`),
		MaxInvocations: 20, ExpiresAt: signing.TimeOf(t0.Add(24 * time.Hour))}
}

func resource(s string) manifest.Resource { return must(manifest.ParseResource(s)) }

func childTask(n int) manifest.TaskID {
	return must(manifest.ParseTaskID(fmt.Sprintf("task_child_%04d", n)))
}

func childDigest(n int) signing.Digest { return signing.DigestOf([]byte(fmt.Sprint("child ", n))) }

// rootToken is Ann's token for Ben, for the grant of a contract.
func rootToken(m manifest.TaskManifest, digest signing.Digest, depth int64) *manifest.CapabilityToken {
	g := m.Permissions.GrantedCapabilities[0]
	return &manifest.CapabilityToken{Type: "sealbridge/capability-token", ProtocolVersion: manifest.ProtocolVersion, CapabilityID: g.CapabilityID,
		TaskID: m.TaskID, ManifestDigest: digest, Issuer: ann.agent.DID(), Audience: ben.agent.DID(), Resource: resource(g.Resource), AllowedTools: g.AllowedTools,
		ArgConstraints: g.ArgConstraints, MaxInvocations: g.MaxInvocations, ExpiresAt: g.ExpiresAt, Depth: depth, MaxStaleness: 86400, Nonce: tokenNonce(0)}
}

// linkBelow is the widest link n that may follow t, which is link n-1.
func linkBelow(t *manifest.CapabilityToken, digest signing.Digest, n int) *manifest.CapabilityToken {
	c := *t
	c.Parent, c.Issuer, c.Audience = &digest, t.Audience, holder(n).DID()
	c.TaskID, c.ManifestDigest, c.Depth, c.Nonce = childTask(n), childDigest(n), t.Depth-1, tokenNonce(byte(n))
	return &c
}

// childContract is the contract that link n is for: its holder works for the one before.
func childContract(n int, g manifest.Grant, depth int64) manifest.TaskManifest {
	m := contract(nil)
	m.TaskID, m.Permissions = childTask(n), manifest.Permissions{GrantedCapabilities: []manifest.Grant{g}, MaxDelegationDepth: depth}
	m.Requester = manifest.Party{OwnerDid: ownerOf(n - 1), AgentDid: holder(n - 1).DID()}
	m.Worker = &manifest.Party{OwnerDid: ownerOf(n), AgentDid: holder(n).DID()}
	return m
}

// signChain signs tokens, each by who holds the one before.
func signChain(tb testing.TB, links int, root *manifest.CapabilityToken, mend func(n int, t *manifest.CapabilityToken)) []manifest.Signed {
	tb.Helper()
	var out []manifest.Signed
	t, by := root, signing.Signer(ann.agent)
	for n := 1; n <= links; n++ {
		if n > 1 {
			t, by = linkBelow(t, out[n-2].Digest(), n), holder(n-1)
		}
		if mend != nil {
			mend(n, t)
		}
		v, err := manifest.Sign(t, by, t0)
		if err != nil {
			tb.Fatalf("link %d: %v", n, err)
		}
		out = append(out, v.Signed)
	}
	return out
}

// trustOf knows every holder's agent and its owner.
func trustOf(links int) manifest.Trust {
	t := manifest.NewTrust(ann.owner.DID())
	pin := func(owner, agent signing.DID) {
		t = t.Put(owner, manifest.Contact{Confirmed: true})
		t.Agents[agent] = manifest.Agent{Owner: owner, HasKey: true, Certificate: manifest.AgentCertificate{
			IssuedAt: signing.TimeOf(t0.Add(-time.Hour)), ExpiresAt: signing.TimeOf(t0.Add(30 * 24 * time.Hour))}}
	}
	pin(ann.owner.DID(), ann.agent.DID())
	for n := 1; n <= links; n++ {
		pin(ownerOf(n), holder(n).DID())
	}
	return t
}

func table() ToolTable {
	return ToolTable{
		"docs.read": {Templates: []Template{must(ParseTemplate("mcp://docs/public/{path}"))}, Defaults: canonical(`{"head":10}`), Effects: []string{"none"}},
		"docs.list": {Templates: []Template{must(ParseTemplate("mcp://docs/public/{path}"))}, Effects: []string{"none"}},
		"docs.now":  {Effects: []string{"none"}},
	}
}

// calling is a call under a chain of so many links, as Ann's gateway would judge it.
func callScene(t testing.TB, links int, gates ...manifest.Gate) CallCase {
	t.Helper()
	s := newScene(t, func(m *manifest.TaskManifest) {
		m.Permissions.GrantedCapabilities, m.Permissions.MaxDelegationDepth = []manifest.Grant{grant()}, 5
		m.HITLPolicy.RequiredGates = gates
	})
	s.working()
	depth := int64(5)
	signed := signChain(t, links, rootToken(s.m, s.task.ManifestDigest(), depth), nil)
	s.say(manifest.Requester, manifest.Granted{Tokens: []jcs.Value{signed[0].Wire()}})
	c := CallCase{Chain: must(NewChain(signed...)), Self: ann.agent.DID(), Task: s.task, Table: table(), Children: map[signing.Digest]manifest.TaskManifest{},
		Trust: trustOf(links), Heard: map[signing.DID]time.Time{}, At: t0, Contact: Contact{Name: "ben", Owner: ben.owner.DID(), Confirmed: true}}
	for n := 1; n <= links; n++ {
		c.Heard[ownerOf(n)] = t0
		if n > 1 {
			c.Children[childDigest(n)] = childContract(n, grant(), 5)
		}
	}
	return c.calls(t, nil)
}

// calls puts a call into the case: the widest that its chain allows, mended.
func (c CallCase) calls(tb testing.TB, mend func(*manifest.ToolCall)) CallCase {
	tb.Helper()
	n := c.Chain.Len()
	call := &manifest.ToolCall{Type: "sealbridge/tool-call", ProtocolVersion: manifest.ProtocolVersion, CallID: must(manifest.ParseCallID("call_00000001")), To: ann.agent.DID(),
		Root: c.Chain.Link(1).Digest(), Links: []jcs.Value{}, TaskID: c.Chain.Token(n).TaskID, Contract: c.Task.InForce().Digest, Tool: "docs.read",
		Resources: []manifest.Resource{resource("mcp://docs/public/q1/sales.csv")}, Arguments: canonical(`{"path":"q1/sales.csv"}`),
		At: signing.TimeOf(c.At), ExpiresAt: signing.TimeOf(c.At.Add(10 * time.Minute))}
	for i := 2; i <= n; i++ {
		call.Links = append(call.Links, c.Chain.Link(i).Wire())
	}
	if mend != nil {
		mend(call)
	}
	v, err := manifest.Sign(call, holder(n), c.At)
	if err != nil {
		tb.Fatal(err)
	}
	c.Call = v
	return c
}
