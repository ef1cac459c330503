package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// shelf is the twin of our owner's tools: it keeps what it received and answers
// as it is told.
type shelf struct {
	mu     sync.Mutex // guards what follows
	got    []string   // tool and arguments, as they came
	answer func(ctx context.Context, tool, arguments string) (string, error)
}

func (s *shelf) Call(ctx context.Context, tool string, arguments jcs.Value) (jcs.Value, error) {
	s.mu.Lock()
	s.got = append(s.got, tool+" "+arguments.String())
	answer := s.answer
	s.mu.Unlock()
	text := `{"content":[{"text":"fine","type":"text"}]}`
	if answer != nil {
		var err error
		if text, err = answer(ctx, tool, arguments.String()); err != nil {
			return jcs.Value{}, err
		}
	}
	return jcs.CanonicalizeWithin([]byte(text), jcs.Limits{Bytes: 8 << 20, Depth: 64, Values: 100_000, Number: 32})
}

func (s *shelf) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.got...)
}

// docs are the rules about Ann's tools in these tests.
var docs = []policy.Tool{
	{Match: "docs.read", Resource: policy.Words{"mcp://docs/{path}"}, Effect: policy.Words{"none"}, Then: policy.ThenAllow},
	{Match: "docs.write", Resource: policy.Words{"mcp://docs/{path}"}, Effect: policy.Words{"irreversible"}, Then: policy.ThenAsk},
	{Match: "mail.send", Effect: policy.Words{"external_communication"}, Then: policy.ThenAsk},
}

// lent is a task that Ben's agent works on, with grants of Ann's tools.
func lent(t *testing.T, s gateway.Tools, grants ...manifest.DraftGrant) (ann, ben *side, id string) {
	t.Helper()
	ann, ben = pair(t)
	ann.tools = s
	ann.restart()
	ann.rules.Policy.Tools = docs
	ann.adopt()
	ben.rules.Agents = map[string]gateway.Agent{"scribe": {Session: true, Model: "own"}}
	ben.g.Reload(ben.rules)
	p, err := ann.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "Look something up", Goal: "Read a.txt",
		Sandbox: manifest.DraftSandbox{ClaimedOK: true}, Budget: manifest.DraftBudget{ToolCalls: "100"}, Grants: grants}})
	if err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ready(t, ben, p.Task)
	if _, err := ben.g.StartWork(context.Background(), scribe, gateway.Ref{Task: p.Task}); err != nil {
		t.Fatal(err)
	}
	ben.until("holding tokens", func() bool {
		cs, err := ben.g.Capabilities(context.Background(), scribe, gateway.Ref{Task: p.Task})
		return err == nil && len(cs) == len(grants)
	})
	return ann, ben, p.Task
}

func reading(uses int64) manifest.DraftGrant {
	return manifest.DraftGrant{Resource: "mcp://docs/public/*", Tools: []string{"docs.read"}, Uses: uses}
}

