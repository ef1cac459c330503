package vectors

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// teller records what a test would be told.
type teller struct{ skipped, failed string }

func (r *teller) Helper()                       {}
func (r *teller) Skipf(format string, a ...any) { r.skipped = fmt.Sprintf(format, a...) }
func (r *teller) Fatalf(format string, a ...any) {
	r.failed = fmt.Sprintf(format, a...)
}

func TestExternalIsFoundAboveTheWorkingDirectory(t *testing.T) {
	t.Setenv(Variable, "")
	root := t.TempDir()
	want := filepath.Join(root, "shared", "vectors", "jcs")
	deep := filepath.Join(root, "main", "signing", "jcs")
	for _, dir := range []string{want, deep} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(deep)
	var r teller
	if got := External(&r, "jcs"); !same(t, got, want) || r != (teller{}) {
		t.Errorf("External = %q, %+v, want %q", got, r, want)
	}
	if External(&r, "no-such-folder"); !strings.Contains(r.failed, "no-such-folder") || r.skipped != "" {
		t.Errorf("a missing part of a collection: %+v, want a failure that names it", r)
	}
}

func TestABareCloneSaysWhatItSkips(t *testing.T) {
	t.Setenv(Variable, "")
	t.Setenv("CI", "true")
	t.Chdir(t.TempDir())
	var r teller
	if got := External(&r, "jcs"); got != "" || r.failed != "" || !strings.Contains(r.skipped, `"jcs"`) || !strings.Contains(r.skipped, Variable) {
		t.Errorf("External = %q, %+v, want a skip that names the folder and %s", got, r, Variable)
	}
}

func TestANamedFolderMustBeThere(t *testing.T) {
	root := t.TempDir()
	t.Setenv(Variable, root)
	var r teller
	if External(&r, "jcs"); r.failed == "" || r.skipped != "" {
		t.Errorf("%+v, want a failure", r)
	}
	if err := os.Mkdir(filepath.Join(root, "jcs"), 0o755); err != nil {
		t.Fatal(err)
	}
	r = teller{}
	if got := External(&r, "jcs"); got != filepath.Join(root, "jcs") || r != (teller{}) {
		t.Errorf("External = %q, %+v", got, r)
	}
}

func TestEveryOwnFileIsJSON(t *testing.T) {
	files, err := fs.Glob(own, "*.json")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		if !json.Valid(Own(t, name)) {
			t.Errorf("%s is not JSON", name)
		}
	}
	var r teller
	if Own(&r, "no-such-file.json"); r.failed == "" {
		t.Error("a missing file is no failure")
	}
}

func same(t *testing.T, a, b string) bool {
	x, err1 := filepath.EvalSymlinks(a)
	y, err2 := filepath.EvalSymlinks(b)
	return err1 == nil && err2 == nil && x == y
}
