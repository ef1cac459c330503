package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sealbridge/gateway"
)

// freezeFor is how long a process stands still: bar F3 asks for five minutes,
// `go test ./cmd/sealbridge -run Frozen -freeze 5m` gives them.
var freezeFor = flag.Duration("freeze", 4*time.Second, "how long a frozen process stands still")

// told runs the story and looks at its evidence: what had to happen once happened once.
func told(t *testing.T, d *demo, out fmt.Stringer) {
	t.Helper()
	if err := d.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(d.dir, "bundle.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"accepted", "started", "delivered", "completed"} {
		if n := strings.Count(string(b), `"kind":"`+kind+`"`); n != 1 {
			t.Errorf("%d events %s, want one", n, kind)
		}
	}
}

// again starts a process of the story that was killed.
func (d *demo) again(ctx context.Context, victim string) error {
	if victim == "relay" {
		return d.relayUp(ctx)
	}
	return d.serve(ctx, victim)
}

// tear leaves half of a write behind every file that grows at its end: what a
// power cut leaves of a write that nobody was told of.
func tear(dir string) (torn int, err error) {
	err = filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !strings.HasSuffix(at, "-wal") && !strings.HasSuffix(at, ".blk") {
			return err
		}
		b, err := os.ReadFile(at)
		if err != nil || len(b) == 0 {
			return err
		}
		f, err := os.OpenFile(at, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		torn++
		_, err = f.Write(b[len(b)/3 : len(b)/3+min(len(b)/2, 1500)])
		return err
	})
	return torn, err
}

// A process is killed after every step, and its last write is torn.
func TestTornLastWritesLoseNothing(t *testing.T) {
	for _, victim := range []string{"relay", "ann", "ben"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			d, out := story(t)
			torn := 0
			d.between = func(ctx context.Context, _ string) error {
				if d.procs[victim] == nil {
					return nil
				}
				d.kill(victim)
				n, err := tear(filepath.Join(d.dir, victim))
				if err != nil {
					return err
				}
				torn += n
				return d.again(ctx, victim)
			}
			told(t, d, out)
			if torn < 10 {
				t.Errorf("%d writes were torn", torn)
			}
		})
	}
}

// The relay comes back with its key and nothing else, after every step once
// both know each other: senders keep what was not acknowledged.
func TestARelayThatLostItsStoreLosesNoTask(t *testing.T) {
	d, out := story(t)
	known, lost := false, 0
	d.between = func(ctx context.Context, after string) error {
		if known = known || after == "words"; !known {
			return nil
		}
		d.kill("relay")
		lost++
		if err := os.RemoveAll(filepath.Join(d.dir, "relay", "store")); err != nil {
			return err
		}
		return d.relayUp(ctx)
	}
	told(t, d, out)
	if lost < 8 {
		t.Errorf("the store was lost %d times", lost)
	}
}

// A process that stands still, as a laptop that sleeps, goes on where it was.
func TestAFrozenProcessGoesOn(t *testing.T) {
	for _, victim := range []string{"relay", "ann", "ben"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			d, out := story(t)
			d.within = 5*time.Minute + 3**freezeFor
			d.between = func(ctx context.Context, after string) error {
				if after != "propose" && after != "ann contract" && after != "ben contract" {
					return nil
				}
				p := d.procs[victim].cmd.Process
				if err := p.Signal(syscall.SIGSTOP); err != nil {
					return err
				}
				select { // meanwhile the others go on
				case <-time.After(*freezeFor):
				case <-ctx.Done():
				}
				return p.Signal(syscall.SIGCONT)
			}
			told(t, d, out)
		})
	}
}

// fillUp leaves no room on a disk; the function gives it back.
func fillUp(dir string) (free func() error, err error) {
	at := filepath.Join(dir, "filler")
	f, err := os.Create(at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for size := 64 << 10; size >= 512; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return func() error { return os.Remove(at) }, nil
}

// A gateway whose disk is full takes nothing and acknowledges nothing; once
// there is room it goes on by itself.
func TestAGatewayOnAFullDiskGoesOnWhenThereIsRoom(t *testing.T) {
	for _, c := range []struct{ victim, other, from, to string }{
		{"ben", "ann", "propose", "ann contract"},      // the contract arrives at Ben
		{"ann", "ben", "ann contract", "ben contract"}, // Ben's acceptance arrives at Ann: nothing of it before her disk is full
	} {
		t.Run(c.victim, func(t *testing.T) {
			d, out := story(t)
			if err := os.Mkdir(d.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			smallDisk(t, filepath.Join(d.dir, c.victim), "16m")
			d.made = true
			var free func() error
			d.between = func(ctx context.Context, after string) (err error) {
				if after == c.from {
					if free, err = fillUp(filepath.Join(d.dir, c.victim)); err != nil {
						return err
					}
				}
				if after != c.to {
					return nil
				}
				for i := 0; i < 3; { // the other side keeps what it cannot hand over
					s, err := ask[gateway.Status](ctx, d, c.other, "status")
					if err != nil {
						return err
					}
					if s.Outgoing > 0 {
						i++
					}
					select {
					case <-time.After(100 * time.Millisecond):
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				select {
				case <-d.procs[c.victim].done:
					return fmt.Errorf("%s ended: %s", c.victim, d.procs[c.victim].log)
				default:
				}
				return free()
			}
			told(t, d, out)
		})
	}
}
