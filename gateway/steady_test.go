package gateway

import (
	"testing"
	"time"

	"sealbridge/spec"
)

// The clock goes back, creeps on, is put right, and goes ahead (T4).
func TestTimeNeverRunsBackwardsAndNeverStandsStill(t *testing.T) {
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var raw time.Time
	s := &steady{clock: func() time.Time { return raw }, raw: noon}
	for i, c := range []struct {
		raw, want time.Duration // past noon
	}{
		{0, 0}, {time.Second, time.Second},
		{-2 * time.Hour, time.Second},                   // back
		{-2*time.Hour + 5*time.Second, 6 * time.Second}, // and on
		{-2*time.Hour + 5*time.Second, 6 * time.Second}, // no time passed
		{-3 * time.Hour, 6 * time.Second},               // back again
		{7 * time.Second, 7 * time.Second},              // put right
		{time.Hour, time.Hour},                          // ahead
		{-time.Hour, time.Hour},                         // and back: what was said stays said
		{-time.Hour + 30*time.Minute, time.Hour + idle}, // a jump that does not reach us counts as a little time
		{24 * time.Hour, 24 * time.Hour},
	} {
		raw = noon.Add(c.raw)
		if got := s.now().Sub(noon); got != c.want {
			t.Errorf("step %d: the clock says %v past noon, we say %v, want %v", i, c.raw, got, c.want)
		}
	}
}

func TestWhatWasNotThereIsAskedAgainSoon(t *testing.T) {
	away, refused := spec.Refuse(spec.Unavailable, "", ""), spec.Refuse(spec.Internal, "", "")
	for tries, want := range map[int][2]time.Duration{0: {time.Second, time.Second}, 3: {8 * time.Second, 8 * time.Second}, 6: {awayAgain, 64 * time.Second}, 20: {awayAgain, 5 * time.Minute}} {
		if got := [2]time.Duration{pauseAfter(away, tries), pauseAfter(refused, tries)}; got != want {
			t.Errorf("after %d tries: %v, want %v", tries, got, want)
		}
	}
}
