//go:build unix

package runner

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/spec"
)

// fakeEngine is a container engine that writes down how it is called. What it
// runs lives on when its client is ended, as with a real one; only rm ends it.
const fakeEngine = `#!/bin/sh
echo "$*" >>DIR/log
case $1 in
version) test -f DIR/broken && { echo "cannot connect to the service" >&2; exit 1; }; echo 5.9.1 ;;
ps) echo left1; echo left2 ;;
image) case $5 in *gone*) echo "no such image" >&2; exit 125 ;; esac; echo there ;;
rm) test -f DIR/"$3" && kill -9 $(cat DIR/"$3") && rm DIR/"$3"; exit 0 ;;
run)
  while :; do
    case $1 in
    --name=*) name=${1#--name=} ;;
    --mount=*,destination=/sealbridge-work) work=${1#*source=}; work=${work%%,*} ;;
    --env=*) export "${1#--env=}" ;;
    *@sha256:*) shift; break ;;
    esac
    shift
  done
  cd "$work"
  if test "$1" = setsid; then setsid sleep 300 & echo $! >DIR/"$name"; wait; fi
  exec "$@" ;;
esac
`

const testImage = "registry.example/agent@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// withEngine puts the fake engine first in PATH under a name.
func withEngine(t *testing.T, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(fakeEngine, "DIR", dir)), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return dir
}

func calls(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func TestAnImageRunsWithNothingButItsWorkspace(t *testing.T) { // X12
	dir := withEngine(t, "podman")
	x := newExec(t)
	if x.Isolation(Container).Enforced != "claimed" {
		t.Fatal("a container is enforced before an engine was found")
	}
	if ok, lacks := x.FindEngine(t.Context()); !ok {
		t.Fatal(lacks)
	}
	res, err := x.Run(t.Context(), Command{Image: testImage, Argv: []string{"sh", "-c", `cat; cat in/x; echo hi >out/r; echo $HOME $SEALBRIDGE_TASK; exit 3`}, Inputs: inputX(t), Stdin: []byte("task "),
		Env: map[string]string{"SEALBRIDGE_TASK": "task_x"}, WallClock: time.Minute, Memory: 1 << 30, FilesLimit: 1 << 20})
	t.Cleanup(func() { res.Close() })
	if err != nil || res.Exit != 3 || string(res.Stdout) != "task rows/sealbridge-work task_x\n" || len(res.Files) != 1 {
		t.Fatalf("%+v, %v, %s", res, err, res.StderrTail)
	}
	if res.Isolation != (manifest.Isolation{Level: Container, Enforced: "gateway"}) || res.Image.String() != testImage[strings.Index(testImage, "@")+1:] || !slices.Contains(res.Enforced, "no network") {
		t.Errorf("%+v %v %q", res.Isolation, res.Image, res.Enforced)
	}
	log := calls(t, dir)
	run := ""
	for _, line := range log {
		if strings.HasPrefix(line, "run ") {
			run = line + " "
		}
	}
	for _, flag := range []string{"--rm", "--interactive", "--pull=never", "--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--ipc=private",
		"--pids-limit=512", "--memory=1073741824", "--memory-swap=1073741824", "--ulimit=core=0:0", "--ulimit=nofile=1024:1024", "--ulimit=fsize=1048576:1048576", "--log-driver=none",
		"--mount=type=bind,source=" + res.workspace.work() + "/in,destination=/sealbridge-work/in,readonly", "--env=SEALBRIDGE_TASK=task_x", testImage + " sh -c"} {
		if !strings.Contains(run, " "+flag+" ") {
			t.Errorf("%s is not in %s", flag, run)
		}
	}
	for _, never := range []string{"--privileged", "--volume", "docker.sock", "--cap-add", "--device"} {
		if strings.Contains(run, never) {
			t.Errorf("%s is in %s", never, run)
		}
	}
	if !slices.Contains(log, "rm --force left1 left2") {
		t.Errorf("containers of an earlier process are still there: %q", log)
	}
	if last := log[len(log)-1]; !strings.HasPrefix(last, "rm --force sealbridge-") {
		t.Errorf("the last call is %s", last)
	}
}

func TestAContainerEndsWithItsRun(t *testing.T) { // X12, B022
	dir := withEngine(t, "podman")
	x := newExec(t)
	if ok, lacks := x.FindEngine(t.Context()); !ok {
		t.Fatal(lacks)
	}
	asked := 0
	res, err := x.Run(t.Context(), Command{Image: testImage, Argv: []string{"setsid"}, WallClock: 500 * time.Millisecond, Overrun: func(context.Context) time.Duration { asked++; return 0 }})
	t.Cleanup(func() { res.Close() })
	if err != nil || !res.TimedOut {
		t.Errorf("%+v, %v", res, err)
	}
	name := "sealbridge-" + strings.ToLower(res.workspace.mark)
	if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
		t.Error("what ran in it still runs")
	}
	if log := calls(t, dir); canFreeze && (asked != 1 || !slices.Contains(log, "pause "+name)) {
		t.Errorf("asked %d times for more; calls %q", asked, log)
	}
}

func TestWhatIsNoPinnedImageDoesNotRun(t *testing.T) { // X12
	dir := withEngine(t, "podman")
	x := newExec(t)
	gone := strings.Replace(testImage, "agent", "gone", 1)
	for _, test := range []struct {
		name string
		c    Command
		want spec.Reason
	}{
		{"a tag", Command{Image: "alpine:latest"}, spec.Malformed},
		{"a short digest", Command{Image: "alpine@sha256:ab"}, spec.Malformed},
		{"an option", Command{Image: "--privileged" + testImage}, spec.Malformed},
		{"and a module", Command{Image: testImage, Module: "/x.wasm"}, spec.Malformed},
		{"a port", Command{Image: testImage, Ports: []Port{{Number: 7001}}}, spec.UnsupportedIsolation},
		{"no engine looked for", Command{Image: testImage}, spec.UnsupportedIsolation},
		{"not here", Command{Image: gone}, spec.NotFound},
	} {
		if test.name == "not here" {
			x.FindEngine(t.Context())
		}
		test.c.WallClock = time.Minute
		res, err := x.Run(t.Context(), test.c)
		wantReason(t, test.name, err, test.want)
		res.Close()
	}
	if log := calls(t, dir); slices.ContainsFunc(log, func(l string) bool { return strings.HasPrefix(l, "run ") || strings.HasPrefix(l, "pull") }) {
		t.Errorf("something ran: %q", log)
	}
}

func TestAnEngineThatDoesNotAnswerIsNone(t *testing.T) { // X7
	dir := withEngine(t, "podman")
	if err := os.WriteFile(filepath.Join(dir, "broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	x := newExec(t)
	if ok, lacks := x.FindEngine(t.Context()); ok || lacks != "no container engine answers: podman: cannot connect to the service" || x.Isolation(Container).Enforced != "claimed" {
		t.Errorf("FindEngine = %v, %q", ok, lacks)
	}
	t.Setenv("PATH", t.TempDir())
	if ok, lacks := x.FindEngine(t.Context()); ok || lacks != "no container engine: podman or docker" {
		t.Errorf("FindEngine = %v, %q", ok, lacks)
	}
}
