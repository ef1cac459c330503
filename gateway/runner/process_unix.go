//go:build unix

package runner

import (
	"io/fs"
	"os"
	"syscall"
)

const systemPath = "/usr/local/bin:/usr/bin:/bin"

func systemEnv() []string { return nil }

// kill ends a process and its group. A group lives as long as one member, so
// this also reaches what outlived its leader.
func kill(p *os.Process) error {
	if p == nil {
		return nil
	}
	if err := syscall.Kill(-p.Pid, syscall.SIGKILL); err == nil || err != syscall.ESRCH {
		return err
	}
	return os.ErrProcessDone
}

// linked says that a file has a second name: a hard link to something of ours
// would be one.
func linked(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Nlink > 1
}
