package runner

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	canFilter = true
)

// foreignCalls: this machine has one table only; programs of 32 bits are of another machine.
var foreignCalls []unix.SockFilter

// refusedHere are calls that not every machine has.
var refusedHere = []uint32{unix.SYS_KEXEC_FILE_LOAD}
