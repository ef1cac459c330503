package gateway_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/relay/relaytest"
	"sealbridge/spec"
)

// answers is a twin of the runner that has one output at once.
type answers string

func (a answers) Run(ctx context.Context, c runner.Command) (runner.Result, error) {
	return runner.Result{Stdout: []byte(`{"output":` + string(a) + `,"evidence":[{"criterion":"ac_1","text":"counted"}]}`), Wall: time.Second}, ctx.Err()
}
func (answers) Levels() []string                          { return counter{}.Levels() }
func (answers) Isolation(level string) manifest.Isolation { return counter{}.Isolation(level) }
func (answers) Enforces(string) []string                  { return []string{"nothing: a twin"} }

// circle is Ann with a confirmed contact for each name; each works with its own answer.
func circle(t testing.TB, answer map[string]string) (ann *side, by map[string]*side) {
	t.Helper()
	mem := relaytest.NewMemory()
	dial := func(s side) gatewayConn { return mem.Conn(s.home.Agent) }
	ann, by = newSide(t, dial, mem.Address(), "Ann"), map[string]*side{}
	for _, name := range sortedKeys(answer) {
		s := newSide(t, dial, mem.Address(), name)
		s.worker(t)
		s.run = answers(answer[name])
		s.restart()
		s.redeem(ann.invite())
		s.confirm()
		ann.until("knows "+name, func() bool {
			cs, err := ann.g.Contacts(context.Background(), gateway.Owner, gateway.None{})
			i := slices.IndexFunc(cs, func(c gateway.ContactView) bool { return c.Name == name })
			if err != nil || i < 0 {
				return false
			}
			_, err = ann.g.ChangeContact(context.Background(), gateway.Owner, gateway.ContactChange{Name: name, Do: "confirm", Words: cs[i].Words})
			return err == nil
		})
		by[name] = s
	}
	return ann, by
}

