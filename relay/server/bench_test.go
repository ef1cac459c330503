package server_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"sealbridge/relay"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
	"sealbridge/signing"
)

// letter is an envelope of about 6 KiB, as a manifest makes.
func letter(n int) []byte {
	raw := make([]byte, 4200)
	rand.Read(raw)
	return relaytest.Envelope(ben, fmt.Sprint(n)+base64.RawURLEncoding.EncodeToString(raw), time.Now().Add(time.Hour))
}

// report gives the middle and the 99th of a hundred.
func report(b *testing.B, took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func benchSync(b *testing.B, run func(b *testing.B, mode relay.SyncMode)) {
	for _, mode := range []relay.SyncMode{relay.SyncInterval, relay.SyncAlways} {
		b.Run(string(mode), func(b *testing.B) { run(b, mode) })
	}
}

// fast lifts the shares that a benchmark would run into.
func fast(c *server.Config) {
	c.Quotas = server.Quotas{PutsPerSecond: 1e6, MailCount: 1e7, MailBytes: 1 << 40, PerSender: 1e7}
	c.MaxStore = 8 << 30
}

// BenchmarkBarePublish is the measure: one JetStream publish by a TCP client (bar S5).
func BenchmarkBarePublish(b *testing.B) {
	benchSync(b, func(b *testing.B, mode relay.SyncMode) {
		publish, stop, err := server.Yardstick(b.Context(), b.TempDir(), mode)
		if err != nil {
			b.Fatal(err)
		}
		defer stop()
		body := letter(0)
		var took []time.Duration
		for b.Loop() {
			start := time.Now()
			if err := publish(body); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(start))
		}
		report(b, took)
	})
}

func BenchmarkPut(b *testing.B) {
	benchSync(b, func(b *testing.B, mode relay.SyncMode) {
		s := start(b, func(c *server.Config) { fast(c); c.Sync = mode })
		x, y := dial(b, s, ann), dial(b, s, ben)
		relaytest.Ready(b, y, ben, ann)
		e := letter(0)
		var took []time.Duration
		for b.Loop() {
			start := time.Now()
			if _, err := x.Put(b.Context(), ben.DID(), e, ""); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(start))
		}
		report(b, took)
	})
}

func BenchmarkPut64(b *testing.B) {
	benchSync(b, func(b *testing.B, mode relay.SyncMode) {
		s := start(b, func(c *server.Config) { fast(c); c.Sync = mode })
		x, y := dial(b, s, ann), dial(b, s, ben)
		relaytest.Ready(b, y, ben, ann)
		e := letter(0)
		var wg sync.WaitGroup
		next := make(chan int)
		for range 64 {
			wg.Go(func() {
				for range next {
					if _, err := x.Put(b.Context(), ben.DID(), e, ""); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for b.Loop() {
			next <- 0
		}
		close(next)
		wg.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
	})
}

// BenchmarkHandOff is put, body in hand, acknowledged; one in flight.
func BenchmarkHandOff(b *testing.B) {
	benchSync(b, func(b *testing.B, mode relay.SyncMode) {
		s := start(b, func(c *server.Config) { fast(c); c.Sync = mode })
		x, y := dial(b, s, ann), dial(b, s, ben)
		relaytest.Ready(b, y, ben, ann)
		in := make(chan struct{})
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			y.Receive(ctx, 4, func(context.Context, []byte) relay.Verdict { in <- struct{}{}; return relay.Ack })
		}()
		var took []time.Duration
		n := 0
		for b.Loop() {
			n++
			e := letter(n)
			start := time.Now()
			if _, err := x.Put(b.Context(), ben.DID(), e, ""); err != nil {
				b.Fatal(err)
			}
			<-in
			took = append(took, time.Since(start))
		}
		report(b, took)
		cancel()
		<-done
	})
}

// BenchmarkStart is a start over 100,000 envelopes of 6 KiB that wait in 1,000
// mailboxes: the index is read from the store.
func BenchmarkStart(b *testing.B) {
	const mailboxes, envelopes = 1000, 100_000
	var to []signing.DID
	for i := range mailboxes {
		to = append(to, relaytest.Agent(fmt.Sprint("mailbox ", i)).DID())
	}
	c := config(b, fast)
	s, err := server.Start(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Fill(s, envelopes, letter(0), func(i int) signing.DID { return to[i%mailboxes] }, ann.DID()); err != nil {
		b.Fatal(err)
	}
	s.Close()
	for b.Loop() {
		s, err := server.Start(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if n := s.Stats().Waiting; n != envelopes {
			b.Fatalf("%d envelopes are known, want %d", n, envelopes)
		}
		s.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(envelopes)*float64(b.N)/b.Elapsed().Seconds(), "envelopes/s")
}
