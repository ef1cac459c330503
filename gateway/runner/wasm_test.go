//go:build unix

package runner

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sealbridge/signing"
	"sealbridge/spec"
)

// built builds a package of ours as a WASI module, once.
func built(t *testing.T, pkg string) string {
	t.Helper()
	path, err := modules.of(pkg)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var modules moduleCache

type moduleCache struct {
	mu  sync.Mutex
	dir string
	got map[string]string
}

func (m *moduleCache) of(pkg string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if path, ok := m.got[pkg]; ok {
		return path, nil
	}
	if m.dir == "" {
		dir, err := os.MkdirTemp("", "sealbridge-modules-")
		if err != nil {
			return "", err
		}
		m.dir, m.got = dir, map[string]string{}
	}
	path := filepath.Join(m.dir, filepath.Base(pkg)+".wasm")
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	m.got[pkg] = path
	return path, nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if modules.dir != "" {
		os.RemoveAll(modules.dir)
	}
	os.Exit(code)
}

// modes are without and, where this machine can, with the box of a subprocess around.
func modes(x *Exec) []bool {
	if x.isolated {
		return []bool{false, true}
	}
	return []bool{false}
}

// patience is for a compiler of modules under the race detector on a busy machine.
const patience = 10 * time.Minute

func runModule(t *testing.T, x *Exec, boxed bool, c Command) (Result, error) {
	t.Helper()
	c.Module = built(t, "./testdata/hostile")
	if c.WallClock == 0 {
		c.WallClock = patience
	}
	res, err := x.run(t.Context(), c, boxed)
	t.Cleanup(func() { res.Close() })
	return res, err
}

func inputX(t *testing.T) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, []byte("rows"), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"x": path}
}

func TestAModuleWorksInItsFolder(t *testing.T) { // X9
	x := newExec(t)
	for _, boxed := range modes(x) {
		res, err := runModule(t, x, boxed, Command{Argv: []string{"files"}, Inputs: inputX(t)})
		if err != nil || !res.OK() || string(res.Stdout) != "<nil> <nil> <nil> <nil> <nil>\nrows <nil>\n" {
			t.Fatalf("boxed %v: %v, exit %d, %q, %q", boxed, err, res.Exit, res.Stdout, res.StderrTail)
		}
		got := map[string]string{}
		for _, f := range res.Files {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(r)
			r.Close()
			got[f.Name] = string(b)
		}
		if len(got) != 2 || got["c.txt"] != "first and second" || got["d.txt"] != "" {
			t.Errorf("files %v", got)
		}
		b, _ := os.ReadFile(built(t, "./testdata/hostile"))
		if res.Isolation.Level != Wasm || res.Isolation.Enforced != "gateway" || res.Image == nil || *res.Image != signing.DigestOf(b) || !slices.Contains(res.Enforced, "no network") {
			t.Errorf("boxed %v: %+v %v %q", boxed, res.Isolation, res.Image, res.Enforced)
		}
	}
}

