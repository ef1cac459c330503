package gateway

import (
	"context"
	"time"
)

// stillRow is how long a run stood still while persons were asked. It is written
// down as it goes: a run that is cut off meanwhile has not worked since (B1, B4).
type stillRow struct {
	Holds int           `json:"holds"` // that overlap now
	Since time.Time     `json:"since"` // of the first of them
	Stood time.Duration `json:"stood"` // in holds that have ended
}

// until is how long the run had stood still at an instant.
func (s stillRow) until(now time.Time) time.Duration {
	if s.Holds > 0 {
		return s.Stood + max(now.Sub(s.Since), 0)
	}
	return s.Stood
}

// standStill holds a run while wait runs, and writes down that it stands.
func (g *Gateway) standStill(ctx context.Context, key string, hold func(context.Context, func(context.Context)), wait func(context.Context)) {
	hold(ctx, func(ctx context.Context) {
		g.stands(ctx, key, 1)
		wait(ctx)
		g.stands(ctx, key, -1) // not where the run or the gateway ends: then it stands to the end
	})
}

func (g *Gateway) stands(ctx context.Context, key string, by int) {
	err := g.turn(ctx, func(t *turn) error {
		row, err := t.row(key)
		if err != nil || row.RunAt.IsZero() {
			return err
		}
		s := &row.Still
		if s.Holds == 0 {
			s.Since = t.now
		}
		if s.Holds = max(s.Holds+by, 0); s.Holds == 0 {
			s.Stood += max(t.now.Sub(s.Since), 0)
		}
		return t.putRow(row)
	})
	if err != nil && ctx.Err() == nil {
		g.Log.Warn("writing down that a run stands still", "error", err)
	}
}
