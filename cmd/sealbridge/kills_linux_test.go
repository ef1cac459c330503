package main

import (
	"context"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sealbridge/gateway"
)

// kills is how often a process is killed at random: bar F1 asks for 200,
// `go test ./cmd/sealbridge -run Random -kills 200` gives them.
var kills = flag.Int("kills", 8, "processes killed at random under load")

// load is people at work while processes die under them: tasks are proposed, and
// whatever is asked is allowed.
type load struct {
	d     *demo
	tasks []string // of Ann's
}

// busy keeps a few tasks under way until ctx ends; a command that finds nobody is typed again.
func (l *load) busy(ctx context.Context, most int) {
	for ctx.Err() == nil {
		if open := l.open(ctx); open >= 0 && open < most {
			if p, err := ask[gateway.Proposed](ctx, l.d, "ann", "propose", filepath.Join(l.d.dir, "revenue", "task.yaml"), "--to", "ben"); err == nil {
				l.tasks = append(l.tasks, p.Task)
			}
		}
		l.yes(ctx)
	}
}

// open counts Ann's tasks without an outcome; -1 where nobody answers.
func (l *load) open(ctx context.Context) int {
	ts, err := ask[[]gateway.TaskView](ctx, l.d, "ann", "task", "list")
	if err != nil {
		return -1
	}
	n := 0
	for _, t := range ts {
		if t.Outcome == "" {
			n++
		}
	}
	return n
}

// heard says whether each side has acknowledged all that the other said.
func (l *load) heard(ctx context.Context) bool {
	for _, who := range []string{"ann", "ben"} {
		if s, err := ask[gateway.Status](ctx, l.d, who, "status"); err != nil || s.Outgoing > 0 {
			return false
		}
	}
	return true
}

// yes allows all that waits, at both owners.
func (l *load) yes(ctx context.Context) {
	for _, who := range []string{"ann", "ben"} {
		as, err := ask[[]shownAsk](ctx, l.d, who, "gate", "list")
		if err != nil {
			continue
		}
		for _, a := range as {
			l.d.cli(ctx, who, "gate", "allow", a.AskID) // may be answered already, or die on the way
		}
	}
}

func TestRandomKillsUnderLoadLoseAndDoubleNothing(t *testing.T) { // F1
	twoOwners(t, func(ctx context.Context, d *demo) {
		l := &load{d: d}
		chance := rand.New(rand.NewPCG(1, uint64(*kills)))
		working, done := context.WithCancel(ctx)
		var people sync.WaitGroup
		people.Go(func() { l.busy(working, 4) })
		for range *kills {
			victim := []string{"relay", "ann", "ben"}[chance.IntN(3)]
			select { // at any moment of whatever is under way
			case <-time.After(time.Duration(20+chance.IntN(600)) * time.Millisecond):
			case <-ctx.Done():
			}
			d.kill(victim)
			if err := d.again(ctx, victim); err != nil {
				done()
				people.Wait()
				t.Fatalf("starting %s again: %v", victim, err)
			}
		}
		done()
		people.Wait()
		if err := eventually(ctx, "the end of every task", func() (bool, error) {
			l.yes(ctx)
			return l.open(ctx) == 0 && l.heard(ctx), nil
		}); err != nil {
			t.Fatal(err)
		}
		l.judge(ctx, t)
	})
}

// judge: every task finished, once, within its budget, and anybody can check it.
func (l *load) judge(ctx context.Context, t *testing.T) {
	ts, err := ask[[]gateway.TaskView](ctx, l.d, "ann", "task", "list")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, v := range ts {
		listed[v.TaskID] = v.Outcome
	}
	for _, id := range l.tasks {
		if listed[id] != "completed" {
			t.Errorf("%s: %q, want completed: it was acknowledged to Ann", id, listed[id])
			continue
		}
		for _, who := range []string{"ann", "ben"} {
			v, err := ask[gateway.TaskView](ctx, l.d, who, "task", "show", id)
			if err != nil {
				t.Fatal(err)
			}
			said := map[string]int{}
			for _, m := range v.History {
				said[string(m.Kind)]++
			}
			for _, kind := range []string{"proposed", "accepted", "started", "delivered", "completed"} {
				if said[kind] != 1 {
					t.Errorf("%s's %s: %d events %s, want one", who, id, said[kind], kind)
				}
			}
			for meter, b := range v.Budget {
				if b.Committed+b.Reserved > b.Limit {
					t.Errorf("%s's %s: %s %+v", who, id, meter, b)
				}
			}
		}
		bundle := filepath.Join(l.d.dir, "bundle-"+id+".json")
		if _, err := l.d.must(ctx, "ann", "export", id, "-o", bundle); err != nil {
			t.Fatal(err)
		}
		if out, code := l.d.cli(ctx, "", "verify", bundle, "--require", "binding"); code != 0 {
			t.Errorf("%s: verify exits %d: %s", id, code, strings.TrimSpace(string(out)))
		}
	}
	t.Logf("%d kills, %d tasks", *kills, len(l.tasks))
	if len(l.tasks) == 0 {
		t.Error("nothing was under way")
	}
}
