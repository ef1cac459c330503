package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"sealbridge/spec"
)

func TestMain(m *testing.M) {
	if os.Getenv(runAsSelf) != "" { // a process of the demo
		main()
	}
	if at := os.Getenv(toolRecord); at != "" {
		recordCalls(at)
	}
	testscript.Main(m, map[string]func(){"sealbridge": main})
}

// TestScripts runs commands as a user types them.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("SEALBRIDGE_HOME", e.Getenv("WORK")+"/home")
			return os.CopyFS(filepath.Join(e.WorkDir, "bundles"), os.DirFS(filepath.Join("..", "..", "spec", "vectors", "bundles")))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "judges": judges, "waitfor": waitFor, "zip": makeZip, "wasm": wasmModule},
	})
}

// exits runs sealbridge and holds its exit code: exits 4 relay init.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE ARGS…")
	}
	err := ts.Exec("sealbridge", args[1:]...)
	code := "0"
	if err != nil {
		var coded interface{ ExitCode() int }
		if !errors.As(err, &coded) {
			ts.Fatalf("%v", err)
		}
		code = string(rune('0' + coded.ExitCode()))
	}
	if code != args[0] {
		ts.Fatalf("exit %s, want %s", code, args[0])
	}
}

// judges runs sealbridge, which may end with a yes or with a no.
func judges(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: judges ARGS…")
	}
	var coded interface{ ExitCode() int }
	if err := ts.Exec("sealbridge", args...); err != nil && (!errors.As(err, &coded) || coded.ExitCode() != 1) {
		ts.Fatalf("%v", err)
	}
}

// makeZip makes a zip: zip OUT NAME=FILE… ; a name may be anything.
func makeZip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: zip OUT NAME=FILE…")
	}
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	z := zip.NewWriter(f)
	for _, pair := range args[1:] {
		name, file, _ := strings.Cut(pair, "=")
		w, err := z.Create(name)
		ts.Check(err)
		_, err = w.Write([]byte(strings.TrimSuffix(ts.ReadFile(file), "\n"))) // a file of a script ends with one
		ts.Check(err)
	}
	ts.Check(errors.Join(z.Close(), f.Close()))
}

// waitFor waits until a file is there, as long as the script may run.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfor FILE")
	}
	for i := 0; i < 2000; i++ {
		if _, err := os.Lstat(ts.MkAbs(args[0])); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s did not come", args[0])
}

// inProcess is one command without a process of its own.
func inProcess(stdin []byte, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(context.Background(), args, bytes.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

func TestEveryReasonHasItsExitCode(t *testing.T) {
	other := map[spec.Reason]int{
		spec.Malformed: 2, spec.TooLarge: 2, spec.NotCanonical: 2, spec.UnknownType: 2,
		spec.Unavailable: 3, spec.Conflict: 4, spec.GateExpired: 4, spec.Replayed: 4, spec.GateOpen: 5,
	}
	for _, r := range spec.Reasons() {
		want, ok := other[r]
		if !ok {
			want = 1
		}
		a := newApp(nil, &bytes.Buffer{}, &bytes.Buffer{})
		a.started = true
		if got := a.report(spec.Refuse(r, "", "")); got != want {
			t.Errorf("%s ends with %d, want %d", r, got, want)
		}
	}
	for r := range exitOf {
		if !slices.Contains(spec.Reasons(), r) {
			t.Errorf("%s is no word of errors.md", r)
		}
	}
}

func TestAnErrorIsOneLineAndAHint(t *testing.T) {
	var errs bytes.Buffer
	a := newApp(nil, &bytes.Buffer{}, &errs)
	a.started = true
	a.report(hint(spec.Refuse(spec.Conflict, "/a", "is there\nalready \u202e"), "do %s", "this"))
	want := "sealbridge: error: conflict: /a is there already ⟨U+202E⟩\nsealbridge: hint: do this\n"
	if errs.String() != want {
		t.Errorf("got %q, want %q", errs.String(), want)
	}
}

func TestJSONErrorsHaveFourMembers(t *testing.T) {
	for _, args := range [][]string{{"--json", "schema", "nope"}, {"schema", "nope", "--json"}, {"version", "--json", "--bogus"}, {"nope", "--json"}} {
		_, out, errs := inProcess(nil, args...)
		var got map[string]map[string]string
		if err := json.Unmarshal([]byte(errs), &got); err != nil || out != "" {
			t.Errorf("%v: stdout %q, stderr %q: %v", args, out, errs, err)
			continue
		}
		for _, m := range []string{"code", "path", "message", "hint"} {
			if _, ok := got["error"][m]; !ok || len(got) != 1 || len(got["error"]) != 4 {
				t.Errorf("%v: %s", args, errs)
			}
		}
	}
}

func TestTheFirstScreenIsShort(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"help"}} {
		code, out, errs := inProcess(nil, args...)
		if lines := strings.Count(out, "\n"); code != 0 || errs != "" || lines > 25 || lines < 5 {
			t.Errorf("%v: exit %d, %d lines: %s%s", args, code, lines, out, errs)
		}
		for line := range strings.Lines(out) {
			if n := len([]rune(line)); n > 120 {
				t.Errorf("a line of %d characters: %s", n, line)
			}
		}
	}
}

// TestEveryCommandHasItsGroupAndAnExample: a parent that only groups is shown by its children.
func TestEveryCommandHasItsGroupAndAnExample(t *testing.T) {
	root := newApp(nil, &bytes.Buffer{}, &bytes.Buffer{}).root()
	for _, c := range root.Commands() {
		if c.GroupID == "" {
			t.Errorf("%s has no group", c.Name())
		}
		walk(c, func(c *cobra.Command) {
			if c.Short == "" {
				t.Errorf("%s does not say what it does", c.CommandPath())
			}
			if !c.HasSubCommands() && !c.Hidden && c.Example == "" {
				t.Errorf("%s has no example", c.CommandPath())
			}
		})
	}
}

func walk(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		walk(sub, do)
	}
}

func TestNobodyIsAskedWithoutATerminal(t *testing.T) {
	a := newApp(strings.NewReader("yes\n"), &bytes.Buffer{}, &bytes.Buffer{})
	if _, err := a.passphrase("pass "); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("passphrase: %v", err)
	}
	if _, err := a.choose("yes? ", "yn"); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("choose: %v", err)
	}
}

func TestVersionNamesTheBinary(t *testing.T) {
	code, out, _ := inProcess(nil, "version", "--json")
	var b build
	if err := json.Unmarshal([]byte(out), &b); err != nil || code != 0 || len(b.SHA256) != 64 || b.Go == "" {
		t.Errorf("exit %d: %s: %v", code, out, err)
	}
}

// tinyModule is a WASI module of one function that writes {"output":{}} to stdout.
const tinyModule = "AGFzbQEAAAABDAJgBH9/f38Bf2AAAAIjARZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxCGZkX3dyaXRlAAADAgEBBQMBAAEHEwIGbWVtb3J5AgAGX3N0YXJ0AAEKDwENAEEBQQBBAUEIEAAaCwsgAgBBEAsNeyJvdXRwdXQiOnt9fQBBAAsIEAAAAA0AAAA="

// wasmModule writes the module to a file: wasm FILE.
func wasmModule(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: wasm FILE")
	}
	b, err := base64.StdEncoding.DecodeString(tinyModule)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o600))
}
