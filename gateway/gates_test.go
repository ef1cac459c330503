package gateway_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// gateOf is the newest ask of a task as the task shows it.
func gateOf(t testing.TB, s *side, id string) gateway.GateView {
	t.Helper()
	v := s.state(id)
	if len(v.Gates) == 0 {
		t.Fatalf("%s: no gate in %s", s.home.Config.Name, id)
	}
	return v.Gates[len(v.Gates)-1]
}

func (s *side) deny(id, reason string) (gateway.Decided, error) {
	return s.g.DenyGate(context.Background(), gateway.Owner, gateway.Denial{Ask: id, Reason: reason})
}

// askOf is the open ask of one task.
func (s *side) askOf(task string) gateway.AskView {
	s.t.Helper()
	var found gateway.AskView
	s.until("asked about "+task, func() bool {
		as, err := s.g.Asks(context.Background(), gateway.Owner, false)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, a := range as {
			if a.Task == task {
				found = a
			}
		}
		return found.Task != ""
	})
	return found
}

// Allowed, denied, expired and withdrawn are four results, and each is told to a late answer in its own way (G3, G4).
func TestFourResultsCanBeToldApart(t *testing.T) {
	ann, ben := pair(t)
	ann.rules.Policy.Ask.Contract.Wait = 0
	ctx := context.Background()
	want := map[approval.Outcome]string{}

	allowed := ann.propose()
	a := ann.askOf(allowed.Task)
	if _, err := ann.answer(a, approval.Allow); err != nil {
		t.Fatal(err)
	}
	want[approval.Allowed] = allowed.Task

	denied := ann.propose()
	d := ann.askOf(denied.Task)
	if _, err := ann.deny(d.Ask.AskID.String(), "not today"); err != nil {
		t.Fatal(err)
	}
	want[approval.Denied] = denied.Task

	withdrawn := ann.propose()
	w := ann.askOf(withdrawn.Task)
	if _, err := ann.g.Cancel(ctx, gateway.Owner, gateway.Cancellation{Task: withdrawn.Task}); err != nil {
		t.Fatal(err)
	}
	want[approval.Withdrawn] = withdrawn.Task

	ann.rules.Policy.Ask.Contract.Wait = policy.Duration(time.Second)
	ann.adopt()
	expired := ann.propose()
	e := ann.askOf(expired.Task)
	ann.until("expired", func() bool { return gateOf(t, ann, expired.Task).State == string(approval.Expired) })
	ann.until("settled", func() bool { return ann.state(expired.Task).Outcome == string(spec.GateExpired) })
	want[approval.Expired] = expired.Task

	all, err := ann.g.Asks(ctx, gateway.Owner, true)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, v := range all {
		seen[v.Task] = v.State
	}
	for state, id := range want {
		if g := gateOf(t, ann, id); g.State != string(state) || g.Closed.IsZero() || seen[id] != string(state) {
			t.Errorf("%s: the task says %+v, the list %q", state, g, seen[id])
		}
	}
	if g := gateOf(t, ann, denied.Task); g.Why != "not today" {
		t.Errorf("the person's words are gone: %+v", g)
	}
	if out := ann.state(denied.Task).Outcome; out != string(spec.GateDenied) {
		t.Errorf("denied ends as %q", out)
	}
	for what, c := range map[string]struct {
		v    gateway.AskView
		word spec.Reason
	}{"allowed": {a, spec.Conflict}, "denied": {d, spec.Conflict}, "withdrawn": {w, spec.Conflict}, "expired": {e, spec.GateExpired}} {
		if _, err := ann.answer(c.v, approval.Allow); spec.ReasonOf(err) != c.word {
			t.Errorf("a late yes to what was %s: %v, want %s", what, err, c.word)
		}
		if _, err := ann.deny(c.v.Ask.AskID.String(), ""); spec.ReasonOf(err) != c.word {
			t.Errorf("a late no to what was %s: %v, want %s", what, err, c.word)
		}
	}
	if _, err := ann.g.DenyGate(ctx, gateway.Caller{Agent: "claude"}, gateway.Denial{Ask: a.Ask.AskID.String()}); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("an agent says no: %v", err)
	}
	id := d.Ask.AskID.String()
	for _, ref := range []string{id, id[len(id)-12:], "apr" + strings.ToLower(id[3:])} {
		if v, err := ann.g.Ask(ctx, gateway.Owner, ref); err != nil || v.Ask.AskID != d.Ask.AskID {
			t.Errorf("%s finds %s, %v", ref, v.Ask.AskID, err)
		}
	}
	for _, ref := range []string{"", id[len(id)-3:], "nowhere"} {
		if _, err := ann.g.Ask(ctx, gateway.Owner, ref); spec.ReasonOf(err) != spec.NotFound {
			t.Errorf("%q: %v, want not-found", ref, err)
		}
	}
	ben.askOf(allowed.Task)
	for _, id := range []string{denied.Task, withdrawn.Task, expired.Task} {
		if v := ben.state(id); v.TaskID != "" {
			t.Errorf("%s left the gateway", id)
		}
	}
}