func sortedKeys(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (s *side) several(kind manifest.GroupKind, need int64, to ...string) (gateway.Joint, error) {
	s.t.Helper()
	return s.g.ProposeSeveral(context.Background(), gateway.Owner, gateway.Several{To: to, Kind: kind, Need: need,
		Draft: manifest.Draft{Title: "Count", Goal: "Count the lines.", Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
}

// sendAll says yes to every contract of a group, there and at each worker.
func (s *side) sendAll(j gateway.Joint, by map[string]*side) {
	s.t.Helper()
	for _, p := range j.Tasks {
		s.sayYes(p.Ask)
		with := by[s.state(p.Task).With]
		with.until("asked", func() bool { return openGate(with.state(p.Task), "contract") != "" })
		with.sayYes(openGate(with.state(p.Task), "contract"))
	}
}

func openGate(v gateway.TaskView, gate string) string {
	for _, g := range v.Gates {
		if g.Gate == gate && g.State == string(approval.Waiting) {
			return g.AskID
		}
	}
	return ""
}

func (s *side) sayYes(ask string) {
	s.t.Helper()
	a, err := s.g.Ask(context.Background(), gateway.Owner, ask)
	if err == nil {
		_, err = s.answer(a, approval.Allow)
	}
	if err != nil {
		s.t.Fatalf("%s: a yes to %s: %v", s.home.Config.Name, ask, err)
	}
}

func completed(s *side, j gateway.Joint) (n int) {
	for _, p := range j.Tasks {
		if s.state(p.Task).Outcome == "completed" {
			n++
		}
	}
	return n
}

func lineOf(a approval.Ask, word string) string {
	for _, l := range a.Lines {
		if l.Word == word {
			return l.Text + "; " + l.More
		}
	}
	return ""
}

func TestARaceCompletesOneAndCancelsTheOthers(t *testing.T) { // P4
	ann, by := circle(t, map[string]string{"Ben": `{"n":1}`, "Cleo": `{"n":2}`, "Dan": `{"n":3}`})
	j, err := ann.several(manifest.Race, 0, "Ben", "Cleo", "Dan")
	if err != nil {
		t.Fatal(err)
	}
	if j.Total.InputTokens != 600_000 || j.Total.WallClockSeconds != 2700 {
		t.Errorf("all together may use %+v", j.Total)
	}
	card := ann.askOf(j.Tasks[1].Task)
	if got := lineOf(card.Ask, "race"); !strings.Contains(got, "Ben, Cleo and Dan") || !strings.Contains(got, "600k") {
		t.Errorf("Ann's card says %q", got)
	}
	dan := j.Tasks[2]
	for _, p := range j.Tasks[:2] {
		ann.sayYes(p.Ask)
	}
	for _, name := range []string{"Ben", "Cleo"} {
		a := by[name].ask(manifest.ContractGate)
		if got := lineOf(a.Ask, "race"); !strings.Contains(got, "asks others") || strings.Contains(got, "Dan") || strings.Contains(got, "3") {
			t.Errorf("%s's card says %q", name, got)
		}
		by[name].sayYes(a.Ask.AskID.String())
	}
	for _, p := range j.Tasks[:2] { // both good deliveries wait for Ann
		ann.until("asked about "+p.Task, func() bool { return openGate(ann.state(p.Task), "delivery") != "" })
	}
	second := openGate(ann.state(j.Tasks[1].Task), "delivery")
	a, err := ann.g.Ask(context.Background(), gateway.Owner, second)
	if err != nil {
		t.Fatal(err)
	}
	ann.sayYes(second)
	if v := ann.state(dan.Task); v.State != "dropped" || openGate(v, "contract") != "" {
		t.Errorf("what was never said is %s, gates %+v", v.State, v.Gates)
	}
	if first := ann.state(j.Tasks[0].Task); openGate(first, "delivery") != "" {
		t.Error("the other delivery can still be said yes to")
	}
	if _, err := ann.answer(a, approval.Allow); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("a second yes: %v", err)
	}
	by["Ben"].until("cancelled", func() bool { return by["Ben"].state(j.Tasks[0].Task).Outcome == "cancelled" })
	by["Cleo"].until("completed", func() bool { return by["Cleo"].state(j.Tasks[1].Task).Outcome == "completed" })
	said := by["Ben"].state(j.Tasks[0].Task).History
	if !slices.ContainsFunc(said, func(m gateway.Moment) bool { return m.Text == "race: another delivery was taken" }) {
		t.Errorf("Ben was told %+v", said)
	}
	g := ann.state(dan.Task).Group
	if g == nil || g.State != policy.GroupTaken || completed(ann, j) != 1 || !g.Tasks[1].Taken {
		t.Errorf("the group is %+v", g)
	}
	for _, p := range j.Tasks[:2] {
		ann.verifies(p.Task)
	}
	if rep := by["Ben"].verifies(j.Tasks[0].Task); !slices.ContainsFunc(rep.Claimed, func(e audit.Entry) bool { return e.Rule == "P4" && strings.Contains(e.What, "race") }) {
		t.Errorf("an auditor reads %+v", rep.Claimed)
	}
}

// F2: yeses to every delivery of a race at once, and whatever comes first: one is completed.
func TestTwoDeliveriesAtOnceAreOneCompleted(t *testing.T) {
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			ann, by := circle(t, map[string]string{"Ben": `{"n":1}`, "Cleo": `{"n":1}`, "Dan": `{"n":1}`})
			j, err := ann.several(manifest.Race, 0, "Ben", "Cleo", "Dan")
			if err != nil {
				t.Fatal(err)
			}
			ann.sendAll(j, by)
			var yeses []gateway.Answer
			for _, p := range j.Tasks {
				ann.until("asked", func() bool { return openGate(ann.state(p.Task), "delivery") != "" })
				a, err := ann.g.Ask(context.Background(), gateway.Owner, openGate(ann.state(p.Task), "delivery"))
				if err != nil {
					t.Fatal(err)
				}
				yeses = append(yeses, ann.signedAnswer(a.Ask, approval.Allow, time.Now()))
			}
			var wg sync.WaitGroup
			won := make(chan string, len(yeses))
			for _, y := range yeses {
				wg.Go(func() {
					if out, err := ann.g.DecideGate(context.Background(), gateway.Owner, y); err == nil {
						won <- out.Task
					} else if spec.ReasonOf(err) != spec.Conflict {
						t.Errorf("the others hear %v", err)
					}
				})
			}
			wg.Wait()
			if len(won) != 1 || completed(ann, j) != 1 {
				t.Fatalf("%d yeses won, %d are completed", len(won), completed(ann, j))
			}
			time.Sleep(time.Hour)
			for _, p := range j.Tasks {
				a, b := ann.state(p.Task), by[ann.state(p.Task).With].state(p.Task)
				if a.Outcome != b.Outcome || a.Outcome != "completed" && a.Outcome != "cancelled" {
					t.Errorf("%s: Ann says %q, the worker %q", p.Task, a.Outcome, b.Outcome)
				}
			}
		})
	}
}