func args(t testing.TB, s string) jcs.Value {
	t.Helper()
	v, err := jcs.Canonicalize([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// call makes a call and waits for its end, or for a person.
func (s *side) call(id, tool, arguments string) (gateway.Used, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	u, err := s.g.CallTool(ctx, scribe, gateway.Use{Task: id, Tool: tool, Arguments: args(s.t, arguments)})
	if err != nil {
		return u, err
	}
	s.until("answered", func() bool {
		u, err = s.g.CallTool(ctx, scribe, gateway.Use{Task: id, Call: u.Call})
		return err != nil || u.State != "sent" && !u.Arriving
	})
	return u, err
}

func TestAGrantedToolIsUsedAcrossTheRelay(t *testing.T) { // C2, C4, C5
	s := &shelf{}
	ann, ben, id := lent(t, s, reading(3))
	u, err := ben.call(id, "docs.read", `{"path":"public/a.txt"}`)
	if err != nil || u.State != "done" || u.Result.String() != `{"content":[{"text":"fine","type":"text"}]}` || u.UsesLeft != 2 || u.With != "Ann" {
		t.Fatalf("%+v, %v", u, err)
	}
	if got := s.calls(); len(got) != 1 || got[0] != `docs.read {"path":"public/a.txt"}` {
		t.Errorf("the tool received %q", got)
	}
	cs, err := ben.g.Capabilities(context.Background(), scribe, gateway.Ref{Task: id})
	if err != nil || len(cs) != 1 || cs[0].Left != 2 || cs[0].Uses != 3 || cs[0].With != "Ann" {
		t.Errorf("%+v, %v", cs, err)
	}
	for _, c := range []struct {
		tool, args string
		resources  []string
		want       spec.Reason
	}{
		{"docs.read", `{"path":"private/a.txt"}`, nil, spec.CapabilityDenied},
		{"docs.read", `{"path":"public/../private/a.txt"}`, nil, spec.CapabilityDenied},
		{"docs.read", `{"path":"public/a.txt"}`, []string{"mcp://docs/private/a.txt"}, spec.CapabilityDenied},
		{"docs.write", `{"path":"public/a.txt"}`, nil, spec.CapabilityDenied},
	} {
		if _, err := ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Tool: c.tool, Resources: c.resources, Arguments: args(t, c.args)}); spec.ReasonOf(err) != c.want {
			t.Errorf("%s %s: %v, want %s", c.tool, c.args, err, c.want)
		}
	}
	// what its own gateway lets pass is judged by the one that holds the tool
	v, err := ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Tool: "docs.read", Resources: []string{"mcp://docs/public/a.txt"}, Arguments: args(t, `{"path":"private/a.txt"}`)})
	if err != nil {
		t.Fatal(err)
	}
	ben.until("refused", func() bool {
		v, err = ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Call: v.Call})
		return err == nil && v.State == "refused"
	})
	if v.Denial == nil || v.Denial.Rule != "C1a" || v.Denial.Reason != string(spec.CapabilityDenied) || v.UsesLeft != 2 {
		t.Errorf("%+v", v.Denial)
	}
	if len(s.calls()) != 1 {
		t.Errorf("the tool received %q", s.calls())
	}
	for _, x := range []*side{ann, ben} { // both count the same (B7)
		if b := x.state(id).Budget["tool_calls"]; b.Committed != 1 || b.Reserved != 0 {
			t.Errorf("%s counts %+v", x.home.Config.Name, b)
		}
	}
}

func TestOneUseOf64CallersIsExactlyOne(t *testing.T) { // F2, C5
	s := &shelf{}
	_, ben, id := lent(t, s, reading(1))
	var wg sync.WaitGroup
	var mu sync.Mutex
	done, refused := 0, 0
	for i := range 64 {
		wg.Go(func() {
			u, err := ben.call(id, "docs.read", fmt.Sprintf(`{"n":%d,"path":"public/a.txt"}`, i))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case u.State == "done":
				done++
			case u.State == "refused" && u.Denial.Reason == string(spec.CapabilityExhausted):
				refused++
			default:
				t.Errorf("%+v %+v", u, u.Denial)
			}
		})
	}
	wg.Wait()
	if done != 1 || refused != 63 || len(s.calls()) != 1 {
		t.Errorf("done %d, refused %d; the tool received %q", done, refused, s.calls())
	}
}

func TestTheSameCallJoinsTheOneThatIsOpen(t *testing.T) { // A3, C4
	held := make(chan struct{})
	s := &shelf{answer: func(ctx context.Context, _, _ string) (string, error) {
		select {
		case <-held:
		case <-ctx.Done():
		}
		return `{"content":[]}`, nil
	}}
	_, ben, id := lent(t, s, reading(3))
	ask := gateway.Use{Task: id, Tool: "docs.read", Arguments: args(t, `{"path":"public/a.txt"}`)}
	one, err := ben.g.CallTool(context.Background(), scribe, ask)
	if err != nil {
		t.Fatal(err)
	}
	two, err := ben.g.CallTool(context.Background(), scribe, ask)
	if err != nil || two.Call != one.Call {
		t.Errorf("%+v, %v", two, err)
	}
	close(held)
	ben.until("done", func() bool {
		u, err := ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Call: one.Call})
		return err == nil && u.State == "done"
	})
	three, err := ben.g.CallTool(context.Background(), scribe, ask)
	if err != nil || three.Call == one.Call {
		t.Errorf("after its end the same is another call: %+v, %v", three, err)
	}
	if _, err := ben.g.CallTool(context.Background(), gateway.Caller{Agent: "other"}, gateway.Use{Task: id, Call: one.Call}); spec.ReasonOf(err) != spec.NotFound {
		t.Errorf("another agent's call: %v", err)
	}
}

