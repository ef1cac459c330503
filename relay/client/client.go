// Package client carries sealed bytes over one relay: it puts, receives and
// acknowledges, keeps the connection, and says at once what is refused
// (protocol section 11).
package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/spec"
)

const (
	dialWait    = 5 * time.Second
	requestWait = 3 * time.Second // bounds a request that sat in a relay that died
	chunkWait   = time.Minute     // the same for a chunk: a window of 1 MiB on a line of 256 kbit/s takes half of it
	firstPause  = 20 * time.Millisecond
	longPause   = 5 * time.Second
	bindingLife = 12 * time.Hour // the relay ends the connection then; we come back with another
)

// Config says which relay, and as whom. Address and Agent are required.
type Config struct {
	Address    relay.Address
	Agent      signing.Signer
	JoinTicket string         // makes us a member, where admission is by invitation
	RootCAs    *x509.CertPool // nil: the system's
	Guest      bool           // the relay of a contact: only addresses of the internet are dialled (X2), whatever a certificate names
	Now        func() time.Time
	Log        *slog.Logger
}

// Conn is a connection that comes back by itself.
type Conn struct {
	cfg  Config
	self relay.Token
	keys *signing.Keys // the relay's key signs every receipt
	stop context.CancelFunc
	done chan struct{}

	mu    sync.Mutex // guards what follows
	link  *link
	ready chan struct{} // closed while link is good; made anew when it goes
	key   *relay.Key    // published again after every connect: the relay may have lost its store
	list  *relay.List

	vouched relay.Hello // whose TLS keys we go on to speak with; belongs to Dial, then to keep
}

// link is one login.
type link struct {
	nc     *nats.Conn
	closed chan struct{}
	hello  relay.Hello

	mu    sync.Mutex // guards asked
	asked map[string]map[*refusal]bool
}

// refusal ends a request whose subject the server refused.
type refusal struct{ end context.CancelCauseFunc }

var errLost = errors.New("connection lost")

var errNotPermitted = spec.Refuse(spec.NotPermitted, "", "")

// Dial connects once, checks who answers, and keeps the connection until Close.
// It fails at once where trying again is no use (not-permitted, wrong-signer);
// otherwise it tries until ctx ends.
func Dial(ctx context.Context, c Config) (*Conn, error) {
	if c.Agent == nil || c.Address.DID.IsZero() {
		return nil, spec.Refuse(spec.Malformed, "/relay", "an address and an agent")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	conn := &Conn{cfg: c, self: relay.TokenOf(c.Agent.DID()), keys: signing.NewKeys(), done: make(chan struct{}), ready: make(chan struct{})}
	pause := firstPause
	for {
		l, err := conn.login(ctx)
		if err == nil {
			conn.link = l
			close(conn.ready)
			break
		}
		if spec.ReasonOf(err) != spec.Unavailable {
			return nil, err
		}
		if !sleep(ctx, pause) {
			return nil, err
		}
		pause = min(2*pause, longPause)
	}
	life, stop := context.WithCancel(context.Background())
	conn.stop = stop
	go conn.keep(life)
	return conn, nil
}

// Close ends the connection; a Receive under way returns.
func (c *Conn) Close() {
	c.stop()
	<-c.done
}

// Relay is whose client this is.
func (c *Conn) Relay() relay.Address { return c.cfg.Address }

// Hello is what the relay last said of itself.
func (c *Conn) Hello() relay.Hello {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return relay.Hello{}
	}
	return c.link.hello
}

// Connected says whether there is a connection now.
func (c *Conn) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link != nil
}

// keep comes back after every loss, with a fresh session and binding.
func (c *Conn) keep(life context.Context) {
	defer close(c.done)
	for {
		c.mu.Lock()
		l := c.link
		c.mu.Unlock()
		select {
		case <-l.closed:
		case <-life.Done():
			l.nc.Close()
			return
		}
		c.mu.Lock()
		c.link, c.ready = nil, make(chan struct{})
		c.mu.Unlock()
		c.cfg.Log.Info("relay connection lost")
		for pause := firstPause; ; pause = min(2*pause, longPause) {
			next, err := c.login(life)
			if err == nil {
				c.mu.Lock()
				c.link = next
				close(c.ready)
				c.mu.Unlock()
				c.republish(life)
				break
			}
			if life.Err() != nil {
				return
			}
			c.cfg.Log.Info("relay not reached", "error", err)
			if !sleep(life, pause) {
				return
			}
		}
	}
}

