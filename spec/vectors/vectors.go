// Package vectors finds test vectors: the project's own, embedded, and the
// external collection, where a checkout has it beside it. Any implementation
// can read both; good and bad cases stand side by side, each with the word that
// is expected.
package vectors

import (
	"embed"
	"os"
	"path/filepath"
)

//go:embed *.json
var own embed.FS

// tb is the part of testing.TB that is needed, so that no binary links testing.
type tb interface {
	Helper()
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// External returns a folder of the external collection. Where it is absent the
// test says what it could not run and is skipped; the project's own vectors
// test the same rules in a bare clone.
func External(t tb, folder string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("finding vectors: %v", err)
	}
	for {
		at := filepath.Join(dir, "shared", "vectors", folder)
		if _, err := os.Stat(at); err == nil {
			return at
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Skipf("external vectors %q are not beside this checkout: not run", folder)
			return ""
		}
		dir = up
	}
}

// Own returns an embedded file of vectors.
func Own(t tb, name string) []byte {
	t.Helper()
	b, err := own.ReadFile(name)
	if err != nil {
		t.Fatalf("reading vectors: %v", err)
	}
	return b
}
