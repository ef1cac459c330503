//go:build unix

package tools

import "syscall"

// openFlags: do not wait for a pipe's other end, do not follow a link.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW
