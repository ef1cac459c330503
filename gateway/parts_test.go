package gateway_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/relay/relaytest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// row makes owners who stand in a row: each knows only its neighbours. All but
// the first have an agent that works in its owner's session.
func row(t testing.TB, names ...string) []*side {
	t.Helper()
	return rowOn(t, relaytest.NewMemory(), names...)
}

func rowOn(t testing.TB, mem *relaytest.Memory, names ...string) (out []*side) {
	t.Helper()
	dial := func(s side) gatewayConn { return mem.Conn(s.home.Agent) }
	for i, name := range names {
		s := newSide(t, dial, mem.Address(), name)
		if i > 0 {
			s.rules.Agents = map[string]gateway.Agent{"scribe": {Session: true, Model: "own"}}
			s.adopt()
			s.redeem(out[i-1].invite())
			s.confirmNamed(names[i-1])
			out[i-1].confirmNamed(name)
		}
		out = append(out, s)
	}
	return out
}

func (s *side) confirmNamed(name string) {
	s.t.Helper()
	s.until("knows "+name, func() bool {
		cs, err := s.g.Contacts(context.Background(), gateway.Owner, gateway.None{})
		i := slices.IndexFunc(cs, func(c gateway.ContactView) bool { return c.Name == name })
		if err != nil || i < 0 {
			return false
		}
		_, err = s.g.ChangeContact(context.Background(), gateway.Owner, gateway.ContactChange{Name: name, Do: "confirm", Words: cs[i].Words})
		return err == nil
	})
}

// agrees says yes to a task at a gate, once its owner is asked.
func (s *side) agrees(task, gate string) {
	s.t.Helper()
	s.until("asked at "+gate, func() bool { return openGate(s.state(task), gate) != "" })
	s.sayYes(openGate(s.state(task), gate))
}

// deep is a draft for Ben that may be handed on so often.
func (s *side) deep(depth int64) gateway.Proposal {
	s.t.Helper()
	dir, err := filepath.EvalSymlinks(s.t.TempDir())
	file := filepath.Join(dir, "sales.csv")
	if err == nil {
		err = os.WriteFile(file, []byte("a,1\nb,2\nc,3\n"), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "Count lines", Goal: "Count the lines of sales.csv", Inputs: []manifest.DraftInput{{File: file}}, Depth: depth,
		Output: map[string]any{"type": "object", "required": []any{"lines"}}, Sandbox: manifest.DraftSandbox{ClaimedOK: true}}}
}

// begun is a task of Ann's that Ben's agent has started.
func begun(t testing.TB, ann, ben *side, in gateway.Proposal) (id string) {
	t.Helper()
	p, err := ann.g.Propose(context.Background(), gateway.Owner, in)
	if err != nil {
		t.Fatal(err)
	}
	ann.sayYes(p.Ask)
	starts(t, ben, p.Task)
	return p.Task
}

// starts says yes to a contract at its worker and lets the agent begin.
func starts(t testing.TB, s *side, id string) {
	t.Helper()
	s.agrees(id, "contract")
	s.until("started", func() bool {
		v, err := s.g.StartWork(context.Background(), scribe, gateway.Ref{Task: id})
		return err == nil && v.Running
	})
}

func partOf(parent, to string) gateway.Proposal {
	return gateway.Proposal{To: to, Parent: parent, HandOn: []string{"sales.csv"}, Draft: manifest.Draft{Title: "Count a part", Goal: "Count the lines, please",
		Output: map[string]any{"type": "object", "required": []any{"lines"}}, Sandbox: manifest.DraftSandbox{ClaimedOK: true},
		Budget: manifest.DraftBudget{InputTokens: "1000", OutputTokens: "100", ToolCalls: "2", Time: "2m"}}}
}

// handsOn lets the agent of one owner hand a part on, with every yes that it takes.
func handsOn(t testing.TB, above, s, to *side, in gateway.Proposal) (part string) {
	t.Helper()
	p, err := s.g.Propose(context.Background(), scribe, in)
	if err != nil {
		t.Fatal(err)
	}
	above.agrees(in.Parent, "delegation")
	s.agrees(in.Parent, "delegation")
	s.agrees(p.Task, "contract")
	starts(t, to, p.Task)
	return p.Task
}

