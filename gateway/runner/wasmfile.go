package runner

import (
	"errors"
	"io"
	"os"

	"github.com/tetratelabs/wazero/experimental/sys"
	wasi "github.com/tetratelabs/wazero/sys"
)

// openFile is a file or folder that a module has open.
type openFile struct {
	sys.UnimplementedFile
	in     *folder
	name   string
	f      *os.File
	atEnd  bool // every write goes to the end
	orphan bool // its name is gone: what it holds is given back when it is closed
}

func (o *openFile) Stat() (wasi.Stat_t, sys.Errno) {
	info, err := o.f.Stat()
	if err != nil {
		return wasi.Stat_t{}, sys.UnwrapOSError(err)
	}
	return wasi.NewStat_t(info), 0
}

func (o *openFile) Dev() (uint64, sys.Errno)        { st, e := o.Stat(); return st.Dev, e }
func (o *openFile) Ino() (wasi.Inode, sys.Errno)    { st, e := o.Stat(); return st.Ino, e }
func (o *openFile) IsDir() (bool, sys.Errno)        { st, e := o.Stat(); return st.Mode.IsDir(), e }
func (o *openFile) IsAppend() bool                  { return o.atEnd }
func (o *openFile) SetAppend(enable bool) sys.Errno { o.atEnd = enable; return 0 }
func (o *openFile) Sync() sys.Errno                 { return sys.UnwrapOSError(o.f.Sync()) }
func (o *openFile) Datasync() sys.Errno             { return o.Sync() }

// read makes of the end of a file what WASI calls it: nothing, and no error.
func read(n int, err error) (int, sys.Errno) {
	if errors.Is(err, io.EOF) {
		return n, 0
	}
	return n, sys.UnwrapOSError(err)
}

func (o *openFile) Read(b []byte) (int, sys.Errno) { return read(o.f.Read(b)) }
func (o *openFile) Pread(b []byte, at int64) (int, sys.Errno) {
	if at < 0 {
		return 0, sys.EINVAL
	}
	return read(o.f.ReadAt(b, at))
}

// position is an alias because vet takes every Seek of an int64 for io.Seeker's.
type position = int64

func (o *openFile) Seek(to position, from int) (position, sys.Errno) {
	if dir, e := o.IsDir(); e == 0 && dir {
		if to != 0 || from != io.SeekStart {
			return 0, sys.EINVAL
		}
		again, err := o.in.root.Open(o.name)
		if err != nil {
			return 0, sys.UnwrapOSError(err)
		}
		o.f.Close()
		o.f = again
		return 0, 0
	}
	at, err := o.f.Seek(to, from)
	return at, sys.UnwrapOSError(err)
}

func (o *openFile) Readdir(n int) (out []sys.Dirent, errno sys.Errno) {
	entries, err := o.f.ReadDir(n)
	for _, e := range entries {
		d := sys.Dirent{Name: e.Name(), Type: e.Type()}
		if info, err := e.Info(); err == nil {
			d.Ino = wasi.NewStat_t(info).Ino
		}
		out = append(out, d)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		errno = sys.UnwrapOSError(err)
	}
	return out, errno
}

// grow does what may make a file reach to an end: it is paid for first, and what
// did not come of it is given back.
func (o *openFile) grow(end int64, do func() (int, error)) (int, sys.Errno) {
	before, err := o.f.Stat()
	if err != nil {
		return 0, sys.UnwrapOSError(err)
	}
	more := max(end-before.Size(), 0)
	if !o.in.charge(more) {
		return 0, full
	}
	n, err := do()
	if after, serr := o.f.Stat(); serr == nil {
		o.in.left += more - (after.Size() - before.Size())
	}
	return n, sys.UnwrapOSError(err)
}

func (o *openFile) Write(b []byte) (int, sys.Errno) {
	from := io.SeekCurrent
	if o.atEnd {
		from = io.SeekEnd
	}
	at, err := o.f.Seek(0, from)
	if err != nil {
		return 0, sys.UnwrapOSError(err)
	}
	return o.grow(at+int64(len(b)), func() (int, error) { return o.f.Write(b) })
}

func (o *openFile) Pwrite(b []byte, at int64) (int, sys.Errno) {
	if at < 0 || at > 1<<62 {
		return 0, sys.EINVAL
	}
	return o.grow(at+int64(len(b)), func() (int, error) { return o.f.WriteAt(b, at) })
}

func (o *openFile) Truncate(size int64) sys.Errno {
	if size < 0 {
		return sys.EINVAL
	}
	_, errno := o.grow(size, func() (int, error) { return 0, o.f.Truncate(size) })
	return errno
}

func (o *openFile) Close() sys.Errno {
	o.in.closed(o)
	return sys.UnwrapOSError(o.f.Close())
}
