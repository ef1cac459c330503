package audit_test

import (
	"crypto/ed25519"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy/audit"
	"sealbridge/relay"
	"sealbridge/signing"
)

// long is a task with so many reports of progress between its beginning and its end.
func long(b *testing.B, progress int) string {
	s := newStory(b).propose().ack(ben).accept().ack(ann)
	s.say(ben, manifest.Started{}, nil)
	for i := range progress {
		s.say(ben, manifest.Progressed{Checkpoint: "on the way", Usage: used(int64(i)), Waiting: "nobody"}, nil)
	}
	return s.deliver().ack(ann).complete().ack(ben).export(ann)
}

// wide is a task with so many records: 9,900 events, and for the rest
// acknowledgements and custody receipts, as a full history has them.
func wide(b *testing.B, records int) string {
	s := newStory(b).propose().ack(ben).accept().ack(ann)
	s.say(ben, manifest.Started{}, nil)
	for i := range 9900 {
		s.say(ben, manifest.Progressed{Checkpoint: "on the way", Usage: used(int64(i)), Waiting: "nobody"}, nil)
	}
	s.deliver().ack(ann)
	for len(s.acks) < (records-9900)/2 {
		s.ack(ann)
	}
	s.complete().ack(ben)
	docs := s.documents(ann)
	for i := int64(1); len(docs) < records-1; i++ { // the seal is one more
		r := relay.Receipt{RelayDid: relayKey.DID(), EnvelopeDigest: signing.DigestOf([]byte(fmt.Sprint(i))), Commit: signing.DigestOf([]byte("c")),
			To: ben.agent.DID(), Sequence: i, At: signing.TimeOf(noon), Sync: relay.SyncAlways, Origin: "relay.example.org/log", LeafIndex: i}
		docs = append(docs, must(r.Sign(relayKey)))
	}
	return s.bundle(ann, docs, s.heads(ann))
}

// BenchmarkHundredThousandRecords is bar S7. x-signatures is the time held
// against that of as many raw verifications, measured in the same run.
func BenchmarkHundredThousandRecords(b *testing.B) {
	text := wide(b, 100_000)
	priv := ed25519.NewKeyFromSeed(make([]byte, 32))
	msg := make([]byte, 330) // as long as a signing input (S3)
	sig, pub := ed25519.Sign(priv, msg), priv.Public().(ed25519.PublicKey)
	for b.Loop() {
		at := time.Now()
		r, err := audit.Verify(strings.NewReader(text), audit.Options{})
		took := time.Since(at)
		if err != nil || !r.Binding {
			b.Fatalf("%v, %+v", err, r.Findings)
		}
		at = time.Now()
		for range r.Signatures {
			if !ed25519.Verify(pub, msg, sig) {
				b.Fatal("does not hold")
			}
		}
		b.ReportMetric(float64(took)/float64(time.Since(at)), "x-signatures")
		b.ReportMetric(float64(r.Signatures), "signatures")
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{10, 1000} {
		text := long(b, n)
		for _, cores := range []int{1, runtime.NumCPU()} {
			b.Run(fmt.Sprintf("%d events/%d cores", n, cores), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					r, err := audit.Verify(strings.NewReader(text), audit.Options{Cores: cores})
					if err != nil || !r.Binding {
						b.Fatalf("%v, %+v", err, r.Findings)
					}
				}
			})
		}
	}
}
