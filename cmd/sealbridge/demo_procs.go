package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// proc is one process of the demo.
type proc struct {
	cmd  *exec.Cmd
	args []string
	done chan struct{}
	log  *bytes.Buffer
}

// start runs this binary as a process of its own and returns the first line that ready matches.
func (d *demo) start(ctx context.Context, name string, ready *regexp.Regexp, args ...string) (string, error) {
	if d.interactive {
		return d.detached(name, ready, args)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	p := &proc{cmd: exec.CommandContext(ctx, self, args...), args: args, done: make(chan struct{}), log: &bytes.Buffer{}}
	p.cmd.Env = append(os.Environ(), runAsSelf+"=1")
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if p.cmd.Stderr = io.Writer(p.log); d.verbose {
		p.cmd.Stderr = d.a.err
	}
	if err := p.cmd.Start(); err != nil {
		return "", err
	}
	d.procs[name] = p
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := ready.FindString(lines.Text()); m != "" {
				select {
				case found <- m:
				default:
				}
			}
		}
		p.cmd.Wait() //nolint:errcheck // how it ended is looked at by whoever waits
		close(p.done)
	}()
	select {
	case m := <-found:
		return m, nil
	case <-p.done:
		return "", fmt.Errorf("%s ended: %s", name, p.log)
	case <-time.After(30 * time.Second):
		return "", fmt.Errorf("%s did not start", name)
	}
}

// kill ends a process as a power cut would.
func (d *demo) kill(name string) {
	if p := d.procs[name]; p != nil {
		p.cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-p.done
		delete(d.procs, name)
	}
}

func (d *demo) stopAll() {
	for name := range d.procs {
		d.kill(name)
	}
}

// cli runs a command as a person would, and returns its stdout.
func (d *demo) cli(ctx context.Context, who string, args ...string) (string, int) {
	if who != "" {
		args = append([]string{"--home", filepath.Join(d.dir, who)}, args...)
	}
	if d.verbose {
		d.more("$ sealbridge %s", strings.Join(args, " "))
	}
	var out, errs bytes.Buffer
	code := run(ctx, args, strings.NewReader(""), &out, &errs)
	if code != 0 {
		return out.String() + errs.String(), code
	}
	return out.String(), 0
}

func (d *demo) must(ctx context.Context, who string, args ...string) (string, error) {
	out, code := d.cli(ctx, who, args...)
	if code != 0 {
		return out, fmt.Errorf("sealbridge %s: exit %d: %s", strings.Join(args, " "), code, strings.TrimSpace(out))
	}
	return out, nil
}

func ask[T any](ctx context.Context, d *demo, who string, args ...string) (v T, err error) {
	out, err := d.must(ctx, who, append(args, "--json")...)
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(out), &v)
}

// eventually asks again until ok, for what happens by itself in another process.
func eventually(ctx context.Context, what string, ok func() (bool, error)) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	var last error
	for {
		done, err := ok()
		if err == nil && done {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last: %v)", what, ctx.Err(), last)
		case <-t.C:
		}
	}
}

func logLevel(verbose bool) string {
	if verbose {
		return "info"
	}
	return "warn"
}

// runAsSelf tells a test binary to be the program.
const runAsSelf = "SEALBRIDGE_RUN"
