package manifest_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// fiveKiB is a contract of 5 KiB with two signatures, by keys of its own: no
// key occurs twice in the run of a benchmark.
func fiveKiB(tb testing.TB, n int) []byte {
	tb.Helper()
	var seed [4]signing.Signer
	for i := range seed {
		seed[i] = signing.NewKey([32]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(i), 9})
	}
	m := contract()
	m.Requester.OwnerDid, m.Requester.AgentDid = seed[0].DID(), seed[1].DID()
	m.Worker.OwnerDid, m.Worker.AgentDid = seed[2].DID(), seed[3].DID()
	m.Task.Description = strings.Repeat("Group the answers by region. ", 78)
	a, payload, err := manifest.SignManifest(m, manifest.Requester, seed[1], noon)
	if err != nil {
		tb.Fatal(err)
	}
	b, _, err := manifest.SignManifest(m, manifest.Worker, seed[3], noon)
	if err != nil {
		tb.Fatal(err)
	}
	return must(manifest.Assemble(payload, &a, &b)).Bytes()
}

// BenchmarkOpenManifest is bar S1: everything, for keys not seen before.
// "raw" is the yardstick beside it: two crypto/ed25519 verifications of the same bytes.
func BenchmarkOpenManifest(b *testing.B) {
	const pool = 8192 // the cache of checked DIDs holds 4,096: at 4 keys each, none survives a round
	wires := make([][]byte, pool)
	for i := range wires {
		wires[i] = fiveKiB(b, i)
	}
	b.Run("new keys", func(b *testing.B) {
		b.SetBytes(int64(len(wires[0])))
		for i := 0; b.Loop(); i++ {
			if _, err := manifest.Open(wires[i%pool], nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("known keys", func(b *testing.B) {
		b.SetBytes(int64(len(wires[0])))
		for b.Loop() {
			if _, err := manifest.Open(wires[0], nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("raw", func(b *testing.B) {
		priv := ed25519.NewKeyFromSeed(make([]byte, 32))
		pub, msg := priv.Public().(ed25519.PublicKey), wires[0]
		sig := ed25519.Sign(priv, msg)
		for b.Loop() {
			for range 2 { // one for each side
				if !ed25519.Verify(pub, msg, sig) {
					b.Fatal("bad")
				}
			}
		}
	})
}

// BenchmarkRefuse is bar S4: what ends before any signature work.
func BenchmarkRefuse(b *testing.B) {
	good := fiveKiB(b, 1)
	v := must(jcs.Parse(good))
	text, _ := jcs.Text("sealbridge/nothing")
	for name, wire := range map[string][]byte{
		"cut short":     good[:len(good)-1],
		"not canonical": append([]byte(" "), good...),
		"unknown type":  v.Without("signatures").With("type", text).With("signature", jcs.EmptyObject).Bytes(),
		"oversize":      []byte(`{"a":"` + strings.Repeat("x", 300<<10) + `"}`),
		"no signature":  v.Without("signatures").Bytes(),
		"bad digest":    v.With("taskId", jcs.EmptyObject).Bytes(),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(wire)))
			for b.Loop() {
				if _, err := manifest.Open(wire, nil); err == nil {
					b.Fatal("accepted")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/(float64(len(wire))/1024), "µs/KiB")
		})
	}
}
