//go:build linux || darwin || freebsd

package runner

import (
	"io/fs"
	"syscall"
)

// space is what of the disk that holds dir is free for us, and all of it, in bytes.
func space(dir string) (free, all int64, ok bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), s.Blocks > 0
}

type fileID struct{ dev, ino uint64 }

func identity(info fs.FileInfo) (id fileID, known bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id, false
	}
	return fileID{uint64(s.Dev), uint64(s.Ino)}, true
}

// onDisk is what a file takes: less than its size where it has holes.
func onDisk(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(s.Blocks) * 512
	}
	return info.Size()
}
