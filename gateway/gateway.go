// Package gateway answers one question: what happens next? Every document goes
// one path: open (no state), then one turn of the journal: decide, apply,
// append; then act. What a turn owes is a job, and every job can be repeated.
//
// A fact is somebody's signed word. An intent is what our own side would say:
// it waits unsigned while a gate is open. Nothing is shown, sent or
// acknowledged before it is durable.
package gateway

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"sealbridge/gateway/artifact"
	"sealbridge/gateway/journal"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/signing/box"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Courier carries sealed envelopes through our home relay.
type Courier interface {
	Put(ctx context.Context, to signing.DID, envelope []byte, ticket string) (relay.Receipt, error)
	Receive(ctx context.Context, inFlight int, take func(context.Context, []byte) relay.Verdict) error
	PublishKey(ctx context.Context, kid signing.Digest, document []byte) error
	SetList(ctx context.Context, allow []signing.DID, tickets []string) error
	DropPut(ctx context.Context, id string, sealed []byte, expires time.Time) error
	DropGet(ctx context.Context, id string) ([]byte, error)
}

// Runner runs one agent program for one task, held at the level of its command.
type Runner interface {
	Run(ctx context.Context, c runner.Command) (runner.Result, error)
	Isolation(level string) manifest.Isolation
	Enforces(level string) []string
	Levels() []string // that are enforced here
}

// Notifier tells a person that something waits: ids of asks and of tasks with a
// counter-proposal, nothing of anybody else's. A note that did not arrive comes
// again with the same id.
type Notifier interface {
	Notify(ctx context.Context, id string, waiting []string) error
}

// Secrets are the box-keys of this gateway.
type Secrets interface {
	Keyring(at time.Time) (*box.Keyring, error)
	BoxKey() (jcs.Value, manifest.BoxKey, error)
	RotateBoxKey(at time.Time) (jcs.Value, error)
	// Install makes a certificate ours, for good, and makes a box-key that names it.
	Install(certificate manifest.Signed, at time.Time) error
}

// Agent is one agent program that works for others.
type Agent struct {
	Session  bool     // it comes by the agents' door and works in its owner's session: nothing is run here
	Command  []string // or the arguments of Module
	Module   string   // the path of a WASI module that is the agent
	Image    string   // or a container image, by its digest
	ReadOnly []string
	Hosts    []string // that its own model needs: a contract that does not name them is not taken
	Model    string   // own, door or none; "" is none

	Providers []string          // of the owner's, with door; none named: all
	Speaks    Speaks            // how its program is given a task and gives its result back
	Env       map[string]string // what its program finds in its environment, beside what the box gives
}

// Rules are the owner's, read again when their files change. One decision uses one snapshot (G12).
type Rules struct {
	Policy    policy.Policy
	Agents    map[string]Agent
	Providers map[string]Provider // of models, by the owner's names
}

// Config is all that a gateway is given.
type Config struct {
	Journal     *journal.Journal
	Owner       signing.DID
	Agent       signing.Signer
	Certificate manifest.Signed
	Secrets     Secrets
	Approvers   Approvers // nil: no passkeys at this gateway
	Courier     Courier
	Depot       artifact.Depot
	Reach       func(ctx context.Context, at manifest.RelayRef) (Away, error) // other relays, where contacts collect; nil: none
	Files       *artifact.Store
	Runner      Runner
	Models      ModelDoor                   // nil: no agent calls a model by the door
	Tools       Tools                       // of our owner; nil: none, and every call is refused
	ToolDoor    ToolDoor                    // nil: boxed programs call no granted tool
	Notifier    Notifier                    // nil: nobody is told
	Rules       Rules                       // as the files say; a policy that permits more than the one in the journal waits (G12)
	Line        func(pointer string) string // where a rule stands: policy.yaml:14; nil: its name
	CheckTime   time.Duration               // of one command over a delivery (M6); 0: two minutes
	Now         func() time.Time
	Zone        *time.Location // in which a contact's day begins and ends (B8); nil: UTC
	Chance      io.Reader
	Log         *slog.Logger
}

