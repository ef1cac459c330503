package runner

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A hostile agent is this test program itself: started in a box with
// SEALBRIDGE_TRY it tries one thing and says what came of it.
func init() {
	if what := os.Getenv("SEALBRIDGE_TRY"); what != "" {
		runtime.LockOSThread()
		switch what {
		case "x32":
			unix.RawSyscall(0x40000000+unix.SYS_GETPID, 0, 0, 0)
			fmt.Println("went through")
			os.Exit(0)
		case "nameless":
			var held []*os.File
			for range 100 {
				f, err := os.CreateTemp("", "x")
				if err == nil {
					os.Remove(f.Name())
					_, err = f.Write(make([]byte, 1<<20))
				}
				if err != nil {
					fmt.Println(err)
				}
				held = append(held, f)
			}
			time.Sleep(time.Hour) // with all of them open
			fmt.Println("wrote", len(held))
			os.Exit(0)
		case "dial":
			c, err := net.Dial(os.Getenv("SEALBRIDGE_NET"), os.Getenv("SEALBRIDGE_AT"))
			fmt.Println("dialled:", err)
			if err == nil {
				c.Write([]byte("hello"))
				answer := make([]byte, 100)
				n, _ := c.Read(answer)
				fmt.Println(string(answer[:n]))
			}
			os.Exit(0)
		}
		out := map[string]string{}
		for name, errno := range attempts() {
			out[name] = errno.Error()
			if errno == 0 {
				out[name] = "done"
			}
		}
		json.NewEncoder(os.Stdout).Encode(out)
		os.Exit(0)
	}
}

// hostile runs this program in a box.
func hostile(t *testing.T, x *Exec, what string, c Command) Result {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	c.Env["SEALBRIDGE_TRY"] = what
	c.Argv, c.WallClock = []string{self}, time.Minute
	res, err := x.Run(t.Context(), c)
	t.Cleanup(func() { res.Close() })
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// attempts are system calls of an agent that wants out.
func attempts() map[string]unix.Errno {
	call := func(n uintptr, a ...uintptr) unix.Errno {
		a = append(a, 0, 0, 0, 0, 0, 0)
		_, _, errno := unix.RawSyscall6(n, a[0], a[1], a[2], a[3], a[4], a[5])
		return errno
	}
	root := [2]byte{'/'}
	rootAt := uintptr(unsafe.Pointer(&root))
	ring := [256]byte{}
	self := uintptr(os.Getpid())
	socket := func(domain, kind, proto uintptr) unix.Errno { return call(unix.SYS_SOCKET, domain, kind, proto) }
	return map[string]unix.Errno{
		"ptrace":             call(unix.SYS_PTRACE, unix.PTRACE_TRACEME),
		"process_vm_readv":   call(unix.SYS_PROCESS_VM_READV, self),
		"process_vm_writev":  call(unix.SYS_PROCESS_VM_WRITEV, self),
		"unshare user":       call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		"clone user":         call(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)),
		"clone3":             call(unix.SYS_CLONE3, rootAt, 8),
		"setns":              call(unix.SYS_SETNS, 0, 0),
		"mount":              call(unix.SYS_MOUNT, rootAt, rootAt, 0, unix.MS_BIND),
		"open_tree":          call(unix.SYS_OPEN_TREE, ^uintptr(99), rootAt, 0),
		"fsopen":             call(unix.SYS_FSOPEN, rootAt, 0),
		"move_mount":         call(unix.SYS_MOVE_MOUNT, 0, rootAt, 0, rootAt),
		"chroot":             call(unix.SYS_CHROOT, rootAt),
		"keyctl":             call(unix.SYS_KEYCTL, 0, 0),
		"bpf":                call(unix.SYS_BPF, 0, 0, 0),
		"perf_event_open":    call(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&ring)), 0, 0, 0),
		"io_uring":           call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&ring))),
		"userfaultfd":        call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC),
		"open_by_handle_at":  call(unix.SYS_OPEN_BY_HANDLE_AT, 0, rootAt, 0),
		"kexec":              call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0),
		"modules":            call(unix.SYS_INIT_MODULE, rootAt, 1, rootAt),
		"reboot":             call(unix.SYS_REBOOT, 0, 0, 0),
		"pidfd_getfd":        call(unix.SYS_PIDFD_GETFD, 0, 0, 0),
		"personality":        call(unix.SYS_PERSONALITY, 0x0040000 /* ADDR_NO_RANDOMIZE */),
		"typing":             call(unix.SYS_IOCTL, 0, unix.TIOCSTI, rootAt),
		"a call of tomorrow": call(highestCall + 1),
		"packets":            socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
		"raw":                socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"sctp":               socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP),
		"netfilter":          socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER),
		"machines":           socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"ciphers":            socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"tcp socket":         socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0),
		"udp socket":         socket(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP),
		"unix socket":        socket(unix.AF_UNIX, unix.SOCK_STREAM, 0),
		"routes":             socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE),
		"getpid":             call(unix.SYS_GETPID),
	}
}

