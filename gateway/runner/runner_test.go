//go:build unix

package runner

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sealbridge/spec"
)

func newExec(t *testing.T) *Exec {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "runs")
	x, err := New(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// both runs a test with and, where this machine can, without isolation: the
// rules hold either way.
func both(t *testing.T, f func(t *testing.T, run func(Command) (Result, error))) {
	x := newExec(t)
	modes := []bool{false}
	if x.isolated {
		modes = append(modes, true)
	}
	for _, isolate := range modes {
		t.Run(fmt.Sprintf("isolated=%v", isolate), func(t *testing.T) {
			f(t, func(c Command) (Result, error) {
				if c.WallClock == 0 {
					c.WallClock = time.Minute
				}
				res, err := x.run(t.Context(), c, isolate)
				t.Cleanup(func() { res.Close() })
				return res, err
			})
		})
	}
}

func sh(script string) []string { return []string{"sh", "-c", script} }

func wantReason(t *testing.T, what string, err error, want spec.Reason) {
	t.Helper()
	if got := spec.ReasonOf(err); got != want {
		t.Errorf("%s: reason %q (%v), want %q", what, got, err, want)
	}
}

func TestATaskGoesInAndAResultComesOut(t *testing.T) {
	input := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(input, []byte("rows"), 0o600); err != nil {
		t.Fatal(err)
	}
	both(t, func(t *testing.T, run func(Command) (Result, error)) {
		res, err := run(Command{
			Argv:   sh(`cat; cat in/data/a.csv; mkdir out/d; printf hi >out/d/r.txt; echo oops >&2; exit 3`),
			Inputs: map[string]string{"data/a.csv": input}, Stdin: []byte(`{"task":1}`),
		})
		if err != nil || res.Exit != 3 || res.OK() || res.TimedOut || string(res.Stdout) != `{"task":1}rows` || string(res.StderrTail) != "oops\n" {
			t.Fatalf("Run = %+v, %v; stderr %s", res, err, res.StderrTail)
		}
		if len(res.Files) != 1 || res.Files[0].Name != "d/r.txt" || res.Files[0].Size != 2 {
			t.Fatalf("Files = %+v", res.Files)
		}
		f, err := res.Files[0].Open()
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if res.Wall <= 0 || res.Ended.Before(res.Started) {
			t.Errorf("times: %v, %v, %v", res.Started, res.Ended, res.Wall)
		}
		if err := res.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(res.workspace.dir); !os.IsNotExist(err) {
			t.Errorf("the workspace is still there: %v", err)
		}
	})
}

func TestTheEnvironmentIsClean(t *testing.T) { // X3
	t.Setenv("SECRET_TOKEN", "s3cret")
	t.Setenv("SEALBRIDGE_HOME", "/somewhere")
	leak, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	left, err := syscall.Dup(int(leak.Fd())) // as whoever started us may leave one: not marked
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(left)
	both(t, func(t *testing.T, run func(Command) (Result, error)) {
		res, err := run(Command{Argv: []string{"env"}, Env: map[string]string{"SEALBRIDGE_TASK": "task_x"}})
		if err != nil || !res.OK() {
			t.Fatalf("Run = %+v, %v", res, err)
		}
		got := map[string]string{}
		for line := range strings.Lines(string(res.Stdout)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			got[name] = value
		}
		names := slices.Sorted(maps.Keys(got))
		if want := []string{"HOME", "LANG", "PATH", "SEALBRIDGE_RUN", "SEALBRIDGE_TASK", "TMPDIR"}; !slices.Equal(names, want) {
			t.Errorf("environment %v, want %v", names, want)
		}
		res, err = run(Command{Argv: sh(`cd "$HOME" && pwd; echo x >"$TMPDIR/t" && for f in $(seq 3 40); do (eval ": <&$f") 2>/dev/null && echo "descriptor $f"; done; exit 0`)})
		if err != nil || !res.OK() || strings.Contains(string(res.Stdout), "descriptor") {
			t.Errorf("Run = %q, %v, %s", res.Stdout, err, res.StderrTail)
		}
	})
}

// alive says whether any process still carries the mark of a run.
func alive(mark string) bool {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(env, []byte("SEALBRIDGE_RUN="+mark)) {
			return true
		}
	}
	return false
}