func TestAQuorumTakesOneOfTheSame(t *testing.T) { // P4
	for _, stop := range []bool{false, true} { // and with a restart at each step
		ann, by := circle(t, map[string]string{"Ben": `{"n":7}`, "Cleo": `{"n":8}`, "Dan": `{"n":7}`})
		at := func() {
			if stop {
				ann.restart()
			}
		}
		j, err := ann.several(manifest.Quorum, 2, "Ben", "Cleo", "Dan")
		if err != nil {
			t.Fatal(err)
		}
		at()
		open := map[string]string{"Ben": j.Tasks[0].Task, "Cleo": j.Tasks[1].Task, "Dan": j.Tasks[2].Task}
		send := func(name string) {
			ann.sayYes(openGate(ann.state(open[name]), "contract"))
			by[name].until("asked", func() bool { return openGate(by[name].state(open[name]), "contract") != "" })
			by[name].sayYes(openGate(by[name].state(open[name]), "contract"))
			ann.until("delivered by "+name, func() bool { g := ann.state(open[name]).Group; return g != nil && sameOf(g, name) != "" })
		}
		send("Ben")
		at()
		send("Cleo")
		at()
		for _, id := range open {
			if openGate(ann.state(id), "delivery") != "" {
				t.Fatal("Ann is asked before two are the same")
			}
		}
		if g := ann.state(open["Ben"]).Group; g.State != policy.GroupOpen || sameOf(g, "Ben") == sameOf(g, "Cleo") {
			t.Errorf("two that differ, one to come: %+v", g)
		}
		send("Dan")
		at()
		ann.until("asked about Ben's", func() bool { return openGate(ann.state(open["Ben"]), "delivery") != "" })
		a := ann.ask(manifest.DeliveryGate)
		if got := lineOf(a.Ask, "quorum"); !strings.Contains(got, "Dan delivered the same; Cleo delivered something else") {
			t.Errorf("the card says %q", got)
		}
		if openGate(ann.state(open["Dan"]), "delivery") != "" {
			t.Error("Ann is asked twice about one answer")
		}
		ann.sayYes(a.Ask.AskID.String())
		at()
		for name, want := range map[string]string{"Ben": "completed", "Cleo": "cancelled", "Dan": "cancelled"} {
			by[name].until(want, func() bool { return by[name].state(open[name]).Outcome == want })
		}
		for name, want := range map[string]string{"Cleo": "quorum: another delivery was taken", "Dan": "quorum: the same was delivered and taken"} {
			if h := by[name].state(open[name]).History; !slices.ContainsFunc(h, func(m gateway.Moment) bool { return m.Text == want }) {
				t.Errorf("%s was told %+v", name, h)
			}
		}
		if g := ann.state(open["Dan"]).Group; g.State != policy.GroupTaken || completed(ann, j) != 1 {
			t.Errorf("the group is %+v", g)
		}
		for name := range by {
			by[name].until("heard", func() bool { // its last word, which its acknowledgements name already
				n, err := by[name].g.Unacknowledged(context.Background(), open[name])
				return err == nil && n == 0
			})
			ann.verifies(open[name])
		}
	}
}

func sameOf(g *gateway.GroupView, with string) string {
	for _, k := range g.Tasks {
		if k.With == with {
			return k.Same
		}
	}
	return ""
}

func TestDisagreementIsShownAndCompletesNothing(t *testing.T) { // P4
	ann, by := circle(t, map[string]string{"Ben": `{"n":1}`, "Cleo": `{"n":2}`})
	heard := make(chan []string, 20)
	ann.teller = tellerFunc(func(ids []string) { heard <- ids })
	ann.restart()
	j, err := ann.several(manifest.Quorum, 2, "Ben", "Cleo")
	if err != nil {
		t.Fatal(err)
	}
	ann.sendAll(j, by)
	ann.until("disagreed", func() bool { return ann.state(j.Tasks[0].Task).Group.State == policy.GroupDisagreed })
	if as, err := ann.g.Asks(context.Background(), gateway.Owner, false); err != nil || len(as) != 0 || completed(ann, j) != 0 {
		t.Errorf("asked %+v, %v, %d completed", as, err, completed(ann, j))
	}
	ann.until("told", func() bool {
		select {
		case ids := <-heard:
			return slices.Contains(ids, j.Group)
		default:
			return false
		}
	})
	if _, err := ann.g.Cancel(context.Background(), gateway.Owner, gateway.Cancellation{Task: j.Group, Reason: "they differ"}); err != nil {
		t.Fatal(err)
	}
	ann.restart()
	for _, p := range j.Tasks {
		w := by[ann.state(p.Task).With]
		w.until("cancelled", func() bool { return w.state(p.Task).Outcome == "cancelled" })
	}
	if g := ann.state(j.Tasks[0].Task).Group; g.State != policy.GroupOver {
		t.Errorf("the group is %s", g.State)
	}
}

