package gateway

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway/artifact"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// verifier is a gateway as far as it looks at deliveries.
type verifier struct {
	*Gateway
	t *testing.T
	x examination
}

// newVerifier has the input in.txt and a delivery of the file a/count.csv with the result {"lines":3}.
func newVerifier(t *testing.T) *verifier {
	t.Helper()
	files, err := artifact.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	run, err := runner.New(t.Context(), runner.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	v := &verifier{Gateway: &Gateway{Config: Config{Files: files, Runner: run, Chance: rand.Reader}}, t: t}
	schema, err := manifest.ValueOf(map[string]any{"type": "object", "required": []any{"lines"}})
	if err != nil {
		t.Fatal(err)
	}
	v.x = examination{due: true, digest: signing.DigestOf([]byte("delivery")), may: map[string]bool{}, printed: map[string]string{}}
	v.x.manifest.IO.OutputSchema, v.x.manifest.Verification.Mode = schema, "automated_checks"
	v.x.manifest.IO.InputArtifacts = []manifest.ArtifactRef{v.put("in.txt", "1\n2\n3\n")}
	v.x.manifest.Task.AcceptanceCriteria = []manifest.Criterion{{ID: criterion(t, "ac_1"), Required: true}, {ID: criterion(t, "ac_2"), Required: false}}
	v.x.delivery = manifest.Delivery{Output: result3(t, `{"lines":3}`), Artifacts: []manifest.ArtifactRef{v.put("a/count.csv", "lines,3\n")},
		Evidence: []manifest.Evidence{{Criterion: criterion(t, "ac_1"), Text: "counted"}}}
	return v
}

func criterion(t *testing.T, s string) manifest.CriterionID {
	t.Helper()
	id, err := manifest.ParseCriterionID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func result3(t *testing.T, text string) jcs.Value {
	t.Helper()
	v, err := jcs.Canonicalize([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *verifier) put(name, text string) manifest.ArtifactRef {
	v.t.Helper()
	ref, err := v.Files.Put(v.t.Context(), name, "", strings.NewReader(text), 0)
	if err != nil {
		v.t.Fatal(err)
	}
	return ref
}

// check gives the contract one check.
func (v *verifier) check(kind, target string) {
	id, err := manifest.ParseCheckID("chk_1")
	if err != nil {
		v.t.Fatal(err)
	}
	v.x.manifest.Verification.Checks = []manifest.Check{{CheckID: id, Kind: kind, Target: target}}
}

// script is a program of the owner's that the rules list.
func (v *verifier) script(body string, args ...string) string {
	v.t.Helper()
	dir, err := filepath.EvalSymlinks(v.t.TempDir())
	if err != nil {
		v.t.Fatal(err)
	}
	path := filepath.Join(dir, "check.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		v.t.Fatal(err)
	}
	line := strings.Join(append([]string{path}, args...), " ")
	v.x.may[line] = true
	return line
}

// found is what a report says of one check.
func (v *verifier) found(check string) manifest.CheckResult {
	v.t.Helper()
	if err := v.report(v.t.Context(), &v.x); err != nil {
		v.t.Fatal(err)
	}
	i := slices.IndexFunc(v.x.report.Checks, func(c manifest.CheckResult) bool { return c.Check == check })
	if i < 0 {
		v.t.Fatalf("the report has no %s: %+v", check, v.x.report)
	}
	if pass := v.x.report.Verdict == passed; pass != !slices.ContainsFunc(v.x.report.Checks, func(c manifest.CheckResult) bool { return c.Result != passed }) {
		v.t.Errorf("verdict %s of %+v", v.x.report.Verdict, v.x.report.Checks)
	}
	return v.x.report.Checks[i]
}

func boxed(t *testing.T, v *verifier) {
	t.Helper()
	if v.Runner.Isolation(runner.Subprocess).Enforced != "gateway" {
		if runtime.GOOS == "linux" && os.Getenv("CI") != "" {
			t.Fatal("this machine has no box: namespaces are needed")
		}
		t.Skip("not run: this machine has no box")
	}
}

// V2 in each of the four modes with each of the four kinds: what is evaluated,
// and what the report comes to.
func TestTheReportOfEveryModeAndKindOfCheck(t *testing.T) {
	for _, mode := range []string{"schema_only", "automated_checks", "human_in_the_loop", "hybrid"} {
		person := mode == "human_in_the_loop" || mode == "hybrid"
		for _, kind := range []string{"json_schema", "sha256_match", "deterministic_command", "human_review"} {
			for _, spoilt := range []string{"", "output", "criterion", "file"} {
				v := newVerifier(t)
				v.x.manifest.Verification.Mode = mode
				target := map[string]string{"json_schema": "output", "sha256_match": v.x.delivery.Artifacts[0].Digest.String(), "human_review": "delivery"}[kind]
				if kind == manifest.CommandCheck {
					boxed(t, v)
					target = v.script("grep -q lines,3 out/a/count.csv")
				}
				v.check(kind, target)
				bad := map[string]string{} // checks that do not pass
				switch spoilt {
				case "output":
					v.x.delivery.Output = result3(t, `{"line":3}`)
					bad["output"] = failed
					if kind == "json_schema" {
						bad["chk_1"] = failed
					}
				case "criterion":
					v.x.delivery.Evidence = nil
					if !person && kind != "human_review" {
						bad["coverage"] = failed
					}
				case "file":
					if kind == manifest.CommandCheck { // it runs over the files that are here
						continue
					}
					if err := v.Files.Remove(v.x.delivery.Artifacts[0].Digest); err != nil {
						t.Fatal(err)
					}
					bad["files"] = failed
				}
				v.found("files")
				for _, c := range v.x.report.Checks {
					if want := orWhy(bad[c.Check], passed); c.Result != want {
						t.Errorf("%s, %s, %q spoilt: %s is %s (%s), want %s", mode, kind, spoilt, c.Check, c.Result, c.Text, want)
					}
				}
				if n := len(v.x.report.Checks); n != map[bool]int{true: 3, false: 4}[kind == "human_review"] {
					t.Errorf("%s, %s: %d checks", mode, kind, n)
				}
				if v.x.report.Mode != mode || v.x.report.Delivery != v.x.digest {
					t.Errorf("%s, %s: a report about %+v", mode, kind, v.x.report)
				}
			}
		}
	}
}

func TestAFileThatNobodyDeliveredFailsItsCheck(t *testing.T) { // V2
	v := newVerifier(t)
	v.check("sha256_match", signing.DigestOf([]byte("other")).String())
	if got := v.found("chk_1"); got.Result != failed {
		t.Errorf("%+v", got)
	}
	v.check("json_schema", "elsewhere")
	if got := v.found("chk_1"); got.Result != notRun {
		t.Errorf("%+v", got)
	}
}

// A command runs in the box over copies, by the line that the rules list.
func TestACommandJudgesADeliveryInABox(t *testing.T) { // M6
	v := newVerifier(t)
	boxed(t, v)
	seen := v.script(`cat; echo; ls in out; cat "$1/more.txt"; cat out/result.json`, v.folder("more.txt", "more\n"))
	for _, c := range []struct {
		name, line, result, text, printed string
		unlisted                          bool
	}{
		{"what it sees", seen, passed, "exit 0", "{\"lines\":3}\nin:\nin.txt\n\nout:\na\nresult.json\nmore\n{\"lines\":3}", false},
		{"a no", v.script("echo bad count >&2; exit 3"), failed, "exit 3, want 0", "bad count", false},
		{"not listed", v.script("exit 0"), notRun, "do not list", "", true},
		{"no such program", "/nowhere/check", notRun, "no such program", "", false},
		{"a program of the delivery", "out/a/count.csv", notRun, "an absolute path", "", false},
		{"a shell", "sh -c $HOME;", notRun, "one rule", "", false},
		{"no network", v.script("[ $(wc -l < /proc/net/dev) = 3 ]"), passed, "", "", false}, // two lines of title and lo
		{"copies", v.script("chmod u+w out/a/count.csv && echo x > out/a/count.csv; echo y > out/new"), passed, "", "", false},
		{"unmade output", v.script("ln -s /etc out/link; mkfifo out/pipe"), passed, "", "", false},
	} {
		v.x.may[c.line] = !c.unlisted
		v.check(manifest.CommandCheck, c.line)
		clear(v.x.printed)
		got := v.found("chk_1")
		if got.Result != c.result || !strings.Contains(got.Text, c.text) {
			t.Errorf("%s: %+v, want %s %q", c.name, got, c.result, c.text)
		}
		if p := strings.TrimSpace(v.x.printed["chk_1"]); c.printed != "" && p != c.printed {
			t.Errorf("%s printed %q, want %q", c.name, p, c.printed)
		}
		if ran := got.Run != nil; ran != (c.result != notRun) || ran && (got.Run.Box.Enforced != "gateway" || got.Run.Output.IsZero()) {
			t.Errorf("%s: run %+v", c.name, got.Run)
		}
	}
	for _, ref := range v.x.delivery.Artifacts {
		if _, err := v.Files.Read(ref.Digest, 100); err != nil {
			t.Errorf("the stored bytes were changed: %v", err)
		}
	}
	two := int64(3)
	v.check(manifest.CommandCheck, v.script("exit 3"))
	v.x.manifest.Verification.Checks[0].ExpectedExitCode = &two
	if got := v.found("chk_1"); got.Result != passed || got.Run.Exit != 3 {
		t.Errorf("an exit that is expected: %+v", got)
	}
	v.Runner = open{v.Runner}
	if got := v.found("chk_1"); got.Result != notRun || got.Run != nil {
		t.Errorf("on a machine without a box: %+v", got)
	}
}

// open is a runner that boxes nothing.
type open struct{ Runner }

func (open) Isolation(string) manifest.Isolation {
	return manifest.Isolation{Level: "subprocess_restricted", Enforced: "claimed"}
}

func (v *verifier) folder(name, text string) string {
	v.t.Helper()
	dir, err := filepath.EvalSymlinks(v.t.TempDir())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
	}
	if err != nil {
		v.t.Fatal(err)
	}
	return dir
}

// The inputs of B022: an answer within the limit, nothing left behind, and what
// ran out of time or flooded is neither a pass nor the failure of a test.
func TestNoCheckOutlivesItsTime(t *testing.T) { // B022
	for _, c := range []struct{ name, body, result, text string }{
		{"a background child, and exit 0", "sleep 300 & exit 0", passed, "exit 0"},
		{"the foreground", "sleep 300", failed, "timed out: more than 2s"},
		{"a session of its own", "setsid sleep 300 & exit 0", passed, "exit 0"},
		{"a flood of 500 MB", "head -c 500000000 /dev/zero", failed, "printed more than 64 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := newVerifier(t)
			boxed(t, v)
			v.CheckTime = 2 * time.Second
			v.check(manifest.CommandCheck, v.script(c.body))
			begin := time.Now()
			got := v.found("chk_1")
			if got.Result != c.result || !strings.Contains(got.Text, c.text) || got.Run.TimedOut != strings.HasPrefix(c.text, "timed out") {
				t.Errorf("%+v %+v, want %s %q", got, got.Run, c.result, c.text)
			}
			if took := time.Since(begin); took > time.Minute {
				t.Errorf("an answer after %v: something slept to its end", took)
			}
			if len(v.x.printed["chk_1"]) > maxPrinted {
				t.Errorf("%d bytes kept", len(v.x.printed["chk_1"]))
			}
		})
	}
}

// A fault of this machine is no answer: the check is made again.
func TestAFullDiskIsNoAnswerOfACheck(t *testing.T) {
	v := newVerifier(t)
	boxed(t, v)
	v.check(manifest.CommandCheck, v.script("exit 0"))
	v.Runner = broken{v.Runner}
	if err := v.report(t.Context(), &v.x); spec.ReasonOf(err) != spec.Unavailable || v.x.report != nil {
		t.Errorf("report = %v, %+v", err, v.x.report)
	}
}

// broken is a runner whose disk is full.
type broken struct{ Runner }

func (broken) Run(context.Context, runner.Command) (runner.Result, error) {
	return runner.Result{}, spec.Refuse(spec.Unavailable, "", "disk")
}

func TestTheSenderLooksEverMoreSeldom(t *testing.T) { // R5
	last := time.Duration(0)
	for n := range 100 {
		d := looks{n}.pause()
		if d < last || d > lookLast || n == 0 && d != lookAgain {
			t.Errorf("look %d after %v", n, d)
		}
		last = d
	}
	if last != lookLast {
		t.Errorf("in the end after %v", last)
	}
}
