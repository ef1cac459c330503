package runner

import (
	"context"
	"os"
	"runtime"
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

// Enforces lists what really holds on this machine, for an attestation and for
// the person who is asked. network says whether the owner gave the program the
// host's network.
func (x *Exec) Enforces(network bool) []string { return enforces(x.isolated, network, false) }

func enforces(isolated, network, ports bool) []string {
	out := []string{
		"own workspace, inputs copied", "clean environment", "no inherited descriptors",
		"wall clock", "stdout, stderr and output files capped", "output: regular files under good names",
	}
	switch {
	case isolated:
		out = append(out, "all processes ended with the run", "own root folder, all but the workspace read-only",
			"no other process visible", "no privileges, none to be gained", "no core dumps, file size and open files limited")
		if os.Getuid() != 0 { // the kernel lets root's processes pass
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

// probe tries to run the smallest program in isolation.
func (x *Exec) probe(ctx context.Context) bool {
	if !canIsolate {
		return false
	}
	res, err := x.run(ctx, Command{Argv: []string{"true"}, WallClock: 10 * time.Second}, true)
	res.Close()
	return err == nil && res.OK()
}
