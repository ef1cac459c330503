package policy

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func TestACallWithinItsChainIsAllowedAtOneUse(t *testing.T) {
	for _, links := range []int{1, 2, 4, 6} {
		c := callScene(t, links)
		d := Calls(c)
		if d.Outcome != Allow || d.Link != 0 {
			t.Fatalf("%d links: %v at link %d, %s %s %s", links, d.Outcome, d.Link, d.Rule, d.Path, d.Limit)
		}
		if d.Arguments.String() != `{"head":10,"path":"q1/sales.csv"}` || d.Defaults.String() != `{"head":10}` {
			t.Errorf("the tool would receive %s, with %s put in", d.Arguments, d.Defaults)
		}
		l, err := c.Ledger.Apply(d.Moves...)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range CallAccounts(c.Task.Key(), c.Chain) {
			if b := l.Of(a); b.Reserved() != 1 {
				t.Errorf("%s has %d reserved", a, b.Reserved())
			}
		}
		root := c.Chain.Token(1)
		if left := UsesLeft(l, c.Task.Key(), root, c.Chain.Link(1).Digest()); left != 19 {
			t.Errorf("%d uses are left", left)
		}
		if l, err = l.Apply(CallEnds(l, c.Task.Key(), c.Chain, c.Call.Digest(), true)...); err != nil || l.Of(GrantAccount(c.Task.Key(), root.CapabilityID)).Committed != 1 {
			t.Error("a use that was made is not charged:", err)
		}
		if again := CallEnds(l, c.Task.Key(), c.Chain, c.Call.Digest(), true); len(again) != 0 {
			t.Error("a reservation ends twice")
		}
	}
}

