package policy

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

var errGlob = errors.New("a glob is an absolute path")

// compileGlob reads an absolute path in which * stands for a part of one
// segment and ** as a whole segment for any number of segments. Whoever loads
// the policy has put the home folder for ~.
func compileGlob(g string) (*regexp.Regexp, error) {
	if !strings.HasPrefix(g, "/") && !strings.HasPrefix(g, "~/") || len(g) > MaxPolicyText {
		return nil, errGlob
	}
	b := []byte("^")
	for i, seg := range strings.Split(strings.TrimPrefix(g, "/"), "/") {
		if seg == ".." || seg == "." || seg == "" {
			return nil, errGlob
		}
		if i > 0 || g[0] == '/' {
			b = append(b, '/')
		}
		if seg == "**" {
			b = append(b, `[^/]+(?:/[^/]+)*`...)
			continue
		}
		b = append(b, strings.ReplaceAll(regexp.QuoteMeta(seg), `\*`, `[^/]*`)...)
	}
	return regexp.Compile(string(b) + "$")
}

// maySend says whether one of the globs lists the path. A hidden file, or one
// in a hidden folder, never leaves (K3).
func maySend(globs []string, path string) bool {
	segs := strings.Split(path, "/")
	if !strings.HasPrefix(path, "/") || slices.ContainsFunc(segs[1:], func(s string) bool { return s == "" || s[0] == '.' }) {
		return false
	}
	return slices.ContainsFunc(globs, func(g string) bool {
		re, err := compileGlob(g)
		return err == nil && re.MatchString(path)
	})
}
