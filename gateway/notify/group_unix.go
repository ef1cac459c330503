//go:build unix

package notify

import (
	"os"
	"os/exec"
	"syscall"
)

func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// kill ends a process and its group, which lives as long as one member.
func kill(p *os.Process) error {
	if err := syscall.Kill(-p.Pid, syscall.SIGKILL); err == nil || err != syscall.ESRCH {
		return err
	}
	return os.ErrProcessDone
}