// Each row breaks one rule and names link, rule and word.
func TestACallThatBreaksARuleNamesIt(t *testing.T) {
	revoke := func(c *CallCase, owner signing.DID, n int) {
		contact := c.Trust.Contacts[owner]
		contact.Revoked = map[string]bool{c.Chain.Link(n).Digest().String(): true}
		c.Trust = c.Trust.Put(owner, contact)
	}
	call := func(mend func(*manifest.ToolCall)) func(*testing.T, *CallCase) {
		return func(t *testing.T, c *CallCase) { *c = c.calls(t, mend) }
	}
	for _, tt := range []struct {
		name  string
		links int
		mend  func(*testing.T, *CallCase)
		link  int
		rule  string
		word  spec.Reason
	}{
		{"another gateway", 2, func(_ *testing.T, c *CallCase) { c.Self = ben.agent.DID() }, 0, "C4", spec.CapabilityDenied},
		{"another root", 2, call(func(m *manifest.ToolCall) { m.Root = childDigest(9) }), 0, "C4", spec.CapabilityDenied},
		{"no links", 2, call(func(m *manifest.ToolCall) { m.Links = m.Links[:0] }), 0, "C4", spec.CapabilityDenied},
		{"another task", 2, call(func(m *manifest.ToolCall) { m.TaskID = childTask(7) }), 0, "C4", spec.CapabilityDenied},
		{"signed by the holder of the root", 2, func(t *testing.T, c *CallCase) {
			m := *c.Call.Document().(*manifest.ToolCall)
			c.Call = must(manifest.Sign(&m, ben.agent, t0))
		}, 2, "C4", spec.CapabilityDenied},
		{"too late", 1, func(_ *testing.T, c *CallCase) { c.At = t0.Add(10 * time.Minute) }, 0, "C4", spec.Expired},
		{"from the future", 1, func(_ *testing.T, c *CallCase) { c.At = t0.Add(-2 * time.Minute) }, 0, "T1", spec.Unavailable},
		{"no task", 1, func(_ *testing.T, c *CallCase) { c.Task = newScene(t, nil).task }, 1, "C2", spec.CapabilityDenied},
		{"another contract", 1, call(func(m *manifest.ToolCall) { m.Contract = childDigest(3) }), 0, "H10", spec.Stale},
		{"a child that nobody delegated", 3, func(_ *testing.T, c *CallCase) { delete(c.Children, childDigest(3)) }, 3, "C2d", spec.CapabilityDenied},
		{"a child of another worker", 3, func(_ *testing.T, c *CallCase) { c.Children[childDigest(2)] = childContract(3, grant(), 5) }, 2, "C2d", spec.CapabilityDenied},
		{"a child of another requester", 3, func(_ *testing.T, c *CallCase) {
			m := childContract(3, grant(), 5)
			m.Requester.AgentDid = ben.agent.DID()
			c.Children[childDigest(3)] = m
		}, 3, "C2d", spec.CapabilityDenied},
		{"a child without a grant", 2, func(_ *testing.T, c *CallCase) {
			m := childContract(2, grant(), 5)
			m.Permissions.GrantedCapabilities = nil
			c.Children[childDigest(2)] = m
		}, 2, "C2", spec.CapabilityDenied},
		{"more than the child was granted", 2, func(_ *testing.T, c *CallCase) {
			g := grant()
			g.MaxInvocations = 3
			c.Children[childDigest(2)] = childContract(2, g, 5)
		}, 2, "C2g", spec.NotAttenuated},
		{"other arguments than the child was granted", 2, func(_ *testing.T, c *CallCase) {
			g := grant()
			g.ArgConstraints = canonical(`{"properties":{"path":{"const":"a","type":"string"}}}`)
			c.Children[childDigest(2)] = childContract(2, g, 5)
		}, 2, "C2", spec.NotAttenuated},
		{"taken back by its issuer's owner", 3, func(_ *testing.T, c *CallCase) { revoke(c, ownerOf(1), 2) }, 2, "C2k", spec.Revoked},
		{"taken back from above", 3, func(_ *testing.T, c *CallCase) { revoke(c, ann.owner.DID(), 3) }, 3, "C2k", spec.Revoked},
		{"the root taken back", 3, func(_ *testing.T, c *CallCase) { revoke(c, ann.owner.DID(), 1) }, 1, "C2k", spec.Revoked},
		{"an issuer's key taken back", 3, func(_ *testing.T, c *CallCase) {
			a := c.Trust.Agents[holder(2).DID()]
			a.Revoked = true
			c.Trust.Agents[holder(2).DID()] = a
		}, 3, "C2k", spec.Revoked},
		{"an unknown issuer", 3, func(_ *testing.T, c *CallCase) { delete(c.Trust.Agents, holder(1).DID()) }, 2, "C2k", spec.UnknownKey},
		{"no word for a day", 2, func(_ *testing.T, c *CallCase) { c.Heard[ownerOf(1)] = t0.Add(-24*time.Hour - time.Second) }, 2, "C2l", spec.Stale},
		{"no word at all", 2, func(_ *testing.T, c *CallCase) { delete(c.Heard, ownerOf(1)) }, 2, "C2l", spec.Stale},
		{"another tool", 1, call(func(m *manifest.ToolCall) { m.Tool = "docs.write" }), 1, "C2f", spec.CapabilityDenied},
		{"a tool that we do not have", 1, func(_ *testing.T, c *CallCase) { delete(c.Table, "docs.read") }, 0, "C1a", spec.CapabilityDenied},
		{"other resources than the arguments reach", 1, call(func(m *manifest.ToolCall) { m.Resources = []manifest.Resource{resource("mcp://docs/public/other.csv")} }), 0, "C1a", spec.CapabilityDenied},
		{"outside the resource", 1, func(t *testing.T, c *CallCase) {
			c.Table["docs.read"] = ToolRow{Templates: []Template{must(ParseTemplate("mcp://docs/private/{path}"))}, Defaults: canonical(`{"head":10}`)}
			*c = c.calls(t, func(m *manifest.ToolCall) {
				m.Resources = []manifest.Resource{resource("mcp://docs/private/q1/sales.csv")}
			})
		}, 1, "C1", spec.CapabilityDenied},
		{"a tool without a template, granted by a star", 1, call(func(m *manifest.ToolCall) {
			m.Tool, m.Resources, m.Arguments = "docs.now", []manifest.Resource{resource("tool://any/docs.now")}, canonical(`{}`)
		}), 1, "C1", spec.CapabilityDenied},
		{"an argument over its bound", 1, call(func(m *manifest.ToolCall) { m.Arguments = canonical(`{"head":101,"path":"q1/sales.csv"}`) }), 1, "C3", spec.CapabilityDenied},
		{"an argument that nobody named", 1, call(func(m *manifest.ToolCall) { m.Arguments = canonical(`{"path":"q1/sales.csv","raw":true}`) }), 1, "C3", spec.CapabilityDenied},
		{"an argument without a default lacks", 1, call(func(m *manifest.ToolCall) { m.Tool = "docs.list" }), 1, "C3", spec.CapabilityDenied},
	} {
		c := callScene(t, tt.links)
		tt.mend(t, &c)
		d := Calls(c)
		if d.Outcome != Deny || d.Link != tt.link || d.Rule != tt.rule || d.Reason != tt.word {
			t.Errorf("%s: %v, %s at link %d by %s (%s %s), want %s at link %d by %s", tt.name, d.Outcome, d.Reason, d.Link, d.Rule, d.Path, d.Limit, tt.word, tt.link, tt.rule)
		}
		if n := d.Denial(); n == nil || n.Rule != tt.rule || n.Link != int64(tt.link) {
			t.Errorf("%s: %v would be said", tt.name, n)
		}
		if len(d.Moves) > 0 {
			t.Errorf("%s: costs something", tt.name)
		}
		if p := Default(); p.DecideCall(c).Outcome == Allow {
			t.Errorf("%s: the owner's rules allow what the law does not", tt.name)
		}
	}
}

