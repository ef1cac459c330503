package jcs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

type benchGrant struct {
	Args     Value    `json:"args" rule:"object"`
	ID       string   `json:"id" rule:"len=1..64"`
	Max      int64    `json:"max" rule:"num=0..1000000"`
	Resource string   `json:"resource" rule:"len=1..500"`
	Tools    []string `json:"tools" rule:"items=1..50,each.len=1..128"`
}

type benchDocument struct {
	Criteria []struct {
		ID   string `json:"id" rule:"len=1..64"`
		Text string `json:"text" rule:"len=1..2000"`
	} `json:"criteria" rule:"items=1..50"`
	Grants  []benchGrant `json:"grants" rule:"items=0..50"`
	Title   string       `json:"title" rule:"len=1..200"`
	Version string       `json:"version" rule:"const=0.2.0"`
}

// document is about 5 KiB and has the mix of a manifest: text, lists, numbers, an embedded schema.
func document() []byte {
	var grants, criteria []string
	for i := range 14 {
		grants = append(grants, fmt.Sprintf(`{"args":{"properties":{"path":{"maxLength":%d,"type":"string"}},"type":"object"},"id":"cap_%02d","max":%d,"resource":"mcp://docs/reports/%d/*","tools":["read_file","list_files"]}`, 100+i, i, i*100, i))
		criteria = append(criteria, fmt.Sprintf(`{"id":"c%02d","text":"Group the answers by region \u2014 with counts, and give the three most frequent wishes of each."}`, i))
	}
	v, err := Canonicalize([]byte(`{"criteria":[` + strings.Join(criteria, ",") + `],"grants":[` + strings.Join(grants, ",") + `],"title":"Summarise the spring survey","version":"0.2.0"}`))
	if err != nil {
		panic(err)
	}
	return v.Bytes()
}

func TestTheBenchmarksReadAWholeDocument(t *testing.T) {
	v, err := Parse(document())
	if err != nil {
		t.Fatal(err)
	}
	var d benchDocument
	if err := Decode(v, &d); err != nil {
		t.Fatal(err)
	}
	if back, err := Encode(d); err != nil || back != v {
		t.Errorf("comes back as %s, %v", back, err)
	}
}

func BenchmarkRead(b *testing.B) {
	wire := document()
	v, err := Parse(wire)
	if err != nil {
		b.Fatal(err)
	}
	var d benchDocument
	if err := Decode(v, &d); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"parse", func() error { _, err := Parse(wire); return err }},
		{"canonicalize", func() error { _, err := Canonicalize(wire); return err }},
		{"decode", func() error { return Decode(v, new(benchDocument)) }},
		{"encode", func() error { _, err := Encode(d); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(wire)))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRefuse is bar S4: what a refusal costs for a KiB of input, in the
// shapes that ask for the most work.
func BenchmarkRefuse(b *testing.B) {
	doc := string(document())
	text := `{"a":"` + strings.Repeat("x", 5000) + `"`
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf(`"%04d":0`, i)
	}
	falling := slices.Clone(names)
	slices.Reverse(falling)
	for _, c := range []struct{ name, in string }{
		{"cut", doc[:len(doc)-1]}, {"malformed", text}, {"oversize", strings.Repeat("x", 300<<10)}, {"duplicate", text + `,"a":1}`},
		{"not canonical", doc + " "}, {"many names", "{" + strings.Join(names, ",") + `,"0000":0}`},
		{"many names falling", "{" + strings.Join(falling, ",") + `,"0000":0}`},
		{"nested", strings.Repeat(`{"a":[`, 32) + "x"}, {"digits", "[" + strings.Repeat("0.12345678901234567,", 250) + "01]"},
		{"escapes", `["` + strings.Repeat(`\ud83d\ude00`, 400) + `\ud800"]`},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Parse([]byte(c.in)); err == nil {
					b.Fatal("accepted")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(float64(len(c.in))/1024), "ns/KiB")
		})
	}
}
