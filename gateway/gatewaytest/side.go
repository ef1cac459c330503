// Package gatewaytest gives tests of doors two gateways that know each other:
// real homes, journals, files and runners over a relay in memory.
package gatewaytest

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/artifact"
	"sealbridge/gateway/home"
	"sealbridge/gateway/journal"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/relay/relaytest"
	"sealbridge/signing"
)

// Side is one owner's gateway.
type Side struct {
	Home  *home.Home
	G     *gateway.Gateway
	Rules gateway.Rules
	Clock *Clock
	Tools *Shelf // of the owner: what others may call of it

	t testing.TB
}

// Clock is the time of one gateway. It runs, and can be put forward.
type Clock struct {
	mu  sync.Mutex // guards off
	off time.Duration
}

// Now is the time there.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

// Forward puts the clock forward.
func (c *Clock) Forward(d time.Duration) {
	c.mu.Lock()
	c.off += d
	c.mu.Unlock()
}

// Counter is an agent program: it counts the lines of sales.csv and writes count.csv.
const Counter = `#!/bin/sh
set -e
n=$(wc -l < in/sales.csv | tr -d ' ')
echo "lines,$n" > out/count.csv
printf '{"output":{"lines":%s},"evidence":[{"criterion":"ac_1","text":"counted"}]}' "$n"
`

// Pair makes Ann and Ben, contacts that were confirmed on both sides. Ben's agent coder runs script.
func Pair(t testing.TB, script string) (ann, ben *Side) {
	t.Helper()
	mem := relaytest.NewMemory()
	ann, ben = start(t, mem, "Ann"), start(t, mem, "Ben")
	ben.runs(script)
	ben.redeem(ann.invite())
	ben.Confirm()
	ann.Confirm()
	return ann, ben
}

// Circle makes Ann and a contact for each name, confirmed on both sides, whose agent coder runs the script.
func Circle(t testing.TB, scripts map[string]string) (ann *Side, by map[string]*Side) {
	t.Helper()
	mem := relaytest.NewMemory()
	ann, by = start(t, mem, "Ann"), map[string]*Side{}
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		s := start(t, mem, name)
		s.runs(scripts[name])
		s.redeem(ann.invite())
		s.Confirm()
		ann.ConfirmNamed(name)
		by[name] = s
	}
	return ann, by
}

// Row makes owners who stand in a row: each is a confirmed contact of its
// neighbours and of nobody else. Those in between have an agent, scribe, that
// works in its owner's session; the last one's agent runs the script.
func Row(t testing.TB, script string, names ...string) (row []*Side) {
	t.Helper()
	mem := relaytest.NewMemory()
	for i, name := range names {
		s := start(t, mem, name)
		if i == len(names)-1 {
			s.runs(script)
		} else if i > 0 {
			s.Rules.Agents["scribe"] = gateway.Agent{Session: true, Model: "own"}
			s.Reload()
		}
		if i > 0 {
			s.redeem(row[i-1].invite())
			s.ConfirmNamed(names[i-1])
			row[i-1].ConfirmNamed(name)
		}
		row = append(row, s)
	}
	return row
}

// runs gives a side the agent coder.
func (s *Side) runs(script string) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "agent.sh")
	must(s.t, os.WriteFile(path, []byte(script), 0o755))
	s.Rules.Agents["coder"] = gateway.Agent{Command: []string{"/bin/sh", path}, ReadOnly: []string{filepath.Dir(path)}}
	s.Reload()
}

