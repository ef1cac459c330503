package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sealbridge/manifest"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/spec"
)

// writeReport writes the HTML page that two experts can hold against each other:
// the same inputs, options and version give the same bytes on any machine.
func (a *app) writeReport(paths []string, all []verdict, inputs []audit.Input, q asked) error {
	o, err := originOf(paths, inputs, q)
	if err != nil {
		return err
	}
	all = slices.Clone(all)
	for i := range all {
		all[i].File = lastPart(all[i].typed) + strings.TrimPrefix(all[i].File, all[i].typed)
	}
	var pages []*audit.Page
	if q.compare {
		pages = append(pages, comparePage(all[0], all[1], q))
	}
	for _, v := range all {
		pages = append(pages, v.page(q))
	}
	var b bytes.Buffer
	if err := audit.HTML(o, pages, &b); err != nil {
		return err
	}
	if err := os.WriteFile(q.report, b.Bytes(), 0o644); err != nil {
		return unopened(q.report, err)
	}
	a.note("report: %s", q.report)
	return nil
}

// originOf has no clock, machine or folder in it, and not the report's own name.
func originOf(paths []string, inputs []audit.Input, q asked) (o audit.Origin, err error) {
	b := builtFrom()
	o = audit.Origin{Tool: "sealbridge " + b.Version + ", protocol " + b.Protocol, Command: q.command(paths), Inputs: inputs}
	if b.Revision != "" {
		o.Tool += ", revision " + b.Revision
	}
	if b.Modified {
		o.Tool += " and changes"
	}
	for _, t := range q.trust {
		if _, ok := trustPair(t); ok {
			continue
		}
		d, err := sumOf(source{t, func() (io.ReadCloser, error) { return os.Open(t) }})
		if err != nil {
			return o, err
		}
		o.Inputs = append(o.Inputs, audit.Input{Name: lastPart(t), What: "known keys", Digest: d})
	}
	return o, nil
}

// command is what was typed, in one order, with the last parts of paths.
func (q asked) command(paths []string) string {
	words := []string{"sealbridge", "verify"}
	add := func(w string) { words = append(words, quoted(w)) }
	for _, p := range paths {
		add(lastPart(p))
	}
	for _, t := range q.trust {
		if _, ok := trustPair(t); !ok {
			t = lastPart(t)
		}
		add("--trust")
		add(t)
	}
	if len(q.require) > 0 {
		add("--require")
		add(strings.Join(q.require, ","))
	}
	if q.at != "" {
		add("--at")
		add(q.at)
	}
	if q.compare {
		add("--compare")
	}
	if q.who {
		add("--who")
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func quoted(w string) string {
	if plainWord.MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(manifest.Display(w, 300), "'", `'\''`) + "'"
}

// lastPart is a path as it may be shown to others.
func lastPart(p string) string {
	if p == "-" {
		return p
	}
	return manifest.Display(filepath.Base(filepath.ToSlash(p)), 200)
}

// inputOf names what was read. A folder's digest is that of a list of its
// files, "DIGEST  PATH" a line, in the order of the paths.
func inputOf(at string, list []source, packed bool) (in audit.Input, err error) {
	in = audit.Input{Name: lastPart(at), What: "file"}
	if !packed {
		in.Digest, err = sumOf(list[0])
		return in, err
	}
	info, err := os.Stat(at)
	if err != nil {
		return in, unopened(lastPart(at), err)
	}
	if !info.IsDir() {
		in.What = "zip of " + counted(len(list), "file")
		in.Digest, err = sumOf(source{at, func() (io.ReadCloser, error) { return os.Open(at) }})
		return in, err
	}
	in.What = "folder of " + counted(len(list), "file")
	h := sha256.New()
	byPath := func(x, y source) int { return strings.Compare(x.name, y.name) }
	for _, s := range slices.SortedFunc(slices.Values(list), byPath) {
		d, err := sumOf(s)
		if err != nil {
			return in, err
		}
		fmt.Fprintf(h, "%s  %s\n", d, s.name)
	}
	in.Digest = signing.DigestFrom([32]byte(h.Sum(nil)))
	return in, nil
}

func sumOf(s source) (signing.Digest, error) {
	f, err := s.open()
	if err != nil {
		return signing.Digest{}, unopened(lastPart(s.name), err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxUnpacked+1)); err != nil {
		return signing.Digest{}, &spec.Error{Reason: spec.Malformed, Path: lastPart(s.name), Err: fmt.Errorf("reading: %w", err)}
	}
	return signing.DigestFrom([32]byte(h.Sum(nil))), nil
}