func returned(id, lines string, in, out int64) gateway.Returned {
	v, err := jcs.Parse([]byte(`{"lines":` + lines + `}`))
	if err != nil {
		panic(err)
	}
	ac, _ := manifest.ParseCriterionID("ac_1")
	return gateway.Returned{Told: gateway.Told{Task: id, InputTokens: in, OutputTokens: out}, Output: v, Evidence: []manifest.Evidence{{Criterion: ac, Text: "counted"}}}
}

// holds verifies the bundle of a task at one side.
func (s *side) holds(id string, binding bool) audit.Report {
	s.t.Helper()
	s.until("acknowledged", func() bool {
		st, err := s.g.Status(context.Background(), gateway.Owner, gateway.None{})
		return err == nil && st.Outgoing == 0
	})
	b, err := s.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: id})
	if err != nil {
		s.t.Fatal(err)
	}
	rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{})
	if err != nil || !rep.Verified || rep.Binding != binding {
		s.t.Errorf("%s's bundle of %s: %v, verified %v, binding %v, %+v", s.home.Config.Name, id, err, rep.Verified, rep.Binding, rep.Findings)
	}
	return rep
}

// Ann asks Ben, Ben hands a part to Cleo, whose result he uses: two chains, each
// whole, and the share comes back once (P1–P3, G11, B3, B7).
func TestAPartIsHandedOnFromDoorToDoor(t *testing.T) {
	sides := row(t, "Ann", "Ben", "Cleo")
	ann, ben, cleo := sides[0], sides[1], sides[2]
	ctx := context.Background()
	id := begun(t, ann, ben, ann.deep(1))
	p, err := ben.g.Propose(ctx, scribe, partOf(id, "Cleo"))
	if err != nil || p.Above != "Ann" || p.Sent {
		t.Fatalf("%+v, %v", p, err)
	}
	if again, err := ben.g.Propose(ctx, scribe, partOf(id, "Cleo")); err != nil || !again.Joined || again.Task != p.Task {
		t.Errorf("the same call again: %+v, %v", again, err)
	}
	a := ann.ask(manifest.SubGate)
	for _, want := range []string{"you → Ben → an owner whom you do not know", "1 file of yours", "1,000 tokens in"} {
		if card := approval.Card(a.Ask, a.At, 400, a.At.Location()); !strings.Contains(card, want) {
			t.Errorf("Ann's card does not say %q:\n%s", want, card)
		}
	}
	if v := ben.state(p.Task); v.State != "drafted" || ben.state(id).Budget["input_tokens"].Reserved != 200_000 {
		t.Errorf("before Ann's yes: %s, %+v", v.State, ben.state(id).Budget)
	}
	ann.sayYes(a.Ask.AskID.String())
	ben.agrees(id, "delegation")
	if card := ben.ask(manifest.ContractGate); card.Ask.From.Name != "Cleo" {
		t.Errorf("Ben is asked about %+v", card.Ask.From)
	}
	ben.agrees(p.Task, "contract")
	starts(t, cleo, p.Task)
	if _, err := cleo.g.ReturnResult(ctx, scribe, returned(p.Task, "3", 700, 60)); err != nil {
		t.Fatal(err)
	}
	if _, err := cleo.g.Propose(ctx, scribe, partOf(p.Task, "Ben")); spec.ReasonOf(err) != spec.DepthExceeded {
		t.Errorf("what may be handed on to nobody, when it is delivered: %v, want depth-exceeded", err)
	}
	ben.agrees(p.Task, "delivery")
	ben.until("has the part", func() bool { return ben.state(p.Task).Released })
	ben.until("share back", func() bool { return ben.state(id).Budget["input_tokens"].Committed == 700 })
	got, err := ben.g.Result(ctx, scribe, gateway.Fetch{Task: p.Task})
	if err != nil || got.Output.String() != `{"lines":3}` {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := ben.g.ReturnResult(ctx, scribe, returned(id, "3", 1000, 100)); err != nil {
		t.Fatal(err)
	}
	ann.agrees(id, "delivery")
	ann.until("completed", func() bool { return ann.state(id).Released })
	ben.until("completed", func() bool { return ben.state(id).Outcome == "completed" })
	for _, s := range []*side{ann, ben} {
		rep := s.holds(id, true)
		if u := rep.Facts.Used; u.InputTokens != 1700 || u.OutputTokens != 160 {
			t.Errorf("%s: used %+v, want what both did", s.home.Config.Name, u)
		}
	}
	for _, s := range []*side{ben, cleo} {
		s.until("completed", func() bool { return s.state(p.Task).Outcome == "completed" })
		if rep := s.holds(p.Task, true); rep.Facts.Used.InputTokens != 700 {
			t.Errorf("%s: used %+v", s.home.Config.Name, rep.Facts.Used)
		}
	}
	if v := ann.state(id); v.Budget["input_tokens"].Committed != 1700 {
		t.Errorf("Ann sees %+v", v.Budget)
	}
	if got := spec.ReasonOf(second(ann.g.Task(ctx, gateway.Owner, gateway.Ref{Task: p.Task}))); got != spec.NotFound {
		t.Errorf("Ann holds the part itself: %v", got)
	}
}

// Ann → Ben → Cleo → Dee is one step too far, and nobody comes back up the chain
// (P1, P3). The root's limits hold over the whole tree (B3).
func TestAChainEndsWhereItsRootSays(t *testing.T) {
	sides := row(t, "Ann", "Ben", "Cleo", "Dee", "Eve")
	ann, ben, cleo, dee := sides[0], sides[1], sides[2], sides[3]
	ctx := context.Background()
	id := begun(t, ann, ben, ann.deep(2))
	in := partOf(id, "Cleo")
	in.Draft.Depth = 1
	first := handsOn(t, ann, ben, cleo, in)
	in = partOf(first, "Dee")
	in.Draft.Budget = manifest.DraftBudget{InputTokens: "400", OutputTokens: "40", ToolCalls: "1", Time: "1m"}
	second1 := handsOn(t, ben, cleo, dee, in)
	if _, err := dee.g.Propose(ctx, scribe, partOf(second1, "Eve")); spec.ReasonOf(err) != spec.DepthExceeded {
		t.Errorf("one step more: %v, want depth-exceeded", err)
	}
	back := partOf(first, "Ben")
	back.Draft.Budget = manifest.DraftBudget{InputTokens: "1", OutputTokens: "1", ToolCalls: "0", Time: "1s"}
	if _, err := cleo.g.Propose(ctx, scribe, back); spec.ReasonOf(err) != spec.NotAttenuated {
		t.Errorf("back up the chain: %v, want not-attenuated", err)
	}
	over := partOf(first, "Dee")
	over.Draft.Budget = manifest.DraftBudget{InputTokens: "601", OutputTokens: "1", ToolCalls: "0", Time: "1s"}
	if _, err := cleo.g.Propose(ctx, scribe, over); spec.ReasonOf(err) != spec.BudgetExhausted {
		t.Errorf("more than is left of the share: %v, want budget-exhausted", err)
	}
	for _, step := range []struct {
		s, above *side
		id       string
		in       int64
	}{{dee, cleo, second1, 300}, {cleo, ben, first, 200}, {ben, ann, id, 100}} {
		if _, err := step.s.g.ReturnResult(ctx, scribe, returned(step.id, "3", step.in, 10)); err != nil {
			t.Fatal(err)
		}
		step.above.agrees(step.id, "delivery")
		step.above.until("has it", func() bool { return step.above.state(step.id).Released })
	}
	if used := ann.holds(id, true).Facts.Used.InputTokens; used != 600 {
		t.Errorf("Ann is told of %d tokens, want those of all three", used)
	}
	for _, s := range []*side{cleo, dee} {
		s.until("completed", func() bool { return s.state(second1).Outcome == "completed" })
		s.holds(second1, true)
	}
}

// What ends at the root ends everywhere below it, also where somebody in between
// was off when it happened (P3), and the shares come back with the last words.
func TestAnEndGoesDownTheChain(t *testing.T) {
	sides := row(t, "Ann", "Ben", "Cleo", "Dee")
	ann, ben, cleo, dee := sides[0], sides[1], sides[2], sides[3]
	id := begun(t, ann, ben, ann.deep(2))
	in := partOf(id, "Cleo")
	in.Draft.Depth = 1
	first := handsOn(t, ann, ben, cleo, in)
	in = partOf(first, "Dee")
	in.Draft.Budget = manifest.DraftBudget{InputTokens: "400", OutputTokens: "40", ToolCalls: "1", Time: "1m"}
	last := handsOn(t, ben, cleo, dee, in)
	cleo.stop()
	if _, err := ann.g.Cancel(context.Background(), gateway.Owner, gateway.Cancellation{Task: id, Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	ben.until("ends the part", func() bool { return ben.state(first).Outcome == "cancelled" })
	if v := dee.state(last); v.Outcome != "" {
		t.Fatalf("behind Cleo, who is off: %s", v.Outcome)
	}
	cleo.start()
	dee.until("ended", func() bool { return dee.state(last).Outcome == "cancelled" })
	for s, task := range map[*side]string{ben: first, cleo: last} {
		s.until("last word", func() bool {
			h := s.state(task).History
			return len(h) > 0 && slices.ContainsFunc(h, func(m gateway.Moment) bool { return m.Kind == manifest.KindStopped })
		})
	}
	for s, parent := range map[*side]string{ben: id, cleo: first} {
		s.until("share back", func() bool { return s.state(parent).Budget["input_tokens"].Reserved == 0 })
	}
	for _, x := range []struct {
		s  *side
		id string
	}{{ann, id}, {ben, id}, {ben, first}, {cleo, first}, {cleo, last}, {dee, last}} {
		x.s.holds(x.id, true)
	}
}

// A no at any of the doors: the part is dropped, its share is free again, and
// the work above goes on (G11, B3).
func TestANoToAPartLeavesTheWorkAlone(t *testing.T) {
	sides := row(t, "Ann", "Ben", "Cleo")
	ann, ben, cleo := sides[0], sides[1], sides[2]
	ctx := context.Background()
	id := begun(t, ann, ben, ann.deep(1))
	free := func() bool {
		b := ben.state(id).Budget
		return b["input_tokens"].Reserved == 200_000 && b["tool_calls"].Reserved == 0
	}
	no := func(s *side, task, gate string) {
		t.Helper()
		s.until("asked at "+gate, func() bool { return openGate(s.state(task), gate) != "" })
		if _, err := s.g.DenyGate(ctx, gateway.Owner, gateway.Denial{Ask: openGate(s.state(task), gate)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, deny := range []func(part string){
		func(string) { no(ann, id, "delegation") },
		func(string) { ann.agrees(id, "delegation"); no(ben, id, "delegation") },
		func(part string) {
			ann.agrees(id, "delegation")
			ben.agrees(id, "delegation")
			no(ben, part, "contract")
		},
		func(part string) {
			ann.agrees(id, "delegation")
			ben.agrees(id, "delegation")
			ben.agrees(part, "contract")
			no(cleo, part, "contract")
		},
	} {
		in := partOf(id, "Cleo")
		in.Draft.Title = "Part " + string(rune('a'+i))
		p, err := ben.g.Propose(ctx, scribe, in)
		if err != nil {
			t.Fatal(err)
		}
		if b := ben.state(id).Budget["tool_calls"]; b.Reserved != 2 {
			t.Fatalf("%d: reserved %+v, want the share", i, b)
		}
		deny(p.Task)
		ben.until("gave up the part", func() bool { v := ben.state(p.Task); return v.Outcome != "" })
		ben.until("has its share back", free)
		if v := ben.state(id); v.State != "working" || v.Outcome != "" {
			t.Fatalf("%d: the work above is %s %s", i, v.State, v.Outcome)
		}
	}
	if _, err := ben.g.ReturnResult(ctx, scribe, returned(id, "3", 10, 1)); err != nil {
		t.Fatal(err)
	}
	ann.agrees(id, "delivery")
	ann.until("completed", func() bool { return ann.state(id).Released })
	if u := ann.holds(id, true).Facts.Used; u.InputTokens != 10 {
		t.Errorf("used %+v", u)
	}
}

// What is wider than its parent leaves nobody's gateway: refused by name of the
// axis before anybody is asked (B010); of the wider, Ann's owner never hears.
func TestAWiderPartIsRefusedAtTheDoor(t *testing.T) {
	sides := row(t, "Ann", "Ben", "Cleo")
	ann, ben := sides[0], sides[1]
	yes, no := true, false
	in := ann.deep(1)
	in.Draft.Verify.Attestation = &yes
	id := begun(t, ann, ben, in)
	for name, c := range map[string]struct {
		change func(*manifest.Draft)
		word   spec.Reason
		limit  string
	}{
		"more tokens":       {func(d *manifest.Draft) { d.Budget.InputTokens = "2M" }, spec.NotAttenuated, "at most 200000"},
		"longer":            {func(d *manifest.Draft) { d.Deadline = "7d" }, spec.NotAttenuated, "not after"},
		"other files":       {func(d *manifest.Draft) { d.Sandbox.Files = "workspace" }, spec.NotAttenuated, "read_only_inputs"},
		"fewer checks":      {func(d *manifest.Draft) { d.Check = []manifest.DraftCheck{{Word: "schema"}} }, spec.NotAttenuated, "hybrid"},
		"no attestation":    {func(d *manifest.Draft) { d.Verify.Attestation = &no }, spec.NotAttenuated, "required"},
		"as deep":           {func(d *manifest.Draft) { d.Depth = 1 }, spec.DepthExceeded, "at most 0"},
		"more than is free": {func(d *manifest.Draft) { d.Budget.ToolCalls, d.Budget.Time = "40", "15m" }, spec.BudgetExhausted, "time"},
	} {
		in := partOf(id, "Cleo")
		c.change(&in.Draft)
		_, err := ben.g.Propose(context.Background(), scribe, in)
		var e *spec.Error
		if spec.ReasonOf(err) != c.word || !errors.As(err, &e) || !strings.Contains(e.Limit, c.limit) {
			t.Errorf("%s: %v, want %s: %s", name, err, c.word, c.limit)
		}
	}
	if as, err := ann.g.Asks(context.Background(), gateway.Owner, false); err != nil || len(as) != 0 {
		t.Errorf("Ann is asked %d questions, %v", len(as), err)
	}
	if b := ben.state(id).Budget["tool_calls"]; b.Reserved != 0 {
		t.Errorf("a refused part keeps %+v", b)
	}
}

// Children get no fresh money (B013): root 9,000 tokens of which 1,000 are
// spent; of parts that ask for 4,000 each and come at the same time two get it,
// whoever is killed meanwhile, and the root's own work is held against what they
// hold, not against what they have said.
func TestATreeNeverUsesMoreThanItsRoot(t *testing.T) {
	sides := row(t, "Ann", "Ben", "Cleo")
	ann, ben, cleo := sides[0], sides[1], sides[2]
	ctx := context.Background()
	in := ann.deep(1)
	in.Draft.Budget = manifest.DraftBudget{InputTokens: "9000", OutputTokens: "9000", ToolCalls: "9", Time: "15m"}
	id := begun(t, ann, ben, in)
	if _, err := ben.g.Checkpoint(ctx, scribe, gateway.Told{Task: id, Text: "read it", InputTokens: 1000}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	got := make([]error, 5)
	made := make([]string, 5)
	for i := range got {
		sub := partOf(id, "Cleo")
		sub.Draft.Title = "Part " + string(rune('a'+i))
		sub.Draft.Budget = manifest.DraftBudget{InputTokens: "4000", OutputTokens: "1", ToolCalls: "1", Time: "1m"}
		wg.Go(func() {
			p, err := ben.g.Propose(ctx, scribe, sub)
			made[i], got[i] = p.Task, err
		})
	}
	wg.Wait()
	var took []string
	for i, err := range got {
		switch {
		case err == nil:
			took = append(took, made[i])
		case spec.ReasonOf(err) != spec.BudgetExhausted:
			t.Errorf("part %d: %v", i, err)
		}
	}
	if len(took) != 2 {
		t.Fatalf("%d parts got 4,000 of 8,000", len(took))
	}
	within := func(where string) {
		t.Helper()
		if b := ben.state(id).Budget["input_tokens"]; b.Committed+b.Reserved > 9000 {
			t.Errorf("%s: %+v of 9,000", where, b)
		}
	}
	within("asked")
	ben.restart()
	for range took {
		ann.agrees(id, "delegation")
	}
	for range took {
		ben.agrees(id, "delegation")
	}
	ben.restart()
	within("delegated")
	for _, p := range took {
		ben.agrees(p, "contract")
		starts(t, cleo, p)
	}
	if _, err := cleo.g.Checkpoint(ctx, scribe, gateway.Told{Task: took[0], Text: "much of it", InputTokens: 3500}); err != nil {
		t.Fatal(err)
	}
	cleo.restart()
	over, err := ben.g.Checkpoint(ctx, scribe, gateway.Told{Task: id, Text: "on my own", InputTokens: 5000})
	if err == nil && over.Outcome == "" {
		t.Errorf("the root's own work goes on past what is left: %+v", over.Used)
	}
	within("after its own")
	ann.until("ended", func() bool { return ann.state(id).Outcome == "failed" })
	for _, p := range took {
		cleo.until("ended", func() bool { return cleo.state(p).Outcome != "" })
	}
	ben.until("shares back", func() bool { return ben.state(id).Budget["input_tokens"].Reserved == 0 })
	within("at the end")
	if used := ann.state(id).Budget["input_tokens"].Committed; used > 9000 {
		t.Errorf("Ann is told of %d tokens", used)
	}
	for _, s := range []*side{ann, ben} {
		s.holds(id, true)
	}
}
