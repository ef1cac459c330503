package main

import (
	"bufio"
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

// jsonCase is one case of the parser collections.
type jsonCase struct {
	Name   string
	Input  []byte
	Repeat *struct {
		Head, Unit, Mid, Tail []byte
		Count                 int
		TailCount             int `json:"tail_count"`
	}
	JCS             string
	Strict          string
	Canonical       *string
	CanonicalSHA256 string `json:"canonical_sha256"`
	Flags           []string
	Depth           int
}

func (c jsonCase) bytes() []byte {
	if c.Repeat == nil {
		return c.Input
	}
	r := c.Repeat
	return bytes.Join([][]byte{r.Head, bytes.Repeat(r.Unit, r.Count), r.Mid, bytes.Repeat(r.Tail, r.TailCount)}, nil)
}

// refused says what a gateway must not take: what JCS refuses, and what D1 does besides.
func (c jsonCase) refused() bool {
	for _, f := range []string{"noncharacter", "unsafe_integer", "underflow_to_zero"} {
		if slices.Contains(c.Flags, f) {
			return true
		}
	}
	return c.JCS == "reject" || c.Strict == "reject" || c.Depth > 64
}

func TestCanonicalizeWritesTheExactBytesOrExits2(t *testing.T) {
	for _, file := range []string{"ijson-gateway/cases.jsonl", "jsontestsuite/parsing.jsonl", "jsontestsuite/transform.jsonl"} {
		t.Run(file, func(t *testing.T) {
			f, err := os.Open(vectors.External(t, file))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			lines := bufio.NewScanner(f)
			lines.Buffer(nil, 64<<20)
			n := 0
			for lines.Scan() {
				var c jsonCase
				if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
					t.Fatal(err)
				}
				n++
				checkCanonical(t, c)
			}
			if n < 20 {
				t.Fatalf("%d cases read", n)
			}
		})
	}
}

func checkCanonical(t *testing.T, c jsonCase) {
	t.Helper()
	code, out, errs := inProcess(c.bytes(), "canonicalize", "-")
	sum := sha256.Sum256([]byte(out))
	switch {
	case c.refused() || code == 2 && strings.Contains(errs, "error: too-large"):
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

// signatureCase is one document of the signature vectors.
type signatureCase struct {
	Name     string
	Document json.RawMessage
	Expect   []string
}

func signatureCases(t *testing.T) []signatureCase {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectors.External(t, "sealbridge"), "signatures.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Cases []signatureCase }
	if err := json.Unmarshal(b, &all); err != nil || len(all.Cases) < 10 {
		t.Fatalf("%d cases: %v", len(all.Cases), err)
	}
	return all.Cases
}

func TestVerifySaysTheWordOfEachSignature(t *testing.T) {
	for _, c := range signatureCases(t) {
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
	good := signatureCases(t)[0].Document
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
	cases := signatureCases(t)
	oracle := filepath.Join(filepath.Dir(filepath.Dir(vectors.External(t, "sealbridge"))), "oracle", "sbverify.mjs")
	if _, err := os.Stat(oracle); err != nil {
		t.Skipf("no second implementation beside the vectors: %s", filepath.Base(oracle))
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
