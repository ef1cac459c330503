package gateway

import (
	"context"
	"errors"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/spec"
)

// accept decides about a proposal: the owner's rules refuse it, or a person is asked.
func (t *turn) accept(key string) error {
	row, err := t.row(key)
	if err != nil || row.Task.State() != task.Proposed || row.Task.Ended() {
		return err
	}
	row.Agent = t.worker(row)
	row.Session = t.rules.Agents[row.Agent].Session
	fact, err := t.acceptance(row)
	if err == nil {
		err = checkInputEarly(row.Task.Manifest())
	}
	if err == nil {
		_, err = t.say(&row, fact)
	}
	if err == nil {
		return nil
	}
	known, ok := denial(err)
	if !ok {
		return err
	}
	if err := t.keepFrom(err); err != nil {
		return err
	}
	t.g.Log.Info("declining", "task", row.Key.ID.String(), "word", known.Reason, "limit", known.Limit)
	_, err = t.say(&row, manifest.Declined{Reason: string(known.Reason)})
	return err
}

// denial is an answer of the law or of the owner's rules, not a fault of ours.
func denial(err error) (known *spec.Error, ok bool) {
	if err == nil || !errors.As(err, &known) || known.Reason == spec.Internal || known.Reason == spec.Unavailable {
		return nil, false
	}
	return known, true
}

func (t *turn) startWork(key string) error {
	row, err := t.row(key)
	if err != nil || row.Task.State() != task.Accepted || row.Task.Ended() {
		return err
	}
	if until, waits, err := t.awaitsTokens(row); err != nil || waits {
		return errors.Join(err, t.oweAt(jobStart, key, until, nil))
	}
	if err := t.g.checkInput(row.Task.Manifest()); err != nil { // M12: before the agent sees anything of it
		known, ok := denial(err)
		if !ok {
			return err
		}
		_, err := t.say(&row, manifest.Failed{Reason: string(spec.VerificationFailed), Text: cut(joinWords(known.Path, known.Limit), 2000), Usage: t.usage(row)})
		return err
	}
	_, err = t.say(&row, manifest.Started{})
	return err
}

// runHold names one run's reservation.
func runHold(n int64) policy.HoldID { return policy.HoldID("run-" + itoa(n)) }

// meters are the accounts of a task that a run reserves: wall clock always, tokens
// where the agent has a model of its own. Calls by the door are reserved one by one.
func runMeters(a Agent) []policy.Meter {
	if a.model() == modelOwn {
		return []policy.Meter{policy.WallClockSeconds, policy.InputTokens, policy.OutputTokens}
	}
	return []policy.Meter{policy.WallClockSeconds}
}

// doRun runs the agent: begun and reserved in one turn, ended in another (B1).
func (g *Gateway) doRun(ctx context.Context, jb journal.Job) error {
	var row taskRow
	var agent Agent
	var left time.Duration
	ready := false
	err := g.turn(ctx, func(t *turn) (err error) {
		if row, err = t.row(jb.Key); err != nil {
			return err
		}
		if row.Task.State() != task.Working || row.Task.Ended() || row.Recovery != "" {
			return t.Settle(jobRun, jb.Key)
		}
		if row.Session { // this job is its clock (B5)
			return t.sessionOver(&row)
		}
		agent, ready = t.rules.Agents[row.Agent]
		if !ready || agent.model() != row.accepted().Model {
			ready = false
			_, err = t.say(&row, manifest.Failed{Reason: "unavailable", Text: "the agent is gone, or has another model than was accepted", Usage: t.usage(row)})
			return errors.Join(err, t.Settle(jobRun, jb.Key))
		}
		if !t.holds(row, agent) { // X6: never weakened after the yes
			ready = false
			_, err = t.say(&row, manifest.Failed{Reason: string(spec.UnsupportedIsolation), Text: "the agent would not be held as it was accepted any more", Usage: t.usage(row)})
			return errors.Join(err, t.Settle(jobRun, jb.Key))
		}
		left, ready, err = t.beginRun(&row, agent)
		return err
	})
	if err != nil || !ready {
		return err
	}
	runCtx, cancel := context.WithCancelCause(ctx)
	g.mu.Lock()
	g.runs[jb.Key] = cancel
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.runs, jb.Key)
		g.mu.Unlock()
		cancel(nil)
	}()
	c, err := g.command(row, agent, left)
	c.Overrun = func(ctx context.Context) time.Duration { return g.more(ctx, jb.Key) }
	if err != nil {
		return g.endRun(ctx, jb.Key, agent, runner.Result{}, err)
	}
	res, err := g.Runner.Run(runCtx, c)
	defer func() { res.Close() }() // also of a run that failed
	if noted := g.reached(ctx, jb.Key, c.Hosts); noted != nil {
		return noted
	}
	if ctx.Err() != nil { // the gateway stops: the run is unknown and is charged at the next start
		return ctx.Err()
	}
	if spent := (spentError{}); errors.As(context.Cause(runCtx), &spent) {
		err = spent
	}
	return g.endRun(ctx, jb.Key, agent, res, err)
}

