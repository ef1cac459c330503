package signing

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/multiformats/go-multibase"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
	"sealbridge/spec/vectors"
)

func TestReferenceKeysSignAndVerifyExactly(t *testing.T) {
	f, err := os.Open(filepath.Join(vectors.External(t, "ed25519-ref"), "sign.input.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	lines := bufio.NewScanner(z)
	for ; lines.Scan(); n++ {
		part := strings.Split(lines.Text(), ":")
		seed, pub, msg := unhex(t, part[0][:64]), unhex(t, part[1]), unhex(t, part[2])
		by := NewKey([32]byte(seed))
		if key := by.DID().Key(); !bytes.Equal(key[:], pub) {
			t.Fatalf("line %d: key %x, want %x", n, key, pub)
		}
		sig, err := by.Sign(msg)
		if err != nil || hex.EncodeToString(sig[:])+part[2] != part[3] {
			t.Fatalf("line %d: signature %x, %v", n, sig, err)
		}
		if !declared(pub, msg, sig[:]) || !ours([32]byte(pub), msg, sig) {
			t.Errorf("line %d: does not hold", n)
		}
	}
	if n != 128 || lines.Err() != nil {
		t.Errorf("%d lines, %v", n, lines.Err())
	}
}

func TestOtherKeysAreNoIdentities(t *testing.T) {
	var cases []struct{ DID, Source string }
	readExternal(t, "did-key/other-key-types.json", &cases)
	for _, c := range cases {
		if d, err := ParseDID(c.DID); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("%s: %v, %v, want malformed", c.DID, d, err)
		}
	}
	if len(cases) != 22 {
		t.Errorf("%d cases", len(cases))
	}
}

// We name an identity by the bare DID: of the URLs only what stands before an equal fragment is one.
func TestVerificationMethods(t *testing.T) {
	var cases []struct{ Name, URL, Verdict string }
	readExternal(t, "did-key/did-urls.json", &cases)
	for _, c := range cases {
		_, err := method(c.URL)
		if (err == nil) != (c.Verdict == "accept") {
			t.Errorf("%s: %v, want %s", c.Name, err, c.Verdict)
		}
		if _, err := ParseDID(c.URL); err == nil && strings.ContainsAny(c.URL, "#?/") {
			t.Errorf("%s: a DID with more to it is an identity", c.Name)
		}
	}
	if len(cases) != 13 {
		t.Errorf("%d cases", len(cases))
	}
}

// method reads did:key:X#X, the form that other documents name a key by.
func method(url string) (DID, error) {
	did, fragment, ok := strings.Cut(url, "#")
	d, err := ParseDID(did)
	if err == nil && (!ok || didPrefix+fragment != did) {
		err = spec.Refuse(spec.Malformed, "", "fragment")
	}
	return d, err
}

func TestBase58HasOneSpelling(t *testing.T) {
	var cases struct {
		Valid   []struct{ Hex, String string }
		Invalid []struct{ String, Why string }
	}
	readExternal(t, "multibase/base58btc.json", &cases)
	for _, c := range cases.Valid {
		if c.String == "" {
			continue // the library has no empty data, and no DID is empty
		}
		_, got, err := multibase.Decode("z" + c.String)
		if err != nil || hex.EncodeToString(got) != c.Hex {
			t.Errorf("z%s: %x, %v, want %s", c.String, got, err, c.Hex)
		}
		if back, err := multibase.Encode(multibase.Base58BTC, unhex(t, c.Hex)); err != nil || back != "z"+c.String {
			t.Errorf("%s: %s, %v, want z%s", c.Hex, back, err, c.String)
		}
	}
	for _, c := range cases.Invalid {
		if _, got, err := multibase.Decode("z" + c.String); err == nil {
			t.Errorf("z%s: accepted as %x", c.String, got)
		}
	}
	if len(cases.Valid) != 97 || len(cases.Invalid) != 7 {
		t.Errorf("%d valid, %d invalid", len(cases.Valid), len(cases.Invalid))
	}
}

// Of all bases and varints a DID has one: every other spelling of the same key is refused.
func TestADIDHasOneBaseAndOneVarint(t *testing.T) {
	key := NewKey([32]byte{1}).DID().Key()
	for name, base := range multibase.Encodings {
		text, err := multibase.Encode(base, append([]byte{0xed, 0x01}, key[:]...))
		if err != nil {
			continue // identity and the like
		}
		if _, err := ParseDID(didPrefix + text); (err == nil) != (base == multibase.Base58BTC) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var varints struct {
		Valid   []struct{ Hex string }
		Invalid []struct{ Hex, Why string }
	}
	readExternal(t, "multibase/unsigned-varint.json", &varints)
	for _, c := range varints.Valid {
		checkVarint(t, c.Hex, key)
	}
	for _, c := range varints.Invalid {
		checkVarint(t, c.Hex, key)
	}
	if len(varints.Valid) == 0 || len(varints.Invalid) == 0 {
		t.Error("no varints")
	}
}

func checkVarint(t *testing.T, code string, key [32]byte) {
	text, err := multibase.Encode(multibase.Base58BTC, append(unhex(t, code), key[:]...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseDID(didPrefix + text); (err == nil) != (code == "ed01") {
		t.Errorf("code %s: %v", code, err)
	}
}

func TestDigestsMatchCAVS(t *testing.T) {
	dir := vectors.External(t, "sha256")
	n := 0
	for _, name := range []string{"SHA256ShortMsg.rsp", "SHA256LongMsg-first10.rsp"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var empty bool
		var msg []byte
		for line := range strings.Lines(string(data)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
			switch name {
			case "Len":
				empty = value == "0"
			case "Msg":
				if msg = unhex(t, value); empty {
					msg = nil
				}
			case "MD":
				n++
				if got := DigestOf(msg).String(); got != "sha256:"+value {
					t.Errorf("%d bytes: %s, want %s", len(msg), got, value)
				}
			}
		}
	}
	if n != 75 {
		t.Errorf("%d digests", n)
	}
}

func TestUCANSignatures(t *testing.T) {
	var want []struct {
		File, Comment string
		Index         int
		Outer         string `json:"outer_signature"`
	}
	readExternal(t, "ucan/outer-signatures.json", &want)
	files := map[string][]struct{ Token string }{}
	for _, c := range want {
		if files[c.File] == nil {
			var tokens []struct{ Token string }
			readExternal(t, "ucan/"+c.File, &tokens)
			files[c.File] = tokens
		}
		if got := outerSignature(files[c.File][c.Index].Token); got != c.Outer {
			t.Errorf("%s %d (%s): %s, want %s", c.File, c.Index, c.Comment, got, c.Outer)
		}
	}
	if len(want) != 65 {
		t.Errorf("%d tokens", len(want))
	}
}

func outerSignature(token string) string {
	part := strings.Split(token, ".")
	if len(part) != 3 {
		return "malformed"
	}
	strict := base64.RawURLEncoding.Strict()
	_, err0 := strict.DecodeString(part[0])
	body, err1 := strict.DecodeString(part[1])
	sig, err2 := strict.DecodeString(part[2])
	var claims struct{ Iss any }
	if err0 != nil || err1 != nil || err2 != nil || len(sig) != 64 || json.Unmarshal(body, &claims) != nil {
		return "malformed"
	}
	name, _ := claims.Iss.(string)
	iss, err := ParseDID(name)
	if err != nil {
		return "bad issuer"
	}
	if !(*Keys)(nil).holds(iss, []byte(part[0]+"."+part[1]), [64]byte(sig)) {
		return "invalid"
	}
	return "valid"
}

// proof checks one eddsa-jcs-2022 proof of a canonical document by our parts.
func proof(doc, p jcs.Value) bool {
	text := func(name string) string { m, _ := p.Member(name); s, _ := m.Text(); return s }
	if text("type") != "DataIntegrityProof" || text("cryptosuite") != "eddsa-jcs-2022" || text("proofPurpose") != "assertionMethod" {
		return false
	}
	by, err := method(text("verificationMethod"))
	if err != nil || len(text("proofValue")) > 89 {
		return false
	}
	base, sig, err := multibase.Decode(text("proofValue"))
	if err != nil || base != multibase.Base58BTC || len(sig) != 64 {
		return false
	}
	config, body := sha256.Sum256(p.Without("proofValue").Bytes()), sha256.Sum256(doc.Without("proof").Bytes())
	return (*Keys)(nil).holds(by, append(config[:], body[:]...), [64]byte(sig))
}

func proofOf(text []byte) bool {
	doc, err := jcs.Canonicalize(text)
	if err != nil {
		return false
	}
	p, ok := doc.Member("proof")
	return ok && proof(doc, p)
}

func TestDataIntegrityVectors(t *testing.T) {
	dir := vectors.External(t, "eddsa-jcs-2022")
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, name := range []string{"w3c/signedJCS.json", "digitalbazaar/signed-without-proof-context.json"} {
		if !proofOf(read(name)) {
			t.Errorf("%s does not hold", name)
		}
	}
	unsigned, err := jcs.Canonicalize(read("w3c/unsigned.json"))
	if err != nil || unsigned.String() != strings.TrimSpace(string(read("w3c/canonDocJCS.txt"))) {
		t.Errorf("another canonical document: %v", err)
	}
	if got := strings.TrimPrefix(DigestOf(unsigned.Bytes()).String(), digestPrefix); got != strings.TrimSpace(string(read("w3c/docHashJCS.txt"))) {
		t.Errorf("another hash of the document: %s", got)
	}
	var signed []struct {
		Name, Document, Canonical, Signer string
		Raw                               string `json:"raw_signature_hex"`
		Proof                             jcs.Value
	}
	readExternal(t, "eddsa-jcs-2022/derived/node-signed.json", &signed)
	for _, c := range signed {
		v, err := jcs.Canonicalize([]byte(c.Document))
		if c.Name == "numbers" { // it holds a whole number beyond 2^53 - 1: RFC 8785 rounds it, D1 refuses it
			if e, ok := err.(*spec.Error); !ok || e.Reason != spec.Malformed || e.Path != "/n/1" {
				t.Errorf("%s: %s, %v, want malformed at /n/1", c.Name, v, err)
			}
			continue
		}
		if err != nil || v.String() != c.Canonical {
			t.Errorf("%s: %s, %v", c.Name, v, err)
			continue
		}
		by, err := ParseDID(c.Signer)
		if err != nil || !(*Keys)(nil).holds(by, v.Bytes(), [64]byte(unhex(t, c.Raw))) || !proof(v, c.Proof) {
			t.Errorf("%s: does not hold (%v)", c.Name, err)
		}
	}
	if len(signed) != 13 {
		t.Errorf("%d signed", len(signed))
	}
}

func TestDataIntegrityMutations(t *testing.T) {
	var cases []struct{ Name, Verdict, Why, Document string }
	readExternal(t, "eddsa-jcs-2022/derived/mutations.json", &cases)
	for _, c := range cases {
		if got := proofOf([]byte(c.Document)); got != (c.Verdict == "accept") {
			t.Errorf("%s: %v, want %s (%s)", c.Name, got, c.Verdict, c.Why)
		}
	}
	if len(cases) != 50 {
		t.Errorf("%d cases", len(cases))
	}
}

func TestDidwebvhProofs(t *testing.T) {
	f, err := os.Open(filepath.Join(vectors.External(t, "didwebvh"), "logs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	proofs, good := 0, 0
	for lines.Scan() {
		var c struct {
			Scenario string
			Log      []string
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		for _, line := range c.Log {
			doc, err := jcs.Canonicalize([]byte(line))
			if err != nil {
				t.Fatalf("%s: %v", c.Scenario, err)
			}
			list, _ := doc.Member("proof")
			for p := range list.Items() {
				proofs++
				bad := c.Scenario == "negative-did-key-body-fragment-mismatch" || c.Scenario == "negative-wrong-cryptosuite"
				if proof(doc, p) {
					good++
				} else if !bad {
					t.Errorf("%s: does not hold", c.Scenario)
				}
			}
		}
	}
	if proofs != 135 || good != 133 {
		t.Errorf("%d of %d proofs hold, want 133 of 135", good, proofs)
	}
}

func TestTheStandardRuleByTablesToo(t *testing.T) {
	var cases []struct{ Key, Sig, Msg string }
	readExternal(t, "ed25519-cctv/ed25519vectors.json", &cases)
	n := 0
	for i, c := range cases {
		pub, sig := unhex(t, c.Key), unhex(t, c.Sig)
		samePrimeOrder([32]byte(sig[:32])) // any points will do
		if !samePrimeOrder([32]byte(pub)) {
			continue
		}
		n++
		if got, want := ours([32]byte(pub), []byte(c.Msg), [64]byte(sig)), ed25519.Verify(pub, []byte(c.Msg), sig); got != want {
			t.Errorf("case %d: ours %v, crypto/ed25519 %v", i, got, want)
		}
	}
	if n == 0 {
		t.Error("no case with a good key")
	}
}
