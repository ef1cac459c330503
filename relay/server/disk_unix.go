//go:build unix

package server

import "syscall"

// diskFree says how much of the disk under dir is free and how large it is, in bytes.
func diskFree(dir string) (free, all int64, ok bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), true
}
