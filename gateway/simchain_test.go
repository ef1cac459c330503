package gateway_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/relay/relaytest"
)

// Three gateways under the same chance as pairs: Ann asks Ben, whose agent hands
// parts on to Cleo (F7, P3, B3).
func TestSimulatedChainsAgreeOnEveryOutcome(t *testing.T) {
	first, last := 1, seeds(t)
	if os.Getenv("SEALBRIDGE_SEEDS") == "" {
		last = 3 // a chain costs twice a pair
	}
	if text := os.Getenv("SEALBRIDGE_SEED"); text != "" { // one of them again
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		first, last = n, n
	}
	for seed := first; seed <= last; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { simulateChain(t, uint64(seed)) }) })
	}
}

func simulateChain(t *testing.T, seed uint64) {
	c := &chance{r: rand.New(rand.NewPCG(seed, 2))}
	mem := relaytest.NewMemory()
	sides := rowOn(t, mem, "Ann", "Ben", "Cleo")
	ann, ben, cleo := sides[0], sides[1], sides[2]
	cleo.rules.Agents = map[string]gateway.Agent{}
	cleo.worker(t)
	cleo.run = counter{}
	cleo.restart()
	mem.SetFate(c.fate) // from here on; neighbours know each other
	var tasks, made []string
	for range 1 + c.in(2) {
		in := ann.deep(1)
		in.Draft.Deadline, in.Draft.Inputs, in.Draft.Budget.Time = "2d", nil, "3h"
		p, err := ann.g.Propose(t.Context(), gateway.Owner, in)
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, p.Task)
	}
	for range 90 {
		if c.in(4) == 0 {
			made = append(made, atWork(t, c, ben, tasks[c.in(len(tasks))], len(made))...)
		} else {
			step(t, c, sides, tasks)
		}
		time.Sleep(time.Duration(1+c.in(60)) * time.Second)
	}
	mem.SetFate(nil)
	time.Sleep(2 * time.Hour)             // longer than the longest wait before a document goes again
	later(3*24*time.Hour, ann, ben, cleo) // past every deadline and ask
	time.Sleep(2 * time.Hour)             // what that comes to
	for _, id := range tasks {
		agree(t, seed, ann, ben, id)
	}
	for _, id := range made {
		agree(t, seed, ben, cleo, id)
	}
	for _, id := range tasks {
		shares(t, seed, ben, id)
	}
}

// shares says that a share came back, or that its worker never said a last word.
func shares(t *testing.T, seed uint64, ben *side, id string) {
	t.Helper()
	v := ben.state(id)
	for _, p := range v.Parts {
		part := ben.state(p.TaskID)
		switch stopped := saidLast(part); {
		case p.Held && (part.State == "dropped" || part.Outcome == "completed" || part.Outcome == "declined" || stopped):
			t.Errorf("seed %d: the share of %s, %s, did not come back", seed, p.TaskID, part.Outcome)
		case part.Outcome == "" && v.Outcome != "":
			t.Errorf("seed %d: %s is open below a task that is %s", seed, p.TaskID, v.Outcome)
		}
	}
}

func saidLast(v gateway.TaskView) bool {
	for _, m := range v.History {
		if m.Kind == manifest.KindStopped || m.Kind == manifest.KindFailed {
			return true
		}
	}
	return false
}

// atWork is one thing that Ben's agent does; what cannot be done now is refused.
func atWork(t *testing.T, c *chance, ben *side, id string, n int) (made []string) {
	v := ben.state(id)
	if v.TaskID == "" || v.Outcome != "" {
		return nil
	}
	ctx := t.Context()
	switch k := c.in(8); {
	case k < 5:
		ben.g.StartWork(ctx, scribe, gateway.Ref{Task: id}) //nolint:errcheck // may be too early
	case k < 7:
		in := partOf(id, "Cleo")
		in.HandOn, in.Draft.Title = nil, "Part "+strconv.Itoa(n)
		if p, err := ben.g.Propose(ctx, scribe, in); err == nil && !p.Joined {
			made = append(made, p.Task)
		}
	case c.in(4) == 0:
		ben.g.ReturnResult(ctx, scribe, returned(id, "3", 10, 1)) //nolint:errcheck // may be too early
	}
	return made
}
