package artifact

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"sealbridge/manifest"
	"sealbridge/spec"
)

// Import says how a file of the owner's disk comes in.
type Import struct {
	Path   string                      // links are resolved (K3)
	Name   string                      // of M3; empty: the last part of the path
	Hidden bool                        // policy lets hidden files go; without it never (K3)
	May    func(resolved string) error // asked before anything else about the file is said; nil: it may
}

// Import copies a regular file into the store and measures it. Who decides that
// it may leave needs Resolved: the path with its links resolved, which is what
// was read.
func (s *Store) Import(ctx context.Context, in Import) (ref manifest.ArtifactRef, resolved string, err error) {
	name := in.Name
	if name == "" {
		name = filepath.Base(in.Path)
	}
	resolved, err = resolve(in.Path)
	if err != nil {
		return manifest.ArtifactRef{}, "", err
	}
	if in.May != nil {
		if err := in.May(resolved); err != nil {
			return manifest.ArtifactRef{}, resolved, err
		}
	}
	if !in.Hidden && (hidden(resolved) || hidden(filepath.Base(in.Path))) {
		return manifest.ArtifactRef{}, resolved, spec.Refuse(spec.PolicyDenied, "/path", "K3: hidden files do not leave")
	}
	f, err := openRegular(resolved)
	if err != nil {
		return manifest.ArtifactRef{}, resolved, err
	}
	defer f.Close()
	ref, err = s.Put(ctx, name, "", f, MaxSize)
	return ref, resolved, err
}

// resolve makes a path absolute and free of links.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", &spec.Error{Reason: spec.NotFound, Path: "/path", Limit: "no such file", Err: err}
	}
	return abs, nil
}

// hidden says whether any part of a path begins with a dot.
func hidden(path string) bool {
	for _, part := range strings.Split(filepath.ToSlash(path), "/") {
		if strings.HasPrefix(part, ".") && part != "." && part != ".." {
			return true
		}
	}
	return false
}

// openRegular opens a regular file and nothing that only looks like one: a pipe
// does not hold us up, a link put there meanwhile is not followed.
func openRegular(path string) (*os.File, error) {
	refuse := func(err error) error {
		return &spec.Error{Reason: spec.NotPermitted, Path: "/path", Limit: "regular files only", Err: err}
	}
	before, err := os.Lstat(path)
	if err != nil || !before.Mode().IsRegular() {
		return nil, refuse(err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, refuse(err)
	}
	after, err := f.Stat()
	if err != nil || !after.Mode().IsRegular() || !os.SameFile(before, after) {
		f.Close()
		return nil, refuse(err)
	}
	return f, nil
}