func TestAModuleReachesNothingButItsFolder(t *testing.T) { // X3, X9
	x := newExec(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SECRET_TOKEN", "s3cret")
	for _, boxed := range modes(x) {
		res, err := runModule(t, x, boxed, Command{Inputs: inputX(t), Argv: []string{"out", secret, "../.." + secret, "/../../../../../.." + secret, "/etc/passwd", "/proc/self/environ", "../module.wasm"}})
		if err != nil || !res.OK() {
			t.Fatalf("boxed %v: %v, exit %d, %q", boxed, err, res.Exit, res.StderrTail)
		}
		for line := range strings.Lines(string(res.Stdout)) {
			if strings.HasPrefix(line, "read") || strings.Contains(line, "s3cret") || strings.HasPrefix(line, "went through") || strings.Contains(line, "etc") {
				t.Errorf("boxed %v: %s", boxed, line)
			}
		}
		if !boxed && !strings.HasSuffix(string(res.Stdout), "\n/\n/above\n/in\n/in/x\n/out\n/tmp\n") { // a box shows what the run needs below its own /tmp
			t.Errorf("it sees %s", res.Stdout)
		}
		if entries, _ := os.ReadDir(res.workspace.dir); len(entries) != 3 { // root, work, the module
			t.Errorf("beside the workspace: %v", entries)
		}
	}
}

func TestAModuleThatTakesTooMuchEnds(t *testing.T) { // X9, B022
	x := newExec(t)
	boxed := x.isolated // as it runs here
	for _, test := range []struct {
		what string
		c    Command
		ok   func(Result) bool
	}{
		{"memory", Command{Memory: 64 << 20}, func(r Result) bool { return r.Exit > 0 && !r.TimedOut }},
		{"disk", Command{FilesLimit: 20 << 20}, func(r Result) bool {
			return r.OK() && strings.HasPrefix(string(r.Stdout), "stopped at 20 MiB\nafter giving back: true")
		}},
		{"names", Command{FilesLimit: 1 << 20}, func(r Result) bool { return r.OK() && string(r.Stdout) == "stopped at 256 names\n" }},
		{"loop", Command{WallClock: time.Second}, func(r Result) bool { return r.TimedOut }},
		{"flood", Command{}, func(r Result) bool { return r.Overflowed }},
		{"exit", Command{}, func(r Result) bool { return r.Exit == 7 && string(r.StderrTail) == "so it ends\n" }},
		{"panic", Command{}, func(r Result) bool { return r.Exit == 2 && strings.Contains(string(r.StderrTail), "out of ideas") }},
	} {
		test.c.Argv = []string{test.what}
		res, err := runModule(t, x, boxed, test.c)
		if err != nil || !test.ok(res) {
			t.Errorf("%s, boxed %v: %v, exit %d, timed out %v, overflowed %v, %.200q, %.300q", test.what, boxed, err, res.Exit, res.TimedOut, res.Overflowed, res.Stdout, res.StderrTail)
		}
	}
}

func TestAModuleStandsStillWhileItAsksForMore(t *testing.T) { // B5
	if runtime.GOOS != "linux" {
		t.Skip("nothing here stops every process of a run")
	}
	x := newExec(t)
	asked := 0
	res, err := runModule(t, x, x.isolated, Command{Argv: []string{"loop"}, WallClock: time.Second, Overrun: func(context.Context) time.Duration { asked++; return 0 }})
	if err != nil || !res.TimedOut || asked != 1 {
		t.Errorf("%v, timed out %v, asked %d times", err, res.TimedOut, asked)
	}
}

func TestWhatIsNoModuleDoesNotRun(t *testing.T) {
	x := newExec(t)
	dir := t.TempDir()
	text := filepath.Join(dir, "text.wasm")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		c    Command
		want spec.Reason
	}{
		{"text", Command{Module: text}, spec.Malformed},
		{"nothing", Command{Module: filepath.Join(dir, "none.wasm")}, spec.NotFound},
		{"relative", Command{Module: "text.wasm"}, spec.Malformed},
		{"a port", Command{Module: text, Ports: []Port{{Number: 7001}}}, spec.UnsupportedIsolation},
	} {
		test.c.WallClock = time.Minute
		res, err := x.Run(t.Context(), test.c)
		wantReason(t, test.name, err, test.want)
		res.Close()
	}
	empty := filepath.Join(dir, "empty.wasm")
	if err := os.WriteFile(empty, []byte(wasmMagic+"\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	res, err := x.Run(t.Context(), Command{Module: empty, WallClock: time.Minute})
	t.Cleanup(func() { res.Close() })
	if err != nil || res.OK() || !strings.Contains(string(res.StderrTail), "running the module") {
		t.Errorf("a broken module: %+v, %v, %s", res.Exit, err, res.StderrTail)
	}
}

func TestTheExampleModuleComputes(t *testing.T) {
	x := newExec(t)
	res, err := x.Run(t.Context(), Command{Module: built(t, "sealbridge/examples/wasi"), Inputs: map[string]string{"sales.csv": filepath.Join("..", "..", "examples", "revenue", "sales.csv")},
		Stdin: []byte(`{"task":{"title":"Revenue"},"inputs":["sales.csv"]}`), WallClock: patience})
	t.Cleanup(func() { res.Close() })
	if err != nil || !res.OK() || !strings.Contains(string(res.Stdout), `"totals":{`) || len(res.Files) != 1 || res.Files[0].Name != "revenue.csv" {
		t.Fatalf("%v, exit %d, %s, %s", err, res.Exit, res.Stdout, res.StderrTail)
	}
	shell, err := x.run(t.Context(), Command{Argv: []string{"/bin/sh", absolute(t, "../../examples/revenue/agent.sh")}, ReadOnly: []string{absolute(t, "../../examples/revenue")},
		Inputs: map[string]string{"sales.csv": filepath.Join("..", "..", "examples", "revenue", "sales.csv")}, WallClock: time.Minute}, x.isolated)
	t.Cleanup(func() { shell.Close() })
	if err != nil || !shell.OK() || shell.Files[0].Size != res.Files[0].Size {
		t.Errorf("the agent in shell says something else: %v, %s", err, shell.Stdout)
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
