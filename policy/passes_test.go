package policy

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

var (
	cleo = party{signing.NewKey([32]byte{5}), signing.NewKey([32]byte{6})}
	dee  = party{signing.NewKey([32]byte{7}), signing.NewKey([32]byte{8})}
	eve  = party{signing.NewKey([32]byte{9}), signing.NewKey([32]byte{10})}

	nonce = base64.RawURLEncoding.EncodeToString([]byte("sixteen bytes...")[:16])
)

// link is one contract of a chain, as it is proposed.
type link struct {
	m      manifest.TaskManifest
	digest signing.Digest
	passes []jcs.Value
}

// contractOf is a contract between two parties; depth steps are left below it.
func contractOf(from, to party, name string, depth int64, mend func(*manifest.TaskManifest)) manifest.TaskManifest {
	return contract(func(m *manifest.TaskManifest) {
		m.TaskID = must(manifest.ParseTaskID("task_" + name))
		m.Requester = manifest.Party{OwnerDid: from.owner.DID(), AgentDid: from.agent.DID()}
		m.Worker = &manifest.Party{OwnerDid: to.owner.DID(), AgentDid: to.agent.DID()}
		m.Permissions.MaxDelegationDepth = depth
		if mend != nil {
			mend(m)
		}
	})
}

func passFor(m manifest.TaskManifest, by signing.Signer, above []jcs.Value, mend func(*manifest.DelegationPass)) jcs.Value {
	var up manifest.Signed
	if n := len(above); n > 0 {
		up = must(manifest.OpenValue(above[n-1], nil))
	}
	p := must(manifest.PassFor(m, signing.DigestOf(must(jcs.Encode(m)).Bytes()), up, nonce, t0))
	if mend != nil {
		mend(&p)
	}
	return must(manifest.Sign(&p, by, t0)).Wire()
}

func linkOf(m manifest.TaskManifest, by signing.Signer, above []jcs.Value) link {
	l := link{m, signing.DigestOf(must(jcs.Encode(m)).Bytes()), above[:len(above):len(above)]}
	if m.Permissions.MaxDelegationDepth > 0 {
		l.passes = append(l.passes, passFor(m, by, above, nil))
	}
	return l
}

func childOf(up link) func(*manifest.TaskManifest) {
	return func(m *manifest.TaskManifest) { m.ParentTaskID = &up.m.TaskID }
}

// threeLinks are Ann → Ben → Cleo → Dee.
func threeLinks() (a, b, c link) {
	a = linkOf(contractOf(ann, ben, "ann_to_ben", 2, nil), ann.agent, nil)
	b = linkOf(contractOf(ben, cleo, "ben_to_cleo", 1, childOf(a)), ben.agent, a.passes)
	c = linkOf(contractOf(cleo, dee, "cleo_to_dee", 0, childOf(b)), cleo.agent, b.passes)
	return a, b, c
}

func (l link) check() error { return Passes(l.m, l.digest, l.passes) }

func TestPassesLetAChainBe(t *testing.T) {
	a, b, c := threeLinks()
	for i, l := range []link{a, b, c} {
		if err := l.check(); err != nil {
			t.Errorf("link %d: %v", i+1, err)
		}
	}
	alone := contractOf(ann, ben, "alone_00", 0, nil)
	if err := Passes(alone, signing.DigestOf(nil), nil); err != nil {
		t.Errorf("a contract that is handed on to nobody: %v", err)
	}
}