// Gateway is one owner's gateway. It may be used from many goroutines.
type Gateway struct {
	Config

	mu      sync.Mutex // guards rules, busy, runs, moves, stalls, counts, calling
	rules   Rules
	busy    map[string]bool                    // jobs under way, by kind and key
	runs    map[string]context.CancelCauseFunc // agent programs under way, by task
	moves   map[string]context.CancelFunc      // files under way, by kind and key of their job
	stalls  map[string]string                  // why the files of a task stand still
	counts  map[string]int64
	calling int // tools that run for a call
	started time.Time

	logins logins

	poke chan struct{} // one token: something may be owed
	jobs sync.WaitGroup
	keys *signing.Keys

	chains *policy.Chains
}

// New makes a gateway and brings the journal up to this configuration: our own
// certificate and box-key are in its trust, and what the state still owes is owed.
func New(ctx context.Context, c Config) (*Gateway, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if c.Now, err = steadyFrom(ctx, c); err != nil {
		return nil, err
	}
	g := &Gateway{Config: c, rules: c.Rules, busy: map[string]bool{}, runs: map[string]context.CancelCauseFunc{}, moves: map[string]context.CancelFunc{}, stalls: map[string]string{}, counts: map[string]int64{},
		poke: make(chan struct{}, 1), keys: signing.NewKeys(), chains: policy.NewChains(), started: c.Now()}
	return g, g.start(ctx)
}

// Run collects mail and does what is owed until ctx ends. Work under way is stopped; it is looked for again at the next start.
func (g *Gateway) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { g.collect(ctx) })
	wg.Go(func() { g.loop(ctx) })
	wg.Wait()
	g.jobs.Wait()
	return ctx.Err()
}

// Caller says who asks: the owner by the people's socket, or one agent by its own.
type Caller struct {
	Agent string
	Task  string // key of the one task that a boxed program of the agent works on; empty: all of the agent's
}

// Owner is the caller behind the people's socket.
var Owner = Caller{}

// Person refuses a caller that is an agent: no door lets an agent decide, confirm,
// invite, widen, open a key or export (G9).
func (c Caller) Person() error {
	if c.Agent != "" {
		return spec.Refuse(spec.NotPermitted, "", "G9: only the owner")
	}
	return nil
}

// Reload takes new rules. Agents are those of r from here on; a policy that
// only narrows is in force when this returns, one that permits more waits for
// the owner's yes (G12).
func (g *Gateway) Reload(r Rules) error {
	g.mu.Lock()
	g.rules = r
	g.mu.Unlock()
	return g.turn(context.Background(), func(t *turn) error { return t.takePolicy(r.Policy) })
}

func (g *Gateway) snapshot() Rules {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rules
}

func (g *Gateway) count(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[what]++
}

func (g *Gateway) wake() {
	select {
	case g.poke <- struct{}{}:
	default:
	}
}

// turn is one turn of the journal; what it owes is looked at afterwards.
func (g *Gateway) turn(ctx context.Context, f func(*turn) error) error {
	rules := g.snapshot()
	err := g.Journal.Turn(ctx, func(tx *journal.Tx) error {
		t := &turn{Tx: tx, g: g, rules: rules}
		if err := t.begin(); err != nil {
			return err
		}
		return f(t)
	})
	g.keepRefused(ctx, err)
	g.wake()
	return err
}

// view is the same for reading.
func (g *Gateway) view(ctx context.Context, f func(*turn) error) error {
	return g.Journal.View(ctx, func(tx *journal.Tx) error {
		t := &turn{Tx: tx, g: g, rules: g.snapshot()}
		if err := t.begin(); err != nil {
			return err
		}
		return f(t)
	})
}

// mint makes an id that we give: a prefix and a ULID (D7).
func (g *Gateway) mint(prefix string, at time.Time) (string, error) {
	const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var b [16]byte
	if _, err := io.ReadFull(g.Chance, b[6:]); err != nil {
		return "", err
	}
	ms := uint64(at.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (8 * (5 - i)))
	}
	var hi, lo uint64
	for i := range 8 {
		hi, lo = hi<<8|uint64(b[i]), lo<<8|uint64(b[8+i])
	}
	out := make([]byte, 26)
	for i := 25; i >= 0; i-- {
		out[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return prefix + string(out), nil
}

// newTaskID is for a task of ours.
func (g *Gateway) newTaskID(at time.Time) (id manifest.TaskID, err error) {
	text, err := g.mint("task_", at)
	if err != nil {
		return id, err
	}
	return manifest.ParseTaskID(text)
}