// The words of a no reach the other side (G4).
func TestANoCarriesItsWords(t *testing.T) {
	ann, ben := pair(t)
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	if _, err := ben.deny(ben.ask(manifest.ContractGate).Ask.AskID.String(), "too many rows for me"); err != nil {
		t.Fatal(err)
	}
	ann.until("declined", func() bool { return ann.state(p.Task).Outcome == "declined" })
	h := ann.state(p.Task).History
	if got := h[len(h)-1].Text; got != "gate-denied; too many rows for me" {
		t.Errorf("the requester reads %q", got)
	}
}

// An ending withdraws the open asks of its task in its own step, on the other side too (G3).
func TestAnEndingWithdrawsWhatIsOpen(t *testing.T) {
	ann, ben := pair(t)
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	v := ben.ask(manifest.ContractGate)
	if _, err := ann.g.Cancel(context.Background(), gateway.Owner, gateway.Cancellation{Task: p.Task}); err != nil {
		t.Fatal(err)
	}
	ben.until("withdrawn", func() bool { return gateOf(t, ben, p.Task).State == string(approval.Withdrawn) })
	if _, err := ben.answer(v, approval.Allow); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("a yes to what was withdrawn: %v", err)
	}
	after := ben.state(p.Task)
	if after.Outcome != "cancelled" || after.Gates[0].Why == "" {
		t.Errorf("%+v", after)
	}
	for _, m := range after.History {
		if m.Kind == manifest.KindAccepted {
			t.Error("accepted after the end")
		}
	}
}

// An ask that ends at the deadline is expired, although nothing can be said any more (G4, H8).
func TestAnAskThatEndsWithTheDeadlineExpires(t *testing.T) {
	ann, ben := pair(t)
	out, err := ann.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "Soon", Goal: "over",
		Deadline: "2s", Budget: manifest.DraftBudget{Time: "1s"}, Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
	if err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.ContractGate)
	ben.askOf(out.Task)
	ben.until("settled", func() bool { g := gateOf(t, ben, out.Task); return !g.Closed.IsZero() })
	if g := gateOf(t, ben, out.Task); g.State != string(approval.Expired) {
		t.Errorf("the ask is %+v", g)
	}
}

// A thousand open asks are a thousand rows: nothing runs for them, they survive
// a restart with their ends, and each is answered alone (B017).
func TestAThousandOpenAsksCostRowsOnly(t *testing.T) {
	ann, _ := pair(t)
	const many = 1000
	draft := manifest.Draft{Goal: "nothing", Sandbox: manifest.DraftSandbox{ClaimedOK: true}}
	ends := map[string]time.Time{}
	before := runtime.NumGoroutine()
	for i := range many {
		draft.Title = fmt.Sprintf("Task %d", i)
		p, err := ann.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: draft})
		if err != nil {
			t.Fatal(i, err)
		}
		ends[p.Ask] = p.Until
	}
	ann.until("quiet", func() bool { return runtime.NumGoroutine() <= before+4 })
	check := func() []gateway.AskView {
		t.Helper()
		as, err := ann.g.Asks(context.Background(), gateway.Owner, false)
		if err != nil || len(as) != len(ends) {
			t.Fatalf("%d asks, %v; want %d", len(as), err, len(ends))
		}
		st, err := ann.g.Status(context.Background(), gateway.Owner, gateway.None{})
		if err != nil || st.Waiting != len(ends) {
			t.Fatalf("%d wait, %v; want %d", st.Waiting, err, len(ends))
		}
		for _, a := range as {
			if until, ok := ends[a.Ask.AskID.String()]; !ok || !until.Equal(a.Ask.Until.Time()) {
				t.Fatalf("%s until %s, want %s", a.Ask.AskID, a.Ask.Until, until)
			}
		}
		return as
	}
	check()
	ann.restart()
	as := check()
	for i, verdict := range []string{approval.Allow, approval.Deny} {
		if _, err := ann.answer(as[i], verdict); err != nil {
			t.Fatal(err)
		}
		delete(ends, as[i].Ask.AskID.String())
	}
	check()
}
