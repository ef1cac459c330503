package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheClockStopsWhileSomethingHolds(t *testing.T) { // B4
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ended := make(chan time.Duration, 1)
		frozen := false
		w := &wallClock{limit: 10 * time.Second, begun: begin, resumed: make(chan struct{}, 1), end: func(err error) {
			if !errors.Is(err, errTimedOut) {
				t.Errorf("ended by %v", err)
			}
			ended <- time.Since(begin)
		}, freeze: func() func() { frozen = true; return func() { frozen = false } }}
		go w.watch(t.Context())
		hold := func(after, lasts time.Duration) {
			time.Sleep(after)
			w.hold(func() bool { time.Sleep(lasts); return true })
		}
		go hold(2*time.Second, 60*time.Second) // 2 to 62
		go hold(30*time.Second, time.Minute)   // 30 to 90: they overlap
		time.Sleep(80 * time.Second)
		synctest.Wait()
		if !frozen || w.worked() != 2*time.Second {
			t.Errorf("in the second hold: frozen %v, worked %v, want 2s", frozen, w.worked())
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if frozen || w.worked() != 3*time.Second {
			t.Errorf("after the second hold: frozen %v, worked %v, want 3s", frozen, w.worked())
		}
		if took := <-ended; took != 98*time.Second {
			t.Errorf("ended after %v, want 10s of work and 88s of standing still", took)
		}
	})
}

func TestWhatIsGrantedIsAddedOnce(t *testing.T) { // B5
	if !canFreeze {
		return // asked only where a run can stand still
	}
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ended := make(chan time.Duration, 1)
		asked, frozen := 0, false
		w := &wallClock{limit: 10 * time.Second, begun: begin, resumed: make(chan struct{}, 1),
			end:    func(error) { ended <- time.Since(begin) },
			freeze: func() func() { frozen = true; return func() { frozen = false } },
			overrun: func(context.Context) time.Duration {
				asked++
				time.Sleep(time.Hour)
				return []time.Duration{5 * time.Second, 0}[asked-1]
			}}
		go w.watch(t.Context())
		if took := <-ended; took != 2*time.Hour+15*time.Second || asked != 2 || !frozen || w.worked() != 15*time.Second {
			t.Errorf("ended after %v, asked %d times, frozen %v, worked %v", took, asked, frozen, w.worked())
		}
	})
}
