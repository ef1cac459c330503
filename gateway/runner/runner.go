// Package runner answers one question: how does foreign work run?
//
// [Exec] runs an agent's program for one task: the task as JSON on stdin, the
// result as JSON on stdout, input files in the folder in, output files in the
// folder out of a workspace made for this run alone. The program gets no
// environment of ours, no descriptor of ours and no more time than it was
// given. Whatever it started ends with it, also what it left in the background
// or in another session, as far as [Exec.Enforces] says.
//
// A program is held at the level subprocess_restricted, a WASI module at wasm
// (spec/boxes.md). Where the kernel lets us (Linux with user
// namespaces) the program sees a root folder of its own: the system's programs
// and what the owner listed, all read-only, and its workspace; no other process,
// and no network unless the owner gave it one. Elsewhere it runs as the
// gateway's user and could read what that user can. Which of the two holds is
// measured once, by trying, and told honestly (X6).
package runner

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Limits that hold where a command says 0.
const (
	DefaultStdout = 256 << 10 // bytes: a result is a document (D1)
	DefaultStderr = 16 << 10  // bytes kept: what a person reads when something failed
	DefaultFiles  = 1 << 30   // bytes of all output files: the largest artifact
	DefaultMemory = 4 << 30   // bytes of one process: what compilers and interpreters of today stay under
	MaxFiles      = 100       // output files: the list of a delivery
)

// Limits of every box that has them.
const (
	maxProcesses = 512 // and threads: enough for a compiler, too few for a fork bomb
	maxOpen      = 1024
)

// insideWork is where a boxed program or container finds its workspace.
const insideWork = "/sealbridge-work"

// grace is how long the pipes of a program that has ended may be held open by
// what it left behind before we close them.
const grace = 500 * time.Millisecond

// Command is one run. WallClock is required, and Argv where neither Module nor Image is named.
type Command struct {
	Argv      []string          // program, absolute or a name found in PATH, and its arguments; no shell
	Module    string            // or: the absolute path of a WASI module; Argv are then its arguments
	Image     string            // or: a container image by its digest; Argv are then what is run in it
	Inputs    map[string]string // name of M3 in the folder in → path of the file that is copied there
	Delivered map[string]string // the same for the folder out: what a check looks at (M6); then no output files are collected
	Stdin     []byte            // the task
	Env       map[string]string // upper-case names; none that we give ourselves or that the system's loader reads
	ReadOnly  []string          // further absolute paths that the program may read, at the same place
	Ports     []Port            // what else it reaches; refused where it would have no network of its own
	Hosts     *Hosts            // the proxy to the hosts of its contract, at ProxyPort; for one run
	WallClock time.Duration

	// Overrun is asked for more time when WallClock is used up, while the program
	// stands still; 0 ends the run, and so does nil. It returns when ctx ends.
	Overrun func(ctx context.Context) time.Duration

	StdoutLimit, StderrLimit, FilesLimit, Memory, Total, Disk int64 // bytes; 0: the default; Memory is one process's, Total all together's

	holds machine  // of a box of our own: what has to hold in it
	find  bool     // or: what is to be found out
	proxy []string // environment: where the proxy is
}

// Result is what came of a run. Timing out, being cancelled and writing too
// much are results, not errors; none of them is a success, whatever Exit says.
type Result struct {
	Exit        int                // exit code; -1 if the program was killed
	TimedOut    bool               // WallClock passed
	Cancelled   bool               // the caller's context ended
	Overflowed  bool               // stdout passed its limit
	Overfilled  bool               // the workspace passed its limit, or the disk that it lies on
	OutOfMemory bool               // all processes together passed their limit
	Stdout      []byte             // at most the limit; judged by the caller
	StderrTail  []byte             // the last bytes of stderr: a stranger's text, to be shown escaped (M8)
	Files       []File             // of the folder out, by name
	Isolation   manifest.Isolation // what the run really was held in (X6)
	Enforced    []string
	Image       *signing.Digest // of the module or image that ran
	Started     time.Time
	Ended       time.Time
	Wall        time.Duration

	workspace *workspace
}

// OK says that the program ended by itself with exit code 0 and within its limits.
func (r *Result) OK() bool {
	return r.Exit == 0 && !r.TimedOut && !r.Cancelled && !r.Overflowed && !r.Overfilled && !r.OutOfMemory
}

// Close removes the workspace; the files of the result are gone with it.
func (r *Result) Close() error {
	if r.workspace == nil {
		return nil
	}
	return r.workspace.remove()
}

// Config is where and by which clock an Exec runs.
type Config struct {
	Dir string           // absolute; workspaces are made in it
	Now func() time.Time // nil: time.Now
}

// Exec runs programs of this machine. It may run many at once.
type Exec struct {
	dir      string
	now      func() time.Time
	isolated bool    // a subprocess can be boxed here
	found    machine // with what
	lacks    string  // or why not
	shelf    shelf
}

// New makes an Exec, removes workspaces that an earlier process left, and tries
// once what this machine can enforce.
func New(ctx context.Context, c Config) (*Exec, error) {
	if !filepath.IsAbs(c.Dir) {
		return nil, spec.Refuse(spec.Malformed, "/dir", "an absolute path")
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, disk("making the workspaces", err)
	}
	left, _ := filepath.Glob(filepath.Join(c.Dir, "run-*"))
	for _, dir := range left {
		os.RemoveAll(dir)
	}
	if err := keepDescriptors(); err != nil {
		return nil, &spec.Error{Reason: spec.Unavailable, Limit: "descriptors", Err: fmt.Errorf("marking descriptors: %w", err)}
	}
	x := &Exec{dir: c.Dir, now: c.Now}
	if x.now == nil {
		x.now = time.Now
	}
	x.isolated, x.found, x.lacks = x.probe(ctx)
	return x, nil
}

