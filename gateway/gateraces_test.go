package gateway_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// testClock stands still, but for what a test adds to it.
type testClock struct {
	began time.Time
	added atomic.Int64
}

func (c *testClock) now() time.Time      { return c.began.Add(time.Duration(c.added.Load())) }
func (c *testClock) add(d time.Duration) { c.added.Add(int64(d)) }

// still stops the clock of a side at a whole second.
func still(s *side) *testClock {
	c := &testClock{began: time.Now().UTC().Truncate(time.Second)}
	s.stop()
	s.clock = c.now
	s.start()
	return c
}

func (s *side) draft() manifest.Draft {
	return manifest.Draft{Title: "Nothing", Goal: "do nothing", Sandbox: manifest.DraftSandbox{ClaimedOK: true}}
}

func (s *side) ask1() gateway.AskView {
	s.t.Helper()
	p, err := s.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: s.draft()})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.askOf(p.Task)
}

// signedYes is the owner's signed answer at an instant, made before a race.
func (s *side) signedAnswer(a approval.Ask, verdict string, at time.Time) gateway.Answer {
	s.t.Helper()
	d := approval.Decide(a, verdict, "passphrase", at)
	v, err := manifest.Sign(&d, s.owner(), at)
	if err != nil {
		s.t.Fatal(err)
	}
	return gateway.Answer{Decision: v.Wire().String()}
}

// outcome holds what must be true of a settled ask of a proposal, and returns its state:
// the action is in the history exactly once after a yes, and never after anything else.
func outcome(t *testing.T, s *side, a gateway.AskView) string {
	t.Helper()
	v := s.state(a.Task)
	if len(v.Gates) != 1 || v.Gates[0].State == string(approval.Waiting) {
		t.Fatalf("the ask is %+v", v.Gates)
	}
	said := 0
	for _, m := range v.History {
		if m.Kind == manifest.KindProposed {
			said++
		}
	}
	want := 0
	if v.Gates[0].State == string(approval.Allowed) {
		want = 1
	}
	if said != want {
		t.Fatalf("%s, and proposed %d times", v.Gates[0].State, said)
	}
	return v.Gates[0].State
}

const (
	raceRounds  = 200
	raceCallers = 64
)

// F2 for gates: 64 callers with yes, no, a signed no, a cancel and the clock's
// end race for one ask, 200 times over. One outcome, and it is what the history says.
func TestOneOutcomeOnAnyInterleaving(t *testing.T) {
	ann, _ := pair(t)
	ann.rules.Policy.Ask.Contract.Wait = policy.Duration(10 * time.Minute)
	clock := still(ann)
	ctx := context.Background()
	seen := map[string]int{}
	for round := range raceRounds {
		a := ann.ask1()
		yes, no := ann.signedAnswer(a.Ask, approval.Allow, clock.now()), ann.signedAnswer(a.Ask, approval.Deny, clock.now())
		id := a.Ask.AskID.String()
		moves := []func() (gateway.Decided, error){
			func() (gateway.Decided, error) { return ann.g.DecideGate(ctx, gateway.Owner, yes) },
			func() (gateway.Decided, error) { return ann.g.DecideGate(ctx, gateway.Owner, no) },
			func() (gateway.Decided, error) { return ann.g.DenyGate(ctx, gateway.Owner, gateway.Denial{Ask: id}) },
		}
		if round%4 == 1 {
			moves = append(moves, func() (gateway.Decided, error) {
				_, err := ann.g.Cancel(ctx, gateway.Owner, gateway.Cancellation{Task: a.Task})
				if err == nil {
					err = spec.Refuse(spec.Conflict, "", "not an answer")
				}
				return gateway.Decided{}, err
			})
		}
		var late atomic.Bool
		if round%4 == 2 {
			moves = append(moves, func() (gateway.Decided, error) {
				if late.CompareAndSwap(false, true) {
					clock.add(11 * time.Minute)
				}
				return gateway.Decided{}, spec.Refuse(spec.Conflict, "", "not an answer")
			})
		}
		var won atomic.Int64
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for i := range raceCallers {
			move := moves[(i+round)%len(moves)]
			if i >= len(moves) {
				move = moves[rand.IntN(len(moves))]
			}
			wg.Go(func() {
				<-begin
				_, err := move()
				switch spec.ReasonOf(err) {
				case "":
					won.Add(1)
				case spec.Conflict, spec.GateExpired:
				default:
					t.Errorf("an answer is told %v", err)
				}
			})
		}
		close(begin)
		wg.Wait()
		if _, err := ann.g.DenyGate(ctx, gateway.Owner, gateway.Denial{Ask: id}); err == nil { // nobody may have said anything but that time is over
			won.Add(1)
		}
		ann.until("settled", func() bool { g := gateOf(t, ann, a.Task); return !g.Closed.IsZero() })
		state := outcome(t, ann, a)
		seen[state]++
		if decided := state == string(approval.Allowed) || state == string(approval.Denied); won.Load() > 1 || decided != (won.Load() == 1) {
			t.Fatalf("round %d: %d answers won, and the ask is %s", round, won.Load(), state)
		}
		if _, err := ann.g.DecideGate(ctx, gateway.Owner, yes); err == nil || outcome(t, ann, a) != state {
			t.Fatalf("round %d: a late yes: %v", round, err)
		}
	}
	t.Log(seen)
	for _, s := range []approval.Outcome{approval.Allowed, approval.Denied} {
		if seen[string(s)] == 0 {
			t.Errorf("no round ended as %s: the race is none", s)
		}
	}
}