func TestSystemCallsThatLeadOutAreRefused(t *testing.T) {
	x := isolated(t)
	res := hostile(t, x, "calls", Command{})
	var got map[string]string
	if err := json.Unmarshal(res.Stdout, &got); err != nil {
		t.Fatalf("%q, %v, %s", res.Stdout, err, res.StderrTail)
	}
	allowed := []string{"tcp socket", "udp socket", "unix socket", "routes", "getpid"}
	none := []string{"clone3", "io_uring", "a call of tomorrow"}
	for name, answer := range got {
		want := unix.EPERM.Error()
		switch {
		case slices.Contains(allowed, name):
			want = "done"
		case slices.Contains(none, name):
			want = unix.ENOSYS.Error()
		}
		if answer != want {
			t.Errorf("%s: %s, want %s", name, answer, want)
		}
	}
	if len(got) < 30 {
		t.Errorf("%d attempts came back", len(got))
	}
}

func TestProgramsOfAnotherTableOfCallsAreEnded(t *testing.T) {
	x := isolated(t)
	if runtime.GOARCH == "amd64" {
		if res := hostile(t, x, "x32", Command{}); res.OK() || strings.Contains(string(res.Stdout), "went through") {
			t.Errorf("x32: %+v %q", res.Exit, res.Stdout)
		}
	}
	// exit(0) for 32-bit machines: an ELF file of one page
	elf := "\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x03\x00\x01\x00\x00\x00\x54\x80\x04\x08\x34\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x34\x00\x20\x00\x01\x00\x00\x00\x00\x00\x00\x00" +
		"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x80\x04\x08\x00\x80\x04\x08\x60\x00\x00\x00\x60\x00\x00\x00\x05\x00\x00\x00\x00\x10\x00\x00" +
		"\x31\xdb\xb8\x01\x00\x00\x00\xcd\x80\x00\x00\x00"
	path := filepath.Join(t.TempDir(), "old")
	if err := os.WriteFile(path, []byte(elf), 0o755); err != nil {
		t.Fatal(err)
	}
	res, err := x.Run(t.Context(), Command{Argv: []string{path}, WallClock: time.Minute})
	t.Cleanup(func() { res.Close() })
	if err != nil || res.OK() {
		t.Errorf("a program of 32 bits: %+v, %v", res, err)
	}
}

func TestTheKernelsSwitchesCannotBeTurned(t *testing.T) {
	x := isolated(t)
	before, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"core_pattern":  `echo "|/bin/true" >/proc/sys/kernel/core_pattern && echo went through`,
		"sysrq":         `echo h >/proc/sysrq-trigger && cat /proc/sysrq-trigger | grep -c . && echo went through`,
		"undoing it":    `mount -o remount,rw /proc && echo went through`,
		"kcore":         `test -s /proc/kcore && echo went through`,
		"keys":          `grep . /proc/keys && echo went through`,
		"its own score": `echo 0 >/proc/self/oom_score_adj && echo went through`,
	} {
		res, err := x.Run(t.Context(), Command{Argv: sh(script), WallClock: time.Minute})
		if err != nil || strings.Contains(string(res.Stdout), "went through") {
			t.Errorf("%s: %q, %v", name, res.Stdout, err)
		}
		res.Close()
	}
	if after, _ := os.ReadFile("/proc/sys/kernel/core_pattern"); string(after) != string(before) {
		os.WriteFile("/proc/sys/kernel/core_pattern", before, 0)
		t.Errorf("core_pattern is %q now", after)
	}
}

// answering listens for everybody on this machine and answers with a secret.
func answering(t *testing.T, network, at string) (addr string) {
	t.Helper()
	if network == "udp" {
		c, err := net.ListenPacket(network, at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		go func() {
			for {
				_, from, err := c.ReadFrom(make([]byte, 100))
				if err != nil {
					return
				}
				c.WriteTo([]byte("s3cret"), from)
			}
		}()
		return c.LocalAddr().String()
	}
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, "s3cret")
			c.Close()
		}
	}()
	return l.Addr().String()
}

func TestNoSocketOfTheHostAnswers(t *testing.T) { // X3
	x := isolated(t)
	for _, test := range []struct {
		network, at string
	}{
		{"tcp", answering(t, "tcp", "127.0.0.1:0")},
		{"udp", answering(t, "udp", "127.0.0.1:0")},
		{"unix", answering(t, "unix", filepath.Join(t.TempDir(), "s"))},
		{"unix", answering(t, "unix", "@sealbridge-test-"+strconv.Itoa(os.Getpid()))},
	} {
		res := hostile(t, x, "dial", Command{Env: map[string]string{"SEALBRIDGE_NET": test.network, "SEALBRIDGE_AT": test.at}})
		if !strings.HasPrefix(string(res.Stdout), "dialled: ") || strings.Contains(string(res.Stdout), "s3cret") {
			t.Errorf("%s %s: %q, %q", test.network, test.at, res.Stdout, res.StderrTail)
		}
	}
}
