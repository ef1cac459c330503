//go:build !unix

package notify

import (
	"os"
	"os/exec"
)

func group(*exec.Cmd) {}

// kill ends the process itself: without a job object nothing more is reached.
func kill(p *os.Process) error { return p.Kill() }
