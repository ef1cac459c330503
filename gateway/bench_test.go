//go:build unix

package gateway_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/relay/client"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
)

// BenchmarkHandOff is bar S5: from our own signed event, decided and flushed
// here, over a real relay, to the other gateway's signed acknowledgement, which
// it sends after its own flush. Proposing and deciding stand outside the clock.
func BenchmarkHandOff(b *testing.B) {
	s, err := server.Start(b.Context(), server.Config{Dir: filepath.Join(b.TempDir(), "relay"), Listen: "127.0.0.1:0",
		Signer: relaytest.Agent("relay"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	ann, _ := pairOver(b, func(h side) gatewayConn {
		c, err := client.Dial(context.Background(), client.Config{Address: s.Address(), Agent: h.home.Agent})
		if err != nil {
			b.Fatal(err)
		}
		return c
	}, s.Address())
	for _, flight := range []int{1, 16} { // a contact may have 20 proposals open (B9)
		b.Run(strconv.Itoa(flight)+"-in-flight", func(b *testing.B) {
			var took []time.Duration
			var busy, cpu time.Duration
			for done := 0; done < b.N; done += flight {
				b.StopTimer()
				var tasks []string
				for range flight {
					p := ann.propose()
					ann.allow(manifest.ContractGate)
					ann.until("acknowledged", func() bool { return ann.state(p.Task).Chain.PeerHas != nil })
					tasks = append(tasks, p.Task)
				}
				b.StartTimer()
				at, used := time.Now(), cpuTime(b)
				took = append(took, ann.cancelAll(tasks)...)
				busy, cpu = busy+time.Since(at), cpu+cpuTime(b)-used
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(cpu.Microseconds())/float64(len(took)), "cpu-µs") // both gateways and the relay
			b.ReportMetric(float64(len(took))/busy.Seconds(), "per-second")
		})
	}
}

// cancelAll ends tasks at once and waits for each acknowledgement.
func (s *side) cancelAll(tasks []string) []time.Duration {
	took := make([]time.Duration, len(tasks))
	var wg sync.WaitGroup
	for i, id := range tasks {
		wg.Go(func() {
			at := time.Now()
			if _, err := s.g.Cancel(context.Background(), gateway.Owner, gateway.Cancellation{Task: id}); err != nil {
				s.t.Error(err)
				return
			}
			for {
				head := s.journal.Head()
				if left, err := s.g.Unacknowledged(context.Background(), id); err != nil || left == 0 {
					break
				}
				s.journal.Wait(context.Background(), head) //nolint:errcheck // looked at again
			}
			took[i] = time.Since(at)
		})
	}
	wg.Wait()
	return took
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
