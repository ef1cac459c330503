//go:build linux || darwin || freebsd

package runner

import (
	"testing"
	"time"

	"sealbridge/spec"
)

func TestAWorkspaceThatOverflowsEndsTheRun(t *testing.T) { // X11
	both(t, func(t *testing.T, run func(Command) (Result, error)) {
		for name, script := range map[string]string{
			"one file":            `head -c 100000000 /dev/zero >out/a; sleep 300`,
			"many files":          `i=0; while :; do head -c 1000000 /dev/zero >tmp/$i; i=$((i+1)); done`,
			"a folder shut to us": `mkdir tmp/d; exec 3>tmp/d/a; chmod 0 tmp/d; while :; do head -c 100000 /dev/zero >&3; done`,
			"in the background":   `(while :; do head -c 1000000 /dev/zero >>tmp/a; done) & wait`,
		} {
			res, err := run(Command{Argv: sh(script), Disk: 20 << 20, WallClock: time.Minute})
			if !res.Overfilled || res.OK() || res.TimedOut || res.Cancelled || err != nil && spec.ReasonOf(err) != spec.TooLarge {
				t.Errorf("%s: %+v, %v, %s", name, res, err, res.StderrTail)
			}
			if err := res.Close(); err != nil {
				t.Errorf("%s: Close = %v", name, err)
			}
		}
		res, err := run(Command{Argv: sh(`head -c 10000000 /dev/zero >out/a`), Disk: 20 << 20})
		if err != nil || !res.OK() {
			t.Errorf("within the limit: %+v, %v", res, err)
		}
	})
}

func TestNamesAreCountedToo(t *testing.T) { // X11
	x := newExec(t)
	ws, err := newWorkspace(x.dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.remove()
	q := &quota{ws: ws, limit: 1 << 30, names: 5}
	if _, ok := q.room(nil); !ok { // the folder, in, out, tmp
		t.Error("an empty workspace is full")
	}
	for _, name := range []string{"tmp/a", "tmp/b"} {
		if err := ws.root.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := q.room(nil); ok {
		t.Error("6 names of 5 are not too many")
	}
}
