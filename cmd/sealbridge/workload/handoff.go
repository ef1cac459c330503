package workload

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/artifact"
	"sealbridge/gateway/home"
	"sealbridge/gateway/journal"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Pair is a real relay and gateways on disk and loopback, in this process: Ann's
// and those of her contacts. Each contact takes sixteen proposals at a time (a
// stranger may have twenty open, B9).
type Pair struct {
	ann      *owner
	contacts []string
	close    []func()
	stopped  sync.Once
}

const perContact = 16

// owner is one owner's gateway.
type owner struct {
	home    *home.Home
	journal *journal.Journal
	g       *gateway.Gateway
}

// NewPair starts them below dir, which the caller removes, with as many
// contacts as so many documents in flight need.
func NewPair(ctx context.Context, dir string, inFlight int) (p *Pair, err error) {
	p = &Pair{}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	s, err := startRelay(ctx, filepath.Join(dir, "relay"))
	if err != nil {
		return p, err
	}
	p.close = append(p.close, func() { s.Close() }) //nolint:errcheck // its folder goes too
	if p.ann, err = p.start(ctx, filepath.Join(dir, "ann"), "Ann", s.Address()); err != nil {
		return p, err
	}
	for i := range (inFlight + perContact - 1) / perContact {
		name := fmt.Sprintf("Ben %c", 'A'+i)
		ben, err := p.start(ctx, filepath.Join(dir, name), name, s.Address())
		if err != nil {
			return p, err
		}
		if err := p.meet(ctx, ben); err != nil {
			return p, fmt.Errorf("meeting %s: %w", name, err)
		}
		p.contacts = append(p.contacts, name)
	}
	return p, nil
}

// Close stops everything, the gateways before the relay.
func (p *Pair) Close() {
	p.stopped.Do(func() {
		for i := len(p.close) - 1; i >= 0; i-- {
			p.close[i]()
		}
	})
}

func (p *Pair) start(ctx context.Context, dir, name string, at relay.Address) (o *owner, err error) {
	o = &owner{}
	if _, err = home.Create(dir, home.New{Name: name, Relay: manifest.RelayRef{Endpoint: at.URL, Did: at.DID}, Chance: rand.Reader, At: time.Now()}); err != nil {
		return nil, err
	}
	if o.home, err = home.Open(dir); err != nil {
		return nil, err
	}
	p.close = append(p.close, func() { o.home.Close() }) //nolint:errcheck // its folder goes too
	if o.journal, err = journal.Open(o.home.Journal()); err != nil {
		return nil, err
	}
	p.close = append(p.close, func() { o.journal.Close() }) //nolint:errcheck // its folder goes too
	files, err := artifact.Open(o.home.Files())
	if err != nil {
		return nil, err
	}
	p.close = append(p.close, func() { files.Close() }) //nolint:errcheck // its folder goes too
	rules, err := o.home.Policy()
	if err != nil {
		return nil, err
	}
	run, err := runner.New(ctx, runner.Config{Dir: o.home.Work()})
	if err != nil {
		return nil, err
	}
	conn, err := client.Dial(ctx, client.Config{Address: at, Agent: o.home.Agent})
	if err != nil {
		return nil, err
	}
	p.close = append(p.close, conn.Close)
	o.g, err = gateway.New(ctx, gateway.Config{Journal: o.journal, Owner: o.home.Owner, Agent: o.home.Agent, Certificate: o.home.Certificate, Secrets: o.home, Courier: conn,
		Depot: conn, Files: files, Runner: run, Rules: gateway.Rules{Policy: rules, Agents: map[string]gateway.Agent{}}, Now: time.Now, Chance: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); o.g.Run(running) }() //nolint:errcheck // ends with its context
	p.close = append(p.close, func() { stop(); <-done })
	return o, nil
}

func (o *owner) signer() (signing.Signer, error) {
	k, _, err := o.home.OwnerSigner(nil)
	return k, err
}