func TestAToolWithAnEffectWaitsForItsOwner(t *testing.T) { // G1, G2, G6, G8
	s := &shelf{}
	ann, ben, id := lent(t, s, manifest.DraftGrant{Resource: "mcp://docs/public/*", Tools: []string{"docs.write"}, Uses: 5})
	u, err := ben.call(id, "docs.write", `{"path":"public/a.txt","text":"hello"}`)
	if err != nil || u.State != "pending" {
		t.Fatalf("%+v, %v", u, err)
	}
	a := ann.ask(manifest.EffectGate)
	card := approval.Card(a.Ask, time.Now(), 80, time.UTC)
	for _, want := range []string{"docs.write on mcp://docs/public/a.txt", "irreversible", "hello", "Let Ben's agent use your docs.write once?"} {
		if !strings.Contains(card, want) {
			t.Errorf("the card has no %q:\n%s", want, card)
		}
	}
	if len(s.calls()) > 0 {
		t.Fatalf("before the yes the tool received %q", s.calls())
	}
	if _, err := ann.answer(a, approval.Allow); err != nil {
		t.Fatal(err)
	}
	ben.until("done", func() bool {
		u, err = ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Call: u.Call})
		return err == nil && u.State == "done"
	})
	if got := s.calls(); len(got) != 1 || got[0] != `docs.write {"path":"public/a.txt","text":"hello"}` {
		t.Errorf("the tool received %q", got)
	}
	// the same once more is another question, and a no is a no
	u, err = ben.call(id, "docs.write", `{"path":"public/a.txt","text":"hello"}`)
	if err != nil || u.State != "pending" {
		t.Fatalf("%+v, %v", u, err)
	}
	if _, err := ann.g.DenyGate(context.Background(), gateway.Owner, gateway.Denial{Ask: ann.ask(manifest.EffectGate).Ask.AskID.String(), Reason: "not now"}); err != nil {
		t.Fatal(err)
	}
	ben.until("refused", func() bool {
		u, err = ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Call: u.Call})
		return err == nil && u.State == "refused"
	})
	if u.Denial.Reason != string(spec.GateDenied) || u.Denial.Limit != "not now" || u.UsesLeft != 4 || len(s.calls()) != 1 {
		t.Errorf("%+v, %d uses left, the tool received %q", u.Denial, u.UsesLeft, s.calls())
	}
}

func TestAToolThatGivesNoAnswerIsUnknownAndCharged(t *testing.T) { // B1, C4
	s := &shelf{answer: func(context.Context, string, string) (string, error) {
		return "", &spec.Error{Reason: spec.Internal, Limit: "no answer", Err: errors.New("gone")}
	}}
	_, ben, id := lent(t, s, reading(3))
	u, err := ben.call(id, "docs.read", `{"path":"public/a.txt"}`)
	if err != nil || u.State != "unknown" || u.UsesLeft != 2 {
		t.Errorf("%+v, %v", u, err)
	}
	s.answer = func(context.Context, string, string) (string, error) {
		return "", spec.Refuse(spec.Unavailable, "/tool", "does not start")
	}
	u, err = ben.call(id, "docs.read", `{"path":"public/b.txt"}`)
	if err != nil || u.State != "refused" || u.UsesLeft != 2 || u.Denial.Reason != string(spec.Unavailable) {
		t.Errorf("%+v, %v: what was not sent is not charged", u, err)
	}
}

func TestALargeAnswerTravelsAsAFile(t *testing.T) { // C5, R5
	big := strings.Repeat("x", 300<<10)
	s := &shelf{answer: func(context.Context, string, string) (string, error) {
		return `{"content":[{"text":"` + big + `","type":"text"}]}`, nil
	}}
	_, ben, id := lent(t, s, reading(3))
	for range 2 {
		u, err := ben.call(id, "docs.read", `{"path":"public/a.txt"}`)
		if err != nil || u.State != "done" || !strings.Contains(u.Result.String(), big) {
			t.Fatalf("%+v, %v", u.State, err)
		}
	}
}

func TestNothingIsHonouredAfterTheEnd(t *testing.T) { // C2, I7
	s := &shelf{}
	ann, ben, id := lent(t, s, reading(3), manifest.DraftGrant{Resource: "tool://any/mail.send", Tools: []string{"mail.send"}, Uses: 2})
	u, err := ben.call(id, "mail.send", `{"to":"x","text":"y"}`)
	if err != nil || u.State != "pending" {
		t.Fatalf("%+v, %v", u, err)
	}
	if _, err := ann.g.Cancel(context.Background(), gateway.Owner, gateway.Cancellation{Task: id, Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	asks, err := ann.g.Asks(context.Background(), gateway.Owner, false)
	if err != nil || len(asks) > 0 {
		t.Errorf("still asked: %+v, %v", asks, err)
	}
	ben.until("ended", func() bool { return ben.state(id).Outcome == "cancelled" })
	if _, err := ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Tool: "docs.read", Arguments: args(t, `{"path":"public/a.txt"}`)}); err == nil {
		t.Error("a call after the end")
	}
	if len(s.calls()) > 0 {
		t.Errorf("the tool received %q", s.calls())
	}
}

