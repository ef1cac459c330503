package runner

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/experimental/sys"
	wasi "github.com/tetratelabs/wazero/sys"
)

// folder is the one folder that a module sees: its workspace. Names are looked
// up under an [os.Root] and a module can make no links, so there is no way out
// of it; in/ is not written. What the files may hold together is counted as they
// grow. One module has one thread, so nothing here is shared.
type folder struct {
	sys.UnimplementedFS
	root *os.Root
	left int64 // bytes that the module may still add
	open []*openFile
}

const (
	entrySize   = 4 << 10 // bytes that a name costs, so that names are bounded too
	maxOpenWASI = 512
)

// full is what a module hears when its folder or its hands are full: WASI's
// layer here has no word for either.
const full = sys.EIO

func clean(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if name == "" {
		return "."
	}
	return name
}

// input says that a name lies in the folder of inputs, or is it.
func input(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return strings.EqualFold(first, "in")
}

// kept are names that stay where they are.
func kept(name string) bool {
	return name == "." || input(name) || name == "out" || name == "tmp"
}

func (d *folder) charge(n int64) bool {
	if n > d.left {
		return false
	}
	d.left -= n
	return true
}

func (d *folder) OpenFile(name string, flag sys.Oflag, perm fs.FileMode) (sys.File, sys.Errno) {
	name = clean(name)
	access := flag & (sys.O_RDONLY | sys.O_RDWR | sys.O_WRONLY)
	writes := access != sys.O_RDONLY || flag&(sys.O_CREAT|sys.O_TRUNC) != 0
	before, err := d.root.Lstat(name)
	switch {
	case writes && input(name):
		return nil, sys.EROFS
	case len(d.open) >= maxOpenWASI:
		return nil, full
	case err == nil && flag&sys.O_DIRECTORY != 0 && !before.IsDir():
		return nil, sys.ENOTDIR
	case err != nil && flag&sys.O_CREAT != 0 && !d.charge(entrySize):
		return nil, full
	}
	how := map[sys.Oflag]int{sys.O_RDWR: os.O_RDWR, sys.O_WRONLY: os.O_WRONLY}[access]
	for bit, its := range map[sys.Oflag]int{sys.O_CREAT: os.O_CREATE, sys.O_EXCL: os.O_EXCL, sys.O_TRUNC: os.O_TRUNC, sys.O_SYNC: os.O_SYNC} {
		if flag&bit != 0 {
			how |= its
		}
	}
	f, oerr := d.root.OpenFile(name, how, perm&0o700|0o600)
	if oerr != nil {
		if err != nil && flag&sys.O_CREAT != 0 {
			d.left += entrySize
		}
		return nil, sys.UnwrapOSError(oerr)
	}
	if err == nil && flag&sys.O_TRUNC != 0 && before.Mode().IsRegular() {
		d.left += before.Size()
	}
	o := &openFile{in: d, name: name, f: f, atEnd: flag&sys.O_APPEND != 0}
	d.open = append(d.open, o)
	return o, 0
}

func (d *folder) Lstat(name string) (wasi.Stat_t, sys.Errno) {
	info, err := d.root.Lstat(clean(name))
	if err != nil {
		return wasi.Stat_t{}, sys.UnwrapOSError(err)
	}
	return wasi.NewStat_t(info), 0
}

// Stat is Lstat: there are no links.
func (d *folder) Stat(name string) (wasi.Stat_t, sys.Errno) { return d.Lstat(name) }

func (d *folder) Mkdir(name string, perm fs.FileMode) sys.Errno {
	switch name = clean(name); {
	case input(name):
		return sys.EROFS
	case !d.charge(entrySize):
		return full
	}
	err := d.root.Mkdir(name, perm&0o700|0o700)
	if err != nil {
		d.left += entrySize
	}
	return sys.UnwrapOSError(err)
}

func (d *folder) Rename(from, to string) sys.Errno {
	from, to = clean(from), clean(to)
	if kept(from) || kept(to) {
		return sys.EROFS
	}
	old, err := d.root.Lstat(to)
	there := err == nil
	if moved, err := d.root.Lstat(from); there && err == nil && os.SameFile(old, moved) {
		return 0
	}
	if err := d.root.Rename(from, to); err != nil {
		return sys.UnwrapOSError(err)
	}
	if there {
		d.gone(old)
	}
	return 0
}

func (d *folder) Rmdir(name string) sys.Errno { return d.remove(name, true) }

func (d *folder) Unlink(name string) sys.Errno { return d.remove(name, false) }

func (d *folder) remove(name string, dir bool) sys.Errno {
	name = clean(name)
	info, err := d.root.Lstat(name)
	switch {
	case err != nil:
		return sys.UnwrapOSError(err)
	case kept(name):
		return sys.EROFS
	case dir && !info.IsDir():
		return sys.ENOTDIR
	case !dir && info.IsDir():
		return sys.EISDIR
	}
	if err := d.root.Remove(name); err != nil {
		return sys.UnwrapOSError(err)
	}
	d.gone(info)
	return 0
}

// gone gives back what a removed name held; a file that is still open holds it
// until it is closed.
func (d *folder) gone(info fs.FileInfo) {
	d.left += entrySize
	if !info.Mode().IsRegular() {
		return
	}
	for _, o := range d.open {
		if now, err := o.f.Stat(); err == nil && os.SameFile(now, info) {
			o.orphan = true
			return
		}
	}
	d.left += info.Size()
}

func (d *folder) closed(o *openFile) {
	d.open = slices.DeleteFunc(d.open, func(x *openFile) bool { return x == o })
	if !o.orphan {
		return
	}
	mine, err := o.f.Stat()
	if err != nil {
		return
	}
	for _, x := range d.open { // the next who has it open answers for it
		if now, err := x.f.Stat(); err == nil && os.SameFile(now, mine) {
			x.orphan = true
			return
		}
	}
	d.left += mine.Size()
}

func (d *folder) Link(string, string) sys.Errno    { return sys.EPERM }
func (d *folder) Symlink(string, string) sys.Errno { return sys.EPERM }

func (d *folder) Utimens(name string, atim, mtim int64) sys.Errno {
	if name = clean(name); input(name) {
		return sys.EROFS
	}
	return sys.UnwrapOSError(d.root.Chtimes(name, instant(atim), instant(mtim)))
}

// instant is a time of WASI; the zero time leaves what is there.
func instant(nanos int64) time.Time {
	if nanos == sys.UTIME_OMIT {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
