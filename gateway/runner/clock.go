package runner

import (
	"context"
	"time"
)

// wallClock ends a run when its time is used up, unless somebody gives it more.
// While it is asked the program stands still and its clock too (B4, B5).
type wallClock struct {
	limit   time.Duration
	overrun func(context.Context) time.Duration
	end     func(error) // with errTimedOut
	freeze  func() (thaw func())
	stood   time.Duration // how long it stood still: to be read when watch has returned
}

// watch runs until ctx ends.
func (w *wallClock) watch(ctx context.Context) {
	timer := time.NewTimer(w.limit)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		more := time.Duration(0)
		if w.overrun != nil && canFreeze {
			thaw, from := w.freeze(), time.Now()
			more = w.overrun(ctx)
			w.stood += time.Since(from)
			if more > 0 {
				thaw()
			}
		}
		if more <= 0 {
			w.end(errTimedOut)
			return
		}
		timer.Reset(more)
	}
}
