package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"
)

// stageName is the name under which our own program is started again to put an
// isolated program's root together, from inside its namespaces. It then becomes
// that program: the same process, the first of its own.
const stageName = "sealbridge-stage"

// stage is the plan that the second start gets as its only argument.
type stage struct {
	Root, Work, Program string
	Argv, Env, ReadOnly []string
	FileSize, Memory    int64
	Holds               machine // what was found here and has to hold again
	Find                bool    // find out what holds, and say it on stdout
	Ports               []uint16
}

// What every program needs to start. What is not there is left out.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix/store",
	"/etc/alternatives", "/etc/ca-certificates", "/etc/ssl", "/etc/pki", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/localtime", "/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/hosts",
}

var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// Numbers of the kernel's mount.h.
const (
	sysMountSetattr = 442
	atRecursive     = 0x8000
	mountReadOnly   = 0x1
	mountNoSuid     = 0x2
	mountNoDev      = 0x4
)

// init takes over a second start before anything else of ours runs.
func init() {
	if len(os.Args) != 2 || os.Args[0] != stageName || os.Getpid() != 1 {
		return
	}
	runtime.LockOSThread()
	var s stage
	err := json.Unmarshal([]byte(os.Args[1]), &s)
	if err == nil {
		err = s.enter()
	}
	fmt.Fprintln(os.Stderr, "sealbridge: isolating the program:", err)
	os.Exit(126)
}

// enter builds the root, gives up every privilege and becomes the program. It
// returns only if something failed.
func (s *stage) enter() error {
	steps := []func() error{s.limit, s.listen, s.mount, s.pivot, drop, s.lock, s.filter, s.tell}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return fmt.Errorf("starting %s: %w", s.Program, syscall.Exec(s.Program, s.Argv, s.Env))
}

func (s *stage) mount() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("leaving the host's mounts: %w", err)
	}
	if err := syscall.Mount("tmpfs", s.Root, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return fmt.Errorf("mounting a root: %w", err)
	}
	// /tmp first: what the owner lists may lie in it.
	if err := s.bind(filepath.Join(s.Work, "tmp"), "/tmp", mountNoSuid|mountNoDev); err != nil {
		return err
	}
	for _, path := range append(append([]string{}, system...), s.ReadOnly...) {
		if err := s.bind(path, path, mountReadOnly|mountNoSuid|mountNoDev); err != nil {
			return err
		}
	}
	for _, path := range devices {
		if err := s.bind(path, path, mountReadOnly|mountNoSuid); err != nil {
			return err
		}
	}
	if err := s.shared(); err != nil {
		return err
	}
	if err := s.bind(s.Work, insideWork, mountNoSuid|mountNoDev); err != nil {
		return err
	}
	if err := s.bind(filepath.Join(s.Work, "in"), insideWork+"/in", mountReadOnly|mountNoSuid|mountNoDev); err != nil {
		return err
	}
	for name, at := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(at, s.Root+"/dev/"+name); err != nil {
			return err
		}
	}
	return s.proc()
}

// bind shows what lies at from as to inside the root. What does not exist, or
// is to be seen already, is left out. A link at the top is made again, so that
// /bin → usr/bin stays one; of any other, what it leads to is shown.
func (s *stage) bind(from, to string, attr uint64) error {
	at := s.Root + to
	info, err := os.Lstat(from)
	if err != nil || same(from, at) && to != insideWork+"/in" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return fmt.Errorf("making %s: %w", filepath.Dir(to), err)
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		if filepath.Dir(to) == "/" {
			return os.Symlink(target, at)
		}
	}
	return show(from, at, attr)
}

// show makes the place and mounts what from leads to, with attr for all below.
func show(from, at string, attr uint64) error {
	if info, err := os.Stat(from); err != nil {
		return nil
	} else if info.IsDir() {
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
	} else if f, err := os.OpenFile(at, os.O_CREATE, 0o644); err != nil {
		return err
	} else {
		f.Close()
	}
	if err := syscall.Mount(from, at, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("showing %s: %w", from, err)
	}
	if err := setattr(at, attr); err != nil {
		return fmt.Errorf("protecting %s: %w", from, err)
	}
	return nil
}

// same says that at shows already what lies at from.
func same(from, at string) bool {
	a, errA := os.Stat(from)
	b, errB := os.Stat(at)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// setattr is mount_setattr(2), recursive, of Linux 5.12.
func setattr(path string, attr uint64) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	args := struct{ set, clear, propagation, userns uint64 }{set: attr}
	at := -100 // AT_FDCWD
	_, _, errno := syscall.Syscall6(sysMountSetattr, uintptr(at), uintptr(unsafe.Pointer(p)), atRecursive,
		uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// pivot makes the new root the only one.
func (s *stage) pivot() error {
	old := s.Root + "/.old"
	if err := os.Mkdir(old, 0o700); err != nil {
		return err
	}
	if err := syscall.PivotRoot(s.Root, old); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := syscall.Unmount("/.old", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	if err := os.Remove("/.old"); err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, ""); err != nil {
		return fmt.Errorf("protecting the root: %w", err)
	}
	return os.Chdir(insideWork)
}