func TestAGrantThatTheOwnersRulesDoNotHaveIsNotProposed(t *testing.T) { // C1a
	ann, _ := pair(t)
	ann.rules.Policy.Tools = docs
	ann.adopt()
	for _, g := range []manifest.DraftGrant{
		{Resource: "mcp://docs/*", Tools: []string{"docs.delete"}},
		{Resource: "mcp://other/*", Tools: []string{"docs.read"}},
		{Resource: "mcp://mail/*", Tools: []string{"mail.send"}},
		{Resource: "mcp://docs/%2e%2e", Tools: []string{"docs.read"}},
		{Resource: "mcp://docs/*", Tools: []string{"docs.read"}, Where: map[string]any{"not": map[string]any{}}},
	} {
		_, err := ann.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "x", Goal: "y", Grants: []manifest.DraftGrant{g}}})
		if r := spec.ReasonOf(err); r != spec.CapabilityDenied && r != spec.PolicyDenied {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

func TestATokenThatIsTakenBackIsHonouredNoMore(t *testing.T) { // I7, C2k
	s := &shelf{}
	ann, ben, id := lent(t, s, reading(9), manifest.DraftGrant{Resource: "tool://any/mail.send", Tools: []string{"mail.send"}, Uses: 2})
	if u, err := ben.call(id, "docs.read", `{"path":"public/a.txt"}`); err != nil || u.State != "done" {
		t.Fatalf("%+v, %v", u, err)
	}
	asked, err := ben.call(id, "mail.send", `{"to":"x"}`)
	if err != nil || asked.State != "pending" {
		t.Fatalf("%+v, %v", asked, err)
	}
	ctx := context.Background()
	ls, err := ann.g.LentTools(ctx, gateway.Owner, false)
	if err != nil || len(ls) != 2 || ls[0].To != "Ben" {
		t.Fatalf("%+v, %v", ls, err)
	}
	for _, l := range ls {
		r, err := manifest.Sign(&manifest.Revocation{Type: "sealbridge/revocation", ProtocolVersion: "0.2.0", OwnerDid: ann.home.Owner, Target: "capability-token", TargetDigest: l.Digest,
			Seq: 1, Reason: "enough", Stands: []manifest.Stand{}, At: signing.TimeOf(time.Now())}, ann.owner(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		in := gateway.TakingBack{Token: l.Digest.String()[60:], Reason: "enough"}
		if l.Tools[0] == "docs.read" { // one by a signed word, one without
			in.Revocation = r.Wire().String()
		}
		if out, err := ann.g.TakeBack(ctx, gateway.Owner, in); err != nil || out.Off != "enough" {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if _, err := ann.g.TakeBack(ctx, scribe, gateway.TakingBack{Token: ls[0].Grant, Reason: "x"}); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("by an agent: %v", err)
	}
	u, err := ben.call(id, "docs.read", `{"path":"public/b.txt"}`)
	if err != nil || u.State != "refused" || u.Denial.Reason != string(spec.Revoked) {
		t.Errorf("%+v %+v, %v", u, u.Denial, err)
	}
	ben.until("told", func() bool {
		asked, err = ben.g.CallTool(ctx, scribe, gateway.Use{Task: id, Call: asked.Call})
		return err == nil && asked.State == "refused"
	})
	as, err := ann.g.Asks(ctx, gateway.Owner, false)
	if err != nil || len(as) > 0 || len(s.calls()) != 1 {
		t.Errorf("still asked %+v, %v; the tool received %q", as, err, s.calls())
	}
}

func TestAContactThatIsBlockedCallsNothing(t *testing.T) { // K3, C2n
	s := &shelf{}
	ann, ben, id := lent(t, s, manifest.DraftGrant{Resource: "tool://any/mail.send", Tools: []string{"mail.send"}, Uses: 2})
	if u, err := ben.call(id, "mail.send", `{"to":"x"}`); err != nil || u.State != "pending" {
		t.Fatalf("%+v, %v", u, err)
	}
	a := ann.ask(manifest.EffectGate)
	if _, err := ann.g.ChangeContact(context.Background(), gateway.Owner, gateway.ContactChange{Name: "Ben", Do: "block"}); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.answer(a, approval.Allow); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("a yes afterwards: %v", err)
	}
	ls, err := ann.g.LentTools(context.Background(), gateway.Owner, true)
	if err != nil || len(ls) != 1 || ls[0].Off != "the contact was blocked" || len(s.calls()) > 0 {
		t.Errorf("%+v, %v; the tool received %q", ls, err, s.calls())
	}
}

func TestAnAmendmentThatWithdrawsAGrantEndsItsToken(t *testing.T) { // H10, C2
	s := &shelf{}
	ann, ben, id := lent(t, s, reading(9))
	ls, err := ann.g.LentTools(context.Background(), gateway.Owner, false)
	if err != nil || len(ls) != 1 {
		t.Fatalf("%+v, %v", ls, err)
	}
	grant := ls[0].Grant
	if _, err := ann.g.Amend(context.Background(), gateway.Owner, gateway.Change{Task: id, Withdraw: []string{grant[10:]}}); err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.until("amended", func() bool { return len(ann.state(id).Changes) == 1 && ann.state(id).Changes[0].Status == "yes" })
	if _, err := ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Tool: "docs.read", Arguments: args(t, `{"path":"public/a.txt"}`)}); err == nil {
		u, err := ben.call(id, "docs.read", `{"path":"public/a.txt"}`)
		if err != nil || u.State != "refused" {
			t.Errorf("%+v, %v", u, err)
		}
	}
	if len(s.calls()) > 0 {
		t.Errorf("the tool received %q", s.calls())
	}
}

func TestTheEvidenceHasTheCallsAndHolds(t *testing.T) { // V4
	s := &shelf{}
	ann, ben, id := lent(t, s, reading(2), manifest.DraftGrant{Resource: "mcp://docs/public/*", Tools: []string{"docs.write"}, Uses: 5})
	for range 3 { // the third is refused: two uses
		if _, err := ben.call(id, "docs.read", `{"path":"public/a.txt"}`); err != nil {
			t.Fatal(err)
		}
	}
	u, err := ben.call(id, "docs.write", `{"path":"public/a.txt"}`)
	if err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.EffectGate)
	ben.until("done", func() bool {
		u, err = ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Call: u.Call})
		return err == nil && u.State == "done"
	})
	if _, err := ben.g.ReturnResult(context.Background(), scribe, gateway.Returned{Told: gateway.Told{Task: id}, Output: jcs.EmptyObject}); err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(id).Released })
	for _, x := range []*side{ann, ben} {
		x.until("acknowledged", func() bool { return x.state(id).Outcome == "completed" })
		b, err := x.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: id})
		if err != nil {
			t.Fatal(err)
		}
		r, err := audit.Verify(strings.NewReader(b.Text), audit.Options{})
		if err != nil || !r.Verified || !strings.Contains(b.Text, "sealbridge/tool-call") || !strings.Contains(b.Text, "sealbridge/tool-result") {
			t.Errorf("%s: verified %t, %v\n%+v", x.home.Config.Name, r.Verified, err, r.Findings)
		}
	}
}