// republish tells the relay again what it may have lost with its store.
func (c *Conn) republish(ctx context.Context) {
	c.mu.Lock()
	key, list := c.key, c.list
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	if key != nil {
		if _, err := c.ask(ctx, relay.VerbKeySet, relay.Write(key)); err != nil {
			c.cfg.Log.Warn("publishing the box-key again", "error", err)
		}
	}
	if list != nil {
		if _, err := c.ask(ctx, relay.VerbList, relay.Write(list)); err != nil {
			c.cfg.Log.Warn("publishing the list again", "error", err)
		}
	}
}

// onError ends the requests whose subject was refused: the server says so only
// beside, and the request would wait in vain.
func (l *link) onError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	text := err.Error()
	_, rest, _ := strings.Cut(strings.ToLower(text), `publish to "`)
	l.mu.Lock()
	defer l.mu.Unlock()
	for subject, rs := range l.asked {
		if strings.HasPrefix(rest, strings.ToLower(subject)+`"`) {
			for r := range rs {
				r.end(errNotPermitted)
			}
		}
	}
}

// request asks on this login and returns the answer or a *spec.Error.
func (l *link) request(ctx context.Context, m *nats.Msg) ([]byte, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	lost := make(chan struct{})
	defer close(lost)
	go func() { // no answer comes over a connection that is gone
		select {
		case <-l.closed:
			end(errLost)
		case <-lost:
		}
	}()
	r := &refusal{end}
	l.mu.Lock()
	if l.asked[m.Subject] == nil {
		l.asked[m.Subject] = make(map[*refusal]bool)
	}
	l.asked[m.Subject][r] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if delete(l.asked[m.Subject], r); len(l.asked[m.Subject]) == 0 {
			delete(l.asked, m.Subject)
		}
	}()
	answer, err := l.nc.RequestMsgWithContext(ctx, m)
	switch {
	case err == nil:
		return answer.Data, relay.Failed(answer.Data)
	case errors.Is(context.Cause(ctx), errNotPermitted):
		return nil, spec.Refuse(spec.NotPermitted, "", "")
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, spec.Refuse(spec.TooLarge, "", "1 MiB")
	}
	return nil, &spec.Error{Reason: spec.Unavailable, Err: err}
}

// current waits for a connection.
func (c *Conn) current(ctx context.Context) (*link, error) {
	for {
		c.mu.Lock()
		l, ready := c.link, c.ready
		c.mu.Unlock()
		if l != nil {
			return l, nil
		}
		select {
		case <-ready:
		case <-c.done:
			return nil, spec.Refuse(spec.Unavailable, "", "closed")
		case <-ctx.Done():
			return nil, &spec.Error{Reason: spec.Unavailable, Limit: "no connection to the relay", Err: context.Cause(ctx)}
		}
	}
}

func (c *Conn) send(ctx context.Context, m *nats.Msg, wait time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	l, err := c.current(ctx)
	if err != nil {
		return nil, err
	}
	return l.request(ctx, m)
}

func (c *Conn) ask(ctx context.Context, v relay.Verb, body []byte) ([]byte, error) {
	m := nats.NewMsg(relay.Subject(v, relay.Token{}, c.self))
	m.Data = body
	return c.send(ctx, m, requestWait)
}

// blob reads an answer of 0x01 and bytes.
func blob(b []byte, err error) ([]byte, error) {
	if err == nil && b[0] != 1 {
		err = fmt.Errorf("answer begins with %#x", b[0])
	}
	if err != nil {
		if spec.ReasonOf(err) == spec.Internal {
			err = &spec.Error{Reason: spec.Unavailable, Err: err}
		}
		return nil, err
	}
	return b[1:], nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
