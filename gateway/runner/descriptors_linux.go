package runner

import "golang.org/x/sys/unix"

// keepDescriptors marks every descriptor past stderr as ours alone. Go does so
// with those it opens; whoever started the gateway may have left others open,
// and a program would inherit them (X3).
func keepDescriptors() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err == unix.ENOSYS || err == unix.EINVAL { // before Linux 5.11
		return eachDescriptor("/proc/self/fd")
	}
	return err
}
