package gateway_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
)

// till is a model of one task's budget of tokens: what must have been charged and
// what must be held, whatever the order in which callers came.
type till struct {
	t    *testing.T
	r    *rand.Rand
	seed uint64
	ann  *side
	ben  *side
	task string

	calls   atomic.Int64 // that the provider has seen of the program
	mu      sync.Mutex   // guards run
	run     gateway.ModelRun
	limit   gateway.ModelUse
	charged gateway.ModelUse
	open    map[string]oneLease
	gone    []gateway.ModelLease // of runs before: they were charged with their end
}

type oneLease struct {
	lease   gateway.ModelLease
	in, out int64
}

// programs is the lease of the task's own program, which never ends by itself.
const programs = "the program's"

// TestABudgetHoldsOnEveryInterleaving draws schedules of calls that begin and end
// at once, say too much, too little or nothing, ends that come twice, kills of
// the gateway, and amendments with a yes or a no; after each step committed and
// reserved are within the limit, and what was held came back exactly once. More
// of them: SEALBRIDGE_SEEDS.
func TestABudgetHoldsOnEveryInterleaving(t *testing.T) { // B1, B2, B6, B012, B014
	for seed := 1; seed <= seeds(t); seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) { newTill(t, uint64(seed)).schedule() })
	}
}

func newTill(t *testing.T, seed uint64) *till {
	x := &till{t: t, r: rand.New(rand.NewPCG(seed, 7)), seed: seed, open: map[string]oneLease{}}
	over := make(chan struct{})
	x.ann, x.ben = modelPair(t, "1/1", func(r *http.Request) {
		x.calls.Add(1)
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) })
	x.ben.models.keep = func(r gateway.ModelRun) { x.mu.Lock(); x.run = r; x.mu.Unlock() }
	x.limit = gateway.ModelUse{Input: 6000 + x.r.Int64N(6000), Output: 600 + x.r.Int64N(600)}
	x.task = x.ann.proposeWith(func(d *manifest.Draft) {
		budget(x.limit.Input, x.limit.Output, "stop")(d)
		d.Inputs = nil
	}).Task
	x.ann.allow(manifest.ContractGate)
	x.ben.allow(manifest.ContractGate)
	x.programCalls()
	return x
}

// programCalls waits until the call of the task's own program has left: one that
// did not would cost nothing.
func (x *till) programCalls() {
	x.t.Helper()
	x.ben.until("call", func() bool { return x.ended() || x.calls.Load() > 0 })
	x.calls.Store(0)
	b := x.balance()
	x.open[programs] = oneLease{in: b.in.Reserved, out: b.out.Reserved}
}

type balances struct{ in, out gateway.Balance }

func (x *till) balance() balances {
	b := x.ben.state(x.task).Budget
	out := balances{b[string(policy.InputTokens)], b[string(policy.OutputTokens)]}
	out.in.Source, out.out.Source = "", "" // who saw it is said with the last word, whenever that comes
	return out
}

func (x *till) ended() bool { return x.ben.state(x.task).Outcome != "" }

func (x *till) schedule() {
	for step := range 25 {
		what := x.step()
		if x.ended() { // a call for which nothing could ever be free ended the run (B5)
			break
		}
		x.holds(step, what)
	}
	if _, err := x.ann.g.Cancel(context.Background(), gateway.Owner, gateway.Cancellation{Task: x.task}); err != nil {
		x.t.Fatal(err)
	}
	x.ben.until("end", func() bool { b := x.balance(); return x.ended() && b.in.Reserved+b.out.Reserved == 0 })
	final := x.balance()
	for _, h := range x.leases() { // a hold is never given back twice
		x.end(h.lease, gateway.ModelUse{Input: 1, Output: 1})
	}
	if b := x.balance(); b != final {
		x.t.Errorf("seed %d: ends after the end moved %+v to %+v", x.seed, final, b)
	}
	if final.in.Committed > final.in.Limit || final.out.Committed > final.out.Limit {
		x.t.Errorf("seed %d: overspent %+v", x.seed, final)
	}
	x.ann.until("hear the last word", func() bool {
		n, err := x.ben.g.Unacknowledged(context.Background(), x.task)
		return err == nil && n == 0
	})
	x.ann.verifies(x.task)
}

// step does one thing and says which.
func (x *till) step() string {
	switch n := x.r.IntN(10); {
	case n < 4:
		x.burst()
		return "a burst"
	case n < 7:
		x.someEnd()
		return "an end"
	case n < 8:
		x.mixed()
		return "ends among a burst"
	case n < 9:
		x.kill()
		return "a kill"
	default:
		x.amend()
		return "an amendment"
	}
}

// burst begins several calls at once; who finds too little waits in vain.
func (x *till) burst() {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 1 + x.r.IntN(8) {
		c := x.call()
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
			defer cancel()
			lease, err := x.ben.g.BeginModelCall(ctx, c)
			if err != nil {
				return
			}
			mu.Lock()
			x.open[lease.ID] = oneLease{lease, c.Input, lease.Output}
			mu.Unlock()
		})
	}
	all.Wait()
}

