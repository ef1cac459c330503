package workload

import (
	"fmt"
	"slices"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
)

// Refusal is an input that is refused before any signature work (D2).
type Refusal struct {
	Name string
	Wire []byte
}

// KiB is its length, and never less than one: a short text has a first KiB too.
func (r Refusal) KiB() float64 { return max(1, float64(len(r.Wire))/1024) }

// Do refuses it once.
func (r Refusal) Do() error {
	if _, err := manifest.Open(r.Wire, nil); err == nil {
		return fmt.Errorf("%s: not refused", r.Name)
	}
	return nil
}

// Refusals are the shapes that ask for the most work: a good contract with one
// thing wrong, and texts that are made to be slow.
func Refusals() ([]Refusal, error) {
	good, err := Contract(1, 1)
	if err != nil {
		return nil, err
	}
	v, err := jcs.Parse(good)
	if err != nil {
		return nil, err
	}
	nothing, _ := jcs.Text("sealbridge/nothing")
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf(`"%04d":0`, i)
	}
	falling := slices.Clone(names)
	slices.Reverse(falling)
	text := `{"a":"` + strings.Repeat("x", 5000) + `"`
	return []Refusal{
		{"cut short", good[:len(good)-1]},
		{"not canonical", append([]byte(" "), good...)},
		{"unknown type", v.Without("signatures").With("type", nothing).With("signature", jcs.EmptyObject).Bytes()},
		{"no signature", v.Without("signatures").Bytes()},
		{"another payload", v.With("taskId", jcs.EmptyObject).Bytes()},
		{"oversize", []byte(`{"a":"` + strings.Repeat("x", 300<<10) + `"}`)},
		{"no end", []byte(text)},
		{"a name twice", []byte(text + `,"a":1}`)},
		{"many names", []byte("{" + strings.Join(names, ",") + `,"0000":0}`)},
		{"many names falling", []byte("{" + strings.Join(falling, ",") + `,"0000":0}`)},
		{"deep", []byte(strings.Repeat(`{"a":[`, 32) + "x")},
		{"digits", []byte("[" + strings.Repeat("0.12345678901234567,", 250) + "01]")},
		{"half a pair", []byte(`["` + strings.Repeat(`\ud83d\ude00`, 400) + `\ud800"]`)},
	}, nil
}