// beginRun reserves what the run may use and marks it as begun.
func (t *turn) beginRun(row *taskRow, a Agent) (left time.Duration, ok bool, err error) {
	if left, ok, err = t.reserveRun(row, a); err != nil || !ok {
		return left, ok, err
	}
	return left, left > 0, t.Begin(jobRun, row.Key.String())
}

// reserveRun reserves all that is free; without anything free the task has failed.
func (t *turn) reserveRun(row *taskRow, a Agent) (left time.Duration, ok bool, err error) {
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return 0, false, err
	}
	var ms []policy.Move
	for _, m := range runMeters(a) {
		acc := policy.MeterOf(row.Key, m)
		free := l.Of(acc).Free()
		if free <= 0 {
			return 0, false, errors.Join(t.exhausted(row, m), t.Settle(jobRun, row.Key.String()))
		}
		if m == policy.WallClockSeconds {
			left = time.Duration(free) * time.Second
		}
		ms = append(ms, policy.Move{Op: policy.Reserve, Account: acc, Hold: runHold(row.Runs + 1), Amount: free})
	}
	if a.model() == modelDoor { // each call reserves for itself; a run that could make none does not begin
		for _, m := range []policy.Meter{policy.InputTokens, policy.OutputTokens} {
			if l.Of(policy.MeterOf(row.Key, m)).Free() <= 0 {
				return 0, false, errors.Join(t.exhausted(row, m), t.Settle(jobRun, row.Key.String()))
			}
		}
	}
	row.Runs, row.RunAt, row.Still = row.Runs+1, t.now, stillRow{}
	if by := row.Task.Deadline().Sub(t.now); by < left {
		left = by
	}
	if err := t.move(l, ms); err != nil {
		return 0, false, err
	}
	if err := t.note(row.Key.String(), map[string]string{"run": itoa(row.Runs), "agent": row.Agent}); err != nil {
		return 0, false, err
	}
	return left, true, t.putRow(*row)
}

func (t *turn) meterAccounts(key manifest.TaskKey) []policy.Account {
	var as []policy.Account
	for _, m := range policy.Meters() {
		as = append(as, policy.MeterOf(key, m))
	}
	return as
}

// endUnknownRuns charges runs that were begun before a stop: no end means
// unknown. The program ended with the gateway, so it cannot have worked longer
// than until now, nor while it stood still (B4); tokens of an unknown run are charged whole.
func (t *turn) endUnknownRuns() error {
	jobs, err := t.Jobs(jobRun)
	if err != nil {
		return err
	}
	for _, jb := range jobs {
		if !jb.Begun {
			continue
		}
		row, err := t.row(jb.Key)
		if err != nil {
			return err
		}
		worked := int64((t.now.Sub(row.RunAt)-row.Still.until(t.now))/time.Second) + 1
		if err := t.commitRun(&row, manifest.Meters{WallClockSeconds: worked}, true); err != nil {
			return err
		}
		if err := t.Postpone(jobRun, jb.Key, t.now); err != nil {
			return err
		}
	}
	return nil
}

