package runner

import (
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/tetratelabs/wazero/experimental/sys"
	"pgregory.net/rapid"
)

// TestAFolderPaysForWhatIsInIt draws what a module may do with its folder, in any
// order: what is left and what lies there are always the limit together, once
// nothing is open, and never more than it before.
func TestAFolderPaysForWhatIsInIt(t *testing.T) { // X9
	const limit = 1 << 20
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "sealbridge-folder-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		for _, sub := range []string{"in", "out", "tmp"} {
			if err := os.Mkdir(dir+"/"+sub, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := root.WriteFile("in/x", []byte("rows"), 0o400); err != nil {
			t.Fatal(err)
		}
		d := &folder{root: root, left: limit}
		name := rapid.SampledFrom([]string{"a", "tmp/a", "tmp/b", "out/a", "out/d", "out/d/e", "../a", "in/x", "in/y", "IN/x", "tmp", ".", "out/../in/x", "tmp/../../b"})
		var open []sys.File
		pick := func() sys.File { return open[rapid.IntRange(0, len(open)-1).Draw(t, "file")] }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch do := rapid.IntRange(0, 9).Draw(t, "do"); {
			case do <= 2:
				flag := sys.O_RDWR
				for _, bit := range []sys.Oflag{sys.O_CREAT, sys.O_TRUNC, sys.O_EXCL, sys.O_APPEND} {
					if rapid.Bool().Draw(t, "flag") {
						flag |= bit
					}
				}
				if f, errno := d.OpenFile(name.Draw(t, "name"), flag, 0o600); errno == 0 {
					open = append(open, f)
				}
			case do == 3:
				d.Mkdir(name.Draw(t, "name"), 0o700)
			case do == 4:
				d.Unlink(name.Draw(t, "name"))
			case do == 5:
				d.Rmdir(name.Draw(t, "name"))
			case do == 6:
				d.Rename(name.Draw(t, "from"), name.Draw(t, "to"))
			case len(open) == 0:
			case do == 7:
				b := make([]byte, rapid.IntRange(0, 200_000).Draw(t, "bytes"))
				if rapid.Bool().Draw(t, "here") {
					pick().Write(b)
				} else {
					pick().Pwrite(b, rapid.Int64Range(-1, 300_000).Draw(t, "at"))
				}
			case do == 8:
				pick().Truncate(rapid.Int64Range(-1, 400_000).Draw(t, "size"))
			case do == 9:
				f := pick()
				f.Close()
				for i := range open {
					if open[i] == f {
						open = append(open[:i], open[i+1:]...)
						break
					}
				}
			}
			if held := holds(t, root); d.left < 0 || held+d.left > limit {
				t.Fatalf("%d lie there, %d are left, together more than %d", held, d.left, limit)
			}
		}
		for _, f := range open {
			f.Close()
		}
		if held := holds(t, root); held+d.left != limit {
			t.Fatalf("%d lie there, %d are left, together not %d", held, d.left, limit)
		}
		if b, err := root.ReadFile("in/x"); err != nil || string(b) != "rows" {
			t.Fatalf("the input is %q, %v", b, err)
		}
		if _, err := os.Stat(dir + "/../b"); err == nil {
			t.Fatal("it wrote above its folder")
		}
	})
}

// holds is what names and files beyond the first ones cost.
func holds(t *rapid.T, root *os.Root) (sum int64) {
	err := fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == "." || name == "in" || name == "out" || name == "tmp" || name == "in/x" {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if sum += entrySize; info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(fmt.Errorf("looking: %w", err))
	}
	return sum
}
