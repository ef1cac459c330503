package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	reservedIDs   = 300 // process numbers below are given out once only
	ownCountSince = 6_014

	rlimitProcesses    = 6 // of every architecture that Go runs on but MIPS
	capSetPcap         = 8
	capSysAdmin        = 21
	capabilityVersion3 = 0x20080522
)

// release is the kernel's version, 6.14 as 6014; 0 if it cannot be read.
func release() int {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return 0
	}
	major, rest, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(strings.TrimRight(minor, "-+abcdefghijklmnopqrstuvwxyz"))
	if errA != nil || errB != nil {
		return 0
	}
	return a*1000 + b
}

// shared is memory that processes of the run share by name: semaphores of
// Python lie there. It is small, and gone with the run.
func (s *stage) shared() error {
	at := s.Root + "/dev/shm"
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700,size=64m,nr_inodes=4k"); err != nil {
		return fmt.Errorf("mounting /dev/shm: %w", err)
	}
	return nil
}

// masked is what of /proc tells about the host or does something to it.
var masked = []string{"kcore", "keys", "key-users", "kmsg", "kallsyms", "kpagecount", "kpageflags", "timer_list", "sched_debug", "latency_stats", "sysrq-trigger", "interrupts", "softirqs"}

// maskedFolders are the same for folders: the host's hardware.
var maskedFolders = []string{"acpi", "asound", "bus", "driver", "irq", "scsi"}

// proc shows the run's own processes. The rest of /proc is the kernel's, and for
// a program that runs as the host's root its switches can be turned: nothing of
// it can be written.
func (s *stage) proc() error {
	at := s.Root + "/proc"
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	if unix.Mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") != nil {
		return s.countProcesses("") // a host that hides parts of its own refuses a new one; then there is none
	}
	if err := s.countProcesses(at); err != nil {
		return err
	}
	for _, name := range maskedFolders {
		if _, err := os.Lstat(at + "/" + name); err != nil {
			continue
		}
		if err := unix.Mount("tmpfs", at+"/"+name, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "size=4k"); err != nil {
			return fmt.Errorf("hiding /proc/%s: %w", name, err)
		}
	}
	for _, name := range masked {
		if _, err := os.Lstat(at + "/" + name); err != nil {
			continue
		}
		if err := unix.Mount(s.Root+"/dev/null", at+"/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("hiding /proc/%s: %w", name, err)
		}
	}
	if err := setattr(at, mountReadOnly|mountNoSuid|mountNoDev); err != nil {
		return fmt.Errorf("protecting /proc: %w", err)
	}
	return nil
}

// countProcesses has the run's process space give out few numbers. It is the one
// limit that holds for a program of the host's root, too. An older kernel has one
// such number for the whole host, which is not ours to set.
func (s *stage) countProcesses(proc string) error {
	if !s.Find && !s.Holds.Processes {
		return nil
	}
	if proc == "" || release() < ownCountSince {
		if s.Find {
			return nil
		}
		return fmt.Errorf("counting processes: %w", unix.ENOSYS)
	}
	err := os.WriteFile(proc+"/sys/kernel/pid_max", []byte(strconv.Itoa(reservedIDs+maxProcesses)), 0)
	if s.Find {
		s.Holds.Processes, err = err == nil, nil
	}
	return err
}

// limit bounds what one process may take, and names the run as what the kernel
// should end first where memory runs out.
func (s *stage) limit() error {
	for what, n := range map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: uint64(s.FileSize), unix.RLIMIT_NOFILE: maxOpen, rlimitProcesses: maxProcesses, unix.RLIMIT_DATA: uint64(s.Memory),
	} {
		if err := syscall.Setrlimit(what, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("setting a limit: %w", err)
		}
	}
	os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // a favour, not a limit: it may fail
	return nil
}

// drop gives up every capability, for good.
func drop() error {
	for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) == nil; c++ {
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("dropping privileges: %w", err)
	}
	header := struct {
		version uint32
		pid     int32
	}{version: capabilityVersion3}
	var none [6]uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0); errno != 0 {
		return fmt.Errorf("dropping privileges: %w", errno)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("dropping privileges: %w", err)
	}
	return nil
}

func (s *stage) lock() error {
	if s.Find {
		s.Holds.Landlock = landlockVersion()
	}
	err := lock(s.Holds.Landlock)
	if s.Find && err != nil { // restricting nothing is all that failed
		s.Holds.Landlock, err = 0, nil
	}
	return err
}

func (s *stage) filter() error {
	if !s.Find && !s.Holds.Filter || !canFilter {
		return nil
	}
	err := obey(filter())
	if s.Find {
		s.Holds.Filter, err = err == nil, nil
	}
	return err
}

// tell says what was found.
func (s *stage) tell() error {
	if !s.Find {
		return nil
	}
	return json.NewEncoder(os.Stdout).Encode(s.Holds)
}
