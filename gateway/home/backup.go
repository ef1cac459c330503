package home

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sealbridge/spec"
)

// restoredName marks a home that was put back: it may not know what it had said since (R4b).
const restoredName = "restored"

// Restored says whether this home was put back and has not told its gateway yet.
func (h *Home) Restored() bool {
	_, err := os.Stat(filepath.Join(h.Dir, restoredName))
	return err == nil
}

// ClearRestored is said once every open task is in recovery.
func (h *Home) ClearRestored() error {
	if err := os.Remove(filepath.Join(h.Dir, restoredName)); err != nil {
		return disk(err)
	}
	return nil
}

// PolicyLine is where a rule stands: policy.yaml:14.
func (h *Home) PolicyLine(pointer string) string {
	return policyName + ":" + LineOf(filepath.Join(h.Dir, policyName), pointer)
}

// Backup writes keys, configuration and a copy of the journal to a new file.
// Files of tasks and sealed chunks are not in it: their senders keep them.
func (h *Home) Backup(path string, copyJournal func(to string) error) (err error) {
	temp, err := os.MkdirTemp(h.Dir, ".backup-")
	if err != nil {
		return disk(err)
	}
	defer os.RemoveAll(temp)
	copied := filepath.Join(temp, journal)
	if err := copyJournal(copied); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return spec.Refuse(spec.Conflict, path, "a new file")
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			os.Remove(path)
		}
	}()
	z := gzip.NewWriter(out)
	w := tar.NewWriter(z)
	for _, name := range h.parts() {
		if err := addFile(w, name, filepath.Join(h.Dir, name)); err != nil {
			return err
		}
	}
	if err := addFile(w, journal, copied); err != nil {
		return err
	}
	return errors.Join(w.Close(), z.Close(), out.Sync())
}

func (h *Home) parts() []string {
	out := []string{configName, policyName}
	entries, err := os.ReadDir(filepath.Join(h.Dir, keysDir))
	if err != nil {
		return out
	}
	for _, e := range entries {
		out = append(out, keysDir+"/"+e.Name())
	}
	return out
}

func addFile(w *tar.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return disk(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return disk(err)
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(), Format: tar.FormatPAX}); err != nil {
		return disk(err)
	}
	_, err = io.Copy(w, f)
	return err
}

// Restore puts a backup back into a folder that has no identity. The gateway
// that opens it goes into recovery (R4b).
func Restore(dir, path string) error {
	if _, err := os.Lstat(filepath.Join(dir, keysDir)); !errors.Is(err, os.ErrNotExist) {
		return spec.Refuse(spec.Conflict, "", dir+" has an identity already")
	}
	f, err := os.Open(path)
	if err != nil {
		return &spec.Error{Reason: spec.NotFound, Path: path, Err: err}
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return spec.Refuse(spec.Malformed, path, "a backup")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return disk(err)
	}
	temp, err := os.MkdirTemp(dir, ".restore-")
	if err != nil {
		return disk(err)
	}
	defer os.RemoveAll(temp)
	if err := unpack(tar.NewReader(z), temp); err != nil {
		return err
	}
	if err := writeNew(filepath.Join(temp, restoredName), nil); err != nil {
		return disk(err)
	}
	for _, name := range []string{restoredName, configName, policyName, journal, keysDir} { // keys last: they are the identity
		if err := os.Rename(filepath.Join(temp, name), filepath.Join(dir, name)); err != nil {
			return disk(err)
		}
	}
	return nil
}

// unpack takes the names that a backup has and no other.
func unpack(r *tar.Reader, dir string) error {
	if err := os.Mkdir(filepath.Join(dir, keysDir), 0o700); err != nil {
		return disk(err)
	}
	for {
		head, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return &spec.Error{Reason: spec.Malformed, Limit: "a backup", Err: err}
		}
		key, isKey := strings.CutPrefix(head.Name, keysDir+"/")
		known := head.Name == configName || head.Name == policyName || head.Name == journal
		if head.Typeflag != tar.TypeReg || !known && (!isKey || key != filepath.Base(key) || strings.HasPrefix(key, ".")) {
			return spec.Refuse(spec.Malformed, "/"+head.Name, "not part of a backup")
		}
		out, err := os.OpenFile(filepath.Join(dir, filepath.FromSlash(head.Name)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return disk(err)
		}
		_, err = io.Copy(out, r)
		if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
			return disk(err)
		}
	}
}
