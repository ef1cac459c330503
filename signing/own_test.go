package signing

import (
	"encoding/json"
	"testing"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
	"sealbridge/spec/vectors"
)

// The rules of D5, D6, I1 and S1–S5 in a bare clone, with the word of each refusal.
func TestOwnVectors(t *testing.T) {
	type spelling struct {
		Name, Text string
		Word       spec.Reason
	}
	var own struct {
		DIDs, Digests, Signatures, Times []spelling
		Blocks                           []struct {
			Name, Type string
			Payload    jcs.Value
			Block      jcs.Value
			Word       spec.Reason
		}
	}
	if err := json.Unmarshal(vectors.Own(t, "signing.json"), &own); err != nil {
		t.Fatal(err)
	}
	for kind, c := range map[string]struct {
		cases []spelling
		read  func(string) (string, error)
	}{
		"did":    {own.DIDs, func(s string) (string, error) { d, err := ParseDID(s); return d.String(), err }},
		"digest": {own.Digests, func(s string) (string, error) { d, err := ParseDigest(s); return d.String(), err }},
		"signature": {own.Signatures, func(s string) (string, error) {
			var g Signature
			err := g.UnmarshalText([]byte(s))
			return g.String(), err
		}},
		"time": {own.Times, func(s string) (string, error) { at, err := ParseTime(s); return at.String(), err }},
	} {
		good := 0
		for _, v := range c.cases {
			got, err := c.read(v.Text)
			if spec.ReasonOf(err) != v.Word {
				t.Errorf("%s, %s: %v, want %q", kind, v.Name, err, v.Word)
			}
			if v.Word == "" {
				if good++; got != v.Text {
					t.Errorf("%s, %s: comes back as %q", kind, v.Name, got)
				}
			} else if got != "" {
				t.Errorf("%s, %s: refused and yet %q", kind, v.Name, got)
			}
		}
		if good == 0 || good == len(c.cases) {
			t.Errorf("%s: %d good of %d", kind, good, len(c.cases))
		}
	}
	for _, c := range own.Blocks {
		for name, k := range map[string]*Keys{"nil": nil, "new": NewKeys()} {
			if got := blockWord(k, c.Payload, c.Type, c.Block); got != c.Word {
				t.Errorf("%s, %s keys: %q, want %q", c.Name, name, got, c.Word)
			}
		}
	}
	if len(own.Blocks) == 0 {
		t.Error("no blocks")
	}
}

func blockWord(k *Keys, payload jcs.Value, typ string, block jcs.Value) spec.Reason {
	c, ok := ContextFor(typ)
	if !ok {
		return spec.UnknownType
	}
	b, err := ReadBlock(block)
	if err == nil {
		err = k.Verify(payload, c, b)
	}
	return spec.ReasonOf(err)
}

func TestTheListOfTypesIsClosed(t *testing.T) { // S4
	types := Types()
	if len(types) != 24 {
		t.Errorf("%d types, want 24", len(types))
	}
	seen := map[Context]bool{RequesterManifest: true, WorkerManifest: true}
	for _, typ := range types {
		c, ok := ContextFor(typ)
		if !ok || seen[c] {
			t.Errorf("%s: context %q, %v", typ, c, ok)
		}
		seen[c] = true
	}
	for _, typ := range []string{"", "sealbridge/", "event", "sealbridge/Event", "sealbridge/event ", "sealbridge/task-manifest/requester", "sealbridge/delivery", "sealbridge/event/event"} {
		if c, ok := ContextFor(typ); ok {
			t.Errorf("%q has context %q", typ, c)
		}
	}
}

func FuzzSignature(f *testing.F) {
	f.Add(SignatureFrom([64]byte{1, 2, 3}).String())
	f.Add("ed25519:====")
	f.Fuzz(func(t *testing.T, s string) {
		var sig Signature
		if err := sig.UnmarshalText([]byte(s)); err != nil {
			if spec.ReasonOf(err) != spec.Malformed || !sig.IsZero() {
				t.Fatalf("%q: %v and %q", s, err, sig)
			}
		} else if sig.String() != s || SignatureFrom(sig.Bytes()) != sig {
			t.Fatalf("%q comes back as %q", s, SignatureFrom(sig.Bytes()))
		}
	})
}

// FuzzReadBlock: what is read encodes to the same bytes.
func FuzzReadBlock(f *testing.F) {
	f.Add([]byte(`{"canonicalization":"RFC8785-JCS","payloadDigest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","signature":"ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","signedAt":"2031-03-01T09:00:00.50Z","signerDid":"did:key:z6MkghLt1e8m1fmANsdJJco3aCLV8Xnigr5UWwC3u5iZFPd3"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := jcs.Parse(in)
		if err != nil {
			return
		}
		b, err := ReadBlock(v)
		if err != nil {
			return
		}
		if back, err := jcs.Encode(b); err != nil || back != v {
			t.Fatalf("%s comes back as %s (%v)", v, back, err)
		}
	})
}
