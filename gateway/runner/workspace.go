package runner

import (
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sealbridge/manifest"
	"sealbridge/spec"
)

// workspace is the folder of one run:
//
//	root   where an isolated program's root is put together
//	work   its working folder, with in, out and tmp
type workspace struct {
	dir  string
	mark string // in the environment of everything that the run starts
	root *os.Root
}

func (w *workspace) work() string { return filepath.Join(w.dir, "work") }

// newWorkspace makes the folders and copies the files. They are copies: what a
// program does to them stays with it.
func newWorkspace(dir string, inputs, delivered map[string]string) (*workspace, error) {
	in, err := refsOf("/inputs", inputs)
	if err != nil {
		return nil, err
	}
	out, err := refsOf("/delivered", delivered)
	if err != nil {
		return nil, err
	}
	mark := rand.Text()
	w := &workspace{dir: filepath.Join(dir, "run-"+mark), mark: mark}
	err = w.make()
	if err == nil {
		err = w.fill("in", in, inputs)
	}
	if err == nil {
		err = w.fill("out", out, delivered)
	}
	if err != nil {
		w.remove()
		return nil, disk("making a workspace", err)
	}
	return w, nil
}

// refsOf holds the names of files against M3, in their order.
func refsOf(path string, files map[string]string) ([]manifest.ArtifactRef, error) {
	refs := make([]manifest.ArtifactRef, 0, len(files))
	for name := range files {
		refs = append(refs, manifest.ArtifactRef{Name: name})
	}
	slices.SortFunc(refs, func(a, b manifest.ArtifactRef) int { return strings.Compare(a.Name, b.Name) })
	return refs, manifest.CheckArtifacts(path, refs)
}

func (w *workspace) make() (err error) {
	for _, sub := range []string{"", "root", "work", "work/in", "work/out", "work/tmp"} {
		if err := os.Mkdir(filepath.Join(w.dir, sub), 0o700); err != nil {
			return err
		}
	}
	w.root, err = os.OpenRoot(w.work())
	return err
}

func (w *workspace) fill(folder string, refs []manifest.ArtifactRef, from map[string]string) error {
	for _, ref := range refs {
		name := path.Join(folder, ref.Name)
		if err := w.root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		if err := w.copy(name, from[ref.Name]); err != nil {
			return err
		}
	}
	return nil
}

func (w *workspace) copy(name, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// remove takes the workspace away, also folders that the program made
// unreadable. It changes no mode outside, whatever links the program left.
func (w *workspace) remove() error {
	if w.root != nil {
		w.root.Close()
	}
	if all, err := os.OpenRoot(w.dir); err == nil {
		fs.WalkDir(all.FS(), ".", func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all.Chmod(name, 0o700)
			}
			return nil
		})
		all.Close()
	}
	if err := os.RemoveAll(w.dir); err != nil {
		return disk("removing a workspace", err)
	}
	return nil
}

// File is one output file. Its bytes are those of the workspace: who keeps it
// copies it and measures the copy.
type File struct {
	Name string // of M3
	Size int64  // bytes when it was listed
	open func() (io.ReadCloser, error)
}

// Open opens the file for reading; links are not followed out of the workspace.
func (f File) Open() (io.ReadCloser, error) {
	r, err := f.open()
	if err != nil {
		return nil, disk("opening an output file", err)
	}
	return r, nil
}

// collect lists the folder out: regular files under good names, at most
// MaxFiles of them and limit bytes together. One that is anything else refuses
// the whole list. Everything that could still write has been ended before.
func (w *workspace) collect(limit int64) ([]File, error) {
	refuse := func(reason spec.Reason, why string) error { return spec.Refuse(reason, "/out", why) }
	var files []File
	var refs []manifest.ArtifactRef
	var total int64
	err := fs.WalkDir(w.root.FS(), "out", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return refuse(spec.VerificationFailed, "output files that can be read")
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return refuse(spec.VerificationFailed, "regular files only, no links")
		}
		info, err := d.Info()
		if err != nil || linked(info) {
			return refuse(spec.VerificationFailed, "regular files only, no links")
		}
		rel := strings.TrimPrefix(name, "out/")
		if total += info.Size(); len(files) == MaxFiles || total > limit {
			return refuse(spec.TooLarge, fmt.Sprintf("%d files, %d bytes", MaxFiles, limit))
		}
		files = append(files, File{Name: rel, Size: info.Size(), open: func() (io.ReadCloser, error) { return w.root.Open(name) }})
		refs = append(refs, manifest.ArtifactRef{Name: rel})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := manifest.CheckArtifacts("/out", refs); err != nil {
		return nil, err
	}
	return files, nil
}
