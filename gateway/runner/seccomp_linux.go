//go:build amd64 || arm64

package runner

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The filter is a list of what is refused, not of what is allowed: agents are
// anybody's programs. It stays closed to what the kernel learns later, because
// every number above highestCall does not exist for them.

// highestCall is the newest system call that this list was read against, of
// Linux 6.13; from 424 on the numbers are the same on every machine.
const highestCall = unix.SYS_REMOVEXATTRAT

// Answers of the filter.
const (
	retAllow  = unix.SECCOMP_RET_ALLOW
	retRefuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	retAbsent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS) // programs have another way then
	retEnd    = unix.SECCOMP_RET_KILL_PROCESS
)

// absent: what programs try and then do without.
var absent = []uint32{
	unix.SYS_CLONE3,                                                              // its flags lie in memory, where a filter cannot look
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, // a second way to every call
	unix.SYS_MEMFD_SECRET, // memory that nobody can look into
}

// refused: what opens a way out of the box, or a part of the kernel that no
// agent needs, to a process without any privilege.
var refused = []uint32{
	// other processes
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	// other namespaces
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	// mounts
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN,
	unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT,
	// files by something else than their names
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK, unix.SYS_LOOKUP_DCOOKIE,
	// keys of the kernel, which know no namespace
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	// programs inside the kernel, and its insides
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_SYSLOG,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
	// the machine
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_VHANGUP,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_NFSSERVCTL,
}

// newNamespaces are the flags of clone that make a namespace: a user namespace
// of its own would give a program privileges again.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// Places in struct seccomp_data. Arguments are read where the kernel reads an
// int: the lower half, which comes first on the machines that we know.
const (
	atCall = 0
	atArch = 4
	atArgs = 16
)

func arg(n uint32) uint32 { return atArgs + 8*n }

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func ret(answer uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: answer}
}

// jump goes on with the next step where the comparison holds, else past skip of them.
func jump(compare uint16, k uint32, skip int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | compare | unix.BPF_K, K: k, Jf: uint8(skip)}
}

// where runs then for values that compare; all of then's ways must end, or go on behind it.
func where(compare uint16, k uint32, then ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{jump(compare, k, len(then))}, then...)
}

func join(parts ...[]unix.SockFilter) (out []unix.SockFilter) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// filter is the whole program.
func filter() []unix.SockFilter {
	p := join(
		[]unix.SockFilter{load(atArch)},
		[]unix.SockFilter{{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: auditArch, Jt: 1}, ret(retEnd)}, // a program of another machine: other numbers
		[]unix.SockFilter{load(atCall)},
		where(unix.BPF_JEQ, ^uint32(0), ret(retAbsent)),
		foreignCalls,
		where(unix.BPF_JGT, highestCall, ret(retAbsent)),
	)
	for _, n := range absent {
		p = append(p, where(unix.BPF_JEQ, n, ret(retAbsent))...)
	}
	for _, n := range append(refused[:len(refused):len(refused)], refusedHere...) {
		p = append(p, where(unix.BPF_JEQ, n, ret(retRefuse))...)
	}
	call := func(n uint32, body []unix.SockFilter) { p = append(p, where(unix.BPF_JEQ, n, body...)...) }
	call(unix.SYS_CLONE, join([]unix.SockFilter{load(arg(0))}, where(unix.BPF_JSET, newNamespaces, ret(retRefuse)), []unix.SockFilter{ret(retAllow)}))
	call(unix.SYS_SOCKET, sockets())
	call(unix.SYS_SOCKETPAIR, join([]unix.SockFilter{load(arg(0))}, where(unix.BPF_JEQ, unix.AF_UNIX, ret(retAllow)), []unix.SockFilter{ret(retRefuse)}))
	call(unix.SYS_PERSONALITY, join([]unix.SockFilter{load(arg(0))}, where(unix.BPF_JEQ, 0, ret(retAllow)),
		where(unix.BPF_JEQ, ^uint32(0), ret(retAllow)), []unix.SockFilter{ret(retRefuse)})) // to be read, not changed
	call(unix.SYS_IOCTL, join([]unix.SockFilter{load(arg(1))}, where(unix.BPF_JEQ, unix.TIOCSTI, ret(retRefuse)),
		where(unix.BPF_JEQ, unix.TIOCLINUX, ret(retRefuse)), []unix.SockFilter{ret(retAllow)})) // typing for a person at a terminal
	return append(p, ret(retAllow))
}

// sockets: of this machine, of the internet by TCP and UDP, and the one that
// tells which addresses there are. Other families and protocols are code of the
// kernel that any user can have loaded.
func sockets() []unix.SockFilter {
	internet := join(
		[]unix.SockFilter{load(arg(1)), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf}},
		where(unix.BPF_JGT, unix.SOCK_DGRAM, ret(retRefuse)), // 1 is a stream, 2 are datagrams
		[]unix.SockFilter{load(arg(2))},
		where(unix.BPF_JEQ, 0, ret(retAllow)),
		where(unix.BPF_JEQ, unix.IPPROTO_TCP, ret(retAllow)),
		where(unix.BPF_JEQ, unix.IPPROTO_UDP, ret(retAllow)),
		[]unix.SockFilter{ret(retRefuse)},
	)
	return join(
		[]unix.SockFilter{load(arg(0))},
		where(unix.BPF_JEQ, unix.AF_UNIX, ret(retAllow)),
		where(unix.BPF_JEQ, unix.AF_INET, internet...),
		where(unix.BPF_JEQ, unix.AF_INET6, internet...),
		where(unix.BPF_JEQ, unix.AF_NETLINK, join([]unix.SockFilter{load(arg(2))}, where(unix.BPF_JEQ, unix.NETLINK_ROUTE, ret(retAllow)), []unix.SockFilter{ret(retRefuse)})...),
		[]unix.SockFilter{ret(retRefuse)},
	)
}

// obey puts the calling thread under the filter, for good. It needs
// no_new_privs, and what is started from here on is under it too.
func obey(p []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("filtering system calls: %w", errno)
	}
	return nil
}
