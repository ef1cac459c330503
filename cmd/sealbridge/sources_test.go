package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sealbridge/spec/vectors"
)

// zipOf makes a zip; each part may lie.
func zipOf(t *testing.T, parts ...func(*zip.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, p := range parts {
		if err := p(w); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "case.zip")
	if err := os.WriteFile(at, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

func entry(name string, content []byte) func(*zip.Writer) error {
	return func(w *zip.Writer) error {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write(content)
		}
		return err
	}
}

// lying is a stored member whose header says what it likes.
func lying(name string, content []byte, change func(*zip.FileHeader)) func(*zip.Writer) error {
	return func(w *zip.Writer) error {
		h := &zip.FileHeader{Name: name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(content), CompressedSize64: uint64(len(content)), UncompressedSize64: uint64(len(content))}
		change(h)
		f, err := w.CreateRaw(h)
		if err == nil {
			_, err = f.Write(content)
		}
		return err
	}
}

// A zip may come from somebody who wants the reader to fail: it is refused, or
// what cannot be read in it is named, and nothing is written anywhere.
func TestAHostileZipIsBoundedAndNamed(t *testing.T) {
	good := vectors.Own(t, "bundles/requester.json")
	bundle := entry("bundle.json", good)
	many := func(suffix string) func(*zip.Writer) error {
		return func(w *zip.Writer) error {
			for i := range maxMembers + 1 {
				if _, err := w.Create(fmt.Sprint(i, suffix)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		parts []func(*zip.Writer) error
		exit  int
		says  string
	}{
		"a file more than there may be":   {[]func(*zip.Writer) error{bundle, many(".txt")}, exitUsage, "too-large"},
		"as many folders":                 {[]func(*zip.Writer) error{bundle, many("/")}, exitUsage, "too-large"},
		"five gigabytes by its own word":  {[]func(*zip.Writer) error{bundle, lying("a.bin", []byte("x"), func(h *zip.FileHeader) { h.UncompressedSize64 = 5 << 30 })}, exitUsage, "too-large"},
		"more than it says":               {[]func(*zip.Writer) error{bundle, lying("a.bin", []byte("xyz"), func(h *zip.FileHeader) { h.UncompressedSize64 = 1 })}, exitDone, "a.bin"},
		"another checksum":                {[]func(*zip.Writer) error{bundle, lying("a.bin", []byte("xyz"), func(h *zip.FileHeader) { h.CRC32++ })}, exitDone, "cannot be read"},
		"a method that nobody knows":      {[]func(*zip.Writer) error{bundle, lying("a.bin", []byte("xyz"), func(h *zip.FileHeader) { h.Method = 99 })}, exitDone, "cannot be read"},
		"evidence that cannot be read":    {[]func(*zip.Writer) error{bundle, lying("b.json", good, func(h *zip.FileHeader) { h.Method = 99 })}, exitNo, "evidence that cannot be read"},
		"evidence with another checksum":  {[]func(*zip.Writer) error{lying("b.json", good, func(h *zip.FileHeader) { h.CRC32++ })}, exitNo, "NOT VERIFIED"},
		"a name that leaves":              {[]func(*zip.Writer) error{bundle, entry("../../../tmp/evil.txt", []byte("x"))}, exitDone, " tmp/evil.txt"},
		"a name of another system":        {[]func(*zip.Writer) error{bundle, entry(`..\..\C:\evil.txt`, []byte("x"))}, exitDone, " C:/evil.txt"},
		"a name that paints the terminal": {[]func(*zip.Writer) error{bundle, entry("a\x1b[31m\u202eb.txt", []byte("x"))}, exitDone, "⟨U+202E⟩"},
		"a name twice":                    {[]func(*zip.Writer) error{bundle, entry("a.txt", []byte("x")), entry("a.txt", []byte("y"))}, exitDone, "a.txt"},
	} {
		code, out, errs := inProcess(nil, "verify", zipOf(t, c.parts...))
		if code != c.exit || !strings.Contains(out+errs, c.says) || strings.ContainsAny(out+errs, "\x1b\u202e") || strings.Contains(out, "..") {
			t.Errorf("%s: exit %d, want %d with %q:\n%s%s", name, code, c.exit, c.says, out, errs)
		}
	}
}

// Every member of the archive is listed, once each.
func TestEveryFileOfAZipIsListed(t *testing.T) {
	at := zipOf(t, entry("bundle.json", vectors.Own(t, "bundles/requester.json")), entry("x/revenue.csv", []byte("revenue")), entry("x/", nil), entry("mail.pdf", []byte("%PDF")), entry("x/mail.pdf", []byte("%PDF")))
	_, out, errs := inProcess(nil, "--json", "verify", at)
	var v struct {
		Files []fileWord `json:"files"`
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	want := map[string]string{"bundle.json": "evidence, verified", "x/revenue.csv": "is the delivered revenue.csv (revision 1)", "mail.pdf": "ignored, not evidence", "x/mail.pdf": "ignored, not evidence"}
	if len(v.Files) != len(want) {
		t.Errorf("%+v", v.Files)
	}
	for _, f := range v.Files {
		if f.Is != want[f.Path] {
			t.Errorf("%s is %q, want %q", f.Path, f.Is, want[f.Path])
		}
	}
}
