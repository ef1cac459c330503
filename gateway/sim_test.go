package gateway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/relay/relaytest"
	"sealbridge/signing"
)

// seeds is how many histories are simulated; SEALBRIDGE_SEEDS=10000 is bar F7.
func seeds(t *testing.T) int {
	text := os.Getenv("SEALBRIDGE_SEEDS")
	if text == "" {
		return 5
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("SEALBRIDGE_SEEDS: %v", err)
	}
	return n
}

// counter is a twin of the runner: it has the result of counting at once.
type counter struct{}

func (counter) Run(ctx context.Context, c runner.Command) (runner.Result, error) {
	return runner.Result{Stdout: []byte(`{"output":{"lines":3},"evidence":[{"criterion":"ac_1","text":"counted"}]}`), Wall: time.Second}, ctx.Err()
}
func (counter) Levels() []string { return []string{runner.Subprocess} }
func (counter) Isolation(level string) manifest.Isolation {
	return manifest.Isolation{Level: level, Enforced: "gateway"}
}
func (counter) Enforces(string) []string { return []string{"nothing: a twin"} }

// chance is one seed's: what befalls envelopes, what people say, who crashes.
type chance struct {
	mu sync.Mutex // guards r
	r  *rand.Rand
}

func (c *chance) in(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.IntN(n)
}

// fate of an envelope: most arrive.
func (c *chance) fate(signing.DID, signing.DID, []byte) relaytest.Fate {
	switch n := c.in(20); {
	case n < 2:
		return relaytest.Lose
	case n < 4:
		return relaytest.Twice
	case n < 5:
		return relaytest.Late
	case n < 6:
		return relaytest.Refuse
	case n < 7:
		return relaytest.Unsure
	}
	return relaytest.Deliver
}

func TestSimulatedPairsAgreeOnEveryOutcome(t *testing.T) { // F7
	if text := os.Getenv("SEALBRIDGE_SEED"); text != "" { // one of them again
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(text, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { simulate(t, uint64(n)) }) })
		return
	}
	for seed := 1; seed <= seeds(t); seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { simulate(t, uint64(seed)) }) })
	}
}

func simulate(t *testing.T, seed uint64) {
	c := &chance{r: rand.New(rand.NewPCG(seed, 1))}
	mem := relaytest.NewMemory()
	ann, ben := pairOn(t, mem)
	for _, s := range []*side{ann, ben} {
		s.run = counter{}
		s.restart()
	}
	mem.SetFate(c.fate) // from here on; the two know each other
	var tasks []string
	for range 1 + c.in(3) {
		p := ann.proposeWith(func(d *manifest.Draft) {
			d.Deadline, d.Inputs = "2d", nil
			d.Verify.Retries = ptr(int64(c.in(3)))
		})
		tasks = append(tasks, p.Task)
	}
	for range 40 {
		step(t, c, []*side{ann, ben}, tasks)
		time.Sleep(time.Duration(1+c.in(90)) * time.Second)
	}
	mem.SetFate(nil)
	time.Sleep(2 * time.Hour)       // longer than the longest wait before a document goes again
	later(3*24*time.Hour, ann, ben) // past every deadline and ask
	time.Sleep(2 * time.Hour)       // what that comes to
	for _, id := range tasks {
		agree(t, seed, ann, ben, id)
	}
}

// agree holds the two ends of a task against each other, once all has arrived.
func agree(t *testing.T, seed uint64, ann, ben *side, id string) {
	t.Helper()
	a, b := ann.state(id), ben.state(id)
	t.Logf("outcome %s, %d and %d events, %d amendments", a.Outcome, len(a.History), len(b.History), len(a.Changes))
	if a.Outcome == "" {
		t.Errorf("seed %d: %s has no outcome at the requester's: %s", seed, id, a.State)
	}
	if a.State == "dropped" { // never said
		if b.TaskID != "" {
			t.Errorf("seed %d: the worker knows a task that was never said", seed)
		}
		return
	}
	if b.TaskID != "" && a.Outcome != b.Outcome {
		t.Errorf("seed %d: the requester says %s, the worker says %s", seed, a.Outcome, b.Outcome)
	}
	if b.TaskID != "" && fmt.Sprint(a.Chain.Requester, a.Chain.Worker) != fmt.Sprint(b.Chain.Requester, b.Chain.Worker) {
		t.Errorf("seed %d: the histories differ: %+v, %+v", seed, a.Chain, b.Chain)
	}
	for _, s := range []*side{ann, ben} {
		v := s.state(id)
		once := map[manifest.Kind]int{}
		for _, m := range v.History {
			once[m.Kind]++
		}
		for _, k := range []manifest.Kind{manifest.KindProposed, manifest.KindAccepted, manifest.KindStarted, manifest.KindCompleted} {
			if once[k] > 1 {
				t.Errorf("seed %d: %s said %d times", seed, k, once[k])
			}
		}
		for meter, b := range v.Budget {
			if b.Committed+b.Reserved > b.Limit && b.Limit > 0 || b.Committed < 0 {
				t.Errorf("seed %d: %s %+v", seed, meter, b)
			}
		}
		if v.Breach != "" || once[manifest.KindDisputed] > 0 {
			t.Errorf("seed %d: %s: breach %q, %+v", seed, s.home.Config.Name, v.Breach, v.History)
		}
	}
	if a.Outcome == "completed" {
		ann.verifies(id)
		ben.verifies(id)
	}
}

// step is one thing that happens.
func step(t *testing.T, c *chance, sides []*side, tasks []string) {
	s := sides[c.in(len(sides))]
	switch c.in(8) {
	case 0: // a crash, and a start some time later
		s.stop()
		time.Sleep(time.Duration(c.in(600)) * time.Second)
		s.start()
	case 1:
		if c.in(4) == 0 {
			s.g.Cancel(t.Context(), gateway.Owner, gateway.Cancellation{Task: tasks[c.in(len(tasks))]}) //nolint:errcheck // may be over, or not ours
		}
	case 2:
		later := s.state(tasks[c.in(len(tasks))])
		if !later.Deadline.IsZero() {
			s.g.Amend(t.Context(), gateway.Owner, gateway.Change{Task: later.TaskID, Deadline: ptr(later.Deadline.Add(time.Hour))}) //nolint:errcheck // may be illegal by now
		}
	default:
		as, err := s.g.Asks(t.Context(), gateway.Owner, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(as) == 0 {
			return
		}
		verdict := approval.Allow
		if c.in(8) == 0 {
			verdict = approval.Deny
		}
		if _, err := s.answer(as[c.in(len(as))], verdict); err != nil {
			t.Logf("answering: %v", err)
		}
	}
}
