package policy

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

func chainRoot(depth int64) *manifest.CapabilityToken {
	m := contract(func(m *manifest.TaskManifest) { m.Permissions.GrantedCapabilities = []manifest.Grant{grant()} })
	return rootToken(m, childDigest(0), depth)
}

// change is one step of a random link away from the widest that may follow.
type change struct {
	name    string
	narrows bool // still within its parent
	make    func(t *rapid.T, k *manifest.CapabilityToken)
}

var changes = []change{
	{"nothing", true, func(*rapid.T, *manifest.CapabilityToken) {}},
	{"fewer uses", true, func(t *rapid.T, k *manifest.CapabilityToken) {
		k.MaxInvocations = rapid.Int64Range(1, k.MaxInvocations).Draw(t, "uses")
	}},
	{"sooner", true, func(t *rapid.T, k *manifest.CapabilityToken) {
		k.ExpiresAt = signing.TimeOf(k.ExpiresAt.Time().Add(-time.Duration(rapid.IntRange(0, 600).Draw(t, "seconds")) * time.Second))
	}},
	{"fewer tools", true, func(t *rapid.T, k *manifest.CapabilityToken) {
		k.AllowedTools = rapid.Permutation(k.AllowedTools).Draw(t, "tools")[:rapid.IntRange(1, len(k.AllowedTools)).Draw(t, "so many")]
	}},
	{"a smaller resource", true, func(t *rapid.T, k *manifest.CapabilityToken) {
		if base, open := strings.CutSuffix(k.Resource.String(), "*"); open {
			k.Resource = resource(base + rapid.SampledFrom([]string{"*", "a/*", "b"}).Draw(t, "below"))
		}
	}},
	{"a fresher word", true, func(t *rapid.T, k *manifest.CapabilityToken) {
		k.MaxStaleness = rapid.Int64Range(60, k.MaxStaleness).Draw(t, "stale")
	}},
	{"less depth", true, func(t *rapid.T, k *manifest.CapabilityToken) {
		k.Depth = rapid.Int64Range(0, max(0, k.Depth)).Draw(t, "depth")
	}},
	{"other constraints", true, func(t *rapid.T, k *manifest.CapabilityToken) {
		k.ArgConstraints = canonical(`{"properties":{"path":{"const":"a","type":"string"}}}`)
	}},

	{"a use more", false, func(t *rapid.T, k *manifest.CapabilityToken) {
		k.MaxInvocations += rapid.Int64Range(1, 50).Draw(t, "uses")
	}},
	{"a second more", false, func(t *rapid.T, k *manifest.CapabilityToken) {
		k.ExpiresAt = signing.TimeOf(k.ExpiresAt.Time().Add(time.Second))
	}},
	{"another tool", false, func(t *rapid.T, k *manifest.CapabilityToken) {
		k.AllowedTools = append(slices.Clone(k.AllowedTools), "docs.write")
	}},
	{"another resource", false, func(t *rapid.T, k *manifest.CapabilityToken) {
		k.Resource = resource(rapid.SampledFrom([]string{"mcp://docs/*", "mcp://docs/publicx/*", "mcp://other/public/*", "vault://docs/public/*", "mcp://docs/public"}).Draw(t, "resource"))
	}},
	{"an older word", false, func(t *rapid.T, k *manifest.CapabilityToken) {
		k.MaxStaleness += rapid.Int64Range(1, 1000).Draw(t, "stale")
	}},
	{"as much depth", false, func(t *rapid.T, k *manifest.CapabilityToken) {
		k.Depth = k.Depth + 1 + rapid.Int64Range(0, 2).Draw(t, "depth")
	}},
	{"another parent", false, func(t *rapid.T, k *manifest.CapabilityToken) { d := childDigest(99); k.Parent = &d }},
	{"no parent", false, func(t *rapid.T, k *manifest.CapabilityToken) { k.Parent = nil }},
	{"the root's contract", false, func(t *rapid.T, k *manifest.CapabilityToken) { k.ManifestDigest = childDigest(0) }},
	{"back to the first holder", false, func(t *rapid.T, k *manifest.CapabilityToken) { k.Audience = ann.agent.DID() }},
	{"a stranger's", false, func(t *rapid.T, k *manifest.CapabilityToken) { k.Issuer = agentKey(77).DID() }},
}

