package gateway_test

import (
	"context"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// lentOn is a task of Ben's with a grant of Ann's tools, of which he hands a
// narrower one on to Cleo, who is at work.
func lentOn(t *testing.T, s *shelf) (ann, ben, cleo *side, id, part string) {
	t.Helper()
	sides := row(t, "Ann", "Ben", "Cleo")
	ann, ben, cleo = sides[0], sides[1], sides[2]
	ann.tools = s
	ann.restart()
	ann.rules.Policy.Tools = docs
	ann.adopt()
	in := ann.deep(1)
	in.Draft.Budget.ToolCalls, in.Draft.Grants = "100", []manifest.DraftGrant{reading(5)}
	id = begun(t, ann, ben, in)
	ben.until("holding tokens", func() bool {
		cs, err := ben.g.Capabilities(context.Background(), scribe, gateway.Ref{Task: id})
		return err == nil && len(cs) == 1
	})
	sub := partOf(id, "Cleo")
	sub.Draft.Budget.ToolCalls = "50"
	sub.Draft.Grants = []manifest.DraftGrant{{Resource: "mcp://docs/public/north/*", Tools: []string{"docs.read"}, Uses: 3}}
	part = handsOn(t, ann, ben, cleo, sub)
	cleo.until("holding tokens", func() bool {
		cs, err := cleo.g.Capabilities(context.Background(), scribe, gateway.Ref{Task: part})
		return err == nil && len(cs) == 1
	})
	return ann, ben, cleo, id, part
}

// Cleo uses Ann's tool under Ben's narrower token: neither knows the other but
// by Ben's introduction, which makes no contact (C2, C7).
func TestAHandedOnToolIsUsedByWhoWasIntroduced(t *testing.T) {
	s := &shelf{}
	ann, ben, cleo, id, part := lentOn(t, s)
	ctx := context.Background()
	u, err := cleo.call(part, "docs.read", `{"path":"public/north/a.txt"}`)
	if err != nil || u.State != "done" || u.Result.String() != `{"content":[{"text":"fine","type":"text"}]}` {
		t.Fatalf("%+v, %v", u, err)
	}
	if got := s.calls(); len(got) != 1 || got[0] != `docs.read {"path":"public/north/a.txt"}` {
		t.Errorf("the tool received %q", got)
	}
	if _, err := cleo.g.CallTool(ctx, scribe, gateway.Use{Task: part, Tool: "docs.read", Arguments: args(t, `{"path":"public/south/a.txt"}`)}); spec.ReasonOf(err) != spec.CapabilityDenied {
		t.Errorf("what Ben's token does not cover: %v", err)
	}
	for n, call := range []func() (gateway.Used, error){ // the root's count is over everybody: 5, of which one is gone
		func() (gateway.Used, error) { return ben.call(id, "docs.read", `{"path":"public/south/b.txt"}`) },
		func() (gateway.Used, error) { return cleo.call(part, "docs.read", `{"path":"public/north/b.txt"}`) },
		func() (gateway.Used, error) { return ben.call(id, "docs.read", `{"path":"public/south/c.txt"}`) },
		func() (gateway.Used, error) { return ben.call(id, "docs.read", `{"path":"public/south/d.txt"}`) },
	} {
		if u, err := call(); err != nil || u.State != "done" {
			t.Fatalf("use %d: %+v, %v", n+2, u, err)
		}
	}
	for _, call := range []func() (gateway.Used, error){
		func() (gateway.Used, error) { return cleo.call(part, "docs.read", `{"path":"public/north/c.txt"}`) },
		func() (gateway.Used, error) { return ben.call(id, "docs.read", `{"path":"public/south/e.txt"}`) },
	} {
		if u, err := call(); err != nil || u.State != "refused" || u.Denial.Reason != string(spec.CapabilityExhausted) {
			t.Errorf("one more than the root has: %+v, %v", u, err)
		}
	}
	if n := len(s.calls()); n != 5 {
		t.Errorf("the tool was called %d times, want 5", n)
	}
	for _, x := range []struct {
		s    *side
		id   string
		used int64 // uses that its bundle shows: Ann's gateway answered all of them
	}{{ann, id, 5}, {ben, id, 3}, {ben, part, 0}, {cleo, part, 2}} {
		r, used := x.s.holds(x.id, true), int64(0)
		for _, u := range r.Facts.Tools {
			used += u.Used
		}
		if used != x.used || len(r.Findings) > 0 {
			t.Errorf("%s's bundle of %s shows %d uses, want %d: %+v", x.s.home.Config.Name, x.id, used, x.used, r.Findings)
		}
	}
	cs, err := ann.g.Contacts(ctx, gateway.Owner, gateway.None{})
	if err != nil || len(cs) != 2 {
		t.Fatalf("%+v, %v", cs, err)
	}
	for _, c := range cs {
		if c.Name != "Cleo" {
			continue
		}
		if !c.Introduced || c.Confirmed {
			t.Errorf("Ann holds Cleo as %+v", c)
		}
		if _, err := ann.g.ChangeContact(ctx, gateway.Owner, gateway.ContactChange{Name: "Cleo", Do: "confirm", Words: c.Words}); spec.ReasonOf(err) != spec.NotPermitted {
			t.Errorf("words that nobody compared confirm: %v", err)
		}
	}
	if _, err := ann.g.Propose(ctx, gateway.Owner, gateway.Proposal{To: "Cleo", Draft: manifest.Draft{Title: "x", Goal: "y"}}); spec.ReasonOf(err) != spec.PolicyDenied {
		t.Errorf("Ann asks Cleo, who is no contact: %v", err)
	}
}

// Ann takes her token back: Cleo's next call is refused, also where Cleo was off
// in between and never heard of it (C2k, I7).
func TestATokenTakenBackEndsWhatWasHandedOn(t *testing.T) {
	for _, off := range []bool{false, true} {
		s := &shelf{}
		ann, _, cleo, _, part := lentOn(t, s)
		if u, err := cleo.call(part, "docs.read", `{"path":"public/north/a.txt"}`); err != nil || u.State != "done" {
			t.Fatalf("%+v, %v", u, err)
		}
		if off {
			cleo.stop()
		}
		ls, err := ann.g.LentTools(context.Background(), gateway.Owner, false)
		if err != nil || len(ls) != 1 {
			t.Fatalf("%+v, %v", ls, err)
		}
		if _, err := ann.g.TakeBack(context.Background(), gateway.Owner, gateway.TakingBack{Token: ls[0].Digest.String(), Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
		if off {
			cleo.start()
		}
		u, err := cleo.call(part, "docs.read", `{"path":"public/north/b.txt"}`)
		if err != nil || u.State != "refused" || u.Denial.Reason != string(spec.Revoked) {
			t.Errorf("off %v: %+v, %v", off, u, err)
		}
		if n := len(s.calls()); n != 1 {
			t.Errorf("off %v: the tool was called %d times", off, n)
		}
	}
}

// A grant that is wider than the one above it is refused before anybody is asked (P1, B010).
func TestAWiderGrantIsNotHandedOn(t *testing.T) {
	s := &shelf{}
	sides := row(t, "Ann", "Ben", "Cleo")
	ann, ben := sides[0], sides[1]
	ann.tools = s
	ann.restart()
	ann.rules.Policy.Tools = docs
	ann.adopt()
	in := ann.deep(1)
	in.Draft.Budget.ToolCalls, in.Draft.Grants = "100", []manifest.DraftGrant{reading(5)}
	id := begun(t, ann, ben, in)
	for name, c := range map[string]struct {
		g    manifest.DraftGrant
		path string
	}{
		"another resource": {manifest.DraftGrant{Resource: "mcp://docs/*", Tools: []string{"docs.read"}, Uses: 1}, "/resource"},
		"another tool":     {manifest.DraftGrant{Resource: "mcp://docs/public/*", Tools: []string{"docs.read", "docs.write"}, Uses: 1}, "/allowedTools/1"},
		"more uses":        {reading(6), "/maxInvocations"},
	} {
		sub := partOf(id, "Cleo")
		sub.Draft.Budget.ToolCalls = "50"
		sub.Draft.Grants = []manifest.DraftGrant{c.g}
		_, err := ben.g.Propose(context.Background(), scribe, sub)
		if spec.ReasonOf(err) != spec.NotAttenuated || !strings.Contains(err.Error(), "/permissions/grantedCapabilities/0"+c.path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	sub := partOf(id, "Cleo")
	sub.Draft.Grants = []manifest.DraftGrant{reading(1)}
	if _, err := ben.g.Propose(context.Background(), scribe, sub); err != nil {
		t.Fatal(err)
	}
	a := ann.ask(manifest.SubGate)
	card := approval.Card(a.Ask, a.At, 400, a.At.Location())
	if !strings.Contains(card, "call your docs.read") || !strings.Contains(card, "both gateways are introduced") {
		t.Errorf("Ann's card:\n%s", card)
	}
}
