package gateway

import (
	"context"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/spec"
)

// asksForMore says whether the contract has a person decide when a meter is used up (B5).
func asksForMore(row taskRow) bool {
	return row.Task.Manifest().Budget.OnOverrun == "request_hitl_amendment"
}

// more is what a run whose working time is used up still gets: what both owners
// have agreed to meanwhile, or, where the contract says so, what they decide
// while its program stands still. 0 ends it.
func (g *Gateway) more(ctx context.Context, key string) time.Duration {
	for {
		head := g.Journal.Head()
		var got time.Duration
		waits := false
		err := g.turn(ctx, func(t *turn) (err error) { got, waits, err = t.extend(key); return err })
		if err != nil {
			g.Log.Warn("asking for more working time", "error", err)
			return 0
		}
		if !waits {
			return got
		}
		if _, err := g.Journal.Wait(ctx, head); err != nil {
			return 0
		}
	}
}

// extend reserves for the run under way what an amendment has brought, or asks
// for one where the contract says so.
func (t *turn) extend(key string) (more time.Duration, waits bool, err error) {
	row, err := t.row(key)
	if err != nil || row.Task.Ended() || row.Task.State() != task.Working || row.Recovery != "" {
		return 0, false, err
	}
	got, err := t.grow(&row)
	switch free := got[policy.WallClockSeconds]; {
	case err != nil:
		return 0, false, err
	case free > 0:
		return min(time.Duration(free)*time.Second, row.Task.Deadline().Sub(t.now)), false, nil
	case !asksForMore(row):
		return 0, false, nil
	}
	waits, err = t.park(&row, policy.WallClockSeconds)
	return 0, waits, err
}

// grow adds to what the run under way has reserved all that became free since it
// began, and says how much that is.
func (t *turn) grow(row *taskRow) (got map[policy.Meter]int64, err error) {
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return nil, err
	}
	got = map[policy.Meter]int64{}
	hold := runHold(row.Runs)
	var ms []policy.Move
	for _, m := range policy.Meters() {
		acc := policy.MeterOf(row.Key, m)
		held, there := l.Of(acc).Holds[hold]
		free := l.Of(acc).Free()
		if !there || free <= 0 {
			continue
		}
		got[m] = free
		ms = append(ms, policy.Move{Op: policy.Release, Account: acc, Hold: hold}, policy.Move{Op: policy.Reserve, Account: acc, Hold: hold, Amount: held + free})
	}
	return got, t.move(l, ms)
}

// park asks for as much of a meter again as the contract began with, once for
// each contract in force, and says whether an answer is awaited. It looks at the
// state alone, so that it comes to the same after a restart.
func (t *turn) park(row *taskRow, m policy.Meter) (waits bool, err error) {
	now := row.Task.InForce()
	if row.Change != nil && row.Change.Base == now.Digest || row.openAsk() {
		return true, nil
	}
	if row.Refused == now.Digest {
		return false, nil // our own owner said no
	}
	for _, a := range row.Task.Asks() {
		if a.By == manifest.Worker && a.Base == now.Digest && a.Status == task.AskNo {
			return false, nil
		}
	}
	limits, first := now.Limits, row.Task.Manifest().Budget.Limits()
	switch m {
	case policy.WallClockSeconds:
		limits.WallClockSeconds += first.WallClockSeconds
	case policy.InputTokens:
		limits.InputTokens += first.InputTokens
	case policy.OutputTokens:
		limits.OutputTokens += first.OutputTokens
	case policy.ToolInvocations:
		limits.ToolInvocations += first.ToolInvocations
	}
	_, err = t.askOwner(row, manifest.Amendment{Budget: &limits}, true)
	if known, ok := denial(err); ok {
		t.g.Log.Info("asking for no more", "task", row.Key.ID.String(), "word", known.Reason, "limit", known.Limit)
		return false, nil
	}
	return err == nil, err
}

// exhausted ends a task whose meter is used up, or parks it where the contract says so (B5).
func (t *turn) exhausted(row *taskRow, m policy.Meter) error {
	if asksForMore(*row) {
		waits, err := t.park(row, m)
		if err != nil || waits {
			return err
		}
	}
	_, err := t.say(row, manifest.Failed{Reason: string(spec.BudgetExhausted), Text: string(m), Usage: t.usage(*row)})
	return err
}
