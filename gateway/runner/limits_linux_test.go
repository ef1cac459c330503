package runner

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestFilesWithoutANameCount(t *testing.T) { // X11
	x := isolated(t)
	res := hostile(t, x, "nameless", Command{Disk: 20 << 20})
	if !res.Overfilled || res.TimedOut {
		t.Errorf("%+v, %q", res, res.StderrTail)
	}
}

func TestMemoryOfAProcessIsLimited(t *testing.T) {
	x := isolated(t)
	res, err := x.Run(t.Context(), Command{Argv: sh(`head -c 200000000 /dev/zero | tail -c 200000000 | wc -c`), Memory: 50 << 20, WallClock: time.Minute})
	t.Cleanup(func() { res.Close() })
	if err != nil || strings.Contains(string(res.Stdout), "200000000") || len(res.StderrTail) == 0 {
		t.Errorf("200 MB of 50: %q, %q, %v", res.Stdout, res.StderrTail, err)
	}
}

func TestMemoryOfAllProcessesIsLimited(t *testing.T) { // X11
	both(t, func(t *testing.T, run func(Command) (Result, error)) {
		// eight of 40 MB, each within what one may take
		script := `for i in 1 2 3 4 5 6 7 8; do head -c 40000000 /dev/zero | tail -c 40000000 | sleep 300 & done; wait`
		res, err := run(Command{Argv: sh(script), Total: 150 << 20, WallClock: time.Minute})
		if err != nil || !res.OutOfMemory || res.OK() || res.Cancelled || res.TimedOut {
			t.Errorf("%+v, %v", res, err)
		}
		res, err = run(Command{Argv: sh(`head -c 40000000 /dev/zero | tail -c 40000000 | wc -c`), Total: 300 << 20})
		if err != nil || !res.OK() {
			t.Errorf("within the limit: %+v, %v", res, err)
		}
	})
}

func TestRuntimesWorkInABox(t *testing.T) {
	x := isolated(t)
	for _, argv := range [][]string{
		{"bash", "-c", `cat <(echo fine) && echo x >/dev/shm/x && echo err >/dev/stderr`},
		{"python3", "-c", "import multiprocessing as m\nwith m.Pool(2) as p: print('fine', p.map(abs, [-1, -2]))"},
		{"node", "-e", `require('http').createServer().listen(0, '127.0.0.1', function () { console.log('fine'); this.close() })`},
		{"go", "env", "GOOS"},
	} {
		if _, err := program(argv[0]); err != nil {
			t.Logf("%s is not on this machine", argv[0])
			continue
		}
		path, err := filepath.EvalSymlinks(second(program(argv[0])))
		if err != nil || !strings.HasPrefix(path, "/usr/") { // elsewhere its owner lists its folder
			continue
		}
		argv[0] = path
		res, err := x.Run(t.Context(), Command{Argv: argv, WallClock: time.Minute})
		if err != nil || !res.OK() || len(res.Stdout) == 0 {
			t.Errorf("%s: exit %d, %q, %q, %v", argv[0], res.Exit, res.Stdout, res.StderrTail, err)
		}
		res.Close()
	}
}

func second(path string, _ error) string { return path }

func TestWhatWasFoundHasToHoldInEveryRun(t *testing.T) { // X6: never weakened later
	x := isolated(t)
	x.found.Landlock = 1000 // as if a kernel had it at start and not any more
	res, err := x.Run(t.Context(), Command{Argv: []string{"echo", "ran"}, WallClock: time.Minute})
	t.Cleanup(func() { res.Close() })
	if err != nil || res.OK() || strings.Contains(string(res.Stdout), "ran") {
		t.Errorf("Run = %+v, %v", res, err)
	}
}

func TestTheFilterEndsInEveryCase(t *testing.T) {
	p := filter()
	for i, step := range p {
		if step.Code&7 == unix.BPF_JMP && (i+1+int(step.Jt) >= len(p) || i+1+int(step.Jf) >= len(p)) {
			t.Errorf("step %d jumps out of the program", i)
		}
	}
	if last := p[len(p)-1]; last.Code != unix.BPF_RET|unix.BPF_K || len(p) > unix.BPF_MAXINSNS {
		t.Errorf("%d steps, the last is %+v", len(p), last)
	}
}
