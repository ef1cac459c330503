package tools

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// folder is the built-in server over one folder: list and read, nothing else.
// A path is segments below the folder; no link is followed, not even one that
// stays inside, because what was granted is a path and not what lies behind it.
// Hidden files are not there (K3).
type folder struct{ root string }

func (folder) close() {}

var fileOffers = []Offer{
	{Name: "list", About: "Lists a folder: the folder itself without path, else one below it.", ReadOnly: true,
		Input: mustValue(`{"additionalProperties":false,"properties":{"path":{"type":"string"}},"type":"object"}`)},
	{Name: "read", About: "Reads a file: up to 256 KiB from offset on, as text or as base64.", ReadOnly: true,
		Input: mustValue(`{"additionalProperties":false,"properties":{"offset":{"minimum":0,"type":"integer"},"path":{"type":"string"}},"required":["path"],"type":"object"}`)},
}

func mustValue(s string) jcs.Value {
	v, err := jcs.Parse([]byte(s))
	if err != nil {
		panic(err) // a literal of this file
	}
	return v
}

func (f folder) offers(context.Context) ([]Offer, error) {
	out := make([]Offer, len(fileOffers))
	copy(out, fileOffers)
	return out, nil
}

type fileQuestion struct {
	Path   string `json:"path,omitempty"`
	Offset int64  `json:"offset,omitempty" rule:"num=0..1099511627776"`
}

func (f folder) call(_ context.Context, tool string, arguments jcs.Value) (jcs.Value, error) {
	var q fileQuestion
	if err := jcs.Decode(arguments, &q); err != nil {
		return failed("malformed: path, and offset for read"), nil
	}
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return jcs.Value{}, unsent("the folder is not there", err)
	}
	defer root.Close()
	switch tool {
	case "list":
		out, err := list(root, q.Path)
		if err != nil {
			return failed(err.Error()), nil
		}
		return listed(out)
	case "read":
		b, out, err := read(root, q.Path, q.Offset)
		if err != nil {
			return failed(err.Error()), nil
		}
		return paged(b, out)
	}
	return jcs.Value{}, spec.Refuse(spec.NotFound, "/tool", "list or read")
}

// errNoFile is the one answer for what is not there, is hidden, is a link or is no plain file.
var errNoFile = errors.New("not-found: no such file")

// segments splits a path as the resource of its call is split (C1): what is not
// plain segments is no path here, however the machine would read it.
func segments(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	segs := strings.Split(path, "/")
	for _, s := range segs {
		if s == "" || s[0] == '.' || strings.ContainsAny(s, "\\\x00:") {
			return nil, errNoFile
		}
	}
	if len(segs) > maxSegments {
		return nil, errNoFile
	}
	return segs, nil
}

// descend opens the folder that segs lead to, link by link refused.
func descend(root *os.Root, segs []string) (*os.Root, error) {
	at, err := root.OpenRoot(".")
	for _, s := range segs {
		if err != nil {
			return nil, errNoFile
		}
		var next *os.Root
		next, err = step(at, s)
		at.Close()
		at = next
	}
	if err != nil {
		return nil, errNoFile
	}
	return at, nil
}

// step opens a folder inside at, if it is one and the one that was looked at.
func step(at *os.Root, name string) (*os.Root, error) {
	seen, err := at.Lstat(name)
	if err != nil || !seen.IsDir() {
		return nil, errNoFile
	}
	next, err := at.OpenRoot(name)
	if err != nil {
		return nil, errNoFile
	}
	if is, err := next.Stat("."); err != nil || !os.SameFile(seen, is) {
		next.Close()
		return nil, errNoFile
	}
	return next, nil
}

type entry struct {
	Name   string `json:"name"`
	Folder bool   `json:"folder,omitempty"`
	Size   int64  `json:"size"`
}

type listing struct {
	Entries []entry `json:"entries"`
	More    bool    `json:"more,omitempty"`
}

