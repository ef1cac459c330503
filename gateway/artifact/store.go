// Package artifact answers one question: which files, checked how?
//
// A [Store] is a folder of the gateway's home:
//
//	files/ab/ab12…        plain files, named by the SHA-256 of their bytes
//	incoming/TRANSFER     what of a transfer has arrived: quarantine (R5)
//	outgoing/TRANSFER     sealed chunks, kept until acknowledged (R5)
//
// A file gets into files only when it is whole, flushed and its digest and size
// are those that were promised; so whoever sees it sees checked bytes. It comes
// from our own disk ([Store.Import], [Store.Put]) or by a relay
// ([Store.Download]) and leaves sealed ([Store.Seal], [Store.Upload]) or into a
// new folder that a person named ([Store.Release], V3a). Archives are files
// like any other: nothing here unpacks them.
package artifact

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// MaxSize of one artifact in bytes: what sizeBytes of a manifest may say.
const MaxSize = 1 << 30

const (
	filesDir    = "files"
	incomingDir = "incoming"
	outgoingDir = "outgoing"
)

// Store is the files of one gateway. It may be used by many goroutines, but
// each transfer by one at a time.
type Store struct {
	root *os.Root
	wrap func(io.Writer) io.Writer // tests fail writes with it

	mu    sync.Mutex // guards under
	under map[TransferID]*atomic.Int64
}

// Open opens the store in dir and makes what is missing. Nobody but the owner
// may look in.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, disk("making the store", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, disk("opening the store", err)
	}
	for _, sub := range []string{filesDir, incomingDir, outgoingDir} {
		if err := root.MkdirAll(sub, 0o700); err != nil {
			root.Close()
			return nil, disk("making the store", err)
		}
	}
	s := &Store{root: root, wrap: func(w io.Writer) io.Writer { return w }, under: map[TransferID]*atomic.Int64{}}
	s.sweep()
	return s, nil
}

// sweep removes what a crash left half written; a transfer that is under way stays.
func (s *Store) sweep() {
	for _, pattern := range []string{incomingDir + "/new-*", outgoingDir + "/*.new"} {
		left, _ := fs.Glob(s.root.FS(), pattern)
		for _, name := range left {
			s.root.Remove(name)
		}
	}
}

// Close lets go of the folder.
func (s *Store) Close() error { return s.root.Close() }

// disk is an error of our own disk: unavailable, without its text.
func disk(doing string, err error) error {
	return &spec.Error{Reason: spec.Unavailable, Limit: "disk", Err: fmt.Errorf("%s: %w", doing, err)}
}

// place is where the bytes of a digest lie.
func place(d signing.Digest) string {
	sum := d.Sum()
	return fmt.Sprintf("%s/%x/%x", filesDir, sum[:1], sum)
}

// Has says whether the bytes of a digest are here.
func (s *Store) Has(d signing.Digest) bool {
	if d.IsZero() {
		return false
	}
	info, err := s.root.Lstat(place(d))
	return err == nil && info.Mode().IsRegular()
}

// Open opens the bytes of a digest for reading. not-found if they are not here.
func (s *Store) Open(d signing.Digest) (*os.File, error) {
	if !s.Has(d) {
		return nil, spec.Refuse(spec.NotFound, "", "no such file")
	}
	f, err := s.root.Open(place(d))
	if err != nil {
		return nil, disk("opening a file", err)
	}
	return f, nil
}

// Path is where a runner finds the bytes of a digest, to copy them.
func (s *Store) Path(d signing.Digest) (string, error) {
	if !s.Has(d) {
		return "", spec.Refuse(spec.NotFound, "", "no such file")
	}
	return filepath.Join(s.root.Name(), filepath.FromSlash(place(d))), nil
}

// Read returns the bytes of a digest, checked against it, if they are at most
// limit bytes.
func (s *Store) Read(d signing.Digest, limit int64) ([]byte, error) {
	f, err := s.Open(d)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, disk("reading a file", err)
	case int64(len(b)) > limit:
		return nil, spec.Refuse(spec.TooLarge, "", fmt.Sprintf("%d bytes", limit))
	case signing.DigestOf(b) != d:
		return nil, spec.Refuse(spec.BadDigest, "", "the stored file has changed")
	}
	return b, nil
}

// Remove forgets the bytes of a digest.
func (s *Store) Remove(d signing.Digest) error {
	if !s.Has(d) {
		return nil
	}
	if err := s.root.Remove(place(d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return disk("removing a file", err)
	}
	return nil
}

// Put stores what r gives, at most limit bytes (0: [MaxSize]), under a name of
// M3. An empty media type is taken from the name.
func (s *Store) Put(ctx context.Context, name, mediaType string, r io.Reader, limit int64) (manifest.ArtifactRef, error) {
	if err := manifest.CheckArtifactName(name); err != nil {
		return manifest.ArtifactRef{}, spec.At("/name", err)
	}
	if limit <= 0 || limit > MaxSize {
		limit = MaxSize
	}
	if mediaType == "" {
		mediaType = mediaTypeOf(name)
	}
	temp := path.Join(incomingDir, "new-"+rand.Text())
	sum := sha256.New()
	size, err := s.write(temp, sum, &within{ctx: ctx, r: r, left: limit})
	if err != nil {
		s.root.Remove(temp)
		return manifest.ArtifactRef{}, err
	}
	d := digestOf(sum)
	if err := s.commit(temp, d); err != nil {
		return manifest.ArtifactRef{}, err
	}
	return manifest.ArtifactRef{Name: name, Digest: d, MediaType: mediaType, SizeBytes: size}, nil
}

func digestOf(h hash.Hash) signing.Digest { return signing.DigestFrom([32]byte(h.Sum(nil))) }

// within reads at most left bytes and stops with the context.
type within struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

func (w *within) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, &spec.Error{Reason: spec.Unavailable, Err: err}
	}
	n, err := w.r.Read(p)
	if w.left -= int64(n); w.left < 0 {
		return 0, spec.Refuse(spec.TooLarge, "", "size of a file")
	}
	return n, err
}

// write makes a new file of what r gives, flushed, and hashes on the way.
func (s *Store) write(name string, sum io.Writer, r io.Reader) (int64, error) {
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, disk("making a file", err)
	}
	size, err := io.Copy(io.MultiWriter(s.wrap(f), sum), r)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	var refusal *spec.Error
	if err != nil && !errors.As(err, &refusal) {
		err = disk("writing a file", err)
	}
	return size, err
}

// commit moves a whole, flushed file to the place of its digest.
func (s *Store) commit(temp string, d signing.Digest) error {
	if s.Has(d) {
		s.root.Remove(temp)
		return nil
	}
	to := place(d)
	if err := s.root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return disk("making a folder", err)
	}
	if err := s.root.Rename(temp, to); err != nil {
		return disk("keeping a file", err)
	}
	if err := syncDir(s.root, path.Dir(to)); err != nil {
		return disk("keeping a file", err)
	}
	return nil
}

// syncDir makes a rename durable. Windows has no such call and needs none.
func syncDir(root *os.Root, name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
