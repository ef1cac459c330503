package jcs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"sealbridge/spec"
	"sealbridge/spec/vectors"
)

func TestOwnVectors(t *testing.T) {
	var cases []struct {
		Name, File, Canonical, Path string
		Word                        spec.Reason
	}
	if err := json.Unmarshal(vectors.Own(t, "jcs.json"), &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		v, err := Canonicalize([]byte(c.File))
		if got := spec.ReasonOf(err); got != c.Word {
			t.Errorf("%s: word %q, want %q (%v)", c.Name, got, c.Word, err)
		} else if err == nil && v.String() != c.Canonical {
			t.Errorf("%s: %s, want %s", c.Name, v, c.Canonical)
		} else if e, ok := err.(*spec.Error); ok && e.Path != c.Path {
			t.Errorf("%s: path %q, want %q", c.Name, e.Path, c.Path)
		}
		w, werr := Parse([]byte(c.File))
		switch {
		case err != nil && (werr == nil || werr.Error() != err.Error()):
			t.Errorf("%s: the wire says %v %v, a file %v", c.Name, w, werr, err)
		case err == nil && c.File == c.Canonical && w != v:
			t.Errorf("%s: the wire says %v", c.Name, werr)
		case err == nil && c.File != c.Canonical && spec.ReasonOf(werr) != spec.NotCanonical:
			t.Errorf("%s: the wire says %v %v, want not-canonical", c.Name, w, werr)
		}
	}
}

