//go:build !unix

package tools

import (
	"os"
	"os/exec"
)

func group(*exec.Cmd) {}

// kill ends the process itself: without a job object nothing more is reached.
func kill(p *os.Process) { p.Kill() } //nolint:errcheck // it may be gone