// The same with a stop and a start of the gateway in the middle: what was
// settled stays so, and what was not can still be settled once.
func TestOneOutcomeAcrossRestarts(t *testing.T) {
	ann, _ := pair(t)
	ctx := context.Background()
	for round := range 12 {
		a := ann.ask1()
		yes, no := ann.signedAnswer(a.Ask, approval.Allow, time.Now()), ann.signedAnswer(a.Ask, approval.Deny, time.Now())
		answers := []gateway.Answer{yes, no}
		var won atomic.Int64
		var wg sync.WaitGroup
		for i := range 16 {
			g := ann.g
			wg.Go(func() {
				if _, err := g.DecideGate(ctx, gateway.Owner, answers[(i+round)%2]); err == nil {
					won.Add(1)
				}
			})
		}
		ann.restart()
		wg.Wait()
		before := ann.state(a.Task).Gates[0].State
		if settled := before != string(approval.Waiting); settled != (won.Load() == 1) || won.Load() > 1 {
			t.Fatalf("round %d: %d won, and after the start the ask is %s", round, won.Load(), before)
		}
		_, err := ann.g.DecideGate(ctx, gateway.Owner, yes)
		after := outcome(t, ann, a)
		if before != string(approval.Waiting) && (err == nil || after != before) {
			t.Fatalf("round %d: %s became %s", round, before, after)
		}
		ann.restart()
		if again := outcome(t, ann, a); again != after {
			t.Fatalf("round %d: %s became %s by a start", round, after, again)
		}
	}
}

// B015: an ask of 60 s, at 59, at 60 and at 61, on every way in; also after a stop at 30 and a start at 90.
func TestLateIsRefusedAtTheSameInstantOnEverySurface(t *testing.T) {
	ann, _ := pair(t)
	ann.rules.Policy.Ask.Contract.Wait = policy.Duration(time.Minute)
	clock := still(ann)
	ctx := context.Background()
	for _, c := range []struct {
		at   time.Duration
		late bool
	}{{59 * time.Second, false}, {time.Minute - time.Nanosecond, false}, {time.Minute, true}, {time.Minute + time.Nanosecond, true}, {61 * time.Second, true}} {
		ways := map[string]func(a gateway.AskView, yes gateway.Answer) error{
			"a signed yes": func(_ gateway.AskView, yes gateway.Answer) error {
				return second(ann.g.DecideGate(ctx, gateway.Owner, yes))
			},
			"a no": func(a gateway.AskView, _ gateway.Answer) error { return second(ann.deny(a.Ask.AskID.String(), "")) },
		}
		for what, way := range ways {
			a := ann.ask1()
			yes := ann.signedAnswer(a.Ask, approval.Allow, clock.now())
			begun := clock.added.Load()
			clock.add(c.at)
			listed := false
			as, err := ann.g.Asks(ctx, gateway.Owner, false)
			for _, x := range as {
				listed = listed || x.Task == a.Task
			}
			if err != nil || listed == c.late {
				t.Errorf("at %s the list says %t, %v", c.at, listed, err)
			}
			if g := gateOf(t, ann, a.Task); (g.State == string(approval.Expired)) != c.late {
				t.Errorf("at %s the task says %s", c.at, g.State)
			}
			if v, err := ann.g.Approval(ctx, gateway.Owner, gateway.AskRef{Task: a.Task}); err != nil || (v.State == string(approval.Expired)) != c.late {
				t.Errorf("at %s the agents' door says %+v, %v", c.at, v, err)
			}
			if err := way(a, yes); (spec.ReasonOf(err) == spec.GateExpired) != c.late || !c.late && err != nil {
				t.Errorf("%s at %s: %v", what, c.at, err)
			}
			if c.late && outcome(t, ann, a) != string(approval.Expired) {
				t.Error("late, and something was said")
			}
			clock.added.Store(max(begun, clock.added.Load()) + int64(time.Hour))
			ann.began(clock)
		}
	}
	a := ann.ask1()
	yes := ann.signedAnswer(a.Ask, approval.Allow, clock.now())
	clock.add(30 * time.Second)
	ann.stop()
	clock.add(time.Minute)
	ann.start()
	if _, err := ann.g.DecideGate(ctx, gateway.Owner, yes); spec.ReasonOf(err) != spec.GateExpired {
		t.Errorf("after the start: %v, want gate-expired", err)
	}
	ann.until("told", func() bool { return ann.state(a.Task).Outcome == string(spec.GateExpired) })
}

