package manifest_test

import (
	"testing"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
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
