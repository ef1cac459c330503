package vectors

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
)

// ParsingFiles are the collections of texts that a JSON reader takes or refuses.
var ParsingFiles = []string{"jsontestsuite/parsing.jsonl", "jsontestsuite/transform.jsonl", "ijson-gateway/cases.jsonl"}

// ParsingCase is one text with what is expected of a reader and a canonicaliser.
type ParsingCase struct {
	Name   string
	Input  []byte
	Repeat *struct { // instead of Input, where that would be long
		Head, Unit, Mid, Tail []byte
		Count                 int
		TailCount             int `json:"tail_count"`
	}
	JCS             string // accept or reject
	Strict          string
	Canonical       *string
	CanonicalSHA256 string `json:"canonical_sha256"`
	Flags           []string
	Depth           int
}

// Bytes is the text.
func (c ParsingCase) Bytes() []byte {
	if c.Repeat == nil {
		return c.Input
	}
	r := c.Repeat
	return bytes.Join([][]byte{r.Head, bytes.Repeat(r.Unit, r.Count), r.Mid, bytes.Repeat(r.Tail, r.TailCount)}, nil)
}

// Stricter says whether D1 refuses what RFC 8785 would take; depth is D1's bound for the document.
func (c ParsingCase) Stricter(depth int) bool {
	for _, f := range []string{"noncharacter", "unsafe_integer", "underflow_to_zero"} {
		if slices.Contains(c.Flags, f) {
			return true
		}
	}
	return c.Strict == "reject" || c.Depth > depth
}

// Parsing hands each case of one of [ParsingFiles] to check.
func Parsing(t tb, file string, check func(ParsingCase)) {
	t.Helper()
	f, err := os.Open(External(t, file))
	if err != nil {
		t.Fatalf("reading vectors: %v", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var c ParsingCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("reading vectors: %s, case %d: %v", file, n+1, err)
		}
		check(c)
	}
	if err := lines.Err(); err != nil || n < 20 {
		t.Fatalf("reading vectors: %d cases of %s: %v", n, file, err)
	}
}

// SignatureCase is one signed document with the word that each of its blocks gets.
type SignatureCase struct {
	Name, Why string
	Document  json.RawMessage
	Expect    []string
}

// Signatures are the signed documents of the external collection.
func Signatures(t tb) []SignatureCase {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(External(t, "sealbridge"), "signatures.json"))
	if err != nil {
		t.Fatalf("reading vectors: %v", err)
	}
	var file struct{ Cases []SignatureCase }
	if err := json.Unmarshal(b, &file); err != nil || len(file.Cases) < 10 {
		t.Fatalf("reading vectors: %d signed documents: %v", len(file.Cases), err)
	}
	return file.Cases
}
