package gateway_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/artifact"
	"sealbridge/gateway/home"
	"sealbridge/gateway/journal"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/relay"
	"sealbridge/relay/relaytest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// gatewayConn is what a gateway asks of a relay.
type gatewayConn interface {
	gateway.Courier
	artifact.Depot
}

// side is one owner's gateway with real parts but for the relay.
type side struct {
	t        testing.TB
	home     *home.Home
	g        *gateway.Gateway
	stop     func()
	dial     func(side) gatewayConn
	journal  *journal.Journal
	rules    gateway.Rules
	teller   gateway.Notifier // set before a restart
	patience time.Duration    // of until; a minute where it is less
	clock    func() time.Time // set before a restart; nil: the real one
	zone     *time.Location   // of days, set before a restart
	run      gateway.Runner   // nil: programs of this machine
	models   *boxModels       // set before a restart; nil: no door
	tools    gateway.Tools    // set before a restart
	reach    func(context.Context, manifest.RelayRef) (gateway.Away, error)
}

// worker is an agent program: it counts the lines of its input and writes a file.
const worker = `#!/bin/sh
set -e
n=$(wc -l < in/sales.csv | tr -d ' ')
echo "lines,$n" > out/count.csv
printf '{"output":{"lines":%s},"evidence":[{"criterion":"ac_1","text":"counted"}]}' "$n"
`