func list(root *os.Root, path string) (out listing, err error) {
	out.Entries = []entry{}
	segs, err := segments(path)
	if err != nil {
		return out, err
	}
	at, err := descend(root, segs)
	if err != nil {
		return out, err
	}
	defer at.Close()
	all, err := fs.ReadDir(at.FS(), ".")
	if err != nil {
		return out, errNoFile
	}
	for _, e := range all {
		info, err := e.Info()
		if err != nil || e.Name()[0] == '.' || !utf8.ValidString(e.Name()) || !info.Mode().IsRegular() && !info.IsDir() {
			continue
		}
		if len(out.Entries) == maxEntries {
			out.More = true
			break
		}
		x := entry{Name: e.Name(), Folder: info.IsDir()}
		if !x.Folder {
			x.Size = info.Size()
		}
		out.Entries = append(out.Entries, x)
	}
	return out, nil
}

// page is one part of a file; its text stands in the result's content.
type page struct {
	Base64 string `json:"base64,omitempty"` // of what is no text
	Size   int64  `json:"size"`             // of the whole file, in bytes
	Next   int64  `json:"next_offset,omitempty"`
}

func read(root *os.Root, path string, offset int64) (b []byte, out page, err error) {
	f, err := openFile(root, path)
	if err != nil {
		return nil, out, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, out, errNoFile
	}
	out.Size = info.Size()
	if b, err = io.ReadAll(io.NewSectionReader(f, offset, maxPage)); err != nil {
		return nil, out, errors.New("unavailable: the file cannot be read")
	}
	if len(b) == maxPage {
		b = b[:wholeRunes(b)]
	}
	if end := offset + int64(len(b)); end < out.Size && len(b) > 0 {
		out.Next = end
	}
	return b, out, nil
}

// openFile opens a plain file below the folder, the one that was looked at.
func openFile(root *os.Root, path string) (*os.File, error) {
	segs, err := segments(path)
	if err != nil || len(segs) == 0 {
		return nil, errNoFile
	}
	at, err := descend(root, segs[:len(segs)-1])
	if err != nil {
		return nil, err
	}
	defer at.Close()
	name := segs[len(segs)-1]
	seen, err := at.Lstat(name)
	if err != nil || !seen.Mode().IsRegular() {
		return nil, errNoFile
	}
	f, err := at.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, errNoFile
	}
	if is, err := f.Stat(); err != nil || !os.SameFile(seen, is) {
		f.Close()
		return nil, errNoFile
	}
	return f, nil
}

// wholeRunes is the length of b without a character that its end cuts; len(b) where it is no text.
func wholeRunes(b []byte) int {
	for back := 0; back < utf8.UTFMax && back < len(b); back++ {
		if n := len(b) - back; utf8.RuneStart(b[n-1]) {
			if utf8.FullRune(b[n-1:]) {
				return len(b)
			}
			return n - 1
		}
	}
	return len(b)
}

// listed is a listing as a tool result: a line an entry for a model, and as it is.
func listed(l listing) (jcs.Value, error) {
	var b strings.Builder
	for _, e := range l.Entries {
		b.WriteString(e.Name)
		if e.Folder {
			b.WriteByte('/')
		}
		b.WriteByte('\n')
	}
	return result(b.String(), l, false)
}

// paged is a part of a file as a tool result. What is no text, or none that a
// document may hold (D1), goes as base64.
func paged(b []byte, p page) (jcs.Value, error) {
	if utf8.Valid(b) {
		if v, err := result(string(b), p, false); err == nil {
			return v, nil
		}
	}
	p.Base64 = base64.StdEncoding.EncodeToString(b)
	return result("not text: base64 in the structured content", p, false)
}

// failed is a tool's own no: a result that says so.
func failed(text string) jcs.Value {
	v, err := result(text, nil, true)
	if err != nil {
		return mustValue(`{"content":[],"isError":true}`)
	}
	return v
}

func result(text string, structured any, bad bool) (jcs.Value, error) {
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	return canonical(struct {
		Content    []content `json:"content"`
		IsError    bool      `json:"isError,omitempty"`
		Structured any       `json:"structuredContent,omitempty"`
	}{[]content{{"text", text}}, bad, structured})
}
