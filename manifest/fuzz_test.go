package manifest_test

import (
	"testing"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/signing/passkey"
)

// Whatever Open takes writes itself again byte for byte, and nothing panics.
func FuzzOpen(f *testing.F) {
	for _, v := range everyWire(f) {
		f.Add(v.Bytes())
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		s, err := manifest.Open(wire, nil)
		if err != nil {
			if !s.IsZero() {
				t.Fatal("a document and an error")
			}
			return
		}
		if s.Wire().String() != string(wire) {
			t.Fatal("accepted another spelling")
		}
		again, err := jcs.Encode(s.Document())
		if err != nil || again.String() != s.Wire().Without("signature").String() {
			t.Fatalf("re-encodes to %s, %v", again, err)
		}
	})
}

// Unsigned shapes reach the readers of every type, which arithmetic keeps from FuzzOpen.
func FuzzSignAgain(f *testing.F) {
	for _, v := range everyWire(f) {
		f.Add(v.Without("signature").Without("signatures").Bytes())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := jcs.Parse(text)
		if err != nil || v.Kind() != '{' {
			return
		}
		if m, err := manifest.ReadManifest(v); err == nil {
			if again, err := jcs.Encode(m); err != nil || again.String() != v.String() {
				t.Fatalf("re-encodes to %s, %v", again, err)
			}
		}
		var b manifest.Body
		if err := b.DecodeCanonical(v); err == nil {
			if again, err := b.EncodeCanonical(); err != nil || again.String() != v.String() {
				t.Fatalf("re-encodes to %s, %v", again, err)
			}
		}
	})
}

// Whatever a browser, an authenticator and whoever holds an approver's key make
// up: no yes by a certified passkey is read without that passkey's signature over this decision.
func FuzzApproval(f *testing.F) {
	good := approved(approver(annPhone, annPasskey), annPhone, annPasskey)
	f.Add("passkey", good.Assertion.ClientDataJSON, good.Assertion.AuthenticatorData, good.Assertion.Signature, true)
	f.Add("none", "", "", "", false)
	f.Add("device", "e30", "", "AA", false)
	f.Fuzz(func(t *testing.T, presence, client, data, signature string, asserted bool) {
		d := *good
		d.Presence, d.Assertion = presence, nil
		if asserted {
			d.Assertion = &passkey.Assertion{ClientDataJSON: client, AuthenticatorData: data, Signature: signature}
		}
		payload, err := jcs.Encode(d)
		if err != nil {
			return
		}
		c, _ := signing.ContextFor("sealbridge/gate-decision")
		block, err := signing.Sign(payload, c, annPhone, noon)
		if err != nil {
			return
		}
		s, err := manifest.Open(payload.With("signature", must(jcs.Encode(block))).Bytes(), nil)
		if err == nil && (presence != "passkey" || annPasskey.Credential.Check(*d.Assertion, must(manifest.Challenge(d))) != nil || s.IsZero()) {
			t.Fatalf("read %s %s %s %s", presence, client, data, signature)
		}
	})
}

func FuzzParseInviteToken(f *testing.F) {
	token, err := manifest.InviteToken(everyWire(f)["invite"])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token)
	f.Fuzz(func(t *testing.T, text string) {
		_, s, err := manifest.ParseInviteToken(text)
		if err != nil {
			return
		}
		if again, err := manifest.InviteToken(s.Wire()); err != nil || again == "" {
			t.Fatal("a token that cannot be made:", err)
		}
	})
}

func FuzzDisplay(f *testing.F) {
	f.Add("a\u202eb", 10)
	f.Fuzz(func(t *testing.T, s string, max int) {
		shown := manifest.Display(s, max)
		for _, r := range shown {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r >= 0xe0000 {
				t.Fatalf("%q shows %U", s, r)
			}
		}
		manifest.Skeleton(s)
	})
}
