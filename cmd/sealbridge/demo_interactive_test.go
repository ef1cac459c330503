package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sealbridge/gateway"
)

// quiet is a buffer that is written to and read at once.
type quiet struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (q *quiet) Write(p []byte) (int, error) { q.mu.Lock(); defer q.mu.Unlock(); return q.b.Write(p) }
func (q *quiet) String() string              { q.mu.Lock(); defer q.mu.Unlock(); return q.b.String() }

// shownAsk is what gate list --json says of an ask, as far as a test looks.
type shownAsk struct {
	AskID, TaskID, Gate, State, Why string
}

// interactive tells the story with a person in another terminal, who answers each
// gate by the command that the story prints.
func interactive(t *testing.T, verdict func(gate string) string) (d *demo, out *quiet) {
	t.Helper()
	d, _ = story(t)
	out = &quiet{}
	d.a.out, d.interactive = out, true
	t.Cleanup(d.stopAll)
	ctx, cancel := context.WithCancel(t.Context())
	typing := &demo{dir: d.dir} // another terminal
	var person sync.WaitGroup
	person.Go(func() {
		for ctx.Err() == nil {
			for _, who := range []string{"ann", "ben"} {
				as, err := ask[[]shownAsk](ctx, typing, who, "gate", "list")
				if err != nil {
					continue
				}
				for _, a := range as {
					if strings.Contains(out.String(), "gate allow "+a.AskID[len(a.AskID)-4:]) {
						typing.cli(ctx, who, "gate", verdict(a.Gate), a.AskID)
					}
				}
			}
		}
	})
	err := d.run(t.Context())
	cancel()
	person.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return d, out
}

func TestTheInteractiveDemoWaitsAtEachGateAndLeavesBothGatewaysRunning(t *testing.T) {
	d, out := interactive(t, func(string) string { return "allow" })
	if n := strings.Count(out.String(), "your decision, as"); n != 3 {
		t.Errorf("%d gates waited for a person, want 3\n%s", n, out)
	}
	if !strings.Contains(out.String(), "revenue.csv") && !strings.Contains(out.String(), "region,total_eur") || !strings.Contains(out.String(), "still run") {
		t.Errorf("the story was not told to its end:\n%s", out)
	}
	for _, who := range []string{"ann", "ben"} {
		if ts, err := ask[[]gateway.TaskView](t.Context(), d, who, "task", "list"); err != nil || len(ts) != 1 || ts[0].Outcome != "completed" {
			t.Errorf("%s's gateway afterwards: %+v, %v", who, ts, err)
		}
	}
	if _, err := d.must(t.Context(), "ann", "propose", "-m", "What is in sales.csv?", "--input", filepath.Join(d.dir, "revenue", "sales.csv"), "--to", "ben"); err != nil {
		t.Errorf("what it says to try: %v", err)
	}
}

func TestANoEndsTheInteractiveDemoAndNothingLeaves(t *testing.T) {
	d, out := interactive(t, func(string) string { return "deny" })
	if !strings.Contains(out.String(), "You said no") || strings.Contains(out.String(), "region,total_eur") {
		t.Errorf("after a no:\n%s", out)
	}
	if ts, err := ask[[]gateway.TaskView](t.Context(), d, "ben", "task", "list"); err != nil || len(ts) != 0 {
		t.Errorf("Ben knows of it: %+v, %v", ts, err)
	}
}
