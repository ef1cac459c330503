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
	"sealbridge/spec"
)

// Level is the isolation level of a manifest that an Exec gives.
const Level = "subprocess_restricted"

// Level is the level that we give.
func (x *Exec) Level() string { return Level }

// Isolation is what accepted may state (X6): enforced by the gateway only where
// programs really are isolated here, else claimed.
func (x *Exec) Isolation() manifest.Isolation {
	if x.isolated {
		return manifest.Isolation{Level: Level, Enforced: "gateway"}
	}
	return manifest.Isolation{Level: Level, Enforced: "claimed"}
}

// Supports says whether work that asks for an isolation level may run here.
// Anything but our own level is unsupported-isolation: a subprocess is no
// container, module or virtual machine.
func (x *Exec) Supports(level string) error {
	if level != Level {
		return spec.Refuse(spec.UnsupportedIsolation, "/sandboxPolicy/isolationLevel", Level)
	}
	return nil
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

// Enforces lists what really holds on this machine, for an attestation and for
// the person who is asked. network says whether the owner gave the program the
// host's network.
func (x *Exec) Enforces(network bool) []string { return enforces(x.isolated, network, false, x.found) }

func enforces(isolated, network, ports bool, m machine) []string {
	out := []string{
		"own workspace, inputs copied", "clean environment", "no inherited descriptors",
		"wall clock", "stdout, stderr and output files capped", "output: regular files under good names",
	}
	switch {
	case isolated:
		out = append(out, "all processes ended with the run", "own root folder, all but the workspace read-only",
			"no other process visible", "no privileges, none to be gained", "system calls filtered",
			"no core dumps, memory of a process, file size and open files limited")
		if m.Landlock > 0 {
			out = append(out, "Landlock "+strconv.Itoa(m.Landlock))
		}
		if m.Processes || os.Getuid() != 0 { // the kernel lets root's processes pass the other limit
			out = append(out, "number of processes limited")
		}
		switch {
		case ports:
			out = append(out, "no network but through this gateway")
		case !network:
			out = append(out, "no network")
		}
	case runtime.GOOS == "linux":
		out = append(out, "process group ended with the run", "detached processes that keep our mark ended with the run")
	case runtime.GOOS != "windows":
		out = append(out, "process group ended with the run")
	}
	return out
}

// Lacks says what a subprocess cannot be held by here, in plain words: why the
// level is only claimed, or what a newer kernel would add. Nothing is lacking
// where it is empty.
func (x *Exec) Lacks() (out []string) {
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
	defer res.Close()
	switch {
	case err != nil:
		return false, found, "namespaces: " + err.Error()
	case !res.OK() || json.Unmarshal(res.Stdout, &found) != nil:
		return false, machine{}, "namespaces: " + manifest.Display(string(bytes.TrimSpace(res.StderrTail)), 300)
	case !found.Filter:
		return false, machine{}, "a filter for system calls on this kernel and " + runtime.GOARCH
	}
	return true, found, ""
}