// tellerFunc is a notifier that cannot fail.
type tellerFunc func(ids []string)

func (f tellerFunc) Notify(_ context.Context, _ string, ids []string) error { f(ids); return nil }

func TestAQuorumGoesOnWhenTheOwnerSaysNoToOne(t *testing.T) {
	ann, by := circle(t, map[string]string{"Ben": `{"n":7}`, "Cleo": `{"n":7}`, "Dan": `{"n":7}`})
	in := gateway.Several{To: []string{"Ben", "Cleo", "Dan"}, Kind: manifest.Quorum, Need: 2, Draft: manifest.Draft{Title: "Count", Goal: "Count.",
		Verify: manifest.DraftVerify{Retries: ptr(int64(0))}, Sandbox: manifest.DraftSandbox{ClaimedOK: true}}}
	j, err := ann.g.ProposeSeveral(context.Background(), gateway.Owner, in)
	if err != nil {
		t.Fatal(err)
	}
	ann.sendAll(j, by)
	for _, p := range j.Tasks {
		ann.until("delivered", func() bool { return ann.state(p.Task).Group.State == policy.GroupAgreed })
	}
	for i := range 2 { // a no to the first leaves two; a no to the second leaves one, which is no quorum
		ann.until("asked", func() bool { return openGate(ann.state(j.Tasks[i].Task), "delivery") != "" })
		a, err := ann.g.Ask(context.Background(), gateway.Owner, openGate(ann.state(j.Tasks[i].Task), "delivery"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ann.answer(a, approval.Deny); err != nil {
			t.Fatal(err)
		}
	}
	ann.until("disagreed", func() bool { return ann.state(j.Tasks[2].Task).Group.State == policy.GroupDisagreed })
	if openGate(ann.state(j.Tasks[2].Task), "delivery") != "" || completed(ann, j) != 0 {
		t.Error("one delivery alone was asked about")
	}
}

func TestAGroupIsMadeWholeOrNotAtAll(t *testing.T) { // P4
	ann, _ := circle(t, map[string]string{"Ben": `{"n":1}`, "Cleo": `{"n":2}`})
	count := func() int {
		ts, err := ann.g.Tasks(context.Background(), gateway.Owner, gateway.None{})
		if err != nil {
			t.Fatal(err)
		}
		return len(ts)
	}
	shape := []manifest.DraftCheck{{Word: "schema"}}
	for _, tt := range []struct {
		what string
		in   gateway.Several
		want spec.Reason
	}{
		{"a stranger", gateway.Several{To: []string{"Ben", "Eve"}, Kind: manifest.Race}, spec.NotFound},
		{"one twice", gateway.Several{To: []string{"Ben", "Ben"}, Kind: manifest.Race}, spec.Malformed},
		{"one", gateway.Several{To: []string{"Ben"}, Kind: manifest.Race}, spec.Malformed},
		{"a quorum of one", gateway.Several{To: []string{"Ben", "Cleo"}, Kind: manifest.Quorum, Need: 1}, spec.Malformed},
		{"a race by shape", gateway.Several{To: []string{"Ben", "Cleo"}, Kind: manifest.Race, Draft: manifest.Draft{Check: shape, Gates: []string{"contract"}}}, spec.PolicyDenied},
	} {
		tt.in.Draft.Title, tt.in.Draft.Goal = "Count", "Count."
		if _, err := ann.g.ProposeSeveral(context.Background(), gateway.Owner, tt.in); spec.ReasonOf(err) != tt.want {
			t.Errorf("%s: %v, want %s", tt.what, err, tt.want)
		}
		if n := count(); n != 0 {
			t.Fatalf("%s left %d tasks", tt.what, n)
		}
	}
	in := gateway.Several{To: []string{"Ben", "Cleo"}, Kind: manifest.Race, DryRun: true, Draft: manifest.Draft{Title: "Count", Goal: "Count."}}
	j, err := ann.g.ProposeSeveral(context.Background(), gateway.Owner, in)
	if err != nil || len(j.Tasks) != 2 || j.Tasks[0].Manifest.IsZero() || count() != 0 {
		t.Fatalf("a dry run: %+v, %v, %d tasks", j, err, count())
	}
	claude := gateway.Caller{Agent: "claude"}
	in.DryRun = false
	first, err := ann.g.ProposeSeveral(context.Background(), claude, in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ann.g.ProposeSeveral(context.Background(), claude, in)
	if err != nil || !again.Joined || again.Group != first.Group || count() != 2 {
		t.Errorf("the same call again: %+v, %v, %d tasks", again, err, count())
	}
}