func disk(doing string, err error) error {
	return &spec.Error{Reason: spec.Unavailable, Limit: "disk", Err: fmt.Errorf("%s: %w", doing, err)}
}

func (c *Command) check() error {
	switch {
	case c.Module != "" && c.Image != "":
		return spec.Refuse(spec.Malformed, "/image", "a module or an image")
	case c.Image != "":
		if err := CheckImage(c.Image); err != nil {
			return err
		}
	case c.Module == "" && (len(c.Argv) == 0 || c.Argv[0] == ""):
		return spec.Refuse(spec.Malformed, "/argv", "a program")
	case c.Module != "" && !filepath.IsAbs(c.Module):
		return spec.Refuse(spec.Malformed, "/module", "an absolute path")
	}
	if (c.Module != "" || c.Image != "") && (len(c.Ports) > 0 || c.Hosts != nil) {
		return spec.Refuse(spec.UnsupportedIsolation, "/network", "a module or container has no ports")
	}
	switch {
	case c.WallClock <= 0:
		return spec.Refuse(spec.Malformed, "/wallClock", "more than 0")
	}
	for name := range c.Env {
		if err := CheckEnv(name); err != nil {
			return err
		}
	}
	for _, path := range c.ReadOnly {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			return spec.Refuse(spec.Malformed, "/readOnly", "absolute paths, not the root")
		}
	}
	for limit, by := range map[*int64]int64{&c.StdoutLimit: DefaultStdout, &c.StderrLimit: DefaultStderr, &c.FilesLimit: DefaultFiles, &c.Memory: DefaultMemory, &c.Disk: DefaultDisk, &c.Total: totalMemory()} {
		if *limit <= 0 {
			*limit = by
		}
	}
	return nil
}

// ours are the variables that a run gives by itself.
var ours = strings.Fields("PATH HOME TMPDIR LANG SEALBRIDGE_RUN HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY")

// CheckEnv says whether a program's environment may have a variable of this
// name: A to Z, 0 to 9 and _, none that we give ourselves, none by which the
// system's loader is told to load something else.
func CheckEnv(name string) error {
	plain := name != "" && len(name) <= 100 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" && (name[0] < '0' || name[0] > '9')
	if !plain || slices.Contains(ours, name) || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") {
		return spec.Refuse(spec.Malformed, "/env", "X3: upper-case names, none that the box has by itself")
	}
	return nil
}

// program finds the file that Argv names. A relative path would be one inside a
// stranger's workspace.
func program(name string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		return "", spec.Refuse(spec.Malformed, "/argv", "an absolute path or a name in PATH")
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", &spec.Error{Reason: spec.NotFound, Path: "/argv", Limit: "no such program", Err: err}
	}
	return path, nil
}

// Run runs one command to its end and collects what it wrote. An error means
// that it did not run, or left output files that are not what output files may
// be; the result is filled as far as it got. Close the result.
func (x *Exec) Run(ctx context.Context, c Command) (Result, error) {
	return x.run(ctx, c, x.isolated)
}

func (x *Exec) run(ctx context.Context, c Command, isolate bool) (Result, error) {
	res := Result{Exit: -1}
	if err := c.check(); err != nil {
		return res, err
	}
	if c.Hosts != nil {
		c.proxy = c.Hosts.environment(len(c.Ports) > 0)
		c.Ports = append(slices.Clone(c.Ports), Port{ProxyPort, c.Hosts.serve})
	}
	if err := checkPorts(c, isolate); err != nil {
		return res, err
	}
	ws, err := newWorkspace(x.dir, c.Inputs, c.Delivered)
	if err != nil {
		return res, err
	}
	res.workspace = ws
	path, err := x.prepare(&res, &c, isolate)
	if err != nil {
		return res, err
	}
	if c.holds = x.found; c.find {
		c.holds = machine{}
	}
	if err := x.start(ctx, &res, c, path, isolate); err != nil {
		return res, err
	}
	if c.Delivered != nil {
		return res, nil
	}
	res.Files, err = ws.collect(c.FilesLimit)
	return res, err
}

// prepare turns a module into the command that runs it, and finds the program.
func (x *Exec) prepare(res *Result, c *Command, isolate bool) (path string, err error) {
	level := c.Level()
	res.Isolation = x.isolation(level, isolate)
	res.Enforced = x.enforces(level, isolate, len(c.Ports) > 0)
	if level == Container {
		digest, err := imageDigest(c.Image)
		res.Image = &digest
		return "", err
	}
	if level == Wasm {
		module, digest, err := res.workspace.keepModule(c.Module)
		if err != nil {
			return "", err
		}
		dir := res.workspace.work()
		if isolate {
			dir = insideWork
		}
		if *c, err = moduleCommand(*c, module, dir, res.workspace.mark); err != nil {
			return "", err
		}
		res.Image = &digest
	}
	path, err = program(c.Argv[0])
	if level == Wasm {
		c.Argv[0] = wasmName
	}
	return path, err
}
