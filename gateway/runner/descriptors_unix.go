//go:build unix

package runner

import (
	"os"
	"strconv"
	"syscall"
)

// eachDescriptor marks those that the folder lists.
func eachDescriptor(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