// narrower is the order of tokens, written down a second time and in other words.
func narrower(p, c *manifest.CapabilityToken) string {
	ps, cs := strings.Split(p.Resource.String(), "/"), strings.Split(c.Resource.String(), "/")
	same := slices.Equal(ps, cs)
	open := ps[len(ps)-1] == "*" && len(cs) >= len(ps) && slices.Equal(ps[:len(ps)-1], cs[:len(ps)-1])
	switch {
	case !same && !open:
		return "resource"
	case c.MaxInvocations > p.MaxInvocations:
		return "uses"
	case c.ExpiresAt.Time().After(p.ExpiresAt.Time()):
		return "expiry"
	case c.MaxStaleness > p.MaxStaleness:
		return "staleness"
	case c.Depth >= p.Depth || c.Depth < 0:
		return "depth"
	case c.Issuer != p.Audience:
		return "issuer"
	}
	for _, tool := range c.AllowedTools {
		if !slices.Contains(p.AllowedTools, tool) {
			return "tools"
		}
	}
	return ""
}

// drawChain signs a chain with random changes; wide says whether one of them widens.
func drawChain(t *rapid.T, links int, wide *bool) []manifest.Signed {
	var out []manifest.Signed
	k, by := chainRoot(15), signing.Signer(ann.agent)
	for n := 1; n <= links; n++ {
		if n > 1 {
			k, by = linkBelow(k, out[n-2].Digest(), n), holder(n-1)
			c := rapid.SampledFrom(changes).Draw(t, fmt.Sprintf("link %d", n))
			if k.Depth < 0 { // the one before said that it is the last
				k.Depth, *wide = 0, true
			}
			before := *k
			c.make(t, k)
			if !c.narrows && (c.name != "as much depth" || k.Depth > before.Depth) {
				*wide = true
			}
			if k.Issuer == agentKey(77).DID() {
				by = agentKey(77)
			}
		}
		v, err := manifest.Sign(k, by, t0)
		if err != nil {
			t.Skip("no document:", err) // such as a depth over 15
		}
		out = append(out, v.Signed)
	}
	return out
}

// Whatever verifies is narrower than every link above it on every axis, and
// what is not narrower never verifies.
func TestWhatVerifiesIsNarrowerAndWhatIsNotNeverVerifies(t *testing.T) {
	good, bad := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		wide := false
		links := drawChain(t, rapid.IntRange(1, 8).Draw(t, "links"), &wide)
		c, err := NewChain(links...)
		if (err == nil) == wide {
			t.Fatalf("verifies: %v, although it widens: %v", err, wide)
		}
		if err != nil {
			bad++
			var at *LinkError
			if !errors.As(err, &at) || at.Link < 1 || at.Rule == "" || c.Len() != 0 {
				t.Fatalf("%v names nothing", err)
			}
			return
		}
		good++
		for n := 1; n <= c.Len(); n++ {
			for m := n + 1; m <= c.Len(); m++ {
				if what := narrower(c.Token(n), c.Token(m)); what != "" && !(what == "issuer" && m > n+1) {
					t.Fatalf("link %d is wider than link %d: %s", m, n, what)
				}
			}
		}
	})
	if good < 10 || bad < 10 {
		t.Errorf("%d chains verify, %d do not: the draw is lopsided", good, bad)
	}
}

// No part of a chain can be taken out, put twice, moved or swapped for another's.
func TestAChainIsWholeOrNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wide := false
		links := drawChain(t, rapid.IntRange(2, 6).Draw(t, "links"), &wide)
		if wide {
			return
		}
		i, k := rapid.IntRange(0, len(links)-1).Draw(t, "i"), rapid.IntRange(0, len(links)-1).Draw(t, "k")
		out := slices.Clone(links)
		switch rapid.SampledFrom([]string{"swap", "drop", "twice"}).Draw(t, "how") {
		case "swap":
			out[i], out[k] = out[k], out[i]
			if i == k {
				return
			}
		case "drop":
			if i == len(out)-1 {
				return // a shorter chain is a chain
			}
			out = slices.Delete(out, i, i+1)
		case "twice":
			out = slices.Insert(out, i, out[i])
		}
		if _, err := NewChain(out...); err == nil {
			t.Fatal("a chain of other links verifies")
		}
	})
}

