package signing

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"filippo.io/edwards25519"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
	"sealbridge/spec/vectors"
)

func readExternal(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(vectors.External(t, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

func TestDIDVectors(t *testing.T) {
	var good []struct{ DID, Seed string }
	b, err := os.ReadFile(filepath.Join(vectors.External(t, "did-key"), "ed25519-x25519.json"))
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]struct{ Seed string }
	if err := json.Unmarshal(b, &raw); err == nil {
		for did, c := range raw {
			good = append(good, struct{ DID, Seed string }{did, c.Seed})
		}
	} else if err := json.Unmarshal(b, &good); err != nil {
		t.Fatal(err)
	}
	if len(good) != 5 {
		t.Fatalf("%d good DIDs", len(good))
	}
	for _, c := range good {
		d, err := ParseDID(c.DID)
		if err != nil {
			t.Errorf("%s: %v", c.DID, err)
			continue
		}
		if back, err := DIDOf(d.Key()); err != nil || back != d {
			t.Errorf("%s comes back as %s", d, back)
		}
		if seed, _ := hex.DecodeString(c.Seed); len(seed) == 32 && NewKey([32]byte(seed)).DID() != d {
			t.Errorf("%s: another key from its seed", d)
		}
	}
}

func TestEveryOtherSpellingOfADIDIsRefused(t *testing.T) {
	const good = "did:key:z6MkghLt1e8m1fmANsdJJco3aCLV8Xnigr5UWwC3u5iZFPd3"
	if _, err := ParseDID(good); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{ // B003
		"did:key:z2DSf9g4M3VqK2pSvNbTduTaQt6Y12TqHZXSzMC47xSivB3",
		"did:key:z6LSdvFzwhhBmazSMmAN9hMA3gzyA73yya1GhtzoZGQ53YcR",
		"did:key:z2DQVUifHupXMziizyL6jWQaD42F5ReYeaKgmPhZq3t6wvA",
		"did:key:zQebpD4k9puFFx5vPYTDNkzEMX31AEtnzsckT8BmnspRLWr3q",
		good + " ", good + "#" + good[8:], strings.ToUpper(good), "", "did:key:z", good[:55],
		"did:key:z6MkeXATEjyXENzBXBxgC5EHk2JE5aqd7qMGGtDpLUH1e2Sj", // the identity point
	} {
		if d, err := ParseDID(s); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("ParseDID(%q) = %v, %v, want malformed", s, d, err)
		}
	}
}

// Beside each small y that names a point there is y + p, which the library reads as the same point.
func TestAKeyIsTheCanonicalEncodingOfItsPoint(t *testing.T) {
	tried := 0
	for y := range byte(19) {
		for _, sign := range []byte{0, 0x80} {
			var beyond [32]byte // y + p
			for i := range beyond {
				beyond[i] = 0xff
			}
			beyond[0], beyond[31] = 0xed+y, 0x7f|sign
			if _, err := new(edwards25519.Point).SetBytes(beyond[:]); err == nil {
				tried++
			}
			if d, err := ParseDID(spell(beyond)); err == nil {
				t.Errorf("y = %d + p, sign %x: %s", y, sign, d)
			}
			if d, err := DIDOf(beyond); err == nil {
				t.Errorf("y = %d + p, sign %x: %s", y, sign, d)
			}
		}
	}
	if tried == 0 {
		t.Error("the library reads none of them: nothing was tried")
	}
}

func TestExternalDIDNegatives(t *testing.T) {
	var cases []struct {
		Name, DID string
		Repeat    *struct {
			Prefix, Unit string
			Count        int
		}
	}
	readExternal(t, "did-key/negative.json", &cases)
	for _, c := range cases {
		if c.Repeat != nil {
			c.DID = c.Repeat.Prefix + strings.Repeat(c.Repeat.Unit, c.Repeat.Count)
		}
		if _, err := ParseDID(c.DID); err == nil {
			t.Errorf("%s: accepted", c.Name)
		}
	}
	if len(cases) != 70 {
		t.Errorf("%d cases", len(cases))
	}
}

// declared is our rule (S5): a canonical key of prime order, then crypto/ed25519.
func declared(pub, msg, sig []byte) bool {
	if len(pub) != 32 || len(sig) != 64 || !samePrimeOrder([32]byte(pub)) {
		return false
	}
	holds := ed25519.Verify(pub, msg, sig)
	if ours([32]byte(pub), msg, [64]byte(sig)) != holds {
		panic("the verdict is not that of crypto/ed25519")
	}
	return holds
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCCTVFollowsTheDeclaredRule(t *testing.T) {
	var cases []struct {
		Key, Sig, Msg string
		Flags         []string
	}
	readExternal(t, "ed25519-cctv/ed25519vectors.json", &cases)
	accepted := 0
	for i, c := range cases {
		want := true
		for _, f := range c.Flags {
			switch f {
			case "low_order_A", "low_order_residue", "non_canonical_A", "non_canonical_R", "low_order_component_A":
				want = false
			}
		}
		got := declared(unhex(t, c.Key), []byte(c.Msg), unhex(t, c.Sig))
		if got != want {
			t.Errorf("case %d %v: %v, want %v", i, c.Flags, got, want)
		}
		if got {
			accepted++
		}
	}
	if len(cases) != 914 || accepted == 0 {
		t.Errorf("%d cases, %d accepted", len(cases), accepted)
	}
}

func TestSpeccheckIsRefusedWhole(t *testing.T) {
	var cases []struct {
		Message, Signature string
		PubKey             string `json:"pub_key"`
	}
	readExternal(t, "ed25519-speccheck/cases.json", &cases)
	for i, c := range cases {
		if declared(unhex(t, c.PubKey), unhex(t, c.Message), unhex(t, c.Signature)) {
			t.Errorf("case %d accepted", i)
		}
	}
	if len(cases) != 12 {
		t.Errorf("%d cases", len(cases))
	}
}

func TestWycheproof(t *testing.T) {
	var suite struct {
		TestGroups []struct {
			PublicKey struct{ Pk string }
			Tests     []struct {
				TcId             int
				Msg, Sig, Result string
			}
		}
	}
	readExternal(t, "ed25519-wycheproof/ed25519_test.json", &suite)
	n := 0
	for _, g := range suite.TestGroups {
		for _, c := range g.Tests {
			n++
			if got := declared(unhex(t, g.PublicKey.Pk), unhex(t, c.Msg), unhex(t, c.Sig)); got != (c.Result == "valid") {
				t.Errorf("tcId %d: %v, want %s", c.TcId, got, c.Result)
			}
		}
	}
	if n != 151 {
		t.Errorf("%d cases", n)
	}
}

func TestOneSpellingOfTimes(t *testing.T) {
	for s, ok := range map[string]bool{
		"2031-03-01T09:00:00Z": true, "2031-03-01T09:00:00.123456789Z": true, "2031-03-01T09:00:00.1Z": true,
		"2031-03-01T09:00:00.Z": false, "2031-03-01t09:00:00Z": false, "2031-03-01T09:00:00z": false,
		"2031-03-01T09:00:00+00:00": false, "2031-03-01T09:00:60Z": false, "2031-02-29T09:00:00Z": false,
		"2031-03-01T9:00:00Z": false, "2031-03-01T09:00:00,1Z": false, "2031-03-01T24:00:00Z": false,
		"2031-03-01T09:00:00.1234567890Z": false, "": false, "yesterday": false,
	} {
		if got, err := ParseTime(s); (err == nil) != ok || ok && got.String() != s {
			t.Errorf("ParseTime(%q) = %v, %v", s, got, err)
		}
	}
}

func TestTimesCompareAsInstants(t *testing.T) { // B005
	a, _ := ParseTime("2031-03-01T01:00:00Z")
	b, _ := ParseTime("2031-03-01T01:00:00.000Z")
	if a.Before(b) || a.After(b) || a == b {
		t.Fatal("equal instants in two spellings must compare equal and keep their spelling")
	}
}

func TestBlockHasOneSpelling(t *testing.T) {
	by := NewKey([32]byte{1})
	payload, _ := jcs.Parse([]byte(`{"a":1}`))
	b, err := Sign(payload, ContextPrefix+"event", by, time.Unix(1900000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jcs.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := ReadBlock(v); err != nil || back != b {
		t.Fatal(back, err)
	}
	if err := (*Keys)(nil).Verify(payload, ContextPrefix+"event", b); err != nil {
		t.Fatal(err)
	}
	if err := (*Keys)(nil).Verify(payload, ContextPrefix+"claim", b); spec.ReasonOf(err) != spec.BadSignature {
		t.Fatal("another context:", err)
	}
	extra := v.With("context", jcs.EmptyObject)
	if _, err := ReadBlock(extra); spec.ReasonOf(err) != spec.Malformed {
		t.Fatal("a sixth member:", err)
	}
	sig := b.Signature.String()
	for _, s := range []string{sig + "==", "ed25519:" + hex.EncodeToString(make([]byte, 64)), sig[:len(sig)-1], sig[:len(sig)-1] + "\n", strings.Replace(sig, "ed25519", "ED25519", 1)} {
		var out Signature
		if err := out.UnmarshalText([]byte(s)); err == nil && s != sig {
			t.Errorf("accepted %q", s)
		}
	}
}

func FuzzParseDID(f *testing.F) {
	f.Add("did:key:z6MkghLt1e8m1fmANsdJJco3aCLV8Xnigr5UWwC3u5iZFPd3")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDID(s); err == nil {
			if back, err := DIDOf(d.Key()); err != nil || back.String() != s {
				t.Fatalf("%q comes back as %q", s, back)
			}
		}
	})
}

// spelling is D5 in one line; which days and hours there are, package time knows.
var spelling = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]{1,9})?Z$`)

func FuzzTimeAndDigest(f *testing.F) {
	f.Add("2031-03-01T09:00:00.5Z")
	f.Add("sha256:5546a6f4fe87e3568fff4d4d7ebd9c0c2570e5e14e7460ac7378a53cef08dc65")
	f.Fuzz(func(t *testing.T, s string) {
		if at, err := ParseTime(s); err == nil {
			if !spelling.MatchString(s) || at.String() != s {
				t.Fatalf("%q accepted as %q", s, at)
			}
			if again, err := ParseTime(at.Time().Format(time.RFC3339Nano)); err != nil || !again.Time().Equal(at.Time()) {
				t.Fatalf("%q: another instant", s)
			}
		}
		if d, err := ParseDigest(s); err == nil && DigestFrom(d.Sum()).String() != s {
			t.Fatalf("%q: another digest", s)
		}
	})
}
