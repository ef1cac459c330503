package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sealbridge/gateway"
	"sealbridge/manifest"
)

var errTold = errors.New("told as far as this test needs")

// twoOwners runs two gateways as processes, up to where work can be asked for, and then f.
func twoOwners(t *testing.T, f func(ctx context.Context, d *demo)) {
	t.Helper()
	twoOwnersWithin(t, 0, f)
}

// twoOwnersWithin is the same for what takes longer than five minutes.
func twoOwnersWithin(t *testing.T, most time.Duration, f func(ctx context.Context, d *demo)) {
	t.Helper()
	d, out := story(t)
	d.within = most
	d.between = func(ctx context.Context, after string) error {
		if after != "agent" {
			return nil
		}
		f(ctx, d)
		return errTold
	}
	if err := d.run(t.Context()); !errors.Is(err, errTold) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// waitsAt is the one open ask of a task at an owner.
func waitsAt(ctx context.Context, t *testing.T, d *demo, who, task string) string {
	t.Helper()
	var found string
	if err := eventually(ctx, "an ask at "+who, func() (bool, error) {
		as, err := ask[[]shownAsk](ctx, d, who, "gate", "list")
		for _, a := range as {
			if a.TaskID == task {
				found = a.AskID
			}
		}
		return found != "", err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// asks proposes the demo's task, says yes at Ann's, and returns the task and Ben's ask.
func asksBen(ctx context.Context, t *testing.T, d *demo) (task, id string) {
	t.Helper()
	p, err := ask[gateway.Proposed](ctx, d, "ann", "propose", filepath.Join(d.dir, "revenue", "task.yaml"), "--to", "ben")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.must(ctx, "ann", "gate", "allow", p.Ask); err != nil {
		t.Fatal(err)
	}
	return p.Task, waitsAt(ctx, t, d, "ben", p.Task)
}

func (d *demo) exits(ctx context.Context, t *testing.T, code int, who string, args ...string) string {
	t.Helper()
	out, got := d.cli(ctx, who, args...)
	if got != code {
		t.Errorf("%s: exit %d, want %d: %s", strings.Join(args, " "), got, code, out)
	}
	return out
}

// What the README says of gates, as a person types it: a no with words, a
// counter-proposal and its answer, a standing yes and its end.
func TestGatesAsAPersonTypesThem(t *testing.T) {
	twoOwners(t, func(ctx context.Context, d *demo) {
		_, id := asksBen(ctx, t, d)
		d.exits(ctx, t, 5, "ben", "gate", "show", id, "--exit-code")
		d.exits(ctx, t, 2, "ben", "gate", "counter", id)
		d.exits(ctx, t, 2, "ben", "gate", "counter", id, "--set", "goal=another")
		d.exits(ctx, t, 2, "ben", "gate", "allow", id, "--uses", "3")
		if out := d.exits(ctx, t, 0, "ben", "gate", "deny", id[len(id)-4:], "--reason", "not today"); !strings.Contains(out, "denied, so this gateway said: declined") {
			t.Errorf("gate deny says %q", out)
		}
		d.exits(ctx, t, 1, "ben", "gate", "show", id, "--exit-code")
		d.exits(ctx, t, 4, "ben", "gate", "allow", id)
		if out := d.exits(ctx, t, 0, "ben", "gate", "list", "--all"); !strings.Contains(out, "denied at") || !strings.Contains(out, "not today") {
			t.Errorf("gate list --all says %q", out)
		}

		task, id := asksBen(ctx, t, d)
		if out := d.exits(ctx, t, 0, "ben", "gate", "counter", id, "--set", "budget.time=5m", "--dry-run"); !strings.Contains(out, "budget.time          5m   theirs:") {
			t.Errorf("the difference: %q", out)
		}
		d.exits(ctx, t, 0, "ben", "gate", "counter", id, "--set", "budget.time=5m", "--set", "budget.output_tokens=10k")
		if err := eventually(ctx, "the counter-proposal", func() (bool, error) {
			v, err := ask[gateway.TaskView](ctx, d, "ann", "task", "show", task)
			return v.Counter != nil, err
		}); err != nil {
			t.Fatal(err)
		}
		if out := d.exits(ctx, t, 0, "ann", "gate", "list"); !strings.Contains(out, "budget.time 5m (yours:") || !strings.Contains(out, "propose --counter") {
			t.Errorf("gate list does not tell of it: %q", out)
		}
		d.exits(ctx, t, 2, "ann", "propose", "--counter", task, "--to", "ben")
		next, err := ask[gateway.Proposed](ctx, d, "ann", "propose", "--counter", task)
		if err != nil || next.Ask == "" {
			t.Fatalf("%+v, %v", next, err)
		}
		d.exits(ctx, t, 4, "ann", "propose", "--counter", task)
		if _, err := d.must(ctx, "ann", "gate", "allow", next.Ask); err != nil {
			t.Fatal(err)
		}

		id = waitsAt(ctx, t, d, "ben", next.Task)
		d.exits(ctx, t, 2, "ben", "gate", "allow", id, "--standing", "--uses", "2", "--for", "31d")
		d.exits(ctx, t, 0, "ben", "gate", "allow", id, "--standing", "--uses", "2", "--for", "2d")
		list, err := ask[[]gateway.StandingView](ctx, d, "ben", "gate", "standing")
		if err != nil || len(list) != 1 || len(list[0].Uses) != 1 || list[0].State != "in force" {
			t.Fatalf("%+v, %v", list, err)
		}
		if out := d.exits(ctx, t, 0, "ben", "gate", "standing"); !strings.Contains(out, "without asking you again") || !strings.Contains(out, "1 of 2 used") {
			t.Errorf("gate standing says %q", out)
		}
		d.exits(ctx, t, 0, "ben", "gate", "revoke", id)
		d.exits(ctx, t, 4, "ben", "gate", "revoke", id)

		p, err := ask[gateway.Proposed](ctx, d, "ann", "propose", filepath.Join(d.dir, "revenue", "task.yaml"), "--to", "ben")
		if err != nil {
			t.Fatal(err)
		}
		d.exits(ctx, t, 0, "ann", "task", "cancel", p.Task)
		d.exits(ctx, t, 7, "ann", "gate", "show", p.Ask, "--exit-code")
	})
}

// pty is a terminal of our own: what a command prints, and the keys it is given.
type pty struct {
	keys, tty *os.File
	mu        sync.Mutex
	shown     strings.Builder
}

func openPty(t *testing.T) *pty {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pty{keys: os.NewFile(uintptr(fd), "ptmx")}
	t.Cleanup(func() { p.keys.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if p.tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.tty.Close() })
	go func() { // ends when the test closes the terminal
		b := make([]byte, 4096)
		for {
			n, err := p.keys.Read(b)
			p.mu.Lock()
			p.shown.Write(b[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return p
}

func (p *pty) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown.String()
}

// types waits until the terminal shows a text so many times, and types.
func (p *pty) types(ctx context.Context, t *testing.T, prompt string, times int, keys string) {
	t.Helper()
	if err := eventually(ctx, prompt, func() (bool, error) { return strings.Count(p.text(), prompt) >= times, nil }); err != nil {
		t.Fatalf("%v, the terminal shows:\n%s", err, p.text())
	}
	if _, err := p.keys.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// On a terminal the card asks for a letter: Enter is no answer, nor is another
// letter; [v] shows the whole text; [c] counters in line (product 6.4).
func TestTheCardOnATerminalHasNoDefault(t *testing.T) {
	twoOwners(t, func(ctx context.Context, d *demo) {
		task, id := asksBen(ctx, t, d)
		p := openPty(t)
		code := make(chan int, 1)
		go func() {
			code <- run(ctx, []string{"--home", filepath.Join(d.dir, "ben"), "gate", "show", id}, p.tty, p.tty, p.tty)
		}()
		const prompt = "a, d, c, v, l? "
		p.types(ctx, t, prompt, 1, "\n")
		p.types(ctx, t, prompt, 2, "yes\n")
		p.types(ctx, t, prompt, 3, "v\n")
		p.types(ctx, t, prompt, 4, "c\n")
		p.types(ctx, t, "terms, as in", 1, "budget.time=soon\n")
		p.types(ctx, t, prompt, 5, "c\n")
		p.types(ctx, t, "terms, as in", 2, "budget.time=5m\n")
		p.types(ctx, t, "y or n: ", 1, "\n")
		v, err := ask[gateway.TaskView](ctx, d, "ben", "task", "show", task)
		if err != nil || v.Gates[0].State != "open" {
			t.Errorf("decided before the last key: %+v, %v", v.Gates, err)
		}
		p.types(ctx, t, "y or n: ", 2, "y\n")
		select {
		case got := <-code:
			if got != exitNo {
				t.Errorf("exit %d\n%s", got, p.text())
			}
		case <-time.After(time.Minute):
			t.Fatalf("it does not end; the terminal shows:\n%s", p.text())
		}
		if v, err = ask[gateway.TaskView](ctx, d, "ben", "task", "show", task); err != nil || v.Gates[0].State != "denied" || v.Outcome != string(manifest.KindDeclined) {
			t.Errorf("%+v, %v", v.Gates, err)
		}
		text := p.text()
		card, rule := strings.Index(text, "[c] counter with less"), strings.Index(text, "┆")
		if card < 0 || rule < 0 || strings.Contains(text, "\x1b") {
			t.Errorf("the terminal shows\n%s", text)
		}
	})
}