// Every way in which a chain can be invented, cut, crossed or widened (B010).
func TestNoOtherPassesDo(t *testing.T) {
	a, b, c := threeLinks()
	forPass := func(of link, by signing.Signer, above []jcs.Value, mend func(*manifest.DelegationPass)) []jcs.Value {
		return append(above[:len(above):len(above)], passFor(of.m, by, above, mend))
	}
	mended := func(l link, mend func(*manifest.TaskManifest)) link { // the contract is another, its own pass too
		mend(&l.m)
		above := l.passes
		if l.m.Permissions.MaxDelegationDepth > 0 {
			above = above[:len(above)-1]
		}
		by := map[signing.DID]signing.Signer{ben.agent.DID(): ben.agent, cleo.agent.DID(): cleo.agent}[l.m.Requester.AgentDid]
		return linkOf(l.m, by, above)
	}
	for name, l := range map[string]link{
		"no pass":                 {b.m, b.digest, nil},
		"the root's alone":        {b.m, b.digest, a.passes},
		"its own alone":           {b.m, b.digest, b.passes[1:]},
		"in another order":        {b.m, b.digest, []jcs.Value{b.passes[1], b.passes[0]}},
		"one twice":               {b.m, b.digest, []jcs.Value{b.passes[0], b.passes[0], b.passes[1]}},
		"one left out":            {c.m, c.digest, b.passes[:1]},
		"a root with two":         {a.m, a.digest, b.passes},
		"a root without depth":    {contractOf(ann, ben, "ann_to_ben", 0, nil), a.digest, a.passes},
		"of another contract":     {a.m, b.digest, a.passes},
		"no pass at all":          {a.m, a.digest, []jcs.Value{must(jcs.Parse([]byte(`{"type":"sealbridge/delegation-pass"}`)))}},
		"a stranger's":            {a.m, a.digest, forPass(a, eve.agent, nil, func(p *manifest.DelegationPass) { p.AgentDid = eve.agent.DID() })},
		"for a stranger":          {a.m, a.digest, forPass(a, ann.agent, nil, func(p *manifest.DelegationPass) { p.Audience = eve.agent.DID() })},
		"deeper than it says":     {a.m, a.digest, forPass(a, ann.agent, nil, func(p *manifest.DelegationPass) { p.Depth = 3 })},
		"more than it says":       {a.m, a.digest, forPass(a, ann.agent, nil, func(p *manifest.DelegationPass) { p.Limits.InputTokens++ })},
		"gates left out":          {a.m, a.digest, forPass(a, ann.agent, nil, func(p *manifest.DelegationPass) { p.Gates = p.Gates[1:] })},
		"another task":            {a.m, a.digest, forPass(a, ann.agent, nil, func(p *manifest.DelegationPass) { p.TaskID = b.m.TaskID })},
		"owners made up":          {a.m, a.digest, forPass(a, ann.agent, nil, func(p *manifest.DelegationPass) { p.Owners[0] = signing.DigestOf(nil) })},
		"another nonce":           {b.m, b.digest, forPass(b, ben.agent, a.passes, func(p *manifest.DelegationPass) { p.Nonce = base64.RawURLEncoding.EncodeToString(make([]byte, 16)) })},
		"an owner hidden":         {b.m, b.digest, forPass(b, ben.agent, a.passes, func(p *manifest.DelegationPass) { p.Owners[0] = signing.DigestOf(nil) })},
		"a parent that is not":    {b.m, b.digest, forPass(b, ben.agent, a.passes, func(p *manifest.DelegationPass) { d := signing.DigestOf(nil); p.Parent = &d })},
		"before its parent":       {b.m, b.digest, forPass(b, ben.agent, a.passes, func(p *manifest.DelegationPass) { p.At = signing.TimeOf(t0.Add(-time.Hour)) })},
		"issued by a third":       {b.m, b.digest, forPass(b, eve.agent, a.passes, func(p *manifest.DelegationPass) { p.AgentDid = eve.agent.DID() })},
		"a genuine one for Ben":   linkOf(contractOf(eve, cleo, "eve_to_cleo", 0, childOf(a)), eve.agent, a.passes),
		"back to the root":        linkOf(contractOf(ben, ann, "ben_to_ann0", 0, childOf(a)), ben.agent, a.passes),
		"back up the chain":       linkOf(contractOf(cleo, ben, "cleo_to_ben", 0, childOf(b)), cleo.agent, b.passes),
		"another parent's":        mended(b, func(m *manifest.TaskManifest) { m.ParentTaskID = &c.m.TaskID }),
		"as deep as its parent":   mended(b, func(m *manifest.TaskManifest) { m.Permissions.MaxDelegationDepth = 2 }),
		"longer than its parent":  mended(c, func(m *manifest.TaskManifest) { m.Deadline = signing.TimeOf(deadline.Add(time.Hour)) }),
		"earlier than its parent": mended(c, func(m *manifest.TaskManifest) { m.CreatedAt = signing.TimeOf(t0.Add(-time.Hour)) }),
		"more than its parent":    mended(c, func(m *manifest.TaskManifest) { m.Budget.MaxToolInvocations++ }),
		"a gate less":             mended(c, func(m *manifest.TaskManifest) { m.HITLPolicy.RequiredGates = m.HITLPolicy.RequiredGates[1:] }),
	} {
		err := l.check()
		if err == nil {
			t.Errorf("%s: passes", name)
			continue
		}
		if path := pathOf(err); !strings.HasPrefix(path, "/body/passes/") && !strings.HasPrefix(path, "/body/manifest/") {
			t.Errorf("%s: %v names no place", name, err)
		}
		if w := spec.ReasonOf(err); w == spec.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A byte changed anywhere in a pass is refused.
func TestATamperedPassIsRefused(t *testing.T) {
	_, _, c := threeLinks()
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(c.passes)-1).Draw(t, "pass")
		raw := append([]byte{}, c.passes[i].Bytes()...)
		at := rapid.IntRange(0, len(raw)-1).Draw(t, "at")
		raw[at] ^= byte(rapid.IntRange(1, 127).Draw(t, "bits"))
		v, err := jcs.Parse(raw)
		if err != nil {
			return
		}
		passes := append([]jcs.Value{}, c.passes...)
		passes[i] = v
		if Passes(c.m, c.digest, passes) == nil {
			t.Fatalf("byte %d of pass %d: passes", at, i)
		}
	})
}

// taskOf is the task of a link that was proposed.
func taskOf(t *testing.T, l link) task.Task {
	t.Helper()
	by := map[signing.DID]signing.Signer{ann.agent.DID(): ann.agent, ben.agent.DID(): ben.agent, cleo.agent.DID(): cleo.agent}[l.m.Requester.AgentDid]
	block, payload, err := manifest.SignManifest(l.m, manifest.Requester, by, t0)
	if err != nil {
		t.Fatal(err)
	}
	e := (task.Task{}).Next(by.DID(), manifest.Body{Fact: manifest.Proposed{Manifest: payload, Signature: block, Passes: l.passes}}, t0)
	out, err := task.Apply(task.Task{}, must(manifest.Sign(&e, by, t0)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