// beyond says whether our limits refuse what the suite lets a canonicaliser take.
func beyond(in []byte) bool {
	longest, run := 0, 0
	for _, b := range in {
		if run++; strings.IndexByte("0123456789+-.eE", b) < 0 {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest > DocumentLimits.Number || len(in) > layoutFactor*DocumentLimits.Bytes
}

func TestExternalSuites(t *testing.T) {
	for _, file := range vectors.ParsingFiles {
		t.Run(filepath.Base(file), func(t *testing.T) {
			vectors.Parsing(t, file, func(c vectors.ParsingCase) { checkCase(t, c) })
		})
	}
}

func checkCase(t *testing.T, c vectors.ParsingCase) {
	in := c.Bytes()
	v, err := Canonicalize(in)
	wantErr := c.JCS == "reject" || c.Stricter(DocumentLimits.Depth)
	switch {
	case wantErr && err == nil:
		t.Errorf("%s: accepted", c.Name)
	case !wantErr && err != nil:
		if e, ok := err.(*spec.Error); !ok || e.Reason != spec.TooLarge || !beyond(in) {
			t.Errorf("%s: %v", c.Name, err)
		}
	case err == nil && c.Canonical != nil && v.String() != *c.Canonical:
		t.Errorf("%s: %q, want %q", c.Name, v, *c.Canonical)
	case err == nil && c.CanonicalSHA256 != "":
		if sum := sha256.Sum256(v.Bytes()); hex.EncodeToString(sum[:]) != c.CanonicalSHA256 {
			t.Errorf("%s: other bytes", c.Name)
		}
	}
	if w, werr := Parse(in); werr == nil && (err != nil || string(in) != v.String()) {
		t.Errorf("%s: the wire took %q, a file gave %v", c.Name, w, err)
	}
}

// One of the pairs holds a whole number beyond 2^53 - 1: RFC 8785 lets it pass, D1 does not.
func TestRFC8785Pairs(t *testing.T) {
	dir := vectors.External(t, "jcs")
	refused := map[string]string{"values.json": "/numbers/1"}
	files, err := filepath.Glob(filepath.Join(dir, "input", "*.json"))
	if err != nil || len(files) != 10 {
		t.Fatalf("%d pairs, %v", len(files), err)
	}
	for _, f := range files {
		name := filepath.Base(f)
		in, want := readFile(t, f), readFile(t, filepath.Join(dir, "output", name))
		got, err := Canonicalize(in)
		if path, ok := refused[name]; ok {
			if e, is := err.(*spec.Error); !is || e.Reason != spec.Malformed || e.Path != path {
				t.Errorf("%s: %s, %v, want malformed at %s", name, got, err, path)
			}
			continue
		}
		if err != nil || got.String() != string(want) {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
		if w, err := Parse(want); err != nil || w != got {
			t.Errorf("%s: the wire: %v", name, err)
		}
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestES6Numbers(t *testing.T) {
	dir := vectors.External(t, "jcs")
	for _, name := range []string{"es6-numbers-1000.txt", "es6-numbers-random-1000.txt"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Fields(string(data)) {
			bits, text, _ := strings.Cut(line, ",")
			u, err := strconv.ParseUint(bits, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			if got := formatNumber(math.Float64frombits(u)); got != text {
				t.Errorf("%s: %s, want %s", bits, got, text)
			}
		}
	}
}

func TestRFC8785AppendixB(t *testing.T) {
	var rows []struct {
		Bits  string `json:"ieee754"`
		Text  *string
		Error bool
	}
	if err := json.Unmarshal(readFile(t, vectors.External(t, "jcs/rfc8785-appendix-b.json")), &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		u, err := strconv.ParseUint(row.Bits, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		f := math.Float64frombits(u)
		if row.Error {
			if !math.IsNaN(f) && !math.IsInf(f, 0) {
				t.Errorf("%s: %v", row.Bits, f)
			}
			continue
		}
		if got := formatNumber(f); got != *row.Text {
			t.Errorf("%s: %s, want %s", row.Bits, got, *row.Text)
		}
	}
	if len(rows) < 20 {
		t.Errorf("%d rows", len(rows))
	}
}

// The published sequence of numbers, by checksum: what is written is also read
// as canonical, unless it is a whole number beyond 2^53 - 1.
func TestES6Checksums(t *testing.T) {
	dir := vectors.External(t, "jcs")
	var sums struct {
		Checksums []struct {
			Lines  int
			SHA256 string
		}
	}
	if err := json.Unmarshal(readFile(t, filepath.Join(dir, "es6-checksums.json")), &sums); err != nil {
		t.Fatal(err)
	}
	want := map[int]string{}
	for _, c := range sums.Checksums {
		want[c.Lines] = c.SHA256
	}
	var bits []uint64
	for _, w := range strings.Fields(string(readFile(t, filepath.Join(dir, "es6-static-u64.txt")))) {
		u, err := strconv.ParseUint(w, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		bits = append(bits, u)
	}
	for i := range uint64(2000) {
		bits = append(bits, 0x0010000000000000+i)
	}
	const lines = 100_000
	hash := sha256.New()
	var block [32]byte
	for n := 1; n <= lines; n++ {
		for len(bits) == 0 {
			block = sha256.Sum256(block[:])
			for i := 0; i < 32; i += 8 {
				u := binary.LittleEndian.Uint64(block[i:])
				if f := math.Float64frombits(u); f != 0 && !math.IsNaN(f) && !math.IsInf(f, 0) {
					bits = append(bits, u)
				}
			}
		}
		f := math.Float64frombits(bits[0])
		text := formatNumber(f)
		fmt.Fprintf(hash, "%x,%s\n", bits[0], text)
		bits = bits[1:]
		if _, err := Parse([]byte(text)); (err == nil) != (math.Abs(f) <= maxSafe || f != math.Trunc(f)) {
			t.Fatalf("%s: %v", text, err)
		}
		if sum, ok := want[n]; ok && hex.EncodeToString(hash.Sum(nil)) != sum {
			t.Fatalf("another checksum after %d lines", n)
		}
	}
	if want[lines] == "" {
		t.Errorf("no checksum for %d lines", lines)
	}
}

func TestSameWordAtEveryDoorForDuplicates(t *testing.T) {
	_, file := Canonicalize([]byte(`{"max_invocations":2,"max_\u0069nvocations":200}`))
	_, wire := Parse([]byte(`{"max_invocations":2,"max_\u0069nvocations":200}`))
	if file == nil || wire == nil || file.Error() != wire.Error() {
		t.Fatalf("file %v, wire %v", file, wire)
	}
}

type inner struct {
	N    int64    `json:"n" rule:"num=0..10"`
	List []string `json:"list,omitempty" rule:"items=0..2,each.len=1..3"`
}
type outer struct {
	inner
	Raw  Value  `json:"raw,omitempty" rule:"object"`
	Null *inner `json:"null"`
	Word string `json:"word" rule:"enum=a|b"`
}

func TestDecodeIsStrict(t *testing.T) {
	for in, want := range map[string]string{
		`{"n":1,"null":null,"word":"a"}`:                       "",
		`{"list":[],"n":1,"null":{"n":2},"raw":{},"word":"b"}`: "",
		`{"n":1,"word":"a"}`:                                   "/null",
		`{"N":1,"n":1,"null":null,"word":"a"}`:                 "/N",
		`{"n":11,"null":null,"word":"a"}`:                      "/n",
		`{"n":1.5,"null":null,"word":"a"}`:                     "/n",
		`{"n":null,"null":null,"word":"a"}`:                    "/n",
		`{"n":1,"null":{"n":-1},"word":"a"}`:                   "/null/n",
		`{"list":["abcd"],"n":1,"null":null,"word":"a"}`:       "/list/0",
		`{"list":["a",null],"n":1,"null":null,"word":"a"}`:     "/list/1",
		`{"n":1,"null":null,"raw":[],"word":"a"}`:              "/raw",
		`{"n":1,"null":null,"word":"c"}`:                       "/word",
		`{"n":1,"null":null,"word":"a","x":0}`:                 "/x",
	} {
		var o outer
		v, err := Parse([]byte(in))
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		err = Decode(v, &o)
		got := ""
		if e, ok := err.(*spec.Error); ok {
			got = e.Path
		}
		if got != want {
			t.Errorf("%s: %v, want path %q", in, err, want)
			continue
		}
		if err == nil {
			if back, err := Encode(o); err != nil || back != v {
				t.Errorf("%s comes back as %s (%v)", in, back, err)
			}
		}
	}
}

func TestWithoutAndWithAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.MapOfN(rapid.String(), rapid.Int64Range(0, 9), 1, 6).Draw(t, "m")
		v, err := Encode(m)
		if err != nil {
			t.Skip()
		}
		for name := range m {
			member, ok := v.Member(name)
			if !ok {
				t.Fatalf("%q not in %s", name, v)
			}
			cut := v.Without(name)
			if _, err := Parse(cut.Bytes()); err != nil {
				t.Fatalf("%s without %q: %s: %v", v, name, cut, err)
			}
			if back := cut.With(name, member); back != v {
				t.Fatalf("%s with %q again: %s", v, name, back)
			}
		}
	})
}

// FuzzCanonicalize: what is accepted equals an independent canonicaliser's answer and re-encodes to itself.
func FuzzCanonicalize(f *testing.F) {
	for _, s := range []string{`{"b":1.50,"a":"é\u0000"}`, `[1e3,-0,"😀"]`, `{"":{"":[]}}`, `"\ud83d\ude00"`, `01`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := Canonicalize(in)
		if err != nil {
			if _, werr := Parse(in); werr == nil {
				t.Fatalf("the wire took %q: %v", in, err)
			}
			return
		}
		peer := jsontext.Value(bytes.Clone(in))
		if err := peer.Canonicalize(); err != nil || string(peer) != v.String() {
			t.Fatalf("%q: %s, jsontext says %s %v", in, v, peer, err)
		}
		if again, err := Parse(v.Bytes()); err != nil || again != v {
			t.Fatalf("%s does not parse: %v", v, err)
		}
		if back, err := Encode(v); err != nil || back != v {
			t.Fatalf("%s re-encodes to %s", v, back)
		}
	})
}