func start(t testing.TB, mem *relaytest.Memory, name string) *Side {
	t.Helper()
	at := mem.Address()
	h, err := home.Create(filepath.Join(t.TempDir(), name), home.New{Name: name, Relay: manifest.RelayRef{Endpoint: at.URL, Did: at.DID}, Chance: rand.Reader, At: time.Now()})
	must(t, err)
	p, err := h.Policy()
	must(t, err)
	s := &Side{Home: h, Rules: gateway.Rules{Policy: p, Agents: map[string]gateway.Agent{}}, Clock: &Clock{}, Tools: &Shelf{}, t: t}
	ctx, cancel := context.WithCancel(context.Background())
	j, err := journal.Open(h.Journal())
	must(t, err)
	files, err := artifact.Open(h.Files())
	must(t, err)
	run, err := runner.New(ctx, runner.Config{Dir: h.Work()})
	must(t, err)
	conn := mem.Conn(h.Agent)
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("SEALBRIDGE_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("side", name)
	}
	s.G, err = gateway.New(ctx, gateway.Config{Journal: j, Owner: h.Owner, Agent: h.Agent, Certificate: h.Certificate, Secrets: h,
		Courier: conn, Depot: conn, Files: files, Runner: run, Tools: s.Tools, Rules: s.Rules, Now: s.Clock.Now, Chance: rand.Reader, Log: log, Approvers: h})
	must(t, err)
	done := make(chan struct{})
	go func() { defer close(done); s.G.Run(ctx) }() //nolint:errcheck // ends with ctx
	t.Cleanup(func() {
		cancel()
		<-done
		j.Close()
		files.Close()
	})
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Reload puts the changed Rules in force, with the owner's yes where they permit more (G12).
func (s *Side) Reload() {
	s.t.Helper()
	must(s.t, s.G.Reload(s.Rules))
	law, err := s.G.Policy(context.Background(), gateway.Owner, gateway.None{})
	must(s.t, err)
	if law.Waiting == nil {
		return
	}
	d := law.Waiting.Difference
	c := manifest.PolicyConsent{Type: "sealbridge/policy-consent", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: s.Home.Owner, AgentDid: s.Home.Agent.DID(),
		From: d.From, To: d.To, Difference: d.Digest(), Presence: "none", DecidedAt: signing.TimeOf(time.Now())}
	v, err := manifest.Sign(&c, s.Owner(), time.Now())
	must(s.t, err)
	_, err = s.G.ChangePolicy(context.Background(), gateway.Owner, gateway.PolicyChange{Policy: s.Rules.Policy, Consent: v.Wire().String()})
	must(s.t, err)
}

// Owner is the owner's key, which is unsealed.
func (s *Side) Owner() signing.Signer {
	s.t.Helper()
	k, _, err := s.Home.OwnerSigner(nil)
	must(s.t, err)
	return k
}

func secret(t testing.TB) string {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (s *Side) invite() string {
	s.t.Helper()
	id, err := manifest.ParseInviteID("inv_" + secret(s.t))
	must(s.t, err)
	c := s.Home.Certified()
	v, err := manifest.Sign(&manifest.Invite{Type: "sealbridge/invite", ProtocolVersion: manifest.ProtocolVersion, InviteID: id, OwnerDid: s.Home.Owner, Relay: c.Relay,
		Secret: secret(s.t), Ticket: secret(s.t), ExpiresAt: signing.TimeOf(time.Now().Add(time.Hour)), NextKey: c.NextKey}, s.Owner(), time.Now())
	must(s.t, err)
	out, err := s.G.AddInvite(context.Background(), gateway.Owner, gateway.Document{Wire: v.Wire().String()})
	must(s.t, err)
	return out.Token
}

func (s *Side) redeem(token string) {
	s.t.Helper()
	inv, _, err := manifest.ParseInviteToken(token)
	must(s.t, err)
	key, _, err := s.Home.BoxKey()
	must(s.t, err)
	v, err := manifest.Sign(&manifest.ContactRequest{Type: "sealbridge/contact-request", ProtocolVersion: manifest.ProtocolVersion, InviteID: inv.InviteID,
		OwnerDid: s.Home.Owner, To: inv.OwnerDid, Proof: manifest.ContactProof(inv.Secret, inv.InviteID, inv.OwnerDid, s.Home.Owner),
		Certificate: s.Home.Certificate.Wire(), BoxKey: key, At: signing.TimeOf(time.Now())}, s.Owner(), time.Now())
	must(s.t, err)
	_, err = s.G.AddContact(context.Background(), gateway.Owner, gateway.Redemption{Token: token, Request: v.Wire().String()})
	must(s.t, err)
}

// Confirm compares the six words of the only contact.
func (s *Side) Confirm() { s.t.Helper(); s.ConfirmNamed("") }

// ConfirmNamed compares the six words of a contact; "" is the only one.
func (s *Side) ConfirmNamed(name string) {
	s.t.Helper()
	var c gateway.ContactView
	s.Until("a contact "+name, func() error {
		cs, err := s.G.Contacts(context.Background(), gateway.Owner, gateway.None{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(cs, func(c gateway.ContactView) bool { return c.Name == name || name == "" && len(cs) == 1 })
		if i < 0 {
			return os.ErrNotExist
		}
		c = cs[i]
		return nil
	})
	_, err := s.G.ChangeContact(context.Background(), gateway.Owner, gateway.ContactChange{Name: c.Name, Do: "confirm", Words: c.Words})
	must(s.t, err)
}

// Until tries again until there is no error.
func (s *Side) Until(what string, try func() error) {
	s.t.Helper()
	late := time.After(time.Minute)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-late:
			s.t.Fatalf("%s: never %s: %v", s.Home.Certified().DisplayName, what, err)
		}
	}
}

// Ask waits until the owner is asked at a gate.
func (s *Side) Ask(gate manifest.Gate) (found gateway.AskView) {
	s.t.Helper()
	s.Until("asked "+string(gate), func() error {
		as, err := s.G.Asks(context.Background(), gateway.Owner, false)
		for _, a := range as {
			if a.Ask.Gate == gate {
				found = a
				return nil
			}
		}
		if err == nil {
			err = os.ErrNotExist
		}
		return err
	})
	return found
}

// Answer says yes or no at a gate, once the owner is asked.
func (s *Side) Answer(gate manifest.Gate, verdict string) {
	s.t.Helper()
	s.decide(s.Ask(gate).Ask, verdict)
}

// Yes allows one ask, by its id.
func (s *Side) Yes(ask string) {
	s.t.Helper()
	a, err := s.G.Ask(context.Background(), gateway.Owner, ask)
	must(s.t, err)
	s.decide(a.Ask, approval.Allow)
}

// OpenAsk waits until the owner is asked about a task at a gate: contract, delivery, …
func (s *Side) OpenAsk(task, gate string) (ask string) {
	s.t.Helper()
	s.Until("asked about "+task, func() error {
		v, err := s.G.Task(context.Background(), gateway.Owner, gateway.Ref{Task: task})
		for _, g := range v.Gates {
			if g.Gate == gate && g.State == string(approval.Waiting) {
				ask = g.AskID
				return nil
			}
		}
		if err == nil {
			err = os.ErrNotExist
		}
		return err
	})
	return ask
}

func (s *Side) decide(a approval.Ask, verdict string) {
	s.t.Helper()
	d := approval.Decide(a, verdict, "passphrase", s.Clock.Now())
	v, err := manifest.Sign(&d, s.Owner(), s.Clock.Now())
	must(s.t, err)
	_, err = s.G.DecideGate(context.Background(), gateway.Owner, gateway.Answer{Decision: v.Wire().String()})
	must(s.t, err)
}

// Allow says yes.
func (s *Side) Allow(gate manifest.Gate) { s.t.Helper(); s.Answer(gate, approval.Allow) }

// File makes a file in a new folder that is free of links.
func File(t testing.TB, name, text string) (dir, path string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	path = filepath.Join(dir, name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return dir, path
}

// Any is an agent program that answers every task with {"ok":true}.
const Any = `#!/bin/sh
printf '{"output":{"ok":true}}'
`
