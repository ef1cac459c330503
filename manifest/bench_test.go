package manifest_test

import (
	"testing"

	"sealbridge/cmd/sealbridge/workload"
	"sealbridge/signing"
)

func run(b *testing.B, name string, bytes int, do workload.Work) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(int64(bytes))
		b.ReportAllocs()
		for b.Loop() {
			if err := do(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkOpenManifest is bar S1: everything, for keys not seen before.
// "raw" is the yardstick beside it: two crypto/ed25519 verifications of the same
// bytes. `sealbridge bench s1` takes both in turn.
func BenchmarkOpenManifest(b *testing.B) {
	wires, err := workload.Contracts(8192, 0) // the cache of checked DIDs holds 4,096: at 4 keys each, none survives a round
	if err != nil {
		b.Fatal(err)
	}
	n := len(wires[0])
	run(b, "new keys", n, workload.OpenEach(wires, nil))
	run(b, "known keys", n, workload.OpenEach(wires[:1], nil))
	run(b, "raw", n, workload.Raw(wires[0]))
	few, err := workload.Contracts(1000, 25) // bar S2: two signers each
	if err != nil {
		b.Fatal(err)
	}
	run(b, "few keys", n, workload.OpenEach(few, signing.NewKeys()))
}

// BenchmarkRefuse is bar S4: what ends before any signature work.
func BenchmarkRefuse(b *testing.B) {
	shapes, err := workload.Refusals()
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range shapes {
		b.Run(r.Name, func(b *testing.B) {
			b.SetBytes(int64(len(r.Wire)))
			for b.Loop() {
				if err := r.Do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1e3/float64(b.N)/r.KiB(), "µs/KiB")
		})
	}
}
