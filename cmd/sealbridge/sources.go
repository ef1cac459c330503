package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Bounds of what one path may hold, because an auditor's file may come from
// somebody who wants the reader to fail.
const (
	maxMembers  = 10_000  // files of a zip or folder
	maxUnpacked = 4 << 30 // bytes of them together
)

// source is one file that may be evidence; open may be called again.
type source struct {
	name string
	open func() (io.ReadCloser, error)
}

// sources lists what stands behind a path: a file, the files of a folder or of
// a zip, or stdin. packed says that there may be others than evidence.
func (a *app) sources(at string) (list []source, packed bool, done func(), err error) {
	done = func() {}
	if at == "-" {
		b, err := readFile(a, "-", jcs.MaxStreamBytes)
		return []source{{"-", func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}}, false, done, err
	}
	info, err := os.Stat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, done, &problem{err: spec.Refuse(spec.NotFound, at, "no such file"), exit: exitUsage}
	case err != nil:
		return nil, false, done, &spec.Error{Reason: spec.Unavailable, Path: at, Err: err}
	case info.IsDir():
		list, err = folderSources(at)
		return list, true, done, err
	}
	if isZip(at) {
		z, err := zip.OpenReader(at)
		if err != nil {
			return nil, true, done, &spec.Error{Reason: spec.Malformed, Path: at, Err: err}
		}
		list, err = zipSources(at, z)
		return list, true, func() { z.Close() }, err //nolint:errcheck // only read
	}
	return []source{{at, func() (io.ReadCloser, error) { return os.Open(at) }}}, false, done, nil
}

func isZip(at string) bool {
	f, err := os.Open(at)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [4]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && string(head[:]) == "PK\x03\x04"
}

// folderSources follows no link.
func folderSources(at string) (list []source, err error) {
	var total int64
	err = filepath.WalkDir(at, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		name, err := filepath.Rel(at, p)
		if err != nil {
			return err
		}
		list = append(list, source{manifest.Display(filepath.ToSlash(name), 200), func() (io.ReadCloser, error) { return os.Open(p) }})
		return bounded(at, len(list), total)
	})
	return list, err
}

func zipSources(at string, z *zip.ReadCloser) (list []source, err error) {
	var total int64
	if err := bounded(at, len(z.File), 0); err != nil { // folders count too
		return nil, err
	}
	for _, f := range z.File {
		if f.FileInfo().IsDir() {
			continue
		}
		total += int64(min(f.UncompressedSize64, maxUnpacked+1)) //nolint:gosec // bounded
		list = append(list, source{cleanName(f.Name), func() (io.ReadCloser, error) { return f.Open() }})
		if err := bounded(at, len(list), total); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func bounded(at string, members int, total int64) error {
	if members > maxMembers {
		return spec.Refuse(spec.TooLarge, at, fmt.Sprintf("%d files", maxMembers))
	}
	if total > maxUnpacked {
		return spec.Refuse(spec.TooLarge, at, "4 GiB of files")
	}
	return nil
}

// cleanName is a zip's name as it may be shown; nothing is ever written to it.
func cleanName(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, `\`, "/")), "/")
	return manifest.Display(name, 200)
}

// kind is what a file turned out to be at first sight.
type kind int

const (
	other  kind = iota // no JSON, or JSON without a word of ours
	single             // one document
	stream             // a bundle or several documents
	broken             // named as JSON and is none
)

// look reads a file as far as it takes to say what it is; value is that of a
// single document.
func look(s source) (k kind, value jcs.Value, err error) {
	f, err := s.open()
	if err != nil {
		if namedJSON(s.name) {
			return broken, value, unopened(s.name, err)
		}
		return other, value, unopened(s.name, err)
	}
	defer f.Close()
	n := 0
	for v, err := range jcs.Documents(f, jcs.DocumentLimits) {
		if err != nil {
			if n == 0 && !namedJSON(s.name) {
				return other, value, err
			}
			return broken, value, err
		}
		if n++; n == 2 {
			return stream, jcs.Value{}, nil
		}
		value = v
	}
	switch {
	case n == 0:
		return broken, value, spec.Refuse(spec.Malformed, s.name, "no document")
	case isOurs(value):
		return single, value, nil
	}
	return other, value, nil
}

func namedJSON(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".json", ".ndjson", ".jsonl":
		return true
	}
	return false
}

// isOurs says whether v claims to be a document of this protocol.
func isOurs(v jcs.Value) bool {
	for _, name := range []string{"signature", "signatures", "documents"} {
		if _, ok := v.Member(name); ok {
			return true
		}
	}
	member, _ := v.Member("type")
	name, _ := member.Text()
	return strings.HasPrefix(name, "sealbridge/") || isManifest(v)
}

// fileSum is a file with the digest by which evidence may name it. looked is
// what look said; a file that cannot be read says so.
func fileSum(s source, looked error) (fileWord, error) {
	w := fileWord{Path: s.name}
	f, err := s.open()
	if err == nil {
		defer f.Close()
		h := sha256.New()
		w.Bytes, err = io.Copy(h, io.LimitReader(f, maxUnpacked))
		w.Digest = signing.DigestFrom([32]byte(h.Sum(nil)))
	}
	if err != nil {
		return fileWord{Path: s.name, Is: "cannot be read"}, unopened(s.name, err)
	}
	return w, looked
}

// unopened is a file that the system or the zip does not give; its folder is nobody's business.
func unopened(name string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return &spec.Error{Reason: spec.Unavailable, Path: name, Err: err}
}
