package runner

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock says again, in another part of the kernel, what the mounts of the box
// say already: read all, write the workspace. From version 6 on it also closes
// what mounts cannot: sockets of the host that have a name and no file, where a
// run shares the host's network.

// scopedSince is the first version that knows such sockets, and signals.
const scopedSince = 6

// landlockVersion is the kernel's version of Landlock; 0 where it has none or has it off.
func landlockVersion() int {
	v, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

const (
	lockRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	lockNode = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK // granted nowhere
)

// lockKnown are the rights that a version of Landlock knows.
func lockKnown(version int) uint64 {
	known := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM)<<1 - 1 // all of version 1
	for _, more := range []struct {
		since int
		right uint64
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}} {
		if version >= more.since {
			known |= more.right
		}
	}
	return known
}

// lock puts the calling thread under Landlock, for good, inside the new root.
func lock(version int) error {
	if version == 0 {
		return nil
	}
	if landlockVersion() < version {
		return fmt.Errorf("locking files by Landlock %d: %w", version, unix.ENOSYS)
	}
	known := lockKnown(version)
	rules := unix.LandlockRulesetAttr{Handled_access_fs: known}
	if version >= scopedSince {
		rules.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	set, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), unsafe.Sizeof(rules), 0)
	if errno != 0 {
		return fmt.Errorf("locking files: %w", errno)
	}
	defer unix.Close(int(set))
	file := known & (lockRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV) &^ unix.LANDLOCK_ACCESS_FS_READ_DIR
	grants := map[string]uint64{"/": lockRead, insideWork: known &^ lockNode, "/tmp": known &^ lockNode, "/dev/shm": known &^ lockNode}
	for _, d := range devices {
		grants[d] = file
	}
	for path, rights := range grants {
		if err := grant(set, path, rights); err != nil {
			return fmt.Errorf("locking %s: %w", path, err)
		}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return fmt.Errorf("locking files: %w", errno)
	}
	return nil
}

func grant(set uintptr, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, set, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
