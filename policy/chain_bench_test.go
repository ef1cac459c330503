package policy

import (
	"crypto/ed25519"
	"fmt"
	"testing"

	"sealbridge/manifest"
)

// benchChain is a chain of so many links as it comes from the wire, by distinct keys.
func benchChain(b *testing.B, links int) [][]byte {
	m := contract(func(m *manifest.TaskManifest) { m.Permissions.GrantedCapabilities = []manifest.Grant{grant()} })
	var out [][]byte
	for _, s := range signChain(b, links, rootToken(m, childDigest(0), 15), nil) {
		out = append(out, s.Wire().Bytes())
	}
	return out
}

// S3: decoded, verified and narrowed, against raw Ed25519 of as many signatures.
func BenchmarkChain(b *testing.B) {
	for _, links := range []int{1, 4, 8, 16} {
		wires := benchChain(b, links)
		b.Run(fmt.Sprintf("links=%d", links), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (*Chains)(nil).Open(nil, wires...); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("raw=%d", links), func(b *testing.B) {
			pub, priv, _ := ed25519.GenerateKey(nil)
			msg := make([]byte, 400)
			sig := ed25519.Sign(priv, msg)
			for b.Loop() {
				for range links {
					if !ed25519.Verify(pub, msg, sig) {
						b.Fatal("no")
					}
				}
			}
		})
		b.Run(fmt.Sprintf("seen=%d", links), func(b *testing.B) {
			k := NewChains()
			if _, err := k.Open(nil, wires...); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := k.Open(nil, wires...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCall is a whole decision about a call under a chain that was seen before.
func BenchmarkCall(b *testing.B) {
	for _, links := range []int{1, 6} {
		b.Run(fmt.Sprintf("links=%d", links), func(b *testing.B) {
			c := callScene(b, links)
			b.ReportAllocs()
			for b.Loop() {
				if d := Calls(c); d.Outcome != Allow {
					b.Fatal(d.Limit)
				}
			}
		})
	}
}
