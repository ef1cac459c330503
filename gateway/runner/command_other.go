//go:build !linux

package runner

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
)

const (
	canIsolate = false
	canFreeze  = false
)

func sweep(string) {}

// freeze is never called here: nothing reaches every process of a run.
func freeze(*os.Process, string) func() { return func() {} }

// Nothing is read here of what processes hold.
func carriers(string, int) []int                   { return nil }
func descendants(first int) ([]int, bool)          { return nil, false }
func nameless([]int, func(fs.FileInfo) bool) int64 { return 0 }
func resident([]int, int64) int64                  { return 0 }
func totalMemory() int64                           { return DefaultTotal }

func command(ctx context.Context, c Command, w *workspace, path string, _ bool) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, path, c.Argv[1:]...)
	cmd.Args[0] = c.Argv[0]
	cmd.Dir = w.work()
	cmd.Env = environment(c, w.work(), w.mark)
	group(cmd)
	return cmd, nil
}