// Every byte of every link is under a signature; a remembered chain changes no answer.
func TestAChangedByteBreaksTheChain(t *testing.T) {
	var wires [][]byte
	for _, s := range signChain(t, 3, chainRoot(5), nil) {
		wires = append(wires, s.Wire().Bytes())
	}
	seen := NewChains()
	if _, err := seen.Open(nil, wires...); err != nil {
		t.Fatal(err)
	}
	for n := range wires {
		for i := range wires[n] {
			changed := slices.Clone(wires)
			changed[n] = slices.Clone(wires[n])
			changed[n][i] ^= 1
			if c, err := seen.Open(nil, changed...); err == nil || c.Len() != 0 {
				t.Fatalf("byte %d of link %d may be changed", i, n+1)
			}
		}
		if _, err := seen.Open(nil, wires[:n]...); n > 0 && err != nil {
			t.Error("a shorter chain is one:", err)
		}
	}
	if c, err := seen.Open(nil, wires...); err != nil || c.Len() != 3 {
		t.Error("the chain itself is forgotten or broken:", err)
	}
	if _, err := seen.Open(nil); err == nil {
		t.Error("no link is a chain")
	}
	if _, err := seen.Open(nil, make([][]byte, manifest.MaxLinks+1)...); err == nil {
		t.Error("a chain without end")
	}
}

// B010: parents are checked, hop by hop and dimension by dimension.
func TestEveryHopIsHeldAgainstItsParent(t *testing.T) {
	limit := func(max string) func(k *manifest.CapabilityToken) {
		return func(k *manifest.CapabilityToken) {
			k.ArgConstraints = canonical(`{"properties":{"amount":{"maximum":` + max + `,"type":"integer"}}}`)
		}
	}
	invoice := func() *manifest.CapabilityToken {
		k := chainRoot(3)
		k.AllowedTools, k.MaxInvocations = []string{"invoice.read"}, 5
		limit("100")(k)
		return k
	}
	end := invoice().ExpiresAt.Time()
	for _, tt := range []struct {
		name string
		mend func(*manifest.CapabilityToken)
		rule string // "": a control
	}{
		{"(a) one tool more", func(k *manifest.CapabilityToken) { k.AllowedTools = []string{"invoice.pay", "invoice.read"} }, "C2f"},
		{"(c) six uses", func(k *manifest.CapabilityToken) { k.MaxInvocations = 6 }, "C2g"},
		{"(d) an hour longer", func(k *manifest.CapabilityToken) { k.ExpiresAt = signing.TimeOf(end.Add(time.Hour)) }, "C2h"},
		{"(f) a parent that does not exist", func(k *manifest.CapabilityToken) { d := childDigest(50); k.Parent = &d }, "C2a"},
		{"(h) a parent issued to someone else", func(k *manifest.CapabilityToken) { k.Issuer = holder(3).DID() }, "C2b"},
		{"a control", func(k *manifest.CapabilityToken) { limit("50")(k) }, ""},
	} {
		root := must(manifest.Sign(invoice(), ann.agent, t0))
		k := linkBelow(invoice(), root.Digest(), 2)
		tt.mend(k)
		by := signing.Signer(ben.agent)
		if k.Issuer == holder(3).DID() {
			by = holder(3)
		}
		_, err := NewChain(root.Signed, must(manifest.Sign(k, by, t0)).Signed)
		var at *LinkError
		if tt.rule == "" && err != nil || tt.rule != "" && (!errors.As(err, &at) || at.Rule != tt.rule || at.Link != 2) {
			t.Errorf("%s: %v, want %s at link 2", tt.name, err, tt.rule)
		}
	}
	// (b) a child that says amount ≤ 1000 gets no more than its parent: a call satisfies both.
	root := must(manifest.Sign(invoice(), ann.agent, t0))
	wide := linkBelow(invoice(), root.Digest(), 2)
	limit("1000")(wide)
	c := must(NewChain(root.Signed, must(manifest.Sign(wide, ben.agent, t0)).Signed))
	args := canonical(`{"amount":500}`)
	if must(c.Token(2).Constraints()).Check(args) != nil || must(c.Token(1).Constraints()).Check(args) == nil {
		t.Error("(b) the root's bound does not hold")
	}
	// (g) a genuine chain by a stranger is a chain, and counts at nobody's gateway but the stranger's.
	s := callScene(t, 1)
	alien := invoice()
	alien.Issuer = agentKey(66).DID()
	s.Chain = must(NewChain(must(manifest.Sign(alien, agentKey(66), t0)).Signed))
	s = s.calls(t, nil)
	if d := Calls(s); d.Outcome != Deny || d.Rule != "C2" || d.Path != "/issuer" || d.Link != 1 {
		t.Errorf("(g) %v %s %s", d.Outcome, d.Rule, d.Path)
	}
	// (e) no token says when it begins: its parent's signature is older than it or it names nothing.
}

