//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps a process apart from the terminal's group, so that ^C reaches the demo alone.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
