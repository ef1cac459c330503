// Package workload answers one question: what work is measured, and against
// what? `sealbridge bench` and the benchmarks of the packages run the same
// pieces, so that a figure of the one is a figure of the other. Nothing here is
// part of a gateway.
package workload

import (
	"context"
	"slices"
	"time"
)

// Work does one piece of work.
type Work func() error

// Comparison is work held against a yardstick. A machine is never only ours and
// its clock rate moves, so both were done in turn, in slices of a few
// milliseconds; the ratio is that of the middles.
type Comparison struct {
	Work, Yardstick time.Duration // of one piece, the middle of all turns
	Ratio           float64
	Turns           int
}

// slice is long enough for a clock and short enough to lie between two
// interruptions by other processes.
const slice = 2 * time.Millisecond

// Compare takes turns for d, or until ctx ends, and twelve turns at least.
func Compare(ctx context.Context, work, yardstick Work, d time.Duration) (c Comparison, err error) {
	var pair [2]struct {
		do    Work
		n     int
		times []time.Duration
	}
	pair[0].do, pair[1].do = work, yardstick
	for i := range pair {
		if pair[i].n, err = fill(pair[i].do); err != nil {
			return c, err
		}
	}
	for end := time.Now().Add(d); c.Turns < 12 || time.Now().Before(end); c.Turns++ {
		for i := range pair {
			p := &pair[i]
			at := time.Now()
			for range p.n {
				if err := p.do(); err != nil {
					return c, err
				}
			}
			p.times = append(p.times, time.Since(at)/time.Duration(p.n))
		}
		if err := ctx.Err(); err != nil {
			return c, err
		}
	}
	c.Work, c.Yardstick = Middle(pair[0].times), Middle(pair[1].times)
	c.Ratio = float64(c.Work) / float64(c.Yardstick)
	return c, nil
}

// fill says how many pieces fill a slice, after some to warm up.
func fill(do Work) (int, error) {
	for n := 1; ; n *= 2 {
		at := time.Now()
		for range n {
			if err := do(); err != nil {
				return 0, err
			}
		}
		if took := time.Since(at); took >= slice {
			return max(1, int(time.Duration(n)*slice/took)), nil
		}
	}
}

// Best is the time of one piece in the best of the slices that d holds, three
// at least: what it costs where nothing else runs.
func Best(ctx context.Context, do Work, d time.Duration) (best time.Duration, err error) {
	n, err := fill(do)
	if err != nil {
		return 0, err
	}
	for turn, end := 0, time.Now().Add(d); turn < 3 || time.Now().Before(end); turn++ {
		at := time.Now()
		for range n {
			if err := do(); err != nil {
				return 0, err
			}
		}
		if took := time.Since(at) / time.Duration(n); turn == 0 || took < best {
			best = took
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
	return best, nil
}

// Middle is the median; it sorts.
func Middle(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)/2]
}
