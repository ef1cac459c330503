package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sealbridge/spec/vectors"
)

func TestCanonicalizeWritesTheExactBytesOrExits2(t *testing.T) {
	for _, file := range vectors.ParsingFiles {
		t.Run(file, func(t *testing.T) {
			vectors.Parsing(t, file, func(c vectors.ParsingCase) { checkCanonical(t, c) })
		})
	}
}

func checkCanonical(t *testing.T, c vectors.ParsingCase) {
	t.Helper()
	code, out, errs := inProcess(c.Bytes(), "canonicalize", "-")
	sum := sha256.Sum256([]byte(out))
	switch {
	case c.JCS == "reject" || c.Stricter(64) || code == 2 && strings.Contains(errs, "error: too-large"):
		if code != 2 || out != "" {
			t.Errorf("%s: exit %d and %q, want 2 and nothing", c.Name, code, out)
		}
	case code != 0:
		t.Errorf("%s: exit %d: %s", c.Name, code, errs)
	case c.Canonical != nil && out != *c.Canonical:
		t.Errorf("%s: %q, want %q", c.Name, out, *c.Canonical)
	case c.CanonicalSHA256 != "" && hex.EncodeToString(sum[:]) != c.CanonicalSHA256:
		t.Errorf("%s: other bytes", c.Name)
	}
}

func TestVerifySaysTheWordOfEachSignature(t *testing.T) {
	for _, c := range vectors.Signatures(t) {
		code, out, errs := inProcess(c.Document, "verify", "--json", "-")
		var got struct {
			Verified bool
			Signers  []signerWord
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Errorf("%s: exit %d, %q %q: %v", c.Name, code, out, errs, err)
			continue
		}
		var words []string
		for _, s := range got.Signers {
			words = append(words, s.Word)
		}
		if !slices.Equal(words, c.Expect) {
			t.Errorf("%s: %v, want %v", c.Name, words, c.Expect)
		}
		if bad := slices.ContainsFunc(words, func(w string) bool { return w != "ok" }); bad && (got.Verified || code != 1) || got.Verified != (code == 0) {
			t.Errorf("%s: verified %t, exit %d", c.Name, got.Verified, code)
		}
	}
}

func TestVerifyRefusesEveryFlippedByte(t *testing.T) {
	good := vectors.Signatures(t)[0].Document
	if code, _, errs := inProcess(good, "verify", "-"); code != 0 {
		t.Fatalf("the good one: exit %d: %s", code, errs)
	}
	var doc bytes.Buffer
	if err := json.Compact(&doc, good); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < doc.Len(); i += 7 { // every seventh: the law's own tests change each
		changed := bytes.Clone(doc.Bytes())
		changed[i] ^= 1
		if code, out, _ := inProcess(changed, "verify", "-"); code != 1 && code != 2 {
			t.Errorf("byte %d of %d: exit %d: %s", i, doc.Len(), code, out)
		}
	}
}

// TestASecondImplementationAgrees runs an independent verifier on the same documents.
func TestASecondImplementationAgrees(t *testing.T) {
	cases := vectors.Signatures(t)
	oracle := filepath.Join(filepath.Dir(filepath.Dir(vectors.External(t, "sealbridge"))), "oracle", "sbverify.mjs")
	if _, err := os.Stat(oracle); err != nil {
		t.Skipf("no second implementation beside the vectors: %s", filepath.Base(oracle))
	}
	if real, err := filepath.EvalSymlinks(oracle); err == nil {
		oracle = real // it runs nothing where its name is a link's
	}
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("node is needed to run the second implementation")
		}
		t.Skip("no node on this machine: the second implementation was not run")
	}
	for _, c := range cases {
		file := filepath.Join(t.TempDir(), "document.json")
		if err := os.WriteFile(file, c.Document, 0o600); err != nil {
			t.Fatal(err)
		}
		err := exec.Command(node, oracle, file).Run()
		code, _, _ := inProcess(nil, "verify", file)
		if agreed := (err == nil) == (code == 0); !agreed {
			t.Errorf("%s: ours exits %d, theirs says %v", c.Name, code, err)
		}
	}
}
