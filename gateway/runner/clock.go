package runner

import (
	"context"
	"sync"
	"time"
)

// wallClock ends a run when its time is used up, unless somebody gives it more.
// While a person is asked, for that or for anything else, the program stands
// still and its clock too (B4, B5).
type wallClock struct {
	overrun func(context.Context) time.Duration
	end     func(error) // with errTimedOut
	freeze  func() (thaw func())
	resumed chan struct{} // holds one: the last hold has ended

	mu    sync.Mutex // all below
	limit time.Duration
	begun time.Time
	stood time.Duration // how long it stood still, in holds that have ended
	holds int
	since time.Time // of the first of the holds
	thaw  func()
}

// hold runs wait while the program stands still. It goes on when the last of
// the holds that overlap has ended, and not at all after one that says false.
func (w *wallClock) hold(wait func() (goOn bool)) {
	w.mu.Lock()
	if w.holds++; w.holds == 1 {
		w.thaw, w.since = w.freeze(), time.Now()
	}
	w.mu.Unlock()
	goOn := wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !goOn {
		w.thaw = nil
	}
	if w.holds--; w.holds > 0 {
		return
	}
	w.stood += time.Since(w.since)
	if w.thaw != nil {
		w.thaw()
	}
	select {
	case w.resumed <- struct{}{}:
	default:
	}
}

// worked is how long the program worked until now.
func (w *wallClock) worked() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.workedUntil(time.Now())
}

func (w *wallClock) workedUntil(now time.Time) time.Duration {
	d := now.Sub(w.begun) - w.stood
	if w.holds > 0 {
		d -= now.Sub(w.since)
	}
	return max(d, 0)
}

// left is what remains, and whether the clock stands.
func (w *wallClock) left() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.limit - w.workedUntil(time.Now()), w.holds > 0
}

// watch runs until ctx ends.
func (w *wallClock) watch(ctx context.Context) {
	left, _ := w.left()
	timer := time.NewTimer(left)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-w.resumed:
		}
		left, stands := w.left()
		switch {
		case stands: // the end of the hold wakes us
		case left > 0:
			timer.Reset(left)
		case !w.more(ctx):
			w.end(errTimedOut)
			return
		default:
			left, _ = w.left()
			timer.Reset(left)
		}
	}
}

// more asks for more time and says whether there is any.
func (w *wallClock) more(ctx context.Context) (got bool) {
	if w.overrun == nil || !canFreeze {
		return false
	}
	w.hold(func() bool {
		more := w.overrun(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.limit += max(more, 0)
		got = more > 0
		return got
	})
	return got
}