// began brings a clock to a whole second, where asks begin.
func (s *side) began(c *testClock) {
	c.added.Store(c.added.Load() / int64(time.Second) * int64(time.Second))
}

// B014: what waits at a gate holds nothing. However it ends, the one task of the
// day is still there; once a yes was said it is not.
func TestNothingIsHeldWhileAGateIsOpen(t *testing.T) {
	ctx := context.Background()
	ann, _ := pair(t)
	one := policy.Amount(1)
	ann.rules.Policy.Outgoing[0].PerDay.Tasks = &one
	ann.rules.Policy.Ask.Contract.Wait = policy.Duration(10 * time.Minute)
	clock := still(ann)
	for _, end := range []struct {
		how string
		do  func(a gateway.AskView) error
	}{
		{"denied", func(a gateway.AskView) error { return second(ann.deny(a.Ask.AskID.String(), "")) }},
		{"expired", func(a gateway.AskView) error {
			clock.add(11 * time.Minute)
			_, err := ann.deny(a.Ask.AskID.String(), "")
			if spec.ReasonOf(err) == spec.GateExpired {
				err = nil
			}
			return err
		}},
		{"cancelled", func(a gateway.AskView) error {
			return second(ann.g.Cancel(ctx, gateway.Owner, gateway.Cancellation{Task: a.Task}))
		}},
		{"killed and started, then denied", func(a gateway.AskView) error {
			ann.restart()
			return second(ann.deny(a.Ask.AskID.String(), ""))
		}},
	} {
		a := ann.ask1()
		if err := end.do(a); err != nil {
			t.Fatalf("%s: %v", end.how, err)
		}
		ann.until("settled", func() bool { return !gateOf(t, ann, a.Task).Closed.IsZero() })
	}
	a := ann.ask1()
	if _, err := ann.answer(a, approval.Allow); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.g.Propose(ctx, gateway.Owner, gateway.Proposal{To: "Ben", Draft: ann.draft()}); spec.ReasonOf(err) != spec.Quota {
		t.Errorf("a second task of the day: %v, want quota", err)
	}
}