// meet is an invite, its redemption, and both confirmations.
func (p *Pair) meet(ctx context.Context, ben *owner) error {
	token, err := p.ann.invite(ctx)
	if err != nil {
		return err
	}
	if err := ben.redeem(ctx, token); err != nil {
		return err
	}
	for _, o := range []*owner{ben, p.ann} {
		if err := o.confirm(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (o *owner) invite(ctx context.Context) (string, error) {
	var b [48]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	b64 := base64.RawURLEncoding.EncodeToString
	id, err := manifest.ParseInviteID("inv_" + strings.NewReplacer("-", "a", "_", "b").Replace(b64(b[:16])))
	if err != nil {
		return "", err
	}
	by, err := o.signer()
	if err != nil {
		return "", err
	}
	c := o.home.Certified()
	v, err := manifest.Sign(&manifest.Invite{Type: "sealbridge/invite", ProtocolVersion: manifest.ProtocolVersion, InviteID: id, OwnerDid: o.home.Owner, Relay: c.Relay,
		Secret: b64(b[16:32]), Ticket: b64(b[32:]), ExpiresAt: signing.TimeOf(time.Now().Add(time.Hour)), NextKey: c.NextKey}, by, time.Now())
	if err != nil {
		return "", err
	}
	out, err := o.g.AddInvite(ctx, gateway.Owner, gateway.Document{Wire: v.Wire().String()})
	return out.Token, err
}

func (o *owner) redeem(ctx context.Context, token string) error {
	inv, _, err := manifest.ParseInviteToken(token)
	if err != nil {
		return err
	}
	key, _, err := o.home.BoxKey()
	if err != nil {
		return err
	}
	by, err := o.signer()
	if err != nil {
		return err
	}
	v, err := manifest.Sign(&manifest.ContactRequest{Type: "sealbridge/contact-request", ProtocolVersion: manifest.ProtocolVersion, InviteID: inv.InviteID, OwnerDid: o.home.Owner,
		To: inv.OwnerDid, Proof: manifest.ContactProof(inv.Secret, inv.InviteID, inv.OwnerDid, o.home.Owner), Certificate: o.home.Certificate.Wire(), BoxKey: key,
		At: signing.TimeOf(time.Now())}, by, time.Now())
	if err != nil {
		return err
	}
	_, err = o.g.AddContact(ctx, gateway.Owner, gateway.Redemption{Token: token, Request: v.Wire().String()})
	return err
}

// until looks again whenever something was written.
func (o *owner) until(ctx context.Context, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		head := o.journal.Head()
		done, err := ok()
		if done || err != nil {
			return err
		}
		if _, err := o.journal.Wait(ctx, head); err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
}

func (o *owner) confirm(ctx context.Context) error {
	var c gateway.ContactView
	err := o.until(ctx, "a contact", func() (bool, error) {
		all, err := o.g.Contacts(ctx, gateway.Owner, gateway.None{})
		for _, have := range all {
			if !have.Confirmed {
				c = have
			}
		}
		return c.Name != "", err
	})
	if err == nil {
		_, err = o.g.ChangeContact(ctx, gateway.Owner, gateway.ContactChange{Name: c.Name, Do: "confirm", Words: c.Words})
	}
	return err
}

// proposed sends a proposal and waits until the contact has it.
func (p *Pair) proposed(ctx context.Context, to string) (id string, err error) {
	out, err := p.ann.g.Propose(ctx, gateway.Owner, gateway.Proposal{To: to, Draft: manifest.Draft{Title: "Count lines", Goal: "Count the lines.",
		Output: map[string]any{"type": "object"}, Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
	if err != nil {
		return "", err
	}
	asks, err := p.ann.g.Asks(ctx, gateway.Owner, false)
	if err != nil {
		return "", err
	}
	by, err := p.ann.signer()
	if err != nil {
		return "", err
	}
	for _, a := range asks {
		d := approval.Decide(a.Ask, approval.Allow, "passphrase", time.Now())
		v, err := manifest.Sign(&d, by, time.Now())
		if err != nil {
			return "", err
		}
		if _, err := p.ann.g.DecideGate(ctx, gateway.Owner, gateway.Answer{Decision: v.Wire().String()}); err != nil {
			return "", err
		}
	}
	return out.Task, nil
}

func (p *Pair) quiet(ctx context.Context) error {
	return p.ann.until(ctx, "the acknowledgements", func() (bool, error) {
		s, err := p.ann.g.Status(ctx, gateway.Owner, gateway.None{})
		return s.Outgoing == 0, err
	})
}

// HandOff hands so many documents over at once and says how long it took until
// the last was acknowledged: decided, signed, sealed, its budget moved and
// flushed at Ann's, over the relay, opened, applied and flushed at the
// contact's, and its signed acknowledgement applied at Ann's. The documents are
// the ends of tasks that were proposed before the clock started.
func (p *Pair) HandOff(ctx context.Context, n int) (time.Duration, error) {
	tasks := make([]string, n)
	for i := range tasks {
		var err error
		if tasks[i], err = p.proposed(ctx, p.contacts[i%len(p.contacts)]); err != nil {
			return 0, fmt.Errorf("proposing: %w", err)
		}
	}
	if err := p.quiet(ctx); err != nil {
		return 0, err
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	at := time.Now()
	for i, id := range tasks {
		all.Go(func() { _, errs[i] = p.ann.g.Cancel(ctx, gateway.Owner, gateway.Cancellation{Task: id}) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("handing over: %w", err)
	}
	if err := p.quiet(ctx); err != nil {
		return 0, err
	}
	return time.Since(at), p.check(ctx, tasks)
}

// check looks whether every document was acknowledged.
func (p *Pair) check(ctx context.Context, tasks []string) error {
	for _, id := range tasks {
		v, err := p.ann.g.Task(ctx, gateway.Owner, gateway.Ref{Task: id})
		if err != nil {
			return err
		}
		if v.Chain.PeerHas == nil || v.Chain.Requester == nil || v.Chain.PeerHas.Seq < v.Chain.Requester.Seq {
			return spec.Refuse(spec.Internal, "", "a document was not acknowledged")
		}
	}
	return nil
}
