//go:build linux && !amd64 && !arm64

package runner

import "golang.org/x/sys/unix"

// canFilter: no filter was written for this machine, so none is claimed.
const canFilter = false

func filter(bool) []unix.SockFilter { return nil }

func obey([]unix.SockFilter) error { return unix.ENOSYS }