// commitRun ends a run's reservations: what was used is charged, the rest comes back.
func (t *turn) commitRun(row *taskRow, used manifest.Meters, unknown bool) error {
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return err
	}
	ms := unknownCalls(l, row.Key) // a program that had its answers has ended its calls before
	for _, m := range policy.Meters() {
		acc := policy.MeterOf(row.Key, m)
		held, ok := l.Of(acc).Holds[runHold(row.Runs)]
		if !ok {
			continue
		}
		n := min(m.Of(used), held)
		if unknown && m != policy.WallClockSeconds {
			n = held
		}
		ms = append(ms, policy.Move{Op: policy.Commit, Account: acc, Hold: runHold(row.Runs), Amount: n})
	}
	row.RunAt, row.Still = time.Time{}, stillRow{}
	if err := t.move(l, ms); err != nil {
		return err
	}
	return t.putRow(*row)
}

// usage is all that the task has used, and who says so (B6).
func (t *turn) usage(row taskRow) manifest.Usage {
	l, err := t.ledger(t.meterAccounts(row.Key))
	tokens := row.tokenSource()
	u := manifest.Usage{Source: manifest.Sources{InputTokens: tokens, OutputTokens: tokens, ToolInvocations: "metered", WallClockSeconds: "metered"}}
	if err != nil {
		return u
	}
	if len(row.Task.Children()) > 0 { // another gateway's word is in every figure (L6)
		u.Source = manifest.Sources{InputTokens: "claimed", OutputTokens: "claimed", ToolInvocations: "claimed", WallClockSeconds: "claimed"}
	}
	of := func(m policy.Meter) int64 {
		b := l.Of(policy.MeterOf(row.Key, m))
		return b.Committed + b.Reserved() - row.onlyAsked(b)
	}
	u.Meters = manifest.Meters{InputTokens: of(policy.InputTokens), OutputTokens: of(policy.OutputTokens),
		ToolInvocations: of(policy.ToolInvocations), WallClockSeconds: of(policy.WallClockSeconds)}
	return u
}

// tokenSource says who saw the tokens of a task: our gateway where a box of ours
// held the agent and no model was within reach but by its door (X4h), nor a host; else it is the agent's word.
func (r taskRow) tokenSource() string {
	if a := r.accepted(); a.Isolation.Enforced == "gateway" && a.Model != modelOwn && len(r.Task.Manifest().SandboxPolicy.AllowedHosts) == 0 {
		return "metered"
	}
	return "claimed"
}

// doStop ends the program of a task that the requester ended, and says the last word (B3).
func (g *Gateway) doStop(ctx context.Context, jb journal.Job) error {
	g.mu.Lock()
	cancel := g.runs[jb.Key]
	g.mu.Unlock()
	if cancel != nil {
		cancel(nil)
		return spec.Refuse(spec.Unavailable, "", "the program is being ended")
	}
	return g.turn(ctx, func(t *turn) error {
		row, err := t.row(jb.Key)
		if err != nil {
			return err
		}
		if row.Session {
			if err := t.endSession(&row); err != nil {
				return err
			}
		}
		said := manifest.Stopped{Usage: t.usage(row)}
		if row.Task.Legal(t.g.Agent.DID(), manifest.Body{Fact: said}, t.now) != nil {
			return nil
		}
		_, err = t.say(&row, said)
		return err
	})
}

// timeOut ends a task at its deadline, by our clock (H8).
func (t *turn) timeOut(key string) error {
	row, err := t.row(key)
	if err != nil || row.Task.Ended() || row.Recovery != "" {
		return err
	}
	if at := row.Task.Deadline(); t.now.Before(at) {
		return t.oweAt(jobDeadline, key, at, nil)
	}
	_, err = t.say(&row, manifest.TimedOut{})
	return err
}

// cancel ends a task whose other side said what the contract does not allow, or
// whose group is decided (P4).
func (t *turn) cancel(key string) error {
	row, err := t.row(key)
	if err != nil || row.Task.IsZero() || row.Task.Ended() {
		return err
	}
	why := t.lost(row)
	if row.Breach != "" {
		why = "against rule " + row.Breach
	}
	if why == "" {
		return nil
	}
	_, err = t.say(&row, manifest.Cancelled{Reason: why})
	return err
}