// G2, B016 on the real path: the yes to one ask, offered to another that differs
// on one axis, as it is and with everything but the subject made to fit.
func TestAYesServesNoOtherAskOnTheRealPath(t *testing.T) {
	ann, ben := pair(t)
	ctx := context.Background()
	base := ann.ask1()
	for axis, mend := range map[string]func(*manifest.Draft){
		"task":     func(*manifest.Draft) {},
		"amount":   func(d *manifest.Draft) { d.Budget.OutputTokens = "40k" },
		"target":   func(d *manifest.Draft) { d.Title = "For somebody else" },
		"argument": func(d *manifest.Draft) { d.Goal = "do everything" },
		"data":     func(d *manifest.Draft) { d.Data = map[string]any{"amount": 40000} },
		"gates":    func(d *manifest.Draft) { d.Gates = []string{"contract"} },
	} {
		d := ann.draft()
		mend(&d)
		p, err := ann.g.Propose(ctx, gateway.Owner, gateway.Proposal{To: "Ben", Draft: d, ID: axis})
		if err != nil {
			t.Fatal(axis, err)
		}
		other := ann.askOf(p.Task)
		as := approval.Decide(base.Ask, approval.Allow, "passphrase", time.Now())
		fit := approval.Decide(other.Ask, approval.Allow, "passphrase", time.Now())
		fit.SubjectDigest = as.SubjectDigest
		contract := approval.Decide(other.Ask, approval.Allow, "passphrase", time.Now())
		contract.ContractDigest = as.ContractDigest
		named := as
		named.AskID, named.TaskID = other.Ask.AskID, other.Ask.TaskID
		for what, g := range map[string]manifest.GateDecision{"its subject": fit, "its contract": contract, "its ask's digest": named} {
			v, err := manifest.Sign(&g, ann.owner(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ann.g.DecideGate(ctx, gateway.Owner, gateway.Answer{Decision: v.Wire().String()}); spec.ReasonOf(err) != spec.Conflict {
				t.Errorf("another %s, with %s: %v, want conflict", axis, what, err)
			}
		}
		if g := gateOf(t, ann, p.Task); g.State != string(approval.Waiting) || len(ann.state(p.Task).History) != 0 {
			t.Errorf("another %s: %+v", axis, g)
		}
	}
	yes := ann.signedAnswer(base.Ask, approval.Allow, time.Now())
	if _, err := ann.g.DecideGate(ctx, gateway.Owner, yes); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.g.DecideGate(ctx, gateway.Owner, yes); spec.ReasonOf(err) != spec.Conflict { // a second use
		t.Errorf("the same yes again: %v", err)
	}
	if _, err := ben.g.DecideGate(ctx, gateway.Owner, yes); err == nil { // another owner's gateway
		t.Error("the other owner's gateway takes it")
	}
}

// The yes to one revision serves no other, and what was replaced is withdrawn (G2, G3).
func TestAYesToOneRevisionServesNoOther(t *testing.T) {
	ann, ben := pair(t)
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	first := ann.ask(manifest.DeliveryGate)
	yes := ann.signedAnswer(first.Ask, approval.Allow, time.Now())
	if _, err := ann.deny(first.Ask.AskID.String(), "count again"); err != nil {
		t.Fatal(err)
	}
	next := ann.ask(manifest.DeliveryGate)
	if next.Ask.AskID == first.Ask.AskID || next.Ask.SubjectDigest == first.Ask.SubjectDigest {
		t.Fatal("the second revision is the same question")
	}
	if _, err := ann.g.DecideGate(context.Background(), gateway.Owner, yes); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("the yes to revision 1: %v, want conflict", err)
	}
	d := approval.Decide(next.Ask, approval.Allow, "passphrase", time.Now())
	d.SubjectDigest = first.Ask.SubjectDigest
	v, err := manifest.Sign(&d, ann.owner(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ann.g.DecideGate(context.Background(), gateway.Owner, gateway.Answer{Decision: v.Wire().String()}); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("a yes with the subject of revision 1: %v, want conflict", err)
	}
	if ann.state(p.Task).Outcome != "" {
		t.Error("completed")
	}
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Outcome == "completed" })
}

// B017: three open gates, a stop without warning, a start. All are listed with
// their ends; one is allowed, one denied, one expires, and each takes effect.
func TestThreeOpenGatesOutliveAStop(t *testing.T) {
	ann, _ := pair(t)
	ann.rules.Policy.Ask.Contract.Wait = policy.Duration(10 * time.Minute)
	clock := still(ann)
	var open [3]gateway.AskView
	for i := range open {
		open[i] = ann.ask1()
	}
	clock.add(time.Minute)
	ann.restart()
	as, err := ann.g.Asks(context.Background(), gateway.Owner, false)
	if err != nil || len(as) != 3 {
		t.Fatalf("%d asks, %v", len(as), err)
	}
	for _, o := range open {
		found := false
		for _, a := range as {
			found = found || a.Ask.Digest() == o.Ask.Digest() && a.Ask.Until == o.Ask.Until
		}
		if !found {
			t.Errorf("%s is gone or another", o.Ask.AskID)
		}
	}
	if _, err := ann.answer(open[0], approval.Allow); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.answer(open[1], approval.Deny); err != nil {
		t.Fatal(err)
	}
	clock.add(10 * time.Minute)
	if _, err := ann.deny(open[2].Ask.AskID.String(), ""); spec.ReasonOf(err) != spec.GateExpired {
		t.Fatal(err)
	}
	for i, want := range []approval.Outcome{approval.Allowed, approval.Denied, approval.Expired} {
		ann.until("settled", func() bool { return !gateOf(t, ann, open[i].Task).Closed.IsZero() })
		if got := outcome(t, ann, open[i]); got != string(want) {
			t.Errorf("ask %d is %s, want %s", i, got, want)
		}
	}
}