// B009: an empty list is nothing, and none at all is refused.
func TestAnEmptyListOfToolsIsNoToken(t *testing.T) {
	good := must(manifest.Sign(chainRoot(1), ann.agent, t0)).Wire()
	for _, tools := range []string{`[]`, `null`, ``, `"docs.read"`, `[""]`, `[null]`} {
		payload := good.Without("signature").Without("allowedTools")
		if tools != "" {
			payload = payload.With("allowedTools", canonical(tools))
		}
		c, _ := signing.ContextFor("sealbridge/capability-token")
		block := must(signing.Sign(payload, c, ann.agent, t0))
		if _, err := manifest.Open(payload.With("signature", full(block)).Bytes(), nil); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("tools %q: %v", tools, err)
		}
	}
	empty := chainRoot(1).Grant()
	empty.AllowedTools = nil
	if Covers(chainRoot(1).Grant(), empty) == nil {
		t.Error("a grant of no tool is covered")
	}
}

// B011, F2: however many come at once, a use is spent once.
func TestTheLastUseIsSpentOnce(t *testing.T) {
	for _, tt := range []struct{ uses, callers int64 }{{1, 20}, {5, 50}, {1, 64}} {
		g := grant()
		g.MaxInvocations = tt.uses
		s := newScene(t, func(m *manifest.TaskManifest) {
			m.Permissions.GrantedCapabilities, m.HITLPolicy.RequiredGates = []manifest.Grant{g}, nil
			m.Budget.MaxToolInvocations = 1000
		}).working()
		signed := signChain(t, 1, rootToken(s.m, s.task.ManifestDigest(), 0), nil)
		c := callScene(t, 1)
		s.say(manifest.Requester, manifest.Granted{Tokens: []manifest.SignedPart{signed[0].Wire()}})
		c.Task, c.Chain = s.task, must(NewChain(signed...))

		var mu sync.Mutex // stands for the journal's turn: one at a time decides and moves
		var ledger Ledger
		var wg sync.WaitGroup
		allowed, exhausted := 0, 0
		for n := range tt.callers {
			mine := c.calls(t, func(m *manifest.ToolCall) { m.CallID = must(manifest.ParseCallID(fmt.Sprintf("call_%08d", n))) })
			wg.Go(func() {
				mu.Lock()
				defer mu.Unlock()
				mine.Ledger = ledger
				d := Calls(mine)
				next, err := ledger.Apply(d.Moves...)
				switch {
				case d.Outcome == Allow && err == nil:
					ledger, allowed = next, allowed+1
				case d.Reason == spec.CapabilityExhausted:
					exhausted++
				}
			})
		}
		wg.Wait()
		if int64(allowed) != tt.uses || int64(exhausted) != tt.callers-tt.uses {
			t.Errorf("%d uses, %d callers: %d were allowed, %d exhausted", tt.uses, tt.callers, allowed, exhausted)
		}
		if b := ledger.Of(GrantAccount(c.Task.Key(), g.CapabilityID)); b.Reserved() != tt.uses || b.Committed != 0 {
			t.Errorf("the ledger has %d", b.Reserved())
		}
	}
}

