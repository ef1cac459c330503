package gateway

import (
	"context"
	"sync"
	"time"

	"sealbridge/gateway/journal"
)

// steady is a clock that never runs backwards (T4): where the system's is
// behind, it goes on from where it was, as far as the system's moves. Else
// nothing would fall due until the system's clock had caught up.
type steady struct {
	clock func() time.Time

	mu   sync.Mutex // guards what follows
	raw  time.Time  // what the system's clock said last
	said time.Time  // what we said last
}

func (s *steady) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock().Round(0) // a monotonic reading would hide the jump from every comparison
	passed := min(max(0, now.Sub(s.raw)), idle)
	if s.raw = now; now.Before(s.said) {
		s.said = s.said.Add(passed)
	} else {
		s.said = now
	}
	return s.said
}

// steadyFrom begins with the newest record: a gateway that starts anew after a
// jump does not begin before what it wrote down.
func steadyFrom(ctx context.Context, c Config) (func() time.Time, error) {
	s := &steady{clock: c.Now, raw: c.Now().Round(0)}
	err := c.Journal.View(ctx, func(tx *journal.Tx) error {
		s.said = tx.Newest()
		return nil
	})
	return s.now, err
}
