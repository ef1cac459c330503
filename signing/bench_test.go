package signing

import (
	"crypto/ed25519"
	"testing"
	"time"

	"sealbridge/signing/jcs"
)

func signedBlock(b *testing.B) (jcs.Value, Block) {
	payload, err := jcs.Parse([]byte(`{"a":1}`))
	if err != nil {
		b.Fatal(err)
	}
	block, err := Sign(payload, RequesterManifest, NewKey([32]byte{1}), time.Unix(1900000000, 0))
	if err != nil {
		b.Fatal(err)
	}
	return payload, block
}

// BenchmarkFloor is what bar S1 is held against: two raw verifications.
func BenchmarkFloor(b *testing.B) {
	_, block := signedBlock(b)
	pub, msg, sig := block.SignerDid.Key(), input(RequesterManifest, block), block.Signature.Bytes()
	for b.Loop() {
		for range 2 { // a manifest has two
			if !ed25519.Verify(pub[:], msg, sig[:]) {
				b.Fatal("does not hold")
			}
		}
	}
}

func BenchmarkVerifyBlock(b *testing.B) {
	payload, block := signedBlock(b)
	digest := DigestOf(payload.Bytes())
	for name, k := range map[string]*Keys{"stranger": nil, "hot": NewKeys()} {
		b.Run(name, func(b *testing.B) {
			for range hotAfter {
				if err := k.VerifyDigest(digest, RequesterManifest, block); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if err := k.VerifyDigest(digest, RequesterManifest, block); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNewTable(b *testing.B) {
	pub := NewKey([32]byte{1}).DID().Key()
	for b.Loop() {
		newPowers(pub)
	}
}

// BenchmarkParseDID/new is a key never seen before, /known one that was.
func BenchmarkParseDID(b *testing.B) {
	const did = "did:key:z6MkghLt1e8m1fmANsdJJco3aCLV8Xnigr5UWwC3u5iZFPd3"
	for _, known := range []bool{false, true} {
		b.Run(map[bool]string{false: "new", true: "known"}[known], func(b *testing.B) {
			for b.Loop() {
				if !known {
					clear(checked.m)
				}
				if _, err := ParseDID(did); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
