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

//go:embed *.json bundles/*.json
var own embed.FS

// tb is the part of testing.TB that is needed, so that no binary links testing.
type tb interface {
	Helper()
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Variable names a folder that holds the external collection, where it does not
// lie in shared/vectors beside the module or above it.
const Variable = "SEALBRIDGE_VECTORS"

// External returns a file or folder of the external collection. Where there is
// no collection the test says what it could not run and is skipped; the
// project's own vectors test the same rules in a bare clone. Where there is one,
// a missing part of it is a failure, and so is a folder named by [Variable] that
// is not there: whoever asks for the vectors must not be told that all is well.
func External(t tb, name string) string {
	t.Helper()
	root, named := os.Getenv(Variable), true
	if root == "" {
		root, named = beside(t), false
	}
	if root == "" {
		t.Skipf("external vectors %q were not run: no shared/vectors beside this checkout and %s is not set", name, Variable)
		return ""
	}
	at := filepath.Join(root, name)
	if _, err := os.Stat(at); err != nil {
		t.Fatalf("external vectors %q are missing (named by %s: %v): %v", name, Variable, named, err)
	}
	return at
}

// beside walks up from the working directory to the first shared/vectors.
func beside(t tb) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("finding vectors: %v", err)
	}
	for {
		at := filepath.Join(dir, "shared", "vectors")
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			return at
		}
		up := filepath.Dir(dir)
		if up == dir {
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
