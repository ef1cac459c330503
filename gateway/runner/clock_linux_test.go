package runner

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Both the program and what it started in a session of its own work until a file is there.
const busy = `setsid sh -c 'while [ ! -e go ]; do :; done' & while [ ! -e go ]; do :; done; wait; echo done`

func TestARunStandsStillWhileItAsksForMore(t *testing.T) { // B4, B5
	both(t, func(t *testing.T, run func(Command) (Result, error)) {
		asked := 0
		res, err := run(Command{Argv: sh(busy), WallClock: 200 * time.Millisecond, Overrun: func(context.Context) time.Duration {
			asked++
			states := statesOf(t, "while [ ! -e go ]")
			if len(states) < 2 || strings.Trim(strings.Join(states, ""), "T") != "" {
				t.Errorf("while it is asked the processes are in states %v, want two or more, all stopped", states)
			}
			works, _ := filepath.Glob(filepath.Join(os.TempDir(), "TestARunStandsStill*", "*", "runs", "run-*", "work"))
			for _, w := range works {
				os.WriteFile(filepath.Join(w, "go"), nil, 0o600)
			}
			return time.Hour
		}})
		if err != nil || !res.OK() || strings.TrimSpace(string(res.Stdout)) != "done" || asked != 1 {
			t.Fatalf("%+v, %v, asked %d times", res, err, asked)
		}
	})
}

func TestARunThatGetsNoMoreEndsStandingStill(t *testing.T) { // B5
	both(t, func(t *testing.T, run func(Command) (Result, error)) {
		res, err := run(Command{Argv: sh(busy), WallClock: 100 * time.Millisecond, Overrun: func(context.Context) time.Duration { return 0 }})
		if err != nil || !res.TimedOut || res.OK() {
			t.Fatalf("%+v, %v", res, err)
		}
		if left := statesOf(t, "while [ ! -e go ]"); len(left) != 0 {
			t.Errorf("still there: %v", left)
		}
	})
}

// statesOf are the states of all processes with a text in their arguments.
func statesOf(t *testing.T, text string) (states []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil || e.Name() == strconv.Itoa(os.Getpid()) {
			continue
		}
		args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && strings.Contains(string(args), text) && rest[0] != 'Z' {
			states = append(states, rest[:1])
		}
	}
	return states
}
