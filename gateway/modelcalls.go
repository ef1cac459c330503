package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"

	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/spec"
)

// ModelDoor is where the model calls of a boxed program come in (X4b).
type ModelDoor interface {
	// Port is the door as one run sees it, with the environment by which a program finds it.
	Port(run ModelRun) (p runner.Port, env map[string]string)
}

// ModelRun is one run that may call models.
type ModelRun struct {
	Task string // key of the task
	Run  int64
}

// ModelCall is one call to a model, before it leaves (X4d).
type ModelCall struct {
	Run         ModelRun
	Kind, Model string
	Input       int64 // tokens that it can be at most
	Output      int64 // tokens that it asks for; it gets what is free where that is less
	Least       int64 // fewer tokens of output than this are of no use to it
	Free        bool  // it asks no model: nothing is reserved

	// Hold stands the program still while wait runs; nil for an agent in no box of ours.
	Hold func(ctx context.Context, wait func(context.Context))
}

// ModelLease is a call that may leave. It is ended once, whatever becomes of it.
type ModelLease struct {
	ID       string
	Run      ModelRun
	Provider string // of the owner's
	Host     string // whom the owner said yes to: the call goes nowhere else
	Output   int64  // tokens that the provider is told as the limit
}

// Unknown is a figure that nobody said: the reservation is charged whole (B1).
const Unknown int64 = -1

// ModelUse is what a provider said of a call.
type ModelUse struct{ Input, Output int64 }

// modelAnswer is what one look at the budget says about a call: a lease, a
// meter that is used up, or something to wait for.
type modelAnswer struct {
	lease   ModelLease
	spent   policy.Meter
	others  bool // calls of the same run hold what is missing
	persons bool // both owners are asked for more
}

// spentError is why a run was ended: a meter is used up.
type spentError struct{ meter policy.Meter }

func (e spentError) Error() string { return "used up: " + string(e.meter) }

// BeginModelCall reserves for a call, all of it or nothing, in one turn (B1). A
// call that finds too little waits for what other calls of its run give back and,
// where the contract asks for more, for both owners; else the run ends (X4f).
func (g *Gateway) BeginModelCall(ctx context.Context, in ModelCall) (ModelLease, error) {
	for {
		a, err := g.tryModelCall(ctx, in, func(a modelAnswer) bool { return a.others })
		if err == nil && a.persons {
			g.standStill(ctx, in.Run.Task, in.Hold, func(ctx context.Context) { // no longer than for them: other calls cannot end while their program stands still
				a, err = g.tryModelCall(ctx, in, func(a modelAnswer) bool { return a.persons })
			})
		}
		switch {
		case err != nil:
			return ModelLease{}, err
		case a.spent != "":
			g.mu.Lock()
			if end := g.runs[in.Run.Task]; end != nil {
				end(spentError{a.spent})
			}
			g.mu.Unlock()
			return ModelLease{}, spec.Refuse(spec.BudgetExhausted, "", string(a.spent))
		case a.lease.ID != "":
			return a.lease, nil
		}
	}
}

// tryModelCall looks until there is something else to do than to wait as wait says.
func (g *Gateway) tryModelCall(ctx context.Context, in ModelCall, wait func(modelAnswer) bool) (a modelAnswer, err error) {
	for {
		head := g.Journal.Head()
		err = g.turn(ctx, func(t *turn) (err error) { a, err = t.beginModelCall(in); return err })
		if err != nil || !wait(a) {
			return a, err
		}
		if _, err := g.Journal.Wait(ctx, head); err != nil {
			return a, err
		}
	}
}

func (t *turn) beginModelCall(in ModelCall) (a modelAnswer, err error) {
	row, err := t.calling(in.Run)
	if err != nil {
		return a, err
	}
	lease, err := t.providerFor(row, in)
	if err != nil || in.Free {
		return modelAnswer{lease: lease}, err
	}
	if in.Input < 0 || in.Input > maxTokens || in.Least < 1 || in.Output < in.Least || in.Output > maxTokens {
		return a, spec.Refuse(spec.Malformed, "", "B6")
	}
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return a, err
	}
	for _, x := range []struct {
		meter policy.Meter
		least int64
	}{{policy.InputTokens, in.Input}, {policy.OutputTokens, in.Least}} {
		b := l.Of(policy.MeterOf(row.Key, x.meter))
		switch {
		case b.Free() >= x.least:
		case b.Free()+heldByCalls(b) >= x.least:
			a.others = true
		default:
			return t.overspent(&row, x.meter)
		}
	}
	if a.others {
		return a, nil
	}
	row.Calls++
	id := callHold(row.Runs, row.Calls)
	lease.ID, lease.Output = string(id), min(in.Output, l.Of(policy.MeterOf(row.Key, policy.OutputTokens)).Free())
	err = t.move(l, []policy.Move{{Op: policy.Reserve, Account: policy.MeterOf(row.Key, policy.InputTokens), Hold: id, Amount: in.Input},
		{Op: policy.Reserve, Account: policy.MeterOf(row.Key, policy.OutputTokens), Hold: id, Amount: lease.Output}})
	return modelAnswer{lease: lease}, errors.Join(err, t.putRow(row))
}

// calling is the task of a run that is under way.
func (t *turn) calling(run ModelRun) (taskRow, error) {
	row, err := t.row(run.Task)
	if err == nil && (row.Task.Ended() || row.Recovery != "" || row.Task.State() != task.Working || row.RunAt.IsZero() || row.Runs != run.Run) {
		err = spec.Refuse(spec.NotPermitted, "", "X4b: the run has ended")
	}
	return row, err
}

