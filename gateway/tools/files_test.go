package tools_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sealbridge/gateway/tools"
	"sealbridge/signing/jcs"
)

// shelf is a folder with what may be read, and what lies beside it.
func shelf(t *testing.T) (call func(tool, arguments string) string, root string) {
	t.Helper()
	dir := t.TempDir()
	root = filepath.Join(dir, "shelf")
	for name, text := range map[string]string{
		"shelf/a.txt": "alpha", "shelf/public/b.txt": "beta", "shelf/private/c.txt": "SECRET", "shelf/.hidden": "SECRET", "shelf/.git/config": "SECRET",
		"outside.txt": "SECRET", "shelf/bytes.bin": "\xff\xfe\x00", "shelf/odd.txt": "x\ufffey", "shelf/long.txt": strings.Repeat("ü", 200_000),
	} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out": "../outside.txt", "public/in": "../private/c.txt", "up": "..", "public/there": "../private", "self": "."} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := tools.New([]tools.Server{{Name: "docs", Files: root}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Close)
	return func(tool, arguments string) string {
		t.Helper()
		args, err := jcs.Canonicalize([]byte(arguments))
		if err != nil {
			t.Fatal(err)
		}
		v, err := all.Call(t.Context(), tool, args)
		if err != nil {
			return "error: " + err.Error()
		}
		return v.String()
	}, root
}

func TestAFolderIsReadAndListed(t *testing.T) {
	call, _ := shelf(t)
	for _, c := range []struct{ tool, args, want string }{
		{"docs.read", `{"path":"a.txt"}`, `"text":"alpha"`},
		{"docs.read", `{"path":"public/b.txt"}`, `"text":"beta"`},
		{"docs.read", `{"path":"a.txt","offset":2}`, `"text":"pha"`},
		{"docs.read", `{"path":"a.txt","offset":9}`, `"text":""`},
		{"docs.read", `{"path":"bytes.bin"}`, `"base64":"//4A"`},
		{"docs.read", `{"path":"odd.txt"}`, `"base64":"eO+/vnk="`}, // no text that a document may hold (D1)
		{"docs.list", `{}`, `"name":"public"`},
		{"docs.list", `{"path":"public"}`, `"entries":[{"name":"b.txt","size":4}]`}, // no links
		{"docs.read", `{"path":"long.txt"}`, `"next_offset":262144,"size":400000`},
	} {
		if got := call(c.tool, c.args); !strings.Contains(got, c.want) || strings.Contains(got, "isError") {
			t.Errorf("%s %s = %.300s, want %s", c.tool, c.args, got, c.want)
		}
	}
}

func TestNoPathTrickLeavesTheFolder(t *testing.T) {
	call, root := shelf(t)
	for _, path := range []string{
		"../outside.txt", "public/../../outside.txt", "/etc/passwd", root + "/a.txt", "out", "public/in", "up/outside.txt", "up", "public/there/c.txt", "self/a.txt",
		".hidden", ".git/config", "./a.txt", "public/./b.txt", "public//b.txt", "a.txt/", "/a.txt", "a.txt/../private/c.txt", "", "..", ".", "public", "a.txt/x",
		`..\outside.txt`, `public\b.txt`, "..%2foutside.txt", "%2e%2e/outside.txt", "a.txt\x00", "file:///etc/passwd", "C:/x", strings.Repeat("d/", 40) + "x", strings.Repeat("x", 5000),
	} {
		args, err := jcs.Encode(map[string]string{"path": path})
		if err != nil {
			t.Fatal(err)
		}
		got := call("docs.read", args.String())
		if !strings.Contains(got, "not-found") || strings.Contains(got, "SECRET") || !strings.Contains(got, `"isError":true`) {
			t.Errorf("read %q = %.200s", path, got)
		}
		if got := call("docs.list", args.String()); path != "" && path != "public" && !strings.Contains(got, "not-found") {
			t.Errorf("list %q = %.200s", path, got)
		}
	}
	for _, args := range []string{`{}`, `{"path":1}`, `{"path":"a.txt","offset":-1}`, `{"path":"a.txt","more":1}`, `{"path":["a.txt"]}`} {
		if got := call("docs.read", args); !strings.Contains(got, `"isError":true`) {
			t.Errorf("read %s = %s", args, got)
		}
	}
	for _, tool := range []string{"docs.write", "docs.", "docs", "other.read", ".read"} {
		if got := call(tool, `{"path":"a.txt"}`); !strings.Contains(got, "not-found") {
			t.Errorf("%s = %s", tool, got)
		}
	}
}

func TestALongFileIsReadInPartsAndNoCharacterIsCut(t *testing.T) {
	call, root := shelf(t)
	if err := os.WriteFile(filepath.Join(root, "odd-cut.txt"), []byte("x"+strings.Repeat("ü", 200_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	got := call("docs.read", `{"path":"odd-cut.txt"}`)
	if !strings.Contains(got, `"next_offset":262143,`) || strings.Contains(got, "base64") {
		t.Errorf("%.100s … %s", got, got[len(got)-100:])
	}
	if got := call("docs.read", `{"path":"odd-cut.txt","offset":262143}`); strings.Contains(got, "next_offset") || strings.Contains(got, "base64") {
		t.Errorf("%.100s … %s", got, got[len(got)-100:])
	}
}