// call fits into what is not charged yet, so that it waits and does not end the run.
func (x *till) call() gateway.ModelCall {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := 1 + x.r.Int64N(max(1, (x.limit.Output-x.charged.Output)/2))
	return gateway.ModelCall{Run: x.run, Kind: gateway.KindAnthropic, Model: "m-1", Input: 1 + x.r.Int64N(max(1, (x.limit.Input-x.charged.Input)/2)),
		Output: out, Least: 1 + x.r.Int64N(out)}
}

func (x *till) leases() (out []oneLease) {
	for _, id := range slices.Sorted(maps.Keys(x.open)) {
		if id != programs {
			out = append(out, x.open[id])
		}
	}
	return out
}

func (x *till) end(lease gateway.ModelLease, used gateway.ModelUse) {
	x.t.Helper()
	if err := x.ben.g.EndModelCall(context.Background(), lease, used); err != nil {
		x.t.Errorf("seed %d: ending: %v", x.seed, err)
	}
}

// someEnd ends a call with a figure of any kind, then once more with another; and
// one that a kill has charged already.
func (x *till) someEnd() {
	for _, lease := range x.gone {
		x.end(lease, gateway.ModelUse{Input: 1, Output: 1})
	}
	ls := x.leases()
	if len(ls) == 0 {
		return
	}
	h := ls[x.r.IntN(len(ls))]
	b := x.balance()
	in, chargedIn := x.figure(h.in, b.in)
	out, chargedOut := x.figure(h.out, b.out)
	x.end(h.lease, gateway.ModelUse{Input: in, Output: out})
	x.end(h.lease, gateway.ModelUse{Input: 1, Output: 1})
	x.charged.Input += chargedIn
	x.charged.Output += chargedOut
	delete(x.open, h.lease.ID)
}

// figure is what a provider says of a meter, and what that comes to.
func (x *till) figure(held int64, b gateway.Balance) (says, charged int64) {
	free := b.Limit - b.Committed - b.Reserved
	switch x.r.IntN(5) {
	case 0:
		return gateway.Unknown, held
	case 1:
		return -1 - x.r.Int64N(1000), held // no figure
	case 2:
		return 1 << 60, held // nor this
	case 3:
		says = held + x.r.Int64N(500) // more than was reserved: what there is
		return says, min(says, held+free)
	}
	says = x.r.Int64N(held + 1)
	return says, says
}

// mixed ends every call, each twice at once, while others begin.
func (x *till) mixed() {
	ended := x.leases()
	var all sync.WaitGroup
	for _, h := range ended {
		used := gateway.ModelUse{Input: x.r.Int64N(h.in + 1), Output: x.r.Int64N(h.out + 1)}
		for range 2 {
			all.Go(func() { x.end(h.lease, used) })
		}
		x.charged.Input += used.Input
		x.charged.Output += used.Output
		delete(x.open, h.lease.ID)
	}
	all.Go(x.burst)
	all.Wait()
}

// kill stops the gateway as it is and starts it: what was under way is unknown, and charged whole.
func (x *till) kill() {
	for _, h := range x.open {
		x.charged.Input += h.in
		x.charged.Output += h.out
		if h.lease.ID != "" {
			x.gone = append(x.gone, h.lease)
		}
	}
	clear(x.open)
	x.ben.restart()
	x.programCalls()
}

// amend asks for other limits, and the other owner says yes or no.
func (x *till) amend() {
	b := x.balance()
	in, out := b.in.Committed+b.in.Reserved+x.r.Int64N(4000), b.out.Committed+b.out.Reserved+x.r.Int64N(400)
	if in == b.in.Limit && out == b.out.Limit {
		return
	}
	said, err := x.ann.g.Amend(context.Background(), gateway.Owner, gateway.Change{Task: x.task, InputTokens: &in, OutputTokens: &out})
	if err != nil {
		x.t.Fatalf("seed %d: amending: %v", x.seed, err)
	}
	if said.Ask != "" {
		x.ann.allow(manifest.BudgetGate)
	}
	if x.r.IntN(3) == 0 {
		if _, err := x.ben.answer(x.ben.ask(manifest.BudgetGate), approval.Deny); err != nil {
			x.t.Fatal(err)
		}
		return
	}
	x.ben.allow(manifest.BudgetGate)
	x.ben.until("agree", func() bool { b := x.balance(); return b.in.Limit == in && b.out.Limit == out })
	x.limit = gateway.ModelUse{Input: in, Output: out}
}

// holds compares the ledger with the model.
func (x *till) holds(step int, what string) {
	x.t.Helper()
	want := balances{gateway.Balance{Limit: x.limit.Input, Committed: x.charged.Input}, gateway.Balance{Limit: x.limit.Output, Committed: x.charged.Output}}
	for _, h := range x.open {
		want.in.Reserved += h.in
		want.out.Reserved += h.out
	}
	got := x.balance()
	if got != want {
		x.t.Fatalf("seed %d: after step %d, %s: %+v, want %+v", x.seed, step, what, got, want)
	}
	if got.in.Committed+got.in.Reserved > got.in.Limit || got.out.Committed+got.out.Reserved > got.out.Limit {
		x.t.Fatalf("seed %d: after step %d, %s: past the limit: %+v", x.seed, step, what, got)
	}
}
