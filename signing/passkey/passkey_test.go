package passkey_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"sealbridge/signing/passkey"
	"sealbridge/signing/passkey/passkeytest"
	"sealbridge/spec"
)

const origin = "http://localhost:7811"

var (
	challenge = [32]byte{1, 2, 3}
	es256     = passkeytest.New(1, "localhost", origin)
	eddsa     = passkeytest.NewEdDSA(1, "localhost", origin)
)

func raw(t testing.TB, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAnAssertionHoldsForItsChallenge(t *testing.T) { // G10
	for name, a := range map[string]*passkeytest.Authenticator{"ES256": es256, "EdDSA": eddsa} {
		if err := a.Credential.Valid(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := a.Credential.Check(a.Assert(challenge), challenge); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, extra := range []string{`,"crossOrigin":false,"other_keys_can_be_added_here":"x"`, `,"tokenBinding":{"status":"supported"}`, ` `} {
			if err := a.Credential.Check(a.AssertAs(challenge, passkeytest.Ceremony{Extra: extra}), challenge); err != nil {
				t.Errorf("%s, a browser that says %s: %v", name, extra, err)
			}
		}
		if err := a.Credential.Check(a.AssertAs(challenge, passkeytest.Ceremony{Flags: 0x1d}), challenge); err != nil {
			t.Errorf("%s, a passkey that is backed up: %v", name, err)
		}
	}
}

// attempt is one answer of an authenticator, and the word that it meets; "" for a good one.
type attempt struct {
	kind string
	a    passkey.Assertion
	want spec.Reason
}

// attempts are one honest answer of a and every other kind that we know.
func attempts(t testing.TB, a *passkeytest.Authenticator) []attempt {
	t.Helper()
	other := [32]byte{9}
	thief := passkeytest.New(2, "localhost", origin)
	if a == eddsa {
		thief = passkeytest.NewEdDSA(2, "localhost", origin)
	}
	as := func(c passkeytest.Ceremony) passkey.Assertion { return a.AssertAs(challenge, c) }
	good := a.Assert(challenge)
	client, data := raw(t, good.ClientDataJSON), raw(t, good.AuthenticatorData)
	swap := func(f func(*passkey.Assertion)) passkey.Assertion { x := good; f(&x); return x }
	return []attempt{
		{"honest", good, ""},
		{"a browser that says more", as(passkeytest.Ceremony{Extra: `,"crossOrigin":false,"other_keys_can_be_added_here":"x"`}), ""},
		{"a passkey that is backed up", as(passkeytest.Ceremony{Flags: 0x1d}), ""},
		{"another challenge", a.Assert(other), spec.BadDigest},
		{"a registration", as(passkeytest.Ceremony{Type: "webauthn.create"}), spec.WrongContext},
		{"a payment", as(passkeytest.Ceremony{Type: "payment.get"}), spec.WrongContext},
		{"another port", as(passkeytest.Ceremony{Origin: "http://localhost:7812"}), spec.WrongContext},
		{"no port", as(passkeytest.Ceremony{Origin: "http://localhost"}), spec.WrongContext},
		{"another scheme", as(passkeytest.Ceremony{Origin: "https://localhost:7811"}), spec.WrongContext},
		{"another host", as(passkeytest.Ceremony{Origin: "http://localhost.evil.example:7811"}), spec.WrongContext},
		{"an origin that begins as ours", as(passkeytest.Ceremony{Origin: origin + "1"}), spec.WrongContext},
		{"another relying party", as(passkeytest.Ceremony{RpID: "evil.example"}), spec.WrongContext},
		{"inside another page", as(passkeytest.Ceremony{Extra: `,"crossOrigin":true`}), spec.WrongContext},
		{"below another page", as(passkeytest.Ceremony{Extra: `,"crossOrigin":false,"topOrigin":"https://evil.example"`}), spec.WrongContext},
		{"crossOrigin in quotes", as(passkeytest.Ceremony{Extra: `,"crossOrigin":"false"`}), spec.WrongContext},
		{"nobody present", as(passkeytest.Ceremony{Flags: 0x04}), spec.VerificationFailed},
		{"nobody verified", as(passkeytest.Ceremony{Flags: 0x01}), spec.VerificationFailed},
		{"a key follows", as(passkeytest.Ceremony{Flags: 0x45}), spec.Malformed},
		{"extensions follow", as(passkeytest.Ceremony{Flags: 0x85}), spec.Malformed},
		{"a reserved flag", as(passkeytest.Ceremony{Flags: 0x07}), spec.Malformed},
		{"backed up and cannot be", as(passkeytest.Ceremony{Flags: 0x15}), spec.Malformed},
		{"another passkey", thief.Assert(challenge), spec.BadSignature},
		{"two types", a.Raw([]byte(strings.Replace(string(client), "{", `{"type":"webauthn.get",`, 1)), data), spec.Malformed},
		{"a folded name", a.Raw([]byte(strings.Replace(string(client), `"type"`, `"Type"`, 1)), data), spec.WrongContext},
		{"text behind the object", a.Raw(append(client, 'x'), data), spec.Malformed},
		{"a list", a.Raw([]byte(`["webauthn.get"]`), data), spec.Malformed},
		{"client data without end", a.Raw([]byte(`{"type":"webauthn.get","x":"`+strings.Repeat("x", 3000)+`"}`), data), spec.Malformed},
		{"data that goes on", a.Raw(client, append(data, 0)), spec.Malformed},
		{"data cut short", a.Raw(client, data[:36]), spec.Malformed},
		{"client data changed", swap(func(x *passkey.Assertion) {
			x.ClientDataJSON = passkeytest.Base64([]byte(strings.Replace(string(client), "{", "{ ", 1)))
		}), spec.BadSignature},
		{"counter changed", swap(func(x *passkey.Assertion) { x.AuthenticatorData = x.AuthenticatorData[:49] + "Q" }), spec.BadSignature},
		{"padded", swap(func(x *passkey.Assertion) { x.Signature += "=" }), spec.Malformed},
		{"no signature", swap(func(x *passkey.Assertion) { x.Signature = "" }), spec.BadSignature},
		{"nothing at all", passkey.Assertion{}, spec.Malformed},
	}
}

func TestWhatIsNoAssertionOfThePersonIsRefused(t *testing.T) { // G10
	for _, a := range []*passkeytest.Authenticator{es256, eddsa} {
		for _, c := range attempts(t, a) {
			if got := spec.ReasonOf(a.Credential.Check(c.a, challenge)); got != c.want {
				t.Errorf("%s: %q, want %q", c.kind, got, c.want)
			}
		}
	}
	if err := (passkey.Credential{}).Check(es256.Assert(challenge), challenge); err == nil {
		t.Error("nobody's passkey checks something")
	}
}

func TestACredentialHasOneSpelling(t *testing.T) { // G10
	cose := raw(t, es256.Credential.Key)
	change := func(at int, to byte) string {
		b := append([]byte{}, cose...)
		b[at] = to
		return passkeytest.Base64(b)
	}
	for what, key := range map[string]string{
		"ES384": change(4, 0x38), "another curve": change(6, 2), "off the curve": change(20, cose[20]^1), "longer": passkeytest.Base64(append(cose, 0)),
		"compressed": passkeytest.Base64(append(cose[:42:42], 0x22, 0xf5)), "an Ed25519 point of small order": passkeytest.Base64(append([]byte{0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21, 0x58, 0x20, 1}, make([]byte, 31)...)),
		"empty": "", "padded": es256.Credential.Key + "=",
	} {
		c := es256.Credential
		c.Key = key
		if c.Valid() == nil {
			t.Errorf("a key that is %s is taken", what)
		}
	}
	for _, o := range []string{"http://localhost:7811/", "http://LOCALHOST:7811", "http://localhost:07811", "http://localhost:80", "https://console.example.org:443", "http://127.0.0.1:7811",
		"https://127.0.0.1:7811", "http://example.org:7811", "https://user@example.org", "https://[::1]:7811", "https://", "ftp://localhost", "http://localhost:0", "http://localhost:", "null"} {
		if c := (passkey.Credential{ID: es256.Credential.ID, Key: es256.Credential.Key, Origin: o, RpID: "localhost"}); c.Valid() == nil {
			t.Errorf("origin %q is taken", o)
		}
	}
	for _, c := range []struct {
		origin, rp string
		good       bool
	}{
		{origin, "localhost", true}, {"https://gate.ann.example", "gate.ann.example", true}, {"https://gate.ann.example:8443", "ann.example", true},
		{"https://gate.ann.example", "example", false}, {"https://gate.ann.example", "ate.ann.example", false}, {"https://ann.example", "gate.ann.example", false}, {origin, "", false},
	} {
		got := passkey.Credential{ID: es256.Credential.ID, Key: es256.Credential.Key, Origin: c.origin, RpID: c.rp}.Valid()
		if (got == nil) != c.good {
			t.Errorf("%s for %s: %v", c.rp, c.origin, got)
		}
	}
}

// Whatever is signed and however it is spelled: nothing panics, and only what
// the honest ceremony could have made is taken.
func FuzzCheck(f *testing.F) {
	good := es256.Assert(challenge)
	f.Add(raw(f, good.ClientDataJSON), raw(f, good.AuthenticatorData))
	f.Add([]byte(`{"type":"webauthn.get"}`), make([]byte, 37))
	f.Fuzz(func(t *testing.T, client, data []byte) {
		a := es256.Raw(client, data)
		if err := es256.Credential.Check(a, challenge); err != nil {
			return
		}
		if text := string(client); len(data) != 37 || data[32]&0x05 != 0x05 || !strings.Contains(text, "webauthn.get") && !strings.Contains(text, `\u`) {
			t.Fatalf("took %q, %x", client, data)
		}
	})
}

func FuzzCredential(f *testing.F) {
	f.Add(es256.Credential.ID, es256.Credential.Key, es256.Credential.Origin, es256.Credential.RpID)
	f.Add(eddsa.Credential.ID, eddsa.Credential.Key, "https://gate.ann.example:8443", "ann.example")
	f.Fuzz(func(t *testing.T, id, key, origin, rp string) {
		c := passkey.Credential{ID: id, Key: key, Origin: origin, RpID: rp}
		err := c.Check(es256.Assert(challenge), challenge)
		if c.Valid() != nil && err == nil && key != es256.Credential.Key {
			t.Fatal("a key that is not good checks something")
		}
	})
}