func TestAHomeInRecoveryHonoursNoToken(t *testing.T) { // R4b
	s := &shelf{}
	ann, ben, id := lent(t, s, reading(9))
	if err := ann.g.Recover(context.Background(), "put back from a backup"); err != nil {
		t.Fatal(err)
	}
	u, err := ben.call(id, "docs.read", `{"path":"public/a.txt"}`)
	if err != nil || u.State != "refused" || u.Denial.Reason != string(spec.Revoked) || len(s.calls()) > 0 {
		t.Errorf("%+v %+v, %v; the tool received %q", u, u.Denial, err, s.calls())
	}
	ls, err := ann.g.LentTools(context.Background(), gateway.Owner, true)
	if err != nil || len(ls) != 1 || ls[0].Off == "" {
		t.Errorf("%+v, %v", ls, err)
	}
}

func TestAGatewayThatStopsWhileAToolRunsAnswersUnknown(t *testing.T) { // B1, C4
	begun := make(chan struct{}, 1)
	s := &shelf{answer: func(ctx context.Context, _, _ string) (string, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	}}
	ann, ben, id := lent(t, s, reading(2))
	u, err := ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Tool: "docs.read", Arguments: args(t, `{"path":"public/a.txt"}`)})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	ann.restart()
	ben.until("told", func() bool {
		u, err = ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Call: u.Call})
		return err == nil && u.State == "unknown"
	})
	if u.UsesLeft != 1 || len(s.calls()) != 1 {
		t.Errorf("%d uses left, the tool received %q", u.UsesLeft, s.calls())
	}
}
