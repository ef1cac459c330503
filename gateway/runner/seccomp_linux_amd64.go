package runner

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	canFilter = true
	x32Calls  = 0x40000000 // the bit that makes a call one of the x32 table
)

// foreignCalls ends a program that uses the kernel's third table.
var foreignCalls = where(unix.BPF_JGE, x32Calls, ret(retEnd))

// refusedHere are old or odd calls that only this machine has.
var refusedHere = []uint32{
	unix.SYS_KEXEC_FILE_LOAD, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
}
