package runner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	wasi "github.com/tetratelabs/wazero/sys"

	"sealbridge/signing"
	"sealbridge/spec"
)

// A module never runs inside the gateway: the runtime that holds it is our own
// program, started again as wasmName, in the box of a subprocess where there is
// one. So a fault of the runtime meets no key, and ending, standing still and
// the wall clock are those of every run.
const wasmName = "sealbridge-wasm"

const (
	MaxModule     = 64 << 20 // bytes of a module: Go's own are 2 to 20 MB
	DefaultModule = 1 << 30  // bytes of a module's memory
	wasmPage      = 64 << 10
	wasmMagic     = "\x00asm\x01\x00\x00\x00"
)

// modulePlan is what the second start gets as its only argument.
type modulePlan struct {
	Module, Dir string
	Args        []string
	Env         map[string]string
	Pages       uint32
	Disk        int64
}

func init() {
	if len(os.Args) != 2 || os.Args[0] != wasmName {
		return
	}
	var p modulePlan
	err := json.Unmarshal([]byte(os.Args[1]), &p)
	code := uint32(126)
	if err == nil {
		code, err = p.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sealbridge: running the module:", err)
	}
	os.Exit(int(code & 0xff))
}

// keepModule copies a module beside the workspace, so that what was digested is
// what runs.
func (w *workspace) keepModule(from string) (path string, d signing.Digest, err error) {
	f, err := os.Open(from)
	if err != nil {
		return "", d, &spec.Error{Reason: spec.NotFound, Path: "/module", Limit: "no such module", Err: err}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxModule+1))
	switch {
	case err != nil:
		return "", d, disk("reading a module", err)
	case len(b) > MaxModule:
		return "", d, spec.Refuse(spec.TooLarge, "/module", "64 MiB")
	case len(b) < len(wasmMagic) || string(b[:len(wasmMagic)]) != wasmMagic:
		return "", d, spec.Refuse(spec.Malformed, "/module", "a WebAssembly module, version 1")
	}
	path = filepath.Join(w.dir, "module.wasm")
	if err := os.WriteFile(path, b, 0o400); err != nil {
		return "", d, disk("keeping a module", err)
	}
	return path, signing.DigestOf(b), nil
}

// moduleCommand is the command that runs a module: our own program again.
func moduleCommand(c Command, module, dir, mark string) (Command, error) {
	self, err := os.Executable()
	if err != nil {
		return c, &spec.Error{Reason: spec.Unavailable, Path: "/module", Limit: "our own program", Err: err}
	}
	env := map[string]string{"HOME": "/", "PWD": "/", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "SEALBRIDGE_RUN": mark}
	for name, value := range c.Env {
		env[name] = value
	}
	plan, err := json.Marshal(modulePlan{Module: module, Dir: dir, Args: append([]string{filepath.Base(c.Module)}, c.Argv...), Env: env,
		Pages: uint32(min(c.Memory, DefaultModule) / wasmPage), Disk: c.FilesLimit})
	if err != nil {
		return c, &spec.Error{Reason: spec.Internal, Err: err}
	}
	c.ReadOnly = append(slices.Clip(c.ReadOnly), module)
	c.Argv, c.Memory = []string{self, string(plan)}, DefaultMemory // the process; the module has its pages
	return c, nil
}

// run runs the module to its end. It has the clock, chance, its arguments,
// stdin, stdout, stderr and one folder; nothing else of WASI leads anywhere.
func (p modulePlan) run(ctx context.Context) (code uint32, err error) {
	debug.SetMemoryLimit(DefaultMemory / 4 * 3)
	code = 126
	b, err := os.ReadFile(p.Module)
	if err != nil {
		return code, err
	}
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return code, err
	}
	how := wazero.NewRuntimeConfig() // compiled where it can be, else interpreted
	if raceDetector {
		how = wazero.NewRuntimeConfigInterpreter()
	}
	r := wazero.NewRuntimeWithConfig(ctx, how.WithMemoryLimitPages(p.Pages))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return code, err
	}
	m, err := r.CompileModule(ctx, b)
	if err != nil {
		return code, err
	}
	mounts := wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(&folder{root: root, left: p.Disk}, "/")
	c := wazero.NewModuleConfig().WithArgs(p.Args...).WithStdin(os.Stdin).WithStdout(os.Stdout).WithStderr(os.Stderr).
		WithSysWalltime().WithSysNanotime().WithSysNanosleep().WithRandSource(rand.Reader).WithFSConfig(mounts)
	for name, value := range p.Env {
		c = c.WithEnv(name, value)
	}
	_, err = r.InstantiateModule(ctx, m, c)
	if exit := (*wasi.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 125, err
	}
	return 0, nil
}
