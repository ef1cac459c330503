package gateway_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/audit"
)

// Both clocks jump back in the middle of a task, a little and a lot, and one
// gateway starts anew after it: no time that is written down runs backwards, and
// the task ends as if nothing had been (T4, F3).
func TestClocksThatJumpBackChangeNothing(t *testing.T) {
	ann, ben := pair(t)
	jump := map[*side]*atomic.Int64{ann: {}, ben: {}} // ns by which a clock is off
	for s, by := range jump {
		s.clock = func() time.Time { return time.Now().Add(time.Duration(by.Load())) }
		s.restart()
	}
	p := ann.propose()
	jump[ann].Store(int64(-2 * time.Hour))
	ann.allow(manifest.ContractGate)
	jump[ben].Store(int64(-26 * time.Hour))
	ben.allow(manifest.ContractGate)
	ben.restart()
	ann.allow(manifest.DeliveryGate)
	jump[ann].Store(0)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	ben.until("completed", func() bool { return ben.state(p.Task).Outcome == "completed" })
	for _, s := range []*side{ann, ben} {
		s.until("acknowledged", func() bool {
			st, err := s.g.Status(context.Background(), gateway.Owner, gateway.None{})
			return err == nil && st.Outgoing == 0
		})
		b, err := s.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: p.Task})
		if err != nil {
			t.Fatal(err)
		}
		rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{})
		if err != nil || !rep.Verified || !rep.Binding {
			t.Errorf("%s's bundle: %v, %+v", s.home.Config.Name, err, rep.Findings)
		}
		last := map[manifest.Role]time.Time{}
		for _, m := range rep.Timeline {
			if m.At.Time().Before(last[m.By]) {
				t.Errorf("%s's event %d is before the one before", m.By, m.Seq)
			}
			last[m.By] = m.At.Time()
		}
	}
}
