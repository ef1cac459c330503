package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"sealbridge/spec"
)

const (
	canIsolate = true
	canFreeze  = true
)

// insideUser is the user that an isolated program believes to be.
const insideUser = 1000

func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// group makes a program the first of its process group, which ends with us.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = groupAttr() }

func command(ctx context.Context, c Command, w *workspace, path string, isolate bool) (*exec.Cmd, error) {
	attr := groupAttr()
	if !isolate {
		cmd := exec.CommandContext(ctx, path, c.Argv[1:]...)
		cmd.Args[0] = c.Argv[0]
		cmd.Dir, cmd.Env, cmd.SysProcAttr = w.work(), environment(c, w.work(), w.mark), attr
		return cmd, nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, &spec.Error{Reason: spec.NotFound, Path: "/argv", Limit: "no such program", Err: err}
	}
	plan, err := json.Marshal(stage{
		Root: filepath.Join(w.dir, "root"), Work: w.work(), Program: path, Argv: c.Argv,
		Env: environment(c, insideWork, w.mark), ReadOnly: shown(c.ReadOnly, path, real), FileSize: c.FilesLimit,
		Ports: numbers(c.Ports), Memory: c.Memory, Holds: c.holds, Find: c.find,
	})
	if err != nil {
		return nil, &spec.Error{Reason: spec.Internal, Err: err}
	}
	attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: insideUser, HostID: os.Getuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: insideUser, HostID: os.Getgid(), Size: 1}}
	attr.AmbientCaps = []uintptr{capSysAdmin, capSetPcap, capNetAdmin}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", string(plan))
	cmd.Args[0] = stageName
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", []string{}, attr
	return cmd, nil
}

// shown is what an isolated program sees beyond the system: what the owner
// listed, folders before what is in them, and then itself.
func shown(listed []string, program ...string) []string {
	out := make([]string, 0, len(listed)+len(program))
	for _, path := range listed {
		out = append(out, filepath.Clean(path))
	}
	slices.Sort(out)
	return append(out, program...)
}

// sweep ends what still carries the mark of a run in its environment: processes
// that left the group for a session of their own. Ours cannot be among them. It
// looks again until it finds nothing, because what is being ended may fork.
func sweep(mark string) {
	for range 200 {
		found := false
		for _, pid := range carriers(mark, 0) {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				found = true
			}
		}
		if !found {
			return
		}
		time.Sleep(5 * time.Millisecond) // ending takes the kernel a moment
	}
}

// carriers are the processes of a run: those that have its mark in their
// environment and, where first is the first process of a namespace of its own,
// all that live in it.
func carriers(mark string, first int) (pids []int) {
	want := []byte("SEALBRIDGE_RUN=" + mark)
	space, ours := "", ""
	if first > 0 {
		space, _ = os.Readlink("/proc/" + strconv.Itoa(first) + "/ns/pid")
		ours, _ = os.Readlink("/proc/self/ns/pid")
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if space != "" && space != ours {
			if in, err := os.Readlink("/proc/" + e.Name() + "/ns/pid"); err == nil && in == space {
				pids = append(pids, pid)
				continue
			}
		}
		if env, err := os.ReadFile("/proc/" + e.Name() + "/environ"); err == nil && bytes.Contains(env, want) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// descendants are a process and all that it started, directly or not: in a
// process space of its own that is everybody, because who loses a parent there
// gets the first one. false where the kernel keeps no list of children.
func descendants(first int) (pids []int, ok bool) {
	pids = []int{first}
	for i := 0; i < len(pids); i++ {
		threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pids[i]) + "/task/*/children")
		if i == 0 && len(threads) == 0 {
			return pids, false
		}
		for _, list := range threads {
			b, _ := os.ReadFile(list)
			for _, field := range bytes.Fields(b) {
				if pid, err := strconv.Atoi(string(field)); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids, true
}

// nameless is what processes of a run hold in files that have no name any more,
// or never had one: they lie on the disk, or in memory, all the same.
func nameless(pids []int, fresh func(fs.FileInfo) bool) (bytes int64) {
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			info, err := os.Stat(dir + e.Name())
			if err != nil || !info.Mode().IsRegular() {
				continue
			}
			if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink == 0 && fresh(info) {
				bytes += onDisk(info)
			}
		}
	}
	return bytes
}

// freeze stops every process of a run, also what is being started meanwhile, and
// returns what lets them go on.
func freeze(p *os.Process, mark string) (thaw func()) {
	stopped := map[int]bool{}
	for more := true; more; {
		more = false
		for _, pid := range append(carriers(mark, p.Pid), p.Pid) {
			if !stopped[pid] && syscall.Kill(pid, syscall.SIGSTOP) == nil {
				stopped[pid], more = true, true
			}
		}
		for pid := range stopped { // a signal to what runs on another core takes a moment
			for range 1000 {
				if !running(pid) {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	return func() {
		for pid := range stopped {
			syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

// running says whether a process does anything: it is there and not stopped.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	at := bytes.LastIndexByte(stat, ')') // the name before it may hold anything
	return err == nil && at >= 0 && len(stat) > at+2 && bytes.IndexByte([]byte("TtZX"), stat[at+2]) < 0
}
