//go:build unix

package tools

import (
	"os"
	"os/exec"
	"syscall"
)

func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// kill ends a process and its group, which lives as long as one member.
func kill(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) } //nolint:errcheck // it may be gone