func newSide(t testing.TB, dial func(side) gatewayConn, at relay.Address, name string) *side {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if _, err := home.Create(dir, home.New{Name: name, Relay: manifest.RelayRef{Endpoint: at.URL, Did: at.DID}, Chance: rand.Reader, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	h, err := home.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	p, err := h.Policy()
	if err != nil {
		t.Fatal(err)
	}
	s := &side{t: t, home: h, dial: dial, rules: gateway.Rules{Policy: p, Agents: map[string]gateway.Agent{}}}
	s.start()
	t.Cleanup(func() { s.keepAsks(); s.stop() })
	return s
}

func (s *side) start() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	j, err := journal.Open(s.home.Journal())
	if err != nil {
		s.t.Fatal(err)
	}
	files, err := artifact.Open(s.home.Files())
	if err != nil {
		s.t.Fatal(err)
	}
	run, err := runner.New(ctx, runner.Config{Dir: s.home.Work()})
	if err != nil {
		s.t.Fatal(err)
	}
	var programs gateway.Runner = run
	if s.run != nil {
		programs = s.run
	}
	now := time.Now
	if s.clock != nil {
		now = s.clock // as it is at the start: a gateway that runs never sees another
	}
	conn := s.dial(*s)
	s.journal = j
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("SEALBRIDGE_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("side", s.home.Config.Name)
	}
	s.g, err = gateway.New(ctx, gateway.Config{Models: s.models.door(), Journal: j, Owner: s.home.Owner, Agent: s.home.Agent, Certificate: s.home.Certificate, Secrets: s.home,
		Courier: conn, Depot: conn, Reach: s.reach, Files: files, Runner: programs, Tools: s.tools, Notifier: s.teller, Rules: s.rules, Now: now, Zone: s.zone, Chance: rand.Reader, Log: log, Approvers: s.home})
	if err != nil {
		s.t.Fatal(err)
	}
	s.models.open(s.g, log)
	done := make(chan struct{})
	go func() { defer close(done); s.g.Run(ctx) }()
	s.stop = func() {
		cancel()
		<-done
		j.Close()
		files.Close()
	}
}

func (s *side) now() time.Time {
	if s.clock != nil {
		return s.clock()
	}
	return time.Now()
}

func (s *side) restart() { s.stop(); s.start() }

func (s *side) owner() signing.Signer {
	k, _, err := s.home.OwnerSigner(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return k
}

func text128(t testing.TB) string {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (s *side) invite() string {
	s.t.Helper()
	id, err := manifest.ParseInviteID("inv_" + strings.NewReplacer("-", "a", "_", "b").Replace(text128(s.t)))
	if err != nil {
		s.t.Fatal(err)
	}
	c := s.home.Certified()
	v, err := manifest.Sign(&manifest.Invite{Type: "sealbridge/invite", ProtocolVersion: "0.2.0", InviteID: id, OwnerDid: s.home.Owner, Relay: c.Relay,
		Secret: text128(s.t), Ticket: text128(s.t), ExpiresAt: signing.TimeOf(time.Now().Add(time.Hour)), NextKey: c.NextKey}, s.owner(), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := s.g.AddInvite(context.Background(), gateway.Owner, gateway.Document{Wire: v.Wire().String()})
	if err != nil {
		s.t.Fatal(err)
	}
	return out.Token
}

func (s *side) redeem(token string) gateway.ContactView {
	s.t.Helper()
	inv, _, err := manifest.ParseInviteToken(token)
	if err != nil {
		s.t.Fatal(err)
	}
	key, _, err := s.home.BoxKey()
	if err != nil {
		s.t.Fatal(err)
	}
	v, err := manifest.Sign(&manifest.ContactRequest{Type: "sealbridge/contact-request", ProtocolVersion: "0.2.0", InviteID: inv.InviteID, OwnerDid: s.home.Owner,
		To: inv.OwnerDid, Proof: manifest.ContactProof(inv.Secret, inv.InviteID, inv.OwnerDid, s.home.Owner), Certificate: s.home.Certificate.Wire(), BoxKey: key,
		At: signing.TimeOf(time.Now())}, s.owner(), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := s.g.AddContact(context.Background(), gateway.Owner, gateway.Redemption{Token: token, Request: v.Wire().String()})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *side) confirm() {
	s.t.Helper()
	var c gateway.ContactView
	s.until("a contact", func() bool {
		cs, err := s.g.Contacts(context.Background(), gateway.Owner, gateway.None{})
		if err == nil && len(cs) == 1 {
			c = cs[0]
		}
		return c.Name != ""
	})
	if _, err := s.g.ChangeContact(context.Background(), gateway.Owner, gateway.ContactChange{Name: c.Name, Do: "confirm", Words: c.Words}); err != nil {
		s.t.Fatal(err)
	}
}

// until looks again whenever something may have been written.
func (s *side) until(what string, ok func() bool) {
	s.t.Helper()
	late := time.After(max(s.patience, 60*time.Second))
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-late:
			s.t.Fatalf("%s: never %s", s.home.Config.Name, what)
		}
	}
}

func (s *side) ask(gate manifest.Gate) gateway.AskView {
	s.t.Helper()
	var found gateway.AskView
	s.until("asked "+string(gate), func() bool {
		as, err := s.g.Asks(context.Background(), gateway.Owner, false)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, a := range as {
			if a.Ask.Gate == gate {
				found = a
				return true
			}
		}
		return false
	})
	return found
}

func (s *side) answer(a gateway.AskView, verdict string) (gateway.Decided, error) {
	d := approval.Decide(a.Ask, verdict, "passphrase", s.now())
	v, err := manifest.Sign(&d, s.owner(), s.now())
	if err != nil {
		s.t.Fatal(err)
	}
	return s.g.DecideGate(context.Background(), gateway.Owner, gateway.Answer{Decision: v.Wire().String()})
}

func (s *side) allow(gate manifest.Gate) {
	s.t.Helper()
	if _, err := s.answer(s.ask(gate), approval.Allow); err != nil {
		s.t.Fatalf("allowing %s: %v", gate, err)
	}
}

func (s *side) state(id string) gateway.TaskView {
	s.t.Helper()
	v, err := s.g.Task(context.Background(), gateway.Owner, gateway.Ref{Task: id})
	if err != nil && !errors.Is(err, context.Canceled) && spec.ReasonOf(err) != spec.NotFound {
		s.t.Fatal(err)
	}
	return v
}

func pair(t testing.TB) (ann, ben *side) {
	t.Helper()
	return pairOn(t, relaytest.NewMemory())
}

func pairOn(t testing.TB, mem *relaytest.Memory) (ann, ben *side) {
	t.Helper()
	return pairOver(t, func(s side) gatewayConn { return mem.Conn(s.home.Agent) }, mem.Address())
}

func pairOver(t testing.TB, dial func(side) gatewayConn, at relay.Address) (ann, ben *side) {
	t.Helper()
	ann, ben = newSide(t, dial, at, "Ann"), newSide(t, dial, at, "Ben")
	ben.worker(t)
	ben.redeem(ann.invite())
	ben.confirm()
	ann.confirm()
	return ann, ben
}

// worker gives a side the agent that counts lines.
func (s *side) worker(t testing.TB) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "count.sh")
	if err := os.WriteFile(script, []byte(worker), 0o755); err != nil {
		t.Fatal(err)
	}
	s.rules.Agents["coder"] = gateway.Agent{Command: []string{"/bin/sh", script}, ReadOnly: []string{filepath.Dir(script)}}
	s.adopt()
}

func (s *side) propose() gateway.Proposed {
	s.t.Helper()
	in := filepath.Join(s.t.TempDir(), "sales.csv")
	if err := os.WriteFile(in, []byte("a,1\nb,2\nc,3\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	out, err := s.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "Count lines", Goal: "Count the lines of sales.csv",
		Inputs: []manifest.DraftInput{{File: in}}, Output: map[string]any{"type": "object", "required": []any{"lines"}},
		Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func TestATaskGoesFromDoorToDoor(t *testing.T) {
	ann, ben := pair(t)
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	ben.until("completed", func() bool { return ben.state(p.Task).Outcome == "completed" })
	dir := filepath.Join(t.TempDir(), "out")
	res, err := ann.g.Result(context.Background(), gateway.Owner, gateway.Fetch{Task: p.Task, Dir: dir})
	if err != nil || !res.Ready || res.Output.String() != `{"lines":3}` {
		t.Fatalf("%+v, %v", res, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "count.csv")); err != nil || string(b) != "lines,3\n" {
		t.Fatalf("%q, %v", b, err)
	}
	for _, s := range []*side{ann, ben} {
		s.until("acknowledged", func() bool {
			st, err := s.g.Status(context.Background(), gateway.Owner, gateway.None{})
			return err == nil && st.Outgoing == 0
		})
		b, err := s.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: p.Task})
		if err != nil {
			t.Fatal(err)
		}
		rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{})
		if err != nil || !rep.Verified || !rep.Binding {
			t.Errorf("%s's bundle: %v, %+v", s.home.Config.Name, err, rep.Findings)
			if out := os.Getenv("SEALBRIDGE_TEST_OUT"); out != "" {
				os.WriteFile(filepath.Join(out, s.home.Config.Name+".json"), []byte(b.Text), 0o600)
			}
		}
	}
}

func TestOpenAsksSurviveARestartAndAreAnsweredOnce(t *testing.T) { // B017, G3
	ann, ben := pair(t)
	p := ann.propose()
	before := ann.ask(manifest.ContractGate)
	ann.restart()
	after := ann.ask(manifest.ContractGate)
	if before.Ask.Digest() != after.Ask.Digest() {
		t.Fatal("another ask after a restart")
	}
	if _, err := ann.answer(after, approval.Allow); err != nil {
		t.Fatal(err)
	}
	if _, err := ann.answer(after, approval.Deny); spec.ReasonOf(err) != spec.Conflict {
		t.Fatalf("a second answer: %v, want conflict", err)
	}
	ben.ask(manifest.ContractGate)
	ben.restart()
	if _, err := ben.answer(ben.ask(manifest.ContractGate), approval.Deny); err != nil {
		t.Fatal(err)
	}
	ann.until("declined", func() bool { return ann.state(p.Task).Outcome == "declined" })
	ben.until("declined", func() bool { return ben.state(p.Task).Outcome == "declined" })
}

func TestNoAgentDecidesConfirmsInvitesOrExports(t *testing.T) { // G9
	ann, _ := pair(t)
	p := ann.propose()
	agent := gateway.Caller{Agent: "claude"}
	ctx := context.Background()
	a := ann.ask(manifest.ContractGate)
	d := approval.Decide(a.Ask, approval.Allow, "passphrase", time.Now())
	v, err := manifest.Sign(&d, ann.owner(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"decides":  second(ann.g.DecideGate(ctx, agent, gateway.Answer{Decision: v.Wire().String()})),
		"confirms": second(ann.g.ChangeContact(ctx, agent, gateway.ContactChange{Name: "Ben", Do: "confirm"})),
		"invites":  second(ann.g.AddInvite(ctx, agent, gateway.Document{})),
		"redeems":  second(ann.g.AddContact(ctx, agent, gateway.Redemption{})),
		"exports":  second(ann.g.Export(ctx, agent, gateway.Ref{Task: p.Task})),
		"opens":    second(ann.g.Quarantined(ctx, agent, gateway.Fetch{Ask: a.Ask.AskID.String()})),
		"reads":    second(ann.g.Asks(ctx, agent, true)),
	} {
		if spec.ReasonOf(err) != spec.NotPermitted {
			t.Errorf("an agent %s: %v, want not-permitted", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestADecisionByAnotherKeyOrForAnotherSubjectDoesNotCount(t *testing.T) { // G1, G2, B016
	ann, ben := pair(t)
	ann.propose()
	a := ann.ask(manifest.ContractGate)
	for what, by := range map[string]signing.Signer{"our agent": ann.home.Agent, "the other owner": ben.owner(), "a stranger": relaytest.Agent("stranger")} {
		d := approval.Decide(a.Ask, approval.Allow, "passphrase", time.Now())
		v, err := manifest.Sign(&d, by, time.Now())
		if err != nil {
			continue // the reader refuses it already: the signer is not the owner that it names
		}
		if _, err := ann.g.DecideGate(context.Background(), gateway.Owner, gateway.Answer{Decision: v.Wire().String()}); err == nil {
			t.Errorf("%s decided", what)
		}
	}
	d := approval.Decide(a.Ask, approval.Allow, "passphrase", time.Now())
	d.SubjectDigest = signing.DigestOf([]byte("something else"))
	v, err := manifest.Sign(&d, ann.owner(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ann.g.DecideGate(context.Background(), gateway.Owner, gateway.Answer{Decision: v.Wire().String()}); err == nil {
		t.Error("a yes to something else counted")
	}
	if len(ann.state(ann.ask(manifest.ContractGate).Task).History) != 0 {
		t.Error("something was said without a yes")
	}
}

func TestManyAnswersAtOnceHaveOneOutcome(t *testing.T) { // F2 for gates
	ann, _ := pair(t)
	ann.propose()
	a := ann.ask(manifest.ContractGate)
	var wg sync.WaitGroup
	won := make(chan string, 64)
	for i := range 64 {
		wg.Go(func() {
			verdict := approval.Allow
			if i%2 == 1 {
				verdict = approval.Deny
			}
			if out, err := ann.answer(a, verdict); err == nil {
				won <- out.State
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d answers won, want one", len(won))
	}
}

func TestCancelEndsATaskThatWaitsAndTwiceIsHarmless(t *testing.T) { // B020
	ann, ben := pair(t)
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ben.ask(manifest.ContractGate)
	for range 2 {
		if _, err := ann.g.Cancel(context.Background(), gateway.Owner, gateway.Cancellation{Task: p.Task}); err != nil {
			t.Fatal(err)
		}
	}
	ben.until("cancelled", func() bool { return ben.state(p.Task).Outcome == "cancelled" })
	as, err := ben.g.Asks(context.Background(), gateway.Owner, true)
	if err != nil || len(as) != 1 || as[0].State != string(approval.Withdrawn) {
		t.Fatalf("Ben's ask after the end: %+v, %v", as, err)
	}
	if _, err := ben.answer(as[0], approval.Allow); spec.ReasonOf(err) != spec.Conflict {
		t.Fatalf("a yes after the end: %v, want conflict", err)
	}
}

func TestLossDuplicatesAndReorderingChangeNothing(t *testing.T) { // F7 in small
	synctest.Test(t, func(t *testing.T) {
		mem := relaytest.NewMemory()
		var mu sync.Mutex
		n := 0
		mem.SetFate(func(_, _ signing.DID, _ []byte) relaytest.Fate {
			mu.Lock()
			defer mu.Unlock()
			n++
			return []relaytest.Fate{relaytest.Deliver, relaytest.Twice, relaytest.Unsure, relaytest.Late, relaytest.Refuse}[n%5]
		})
		ann, ben := pairOn(t, mem)
		ann.patience, ben.patience = 24*time.Hour, 24*time.Hour // of the bubble: what is late comes again after minutes
		p := ann.propose()
		ann.allow(manifest.ContractGate)
		ben.allow(manifest.ContractGate)
		ann.allow(manifest.DeliveryGate)
		ann.until("completed", func() bool { return ann.state(p.Task).Released })
		ben.until("completed", func() bool { return ben.state(p.Task).Outcome == "completed" })
		for _, s := range []*side{ann, ben} {
			if h := s.state(p.Task).History; len(h) != 5 {
				t.Errorf("%s holds %d events, want 5", s.home.Config.Name, len(h))
			}
		}
	})
}

func TestARestoredHomeGoesIntoRecoveryAndSignsNothing(t *testing.T) { // R4b
	ann, ben := pair(t)
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ben.ask(manifest.ContractGate)
	if err := ben.g.Recover(context.Background(), "put back from a backup"); err != nil {
		t.Fatal(err)
	}
	as, err := ben.g.Asks(context.Background(), gateway.Owner, false)
	if err != nil || len(as) != 0 {
		t.Fatalf("asks in recovery: %+v, %v", as, err)
	}
	ben.restart()
	if v := ben.state(p.Task); v.Recovery == "" || v.Chain.Worker != nil {
		t.Fatalf("%+v: want a recovery in which nothing was said", v)
	}
}