func TestACallEndsWithItsContract(t *testing.T) {
	c := callScene(t, 1)
	s := &scene{t: t, task: c.Task, m: c.Task.Manifest()}
	c.Task = s.say(manifest.Requester, manifest.Cancelled{Reason: "no more"}).task
	if d := Calls(c); d.Outcome != Deny || d.Rule != "C2" || d.Link != 1 {
		t.Errorf("after the ending: %v by %s", d.Outcome, d.Rule)
	}
}

func TestAWithdrawnGrantAllowsNoCall(t *testing.T) {
	c := callScene(t, 1)
	s := &scene{t: t, task: c.Task, m: c.Task.Manifest()}
	s.say(manifest.Requester, manifest.Asked{Contract: s.task.InForce().Digest, Amendment: &manifest.Amendment{Withdraw: []manifest.CapabilityID{grant().CapabilityID}}})
	ask := s.task.Asks()[0].Event
	c.Task = s.say(manifest.Worker, manifest.Answered{Ask: ask, Yes: true}).task
	c = c.calls(t, nil)
	if d := Calls(c); d.Outcome != Deny || d.Rule != "C2" || d.Path != "/capabilityId" || d.Reason != spec.CapabilityDenied {
		t.Errorf("%v %s %s %s", d.Outcome, d.Rule, d.Path, d.Reason)
	}
}

// A link that gives fewer uses than its root runs out before it (C5).
func TestEveryLinkIsCounted(t *testing.T) {
	c := callScene(t, 2)
	s := signChain(t, 2, c.Chain.Token(1), func(n int, k *manifest.CapabilityToken) {
		if n == 2 {
			k.MaxInvocations = 2
		}
	})
	c.Chain = must(NewChain(s...))
	for n := range 3 {
		c = c.calls(t, func(m *manifest.ToolCall) {
			m.CallID = must(manifest.ParseCallID("call_0000000" + string(rune('1'+n))))
		})
		d := Calls(c)
		if n == 2 {
			if d.Outcome != Deny || d.Reason != spec.CapabilityExhausted || d.Link != 2 {
				t.Fatalf("the third: %v %s at link %d", d.Outcome, d.Reason, d.Link)
			}
			return
		}
		var err error
		if c.Ledger, err = c.Ledger.Apply(d.Moves...); err != nil || d.Outcome != Allow {
			t.Fatal(n, err, d.Outcome)
		}
	}
}

