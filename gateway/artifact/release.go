package artifact

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"sealbridge/manifest"
	"sealbridge/spec"
)

// Release writes files into a new folder, dir, that it makes itself (V3a). The
// folder must not be there yet, not even as a link; the one above it must be.
// Every name is held against M3, every file is written anew with mode 0600 and
// checked against its digest and size on the way: released bytes are the bytes
// that were checked. It is all or nothing: the files are put together in a
// hidden folder beside dir, which takes dir's name at the end, and whatever
// fails removes it.
func (s *Store) Release(ctx context.Context, dir string, files []manifest.ArtifactRef) (err error) {
	if err := manifest.CheckArtifacts("/files", files); err != nil {
		return err
	}
	for _, f := range files {
		if !s.Has(f.Digest) {
			return spec.Refuse(spec.NotFound, "/files", "a file that is not here")
		}
	}
	parent, err := os.OpenRoot(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return disk("opening the folder above", err)
	}
	defer parent.Close()
	name := filepath.Base(filepath.Clean(dir))
	if _, err := parent.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return spec.Refuse(spec.NotPermitted, "/dir", "V3a: a new folder")
	}
	temp := ".sealbridge-" + rand.Text()
	if err := parent.Mkdir(temp, 0o700); err != nil {
		return disk("making a folder", err)
	}
	defer func() {
		if err != nil {
			parent.RemoveAll(temp)
		}
	}()
	into, err := parent.OpenRoot(temp)
	if err != nil {
		return disk("opening the new folder", err)
	}
	for _, f := range files {
		if err = s.release(ctx, into, f); err != nil {
			break
		}
	}
	into.Close() // before it is renamed: Windows would refuse
	if err != nil {
		return err
	}
	if err := parent.Rename(temp, name); err != nil {
		return disk("naming the new folder", err)
	}
	if err := syncDir(parent, "."); err != nil {
		return disk("naming the new folder", err)
	}
	return nil
}

// release writes one file, and the folders of its name, inside into.
func (s *Store) release(ctx context.Context, into *os.Root, ref manifest.ArtifactRef) error {
	from, err := s.Open(ref.Digest)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := into.MkdirAll(path.Dir(ref.Name), 0o700); err != nil {
		return disk("making a folder", err)
	}
	out := &Store{root: into, wrap: s.wrap}
	sum := sha256.New()
	size, err := out.write(ref.Name, sum, &within{ctx: ctx, r: from, left: MaxSize})
	if err != nil {
		return err
	}
	if size != ref.SizeBytes || digestOf(sum) != ref.Digest {
		return spec.Refuse(spec.BadDigest, "/files", "the stored file is not the one promised")
	}
	return nil
}
