package runner

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"sealbridge/spec"
)

var errTimedOut, errOverflow = errors.New("wall clock"), errors.New("stdout limit")

// launched is a run that is about to begin.
type launched struct {
	cmd    *exec.Cmd
	kill   func() error         // ends it and all that it started; again is harmless
	freeze func() (thaw func()) // stops every process of it
}

func (x *Exec) launch(ctx context.Context, c Command, w *workspace, path string, isolate bool) (launched, error) {
	if c.Level() == Container {
		return x.container(ctx, c, w)
	}
	cmd, err := command(ctx, c, w, path, isolate)
	return launched{cmd, func() error { return kill(cmd.Process) }, func() func() { return freeze(cmd.Process, w.mark) }}, err
}

// start runs the program and everything it starts, and fills res.
func (x *Exec) start(ctx context.Context, res *Result, c Command, path string, isolate bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := &wallClock{limit: c.WallClock, overrun: c.Overrun, end: func(err error) { cancel(err) }, resumed: make(chan struct{}, 1)}
	stdout := &head{limit: c.StdoutLimit, full: func() { cancel(errOverflow) }}
	stderr := &tail{limit: int(c.StderrLimit)}
	l, err := x.launch(ctx, c, res.workspace, path, isolate)
	if err != nil {
		return err
	}
	cmd := l.cmd
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.Stdin), stdout, stderr
	entrance, err := openEntrance(cmd, c.Ports)
	if err != nil {
		return err
	}
	cmd.WaitDelay = grace
	killed := false
	cmd.Cancel = func() error {
		killed = true
		return l.kill()
	}
	runtime.LockOSThread() // the parent that Pdeathsig watches is this thread
	defer runtime.UnlockOSThread()
	res.Started = x.now()
	clock.begun = time.Now()
	if err := cmd.Start(); err != nil {
		entrance.close()
		return &spec.Error{Reason: spec.Unavailable, Path: "/argv", Limit: "the program does not start", Err: err}
	}
	taken := &quota{ws: res.workspace, limit: c.Disk, names: maxNames, memory: c.Total, end: func(err error) { cancel(err) },
		pids: func() []int {
			if pids, ok := descendants(cmd.Process.Pid); ok && isolate {
				return pids
			}
			return append(carriers(res.workspace.mark, cmd.Process.Pid), cmd.Process.Pid)
		}}
	clock.freeze = l.freeze
	var watch sync.WaitGroup
	watch.Go(func() { clock.watch(ctx) })
	watch.Go(func() { taken.watch(ctx) })
	watch.Go(func() { entrance.serve(ctx, &Box{clock}) })
	err = cmd.Wait()
	l.kill()
	if !isolate { // else the kernel has ended them all with the first
		sweep(res.workspace.mark)
	}
	worked, cause := clock.worked(), context.Cause(ctx)
	cancel(nil)
	watch.Wait()
	res.Wall, res.Ended = worked, x.now()
	res.Stdout, res.StderrTail = stdout.bytes, stderr.bytes()
	res.Overflowed = stdout.over
	res.TimedOut = killed && errors.Is(cause, errTimedOut)
	res.Overfilled = killed && errors.Is(cause, errFull)
	res.OutOfMemory = killed && errors.Is(cause, errMemory)
	res.Cancelled = killed && !res.TimedOut && !res.Overflowed && !res.Overfilled && !res.OutOfMemory
	if state := cmd.ProcessState; state != nil {
		res.Exit = state.ExitCode()
	}
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) || killed {
		return nil
	}
	return &spec.Error{Reason: spec.Unavailable, Limit: "waiting for the program", Err: err}
}

// environment is all that a program learns of us (X3). home is its workspace.
func environment(c Command, home, mark string) []string {
	env := []string{"PATH=" + systemPath, "HOME=" + home, "TMPDIR=" + filepath.Join(home, "tmp"), "LANG=C.UTF-8", "SEALBRIDGE_RUN=" + mark}
	for name, value := range c.Env {
		env = append(env, name+"="+strings.ReplaceAll(value, "\x00", ""))
	}
	env = append(env, c.proxy...)
	return append(env, systemEnv()...)
}