func TestAnEffectWaitsForItsPerson(t *testing.T) {
	c := callScene(t, 1, manifest.EffectGate)
	row := c.Table["docs.read"]
	if d := Calls(c); d.Outcome != Allow {
		t.Error("a tool without effect is held:", d.Outcome, d.Limit)
	}
	for _, effects := range [][]string{nil, {"irreversible"}, {"none", "costly"}} {
		row.Effects = effects
		c.Table["docs.read"] = row
		d := Calls(c)
		if d.Outcome != Hold || d.Gate.Gate != manifest.EffectGate || d.Gate.Subject != EffectSubject(d.Effect) || d.Gate.Added || len(d.Moves) > 0 {
			t.Fatalf("%v: %v", effects, d.Outcome)
		}
		held := c
		held.Consents = []Consent{yes(d.Gate)}
		if d := Calls(held); d.Outcome != Allow || d.Consent == nil || len(d.Moves) == 0 {
			t.Errorf("%v: with the yes: %v", effects, d.Outcome)
		}
		other := held.calls(t, func(m *manifest.ToolCall) { m.CallID = must(manifest.ParseCallID("call_00000002")) })
		if d := Calls(other); d.Outcome != Hold {
			t.Errorf("%v: the yes to one call lets another through", effects)
		}
	}
}

func TestTheOwnersRulesNarrowACall(t *testing.T) {
	p := Default()
	p.People = map[string]Person{"me": {Owner: true}}
	p.Ask.Effect = Ask{Who: []string{"me"}}
	c := callScene(t, 1)
	for _, tt := range []struct {
		rules []Tool
		want  Outcome
	}{
		{nil, Deny}, // what nothing fits is refused
		{[]Tool{{Match: "docs.*", Effect: Words{"none"}, Then: ThenAllow}}, Allow},
		{[]Tool{{Match: "docs.*", Then: ThenAsk}}, Hold},
		{[]Tool{{Match: "*", Then: ThenRefuse}}, Deny},
	} {
		p.Tools = tt.rules
		d := p.DecideCall(c)
		if d.Outcome != tt.want {
			t.Errorf("%v: %v %s %s, want %v", tt.rules, d.Outcome, d.Rule, d.Limit, tt.want)
		}
		if d.Outcome == Hold && (!d.Gate.Added || len(d.Gate.Who) != 1 || !d.Gate.Until.Equal(t0.Add(WaitEffect))) {
			t.Errorf("%+v", d.Gate)
		}
	}
	p.Tools = []Tool{{Match: "*", Effect: Words{"none"}, Then: ThenAllow}}
	c.Contact.Confirmed = false
	if d := p.DecideCall(c); d.Outcome != Deny || d.Rule != "K2" {
		t.Errorf("an unconfirmed contact: %v", d.Outcome)
	}
}