// Whatever a chain allows its root allows: a call that a random chain lets
// through is let through by every link alone.
func TestACallIsWithinEveryLink(t *testing.T) {
	base := callScene(t, 1)
	s := &scene{t: t, task: base.Task, m: base.Task.Manifest()}
	allowed := 0
	rapid.Check(t, func(t *rapid.T) {
		links := rapid.IntRange(1, 4).Draw(t, "links")
		c := base
		signed := []manifest.Signed{base.Chain.Link(1)}
		k := base.Chain.Token(1)
		for n := 2; n <= links; n++ {
			k = linkBelow(k, signed[n-2].Digest(), n)
			rapid.SampledFrom(changes[:8]).Draw(t, "change").make(t, k)
			v, err := manifest.Sign(k, holder(n-1), t0)
			if err != nil {
				t.Skip(err)
			}
			signed = append(signed, v.Signed)
		}
		chain, err := NewChain(signed...)
		if err != nil {
			t.Skip(err) // a depth that ran out
		}
		c.Chain, c.Trust = chain, trustOf(links)
		for n := 1; n <= links; n++ {
			c.Heard[ownerOf(n)] = t0
			if n > 1 {
				c.Children[childDigest(n)] = childContract(n, chain.Token(n).Grant(), 15)
			}
		}
		path := rapid.SampledFrom([]string{"a", "b", "a/b", "q1/sales.csv"}).Draw(t, "path")
		tool := rapid.SampledFrom(k.AllowedTools).Draw(t, "tool")
		c = c.calls(s.t, func(m *manifest.ToolCall) {
			m.Tool, m.Resources, m.Arguments = tool, []manifest.Resource{resource("mcp://docs/public/" + path)}, canonical(`{"path":"`+path+`"}`)
		})
		d := Calls(c)
		if d.Outcome != Allow {
			if d.Rule == "" || d.Reason == "" {
				t.Fatal("a refusal that names nothing")
			}
			return
		}
		allowed++
		for n := 1; n <= chain.Len(); n++ {
			k := chain.Token(n)
			if !slices.Contains(k.AllowedTools, tool) || !k.Resource.Covers(resource("mcp://docs/public/"+path)) || must(k.Constraints()).Check(d.Arguments) != nil || !t0.Before(k.ExpiresAt.Time()) {
				t.Fatalf("link %d does not allow what the chain does", n)
			}
		}
	})
	if allowed == 0 {
		t.Error("nothing was allowed")
	}
}

// A signature has one spelling and one value: S and S + L are not both good (S5).
func TestAMalleatedSignatureBreaksTheChain(t *testing.T) {
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	links := signChain(t, 2, chainRoot(3), nil)
	wire := links[1].Wire()
	block, _ := wire.Member("signature")
	text, _ := block.Member("signature")
	spelled, _ := text.Text()
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(spelled, "ed25519:"))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, change := range []func([]byte){
		func(s []byte) { // S + L
			le := slices.Clone(s[32:])
			slices.Reverse(le)
			sum := new(big.Int).Add(new(big.Int).SetBytes(le), order).FillBytes(make([]byte, 33))[1:]
			slices.Reverse(sum)
			copy(s[32:], sum)
		},
		func(s []byte) { s[31] ^= 0x80 },                            // the other R
		func(s []byte) { copy(s[:32], make([]byte, 32)); s[0] = 1 }, // R the neutral point
		func(s []byte) { copy(s, make([]byte, 64)) },                // nothing
		func(s []byte) {
			for i := range s[:31] {
				s[i] = 0xff
			}
		}, // R not canonical
	} {
		sig := slices.Clone(raw)
		change(sig)
		other := wire.With("signature", block.With("signature", full(signing.SignatureFrom([64]byte(sig)).String())))
		if c, err := NewChains().Open(nil, links[0].Wire().Bytes(), other.Bytes()); spec.ReasonOf(err) != spec.BadSignature || c.Len() != 0 {
			t.Errorf("%x: %v", sig[:4], err)
		}
		tried++
	}
	if tried != 5 {
		t.Error("rows are lost")
	}
}
