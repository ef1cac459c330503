package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"time"

	"sealbridge/manifest"
)

// The levels of a manifest that an Exec gives.
const (
	Subprocess = "subprocess_restricted"
	Wasm       = "wasm"
	Container  = "oci_container"
)

// Level is the level at which a command is held.
func (c Command) Level() string {
	switch {
	case c.Module != "":
		return Wasm
	case c.Image != "":
		return Container
	}
	return Subprocess
}

// Isolation is what accepted may state of a level (X6): enforced by the gateway
// only where it really is here, else claimed.
func (x *Exec) Isolation(level string) manifest.Isolation { return x.isolation(level, x.isolated) }

func (x *Exec) isolation(level string, isolated bool) manifest.Isolation {
	// a module is held by its runtime, wherever that runs
	if level == Wasm || level == Subprocess && isolated || level == Container && x.engine() != nil {
		return manifest.Isolation{Level: level, Enforced: "gateway"}
	}
	return manifest.Isolation{Level: level, Enforced: "claimed"}
}

// Levels are the levels that are enforced here.
func (x *Exec) Levels() (out []string) {
	for _, level := range []string{Subprocess, Wasm, Container} {
		if x.Isolation(level).Enforced == "gateway" {
			out = append(out, level)
		}
	}
	return out
}

// Isolated says whether programs get a root folder, processes and a network of
// their own here.
func (x *Exec) Isolated() bool { return x.isolated }

// machine is what this machine was found to have, by trying it once at start. A
// run in which any of it does not hold does not begin: nothing is weakened later.
type machine struct {
	Filter    bool `json:"filter"`    // system calls are filtered
	Landlock  int  `json:"landlock"`  // its version; 0: none
	Processes bool `json:"processes"` // a process space counts its processes itself
}

// Enforces lists what really holds at a level on this machine, for an
// attestation and for the person who is asked.
func (x *Exec) Enforces(level string) []string {
	return x.enforces(level, x.isolated, false)
}

func (x *Exec) enforces(level string, isolated, ports bool) []string {
	m := x.found
	out := []string{
		"own workspace, inputs copied", "clean environment", "no inherited descriptors",
		"wall clock", "stdout, stderr and output files capped", "output: regular files under good names", "bytes and names in the workspace limited",
	}
	if level == Wasm {
		out = append(out, "a module: no system calls, one folder, no links", "memory of the module and bytes of its folder limited")
	}
	switch {
	case level == Container:
		if e := x.engine(); e != nil {
			out = append(out, "a container of "+e.name+" "+e.version+", its image by digest, none fetched", "no network", "all but the workspace read-only",
				"no privileges, none to be gained", "memory, number of processes, file size and open files limited", "the container ended with the run")
		}
	case isolated:
		out = append(out, "all processes ended with the run", "own root folder, all but the workspace read-only",
			"no other process visible", "no privileges, none to be gained", "system calls filtered",
			"no core dumps, memory of a process and of all, file size and open files limited")
		if m.Landlock > 0 {
			out = append(out, "Landlock "+strconv.Itoa(m.Landlock))
		}
		if m.Processes || os.Getuid() != 0 { // the kernel lets root's processes pass the other limit
			out = append(out, "number of processes limited")
		}
		if ports {
			out = append(out, "no network but through this gateway")
		} else {
			out = append(out, "no network")
		}
	case level == Wasm:
		out = append(out, "no network", "its process ended with the run")
	case runtime.GOOS == "linux":
		out = append(out, "process group ended with the run", "detached processes that keep our mark ended with the run")
	case runtime.GOOS != "windows":
		out = append(out, "process group ended with the run")
	}
	return out
}

// Lacks says what work at a level cannot be held by here, in plain words: why the
// level is only claimed, or what a newer kernel would add. A module is held by
// its runtime, and by the box of a subprocess where there is one.
func (x *Exec) Lacks(level string) (out []string) {
	if level == Container {
		if _, lacks := x.shelf.get(); lacks != "" {
			out = append(out, lacks)
		}
		return out
	}
	if !x.isolated {
		return []string{x.lacks}
	}
	if x.found.Landlock == 0 {
		out = append(out, "Landlock (the mounts hold without it)")
	}
	if !x.found.Processes && os.Getuid() == 0 {
		out = append(out, "a limit for the number of processes: run the gateway as a user of its own, or on Linux 6.14")
	}
	return out
}

// probe tries to run the smallest program in isolation. A box without a filter
// is none: the level stands for both.
func (x *Exec) probe(ctx context.Context) (ok bool, found machine, lacks string) {
	if !canIsolate {
		return false, found, "boxes for subprocesses on " + runtime.GOOS + ": use a WASI module or a container"
	}
	res, err := x.run(ctx, Command{Argv: []string{"true"}, WallClock: 10 * time.Second, find: true}, true)
	if err != nil {
		res.Close()
		return false, found, "namespaces: " + err.Error()
	}
	defer res.Close()
	switch {
	case !res.OK() || json.Unmarshal(res.Stdout, &found) != nil:
		return false, machine{}, "namespaces: " + manifest.Display(string(bytes.TrimSpace(res.StderrTail)), 300)
	case !found.Filter:
		return false, machine{}, "a filter for system calls on this kernel and " + runtime.GOARCH
	}
	return true, found, ""
}