func TestNothingOutlivesTheWallClock(t *testing.T) { // B022
	both(t, func(t *testing.T, run func(Command) (Result, error)) {
		for _, test := range []struct {
			name, script string
			timedOut     bool
		}{
			{"background child, the parent exits 0", `sleep 300 & echo done`, false},
			{"background child with its own pipe", `sleep 300 >/dev/null 2>&1 & exit 0`, false},
			{"foreground", `sleep 300`, true},
			{"a new session", `setsid sleep 300 & echo done`, false},
			{"a new session, the parent waits", `setsid sh -c 'setsid sleep 300 & sleep 300' & wait`, true},
			{"forked twice, nothing open", `(setsid sh -c '(sleep 300 >/dev/null 2>&1 </dev/null) &' &) ; echo done`, false},
			{"stopped by itself", `sh -c 'kill -STOP $$' & echo done`, false},
			{"deaf to signals", `trap '' TERM INT HUP; while :; do sleep 300; done`, true},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				begin := time.Now()
				limit := 30 * time.Second
				if test.timedOut {
					limit = 300 * time.Millisecond
				}
				res, err := run(Command{Argv: sh(test.script), WallClock: limit})
				if err != nil || res.TimedOut != test.timedOut || res.OK() == test.timedOut {
					t.Errorf("Run = %+v, %v, want timed out %v", res, err, test.timedOut)
				}
				if took := time.Since(begin); took > time.Minute {
					t.Errorf("an answer after %v: something slept to its end", took)
				}
				if runtime.GOOS == "linux" && alive(res.workspace.mark) {
					t.Errorf("something still runs")
				}
			})
		}
	})
}

func TestFloodsAreCapped(t *testing.T) { // B022
	both(t, func(t *testing.T, run func(Command) (Result, error)) {
		res, err := run(Command{Argv: sh(`head -c 500000000 /dev/zero`), StdoutLimit: 1000})
		if err != nil || !res.Overflowed || res.OK() || res.TimedOut || res.Cancelled || len(res.Stdout) != 1000 {
			t.Errorf("500 MB of stdout: %d bytes kept, overflowed %v, ok %v, %v", len(res.Stdout), res.Overflowed, res.OK(), err)
		}
		res, err = run(Command{Argv: sh(`head -c 50000000 /dev/zero >&2; echo end >&2`), StderrLimit: 10})
		if err != nil || !res.OK() || string(res.StderrTail) != "\x00\x00\x00\x00\x00\x00end\n" {
			t.Errorf("50 MB of stderr: %q, %v", res.StderrTail, err)
		}
		res, err = run(Command{Argv: sh(`printf 123456 >out/a; printf 123456 >out/b`), FilesLimit: 11})
		wantReason(t, "12 of 11 bytes of files", err, spec.TooLarge)
		if len(res.Files) != 0 {
			t.Errorf("files of a refused list: %v", res.Files)
		}
		_, err = run(Command{Argv: sh(`i=0; while [ $i -le 100 ]; do : >out/f$i; i=$((i+1)); done`)})
		wantReason(t, "101 files", err, spec.TooLarge)
	})
}

func TestOutputFilesAreRegularFilesUnderGoodNames(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	both(t, func(t *testing.T, run func(Command) (Result, error)) {
		for script, want := range map[string]spec.Reason{
			`ln -s ` + secret + ` out/a`: spec.VerificationFailed,
			`ln -s / out/a`:              spec.VerificationFailed,
			`rmdir out && ln -s ` + filepath.Dir(secret) + ` out`: spec.VerificationFailed,
			`mkfifo out/a`:                            spec.VerificationFailed,
			`echo x >out/a; ln out/a out/b`:           spec.VerificationFailed,
			`echo x >out/.hidden`:                     spec.Malformed,
			`echo x >out/A; echo x >out/a`:            spec.Malformed,
			`echo x >"out/a b"`:                       spec.Malformed,
			`echo x >out/aux.txt`:                     spec.Malformed,
			`rm -r out`:                               spec.VerificationFailed,
			`mkdir -p tmp/a/b; chmod 0 tmp/a/b tmp/a`: "",
			`mkdir out/empty`:                         "",
		} {
			res, err := run(Command{Argv: sh(script)})
			if !res.OK() {
				t.Errorf("%s: %+v, %s", script, res, res.StderrTail)
			}
			wantReason(t, script, err, want)
			if len(res.Files) != 0 {
				t.Errorf("%s: files %v", script, res.Files)
			}
			if err := res.Close(); err != nil {
				t.Errorf("%s: Close = %v", script, err)
			}
		}
	})
}

