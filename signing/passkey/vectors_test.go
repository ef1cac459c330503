package passkey_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"sealbridge/signing/passkey"
	"sealbridge/signing/passkey/passkeytest"
	"sealbridge/spec"
	"sealbridge/spec/vectors"
)

var update = flag.Bool("update", false, "write spec/vectors/passkey.json anew; what real browsers said stays")

// vector is one answer to a challenge, for any implementation.
type vector struct {
	Name       string             `json:"name"`
	Credential passkey.Credential `json:"credential"`
	Challenge  string             `json:"challenge"` // base64url of 32 bytes
	Assertion  passkey.Assertion  `json:"assertion"`
	Word       string             `json:"word"` // ok for a good one
}

// captured begins the names of what a real browser and authenticator said.
const captured = "captured: "

// TestVectors holds the published vectors against this reader, and against the
// table of these tests, from which -update writes them.
func TestVectors(t *testing.T) {
	var have, made []vector
	if err := json.Unmarshal(vectors.Own(t, "passkey.json"), &have); err != nil {
		t.Fatal(err)
	}
	real := 0
	for _, v := range have {
		sum := raw(t, v.Challenge)
		word := spec.ReasonOf(v.Credential.Check(v.Assertion, [32]byte(sum)))
		if (word == "") != (v.Word == "ok") || word != "" && string(word) != v.Word || v.Credential.Valid() != nil {
			t.Errorf("%s: %q, the vector says %s", v.Name, word, v.Word)
		}
		if strings.HasPrefix(v.Name, captured) {
			real++
			made = append(made, v)
		}
	}
	for _, a := range []*passkeytest.Authenticator{es256, eddsa} {
		name := map[bool]string{true: "ES256", false: "EdDSA"}[a == es256]
		for _, c := range attempts(t, a) {
			word := string(c.want)
			if word == "" {
				word = "ok"
			}
			made = append(made, vector{name + ": " + c.kind, a.Credential, passkeytest.Base64(challenge[:]), c.a, word})
		}
	}
	if *update {
		write(t, made)
		return
	}
	if real == 0 {
		t.Error("no answer of a real browser is among them")
	}
	if len(have) != len(made) {
		t.Fatalf("%d vectors, the tables have %d: run go test -run TestVectors -update", len(have), len(made))
	}
	all := map[vector]bool{}
	for _, v := range have {
		all[v] = true
	}
	for _, v := range made {
		if !all[v] {
			t.Errorf("%s is not among the vectors as the table makes it", v.Name)
		}
	}
}

func write(t *testing.T, rows []vector) {
	t.Helper()
	var b strings.Builder
	b.WriteString("[\n")
	for i, r := range rows {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		if i < len(rows)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]\n")
	if err := os.WriteFile("../../spec/vectors/passkey.json", []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
