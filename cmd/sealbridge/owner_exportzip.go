package main

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"sealbridge/gateway"
	"sealbridge/gateway/local"
)

// exportZip writes the bundle, and with files what it names, into one file to hand
// on. It is whole or not there.
func (a *app) exportZip(ctx context.Context, cl *local.Client, task, path, bundle string, files bool) (err error) {
	dir, err := os.MkdirTemp("", "sealbridge-export")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "bundle.json"), []byte(bundle), 0o600); err != nil {
		return err
	}
	if files {
		if _, err := local.EvidenceFiles.Call(ctx, cl, gateway.Fetch{Task: task, Dir: dir}); err != nil {
			return err
		}
	}
	out, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // gone already where it went well
	w := zip.NewWriter(out)
	err = filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		return addToZip(w, filepath.ToSlash(name), at)
	})
	if err = errors.Join(err, w.Close(), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), path)
}

func addToZip(w *zip.Writer, name, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	to, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate}) // no time of ours in it
	if err != nil {
		return err
	}
	_, err = io.Copy(to, in)
	return err
}