func TestCommandsThatCannotRunAreErrors(t *testing.T) {
	both(t, func(t *testing.T, run func(Command) (Result, error)) {
		for _, test := range []struct {
			name string
			c    Command
			want spec.Reason
		}{
			{"no program", Command{}, spec.Malformed},
			{"not there", Command{Argv: []string{"/none/at/all"}}, spec.NotFound},
			{"not in PATH", Command{Argv: []string{"no-such-program-here"}}, spec.NotFound},
			{"relative", Command{Argv: []string{"./agent"}}, spec.Malformed},
			{"foreign variable", Command{Argv: []string{"true"}, Env: map[string]string{"LD_PRELOAD": "x"}}, spec.Malformed},
			{"a variable that is two", Command{Argv: []string{"true"}, Env: map[string]string{"SEALBRIDGE_A=1\x00LD_PRELOAD": "x"}}, spec.Malformed},
			{"input name", Command{Argv: []string{"true"}, Inputs: map[string]string{"../x": "/dev/null"}}, spec.Malformed},
			{"input file", Command{Argv: []string{"true"}, Inputs: map[string]string{"x": "/none/at/all"}}, spec.Unavailable},
			{"the whole disk", Command{Argv: []string{"true"}, ReadOnly: []string{"/usr/.."}}, spec.Malformed},
		} {
			res, err := run(test.c)
			wantReason(t, test.name, err, test.want)
			if res.OK() {
				t.Errorf("%s: OK", test.name)
			}
		}
		if _, err := run(Command{Argv: []string{"true"}, WallClock: -1}); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("no wall clock = %v, want malformed", err)
		}
	})
}

func TestACancelledRunIsNoSuccessAndNoTimeOut(t *testing.T) {
	x := newExec(t)
	started := filepath.Join(t.TempDir(), "started")
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		os.ReadFile(started) // blocks until the program opens it
		cancel()
	}()
	res, err := x.run(ctx, Command{Argv: sh(`echo >` + started + `; sleep 300`), WallClock: time.Minute}, false)
	t.Cleanup(func() { res.Close() }) // also of a run that failed
	if err != nil || !res.Cancelled || res.TimedOut || res.OK() {
		t.Errorf("Run = %+v, %v, want cancelled", res, err)
	}
}

func TestWorkspacesLeftByACrashAreRemoved(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "run-OLD", "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestWhatIsSaidOfALevelIsWhatHolds(t *testing.T) { // X6, X7
	x := newExec(t)
	if got := x.Isolation(Subprocess); (got.Enforced == "gateway") != x.isolated || got.Level != Subprocess {
		t.Errorf("Isolation = %+v, isolated %v", got, x.isolated)
	}
	if got := x.Isolation(Wasm); got.Enforced != "gateway" || !slices.Contains(x.Levels(), Wasm) || slices.Contains(x.Levels(), Subprocess) != x.isolated {
		t.Errorf("Isolation = %+v, levels %v", got, x.Levels())
	}
	for _, level := range []string{"oci_container", "microvm", "", "SUBPROCESS_RESTRICTED"} {
		if got := x.Isolation(level); got.Enforced != "claimed" {
			t.Errorf("%s: %+v", level, got)
		}
	}
	if x.Isolated() != slices.Contains(x.Enforces(Subprocess), "no network") {
		t.Errorf("isolated %v enforces %q", x.Isolated(), x.Enforces(Subprocess))
	}
	if x.Isolated() != (len(x.Lacks(Subprocess)) == 0 || x.found.Filter) {
		t.Errorf("isolated %v lacks %q", x.Isolated(), x.Lacks(Subprocess))
	}
}