// providerFor is the first of the owner's providers that has the model, that the
// agent may use and that accepted names (X4a, X4h).
func (t *turn) providerFor(row taskRow, in ModelCall) (ModelLease, error) {
	named := row.accepted().Providers
	for _, name := range t.rules.Serving(t.rules.Agents[row.Agent], in.Kind, in.Model) {
		if p := t.rules.Providers[name]; slices.Contains(named, label(name, p)) {
			return ModelLease{ID: "free", Run: in.Run, Provider: name, Host: p.Host}, nil
		}
	}
	return ModelLease{}, spec.Refuse(spec.NotPermitted, "/model", "X4a: no provider of the owner's that the contract names has this model")
}

// ModelNames are the owner's models of a kind that a run may ask; an entry with a star is no name.
func (g *Gateway) ModelNames(ctx context.Context, run ModelRun, kind string) (names []string, err error) {
	err = g.view(ctx, func(t *turn) error {
		row, err := t.calling(run)
		if err != nil {
			return err
		}
		for _, name := range t.rules.providersOf(t.rules.Agents[row.Agent]) {
			p := t.rules.Providers[name]
			if p.Kind != kind || !slices.Contains(row.accepted().Providers, label(name, p)) {
				continue
			}
			for _, m := range p.Models {
				if !strings.HasSuffix(m, "*") && !slices.Contains(names, m) {
					names = append(names, m)
				}
			}
		}
		return nil
	})
	return names, err
}

// overspent parks a run whose meter is used up where the contract says so, and ends it else (B5).
func (t *turn) overspent(row *taskRow, m policy.Meter) (a modelAnswer, err error) {
	a.spent = m
	if row.Session {
		if err := t.endSession(row); err != nil {
			return a, err
		}
		return a, t.exhausted(row, m)
	}
	if asksForMore(*row) {
		waits, err := t.park(row, m)
		if waits || err != nil {
			return modelAnswer{persons: true}, err
		}
	}
	return a, nil // the run is ended, and its end says it
}

// EndModelCall charges a call: what the provider said, or all that was reserved
// of a meter of which it said nothing (B1, B6). A call that was charged with its run stays so.
func (g *Gateway) EndModelCall(ctx context.Context, c ModelLease, used ModelUse) error {
	return g.turn(ctx, func(t *turn) error {
		row, err := t.row(c.Run.Task)
		if err != nil {
			return err
		}
		l, err := t.ledger(t.meterAccounts(row.Key))
		if err != nil {
			return err
		}
		var ms []policy.Move
		for m, n := range map[policy.Meter]int64{policy.InputTokens: used.Input, policy.OutputTokens: used.Output} {
			acc, hold := policy.MeterOf(row.Key, m), policy.HoldID(c.ID)
			b := l.Of(acc)
			held, there := b.Holds[hold]
			if !there {
				continue
			}
			if n < 0 || n > maxTokens {
				n = held
			}
			ms = append(ms, policy.Move{Op: policy.Commit, Account: acc, Hold: hold, Amount: min(n, held+max(b.Free(), 0))})
		}
		if len(ms) == 0 {
			return nil
		}
		if err := t.move(l, ms); err != nil {
			return err
		}
		return t.note(row.Key.String(), map[string]string{"model": c.ID, "provider": c.Provider, "in": itoa(used.Input), "out": itoa(used.Output)})
	})
}

const maxTokens = 1 << 53 // of one call: beyond it a figure is none

const callPrefix = "model-"

// callHold names one call's reservation.
func callHold(run, call int64) policy.HoldID {
	return policy.HoldID(callPrefix + itoa(run) + "-" + itoa(call))
}

func heldByCalls(b policy.Balance) (sum int64) {
	for h, n := range b.Holds {
		if strings.HasPrefix(string(h), callPrefix) {
			sum += n
		}
	}
	return sum
}

// unknownCalls are the moves that charge calls which were begun and have no end.
func unknownCalls(l policy.Ledger, key manifest.TaskKey) (ms []policy.Move) {
	for _, m := range policy.Meters() {
		acc := policy.MeterOf(key, m)
		for h, n := range l.Of(acc).Holds {
			if strings.HasPrefix(string(h), callPrefix) {
				ms = append(ms, policy.Move{Op: policy.Commit, Account: acc, Hold: h, Amount: n})
			}
		}
	}
	return ms
}

// endUnknownCalls charges whole what was under way when this gateway stopped (B1).
func (t *turn) endUnknownCalls(row taskRow) error {
	if row.Role != manifest.Worker || row.Calls == 0 {
		return nil
	}
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return err
	}
	return t.move(l, unknownCalls(l, row.Key))
}

// ModelRunOf is the run of an agent in its session for which its model calls
// count: of the task that it names, or of the only one that it has started.
func (g *Gateway) ModelRunOf(ctx context.Context, by Caller, in Ref) (run ModelRun, err error) {
	if err := by.agent(); err != nil {
		return run, err
	}
	err = g.view(ctx, func(t *turn) error {
		if in.Task != "" {
			row, err := t.working(by, in.Task)
			run = ModelRun{row.Key.String(), row.Runs}
			return err
		}
		rows, err := tasks.Group(t.Tx, groupOpen)
		if err != nil {
			return err
		}
		found := 0
		for _, r := range rows {
			if r.V.Session && r.V.Agent == by.Agent && !r.V.RunAt.IsZero() {
				run = ModelRun{r.Key, r.V.Runs}
				found++
			}
		}
		switch {
		case found == 0:
			return spec.Refuse(spec.NotPermitted, "", "X4b: start_task comes first")
		case found > 1:
			return spec.Refuse(spec.Conflict, "", "X4b: several tasks are started: /task/ID/v1/… names one")
		}
		return nil
	})
	return run, err
}
