package runner

import (
	"context"
	"errors"
	"io/fs"
	"time"
)

// What a run may take of the machine. On the disk the kernel bounds a file, not a folder, so the
// workspace is measured while it grows, the more often the nearer it is to its
// limit, and the run ends when it is past it. A run can be over by what it writes
// between two looks.
const (
	DefaultTotal = 8 << 30 // bytes of memory of all processes of a run
	DefaultDisk  = 4 << 30 // bytes of the workspace: inputs, temporary and output files of the largest size each
	maxNames     = 200_000 // names in it: a source tree with its dependencies has fewer

	// keepFree is what is left to others of the disk that workspaces lie on, as a
	// share of it: a run under which it falls ends, also by what cannot be seen in
	// the workspace, such as files without a name.
	keepFree    = 0.02
	maxKeepFree = 1 << 30 // bytes

	lookMin, lookMax = 5 * time.Millisecond, 250 * time.Millisecond
	fastDisk         = 4 << 30 // bytes a second that a program can write at most, for how soon to look again
)

var errFull, errMemory = errors.New("disk"), errors.New("memory")

// quota looks after one workspace, and after the memory of all its processes:
// the kernel bounds that of one.
type quota struct {
	ws     *workspace
	limit  int64
	names  int
	memory int64
	end    func(error)  // with errFull or errMemory
	pids   func() []int // of the run
}

// watch runs until ctx ends.
func (q *quota) watch(ctx context.Context) {
	look := time.NewTimer(lookMin)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		var pids []int
		if q.pids != nil {
			pids = q.pids()
		}
		if q.memory > 0 && resident(pids, q.memory) > q.memory {
			q.end(errMemory)
			return
		}
		room, ok := q.room(pids)
		if !ok {
			q.end(errFull)
			return
		}
		look.Reset(min(max(time.Duration(room/(fastDisk/int64(time.Second/time.Millisecond)))*time.Millisecond, lookMin), lookMax))
	}
}

// room is how many bytes the run may still write, and whether it may at all.
func (q *quota) room(pids []int) (room int64, ok bool) {
	used, names := q.used(pids)
	room = q.limit - used
	if free, all, known := space(q.ws.dir); known {
		room = min(room, free-min(int64(keepFree*float64(all)), maxKeepFree))
	}
	return room, room >= 0 && names <= q.names
}

// used measures the workspace. A folder that the program made unreadable is made
// readable again: nothing is hidden in it.
func (q *quota) used(pids []int) (bytes int64, names int) {
	seen := map[fileID]bool{}
	first := func(info fs.FileInfo) bool {
		id, known := identity(info)
		if known && seen[id] {
			return false
		}
		seen[id] = known
		return true
	}
	tree := q.ws.root.FS()
	fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if d != nil && d.IsDir() {
				q.ws.root.Chmod(name, 0o700)
			}
			return nil
		}
		if names++; names > q.names {
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil && first(info) {
			bytes += onDisk(info)
		}
		return nil
	})
	return bytes + nameless(pids, first), names
}