func TestATemplateGivesOnlyResources(t *testing.T) { // B008
	abs := ToolRow{Templates: []Template{must(ParseTemplate("mcp://docs{/path}"))}}
	rel := ToolRow{Templates: []Template{must(ParseTemplate("mcp://docs/{path}"))}}
	for _, tt := range []struct {
		row  ToolRow
		args string
		want string // "" for none
	}{
		{rel, `{"path":"a/b.txt"}`, "mcp://docs/a/b.txt"},
		{rel, `{"path":"v..2/notes.md"}`, "mcp://docs/v..2/notes.md"},
		{rel, `{"path":7}`, "mcp://docs/7"},
		{rel, `{"path":["a","b/c"]}`, "mcp://docs/a mcp://docs/b/c"},
		{abs, `{"path":"/a/b.txt"}`, "mcp://docs/a/b.txt"},
		{rel, `{"path":"/a"}`, ""}, {abs, `{"path":"a"}`, ""}, {abs, `{"path":"//a"}`, ""}, {abs, `{"path":"/"}`, ""},
		{rel, `{"path":""}`, ""}, {rel, `{"path":".."}`, ""}, {rel, `{"path":"a/../b"}`, ""}, {rel, `{"path":"a/./b"}`, ""}, {rel, `{"path":"a//b"}`, ""},
		{rel, `{"path":"a/"}`, ""}, {rel, `{"path":"a\\..\\b"}`, ""}, {rel, `{"path":"%2e%2e/b"}`, ""}, {rel, `{"path":"a%2fb"}`, ""}, {rel, `{"path":"a?b"}`, ""},
		{rel, `{"path":"a#b"}`, ""}, {rel, `{"path":"*"}`, ""}, {rel, `{"path":"a/*"}`, ""}, {rel, `{"path":"a b"}`, ""}, {rel, `{"path":"a\u0000"}`, ""}, {rel, `{"path":"ａ"}`, ""},
		{rel, `{"path":{}}`, ""}, {rel, `{"path":null}`, ""}, {rel, `{"path":true}`, ""}, {rel, `{"path":[]}`, ""}, {rel, `{"path":[["a"]]}`, ""}, {rel, `{}`, ""},
		{rel, `{"path":"` + strings.Repeat("a/", 300) + `a"}`, ""},
		{rel, `{"path":[` + strings.Repeat(`"a",`, 40) + `"b"]}`, ""},
	} {
		rs, err := tt.row.Resources("t", canonical(tt.args))
		var texts []string
		for _, r := range rs {
			texts = append(texts, r.String())
		}
		if got := strings.Join(texts, " "); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, %v, want %q", tt.args, got, err, tt.want)
		}
	}
	for _, bad := range []string{"", "docs/{path}", "mcp://{host}/a", "mcp://docs{path}", "mcp://docs/{path}.csv", "mcp://docs/x{path}", "mcp://docs/{}", "mcp://docs/{a/b}", "mcp://docs/{a", "mcp://docs/a}",
		"mcp://docs/{a}{b}", "mcp://docs/{/a}", "mcp://docs/*", "mcp://docs/{a}/*", "{a}://docs/x", "mcp://docs/{{a}}", "mcp://docs/%2e"} {
		if tpl, err := ParseTemplate(bad); err == nil {
			t.Errorf("%q is read as %v", bad, tpl)
		}
	}
}

// Whatever a template makes of an argument lies below what it says itself.
func FuzzTemplate(f *testing.F) {
	f.Add("mcp://docs/{path}", `{"path":"a/b.txt"}`)
	f.Add("mcp://docs{/path}/x", `{"path":["/a","/b"]}`)
	f.Add("mcp://docs/{a}/{b}", `{"a":1,"b":"../x"}`)
	f.Fuzz(func(t *testing.T, text, args string) {
		tpl, err := ParseTemplate(text)
		if err != nil {
			return
		}
		if tpl.String() != text {
			t.Fatal("another spelling")
		}
		v, err := jcs.Parse([]byte(args))
		if err != nil || v.Kind() != '{' {
			return
		}
		rs, err := ToolRow{Templates: []Template{tpl}}.Resources("t", v)
		if err != nil {
			return
		}
		fixed, _, _ := strings.Cut(text, "{")
		for _, r := range rs {
			again, err := manifest.ParseResource(r.String())
			if err != nil || again != r || r.Open() || !strings.HasPrefix(r.String(), fixed) || len(rs) > MaxResources {
				t.Fatalf("%s with %s reaches %s", text, args, r)
			}
			for i, segment := range strings.Split(r.String(), "/") {
				if segment == "." || segment == ".." || segment == "" && i != 1 {
					t.Fatalf("%s with %s reaches %s", text, args, r)
				}
			}
		}
	})
}

// Whatever Open takes is a chain that holds, link by link, and is the bytes that came.
func FuzzOpenChain(f *testing.F) {
	for n := 1; n <= 3; n++ {
		var text []byte
		for i, s := range signChain(f, n, chainRoot(5), nil) {
			if i > 0 {
				text = append(text, '\n')
			}
			text = append(text, s.Wire().Bytes()...)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		wires := bytes.Split(text, []byte("\n"))
		c, err := NewChains().Open(nil, wires...)
		if err != nil {
			if c.Len() != 0 {
				t.Fatal("a chain and an error")
			}
			return
		}
		for n := 1; n <= c.Len(); n++ {
			if c.Link(n).Wire().String() != string(wires[n-1]) {
				t.Fatal("another spelling")
			}
			if k := c.Token(n); n > 1 && (k == nil || narrower(c.Token(n-1), k) != "") {
				t.Fatal("a link that is wider")
			}
		}
	})
}
