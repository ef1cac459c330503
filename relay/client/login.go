package client

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/spec"
)

// session is a key made for one connection. What the server chose is signed by
// it alone, never by the agent key (R3a).
type session struct {
	key   nkeys.KeyPair
	pub   string
	token relay.Token
}

func newSession() (s session, err error) {
	if s.key, err = nkeys.CreateUser(); err != nil {
		return s, &spec.Error{Reason: spec.Internal, Err: err}
	}
	if s.pub, err = s.key.PublicKey(); err != nil {
		return s, &spec.Error{Reason: spec.Internal, Err: err}
	}
	s.token, err = relay.ParseToken(s.pub)
	return s, err
}

// login connects as our agent. Over TLS it does so only with a key that the
// relay stands behind: another is refused in the handshake, before our binding,
// by which one could act as us, is sent (R3).
func (c *Conn) login(ctx context.Context) (*link, error) {
	if !c.cfg.Address.TLS() {
		return c.enter(ctx, func(signing.Digest) bool { return true })
	}
	fresh := false
	if c.vouched.TLSKeys == nil || !c.cfg.Now().Before(c.vouched.ExpiresAt.Time()) {
		if err := c.askWhoAnswers(ctx); err != nil {
			return nil, err
		}
		fresh = true
	}
	l, err := c.enter(ctx, c.vouches)
	if spec.ReasonOf(err) == spec.WrongSigner && !fresh { // perhaps the certificate is a new one
		if err := c.askWhoAnswers(ctx); err != nil {
			return nil, err
		}
		l, err = c.enter(ctx, c.vouches)
	}
	if err == nil {
		c.vouched = l.hello
	}
	return l, err
}

func (c *Conn) vouches(key signing.Digest) bool { return slices.Contains(c.vouched.TLSKeys, key) }

var errTLSKey = spec.Refuse(spec.WrongSigner, "/tlsKeys", "the relay does not stand behind this TLS key (R3)")

// askWhoAnswers gets the relay's hello over a session that does not say who we
// are, and holds the TLS key of that session against it.
func (c *Conn) askWhoAnswers(ctx context.Context) error {
	s, err := newSession()
	if err != nil {
		return err
	}
	var seen signing.Digest
	l, err := c.connect(ctx, s, s.token, "", func(k signing.Digest) bool { seen = k; return true })
	if err != nil {
		return err
	}
	defer l.nc.Close()
	h, err := c.greet(ctx, l, s.token)
	if err != nil {
		return err
	}
	if !slices.Contains(h.TLSKeys, seen) {
		return errTLSKey
	}
	c.vouched = h
	return nil
}

// enter logs in with a fresh session and a binding that the agent signs.
func (c *Conn) enter(ctx context.Context, vouched func(signing.Digest) bool) (*link, error) {
	s, err := newSession()
	if err != nil {
		return nil, err
	}
	now := c.cfg.Now()
	b, err := relay.Bind(relay.Binding{RelayDid: c.cfg.Address.DID, Session: s.token, ExpiresAt: signing.TimeOf(now.Add(bindingLife))}, c.cfg.Agent, now)
	if err != nil {
		return nil, err
	}
	login := b.String()
	if c.cfg.JoinTicket != "" {
		login += "\n" + c.cfg.JoinTicket
	}
	l, err := c.connect(ctx, s, c.self, login, vouched)
	if err != nil {
		return nil, err
	}
	if l.hello, err = c.greet(ctx, l, c.self); err != nil {
		l.nc.Close()
		return nil, err
	}
	return l, nil
}

// connect dials. vouched is asked about the TLS key before anything is sent.
func (c *Conn) connect(ctx context.Context, s session, self relay.Token, login string, vouched func(signing.Digest) bool) (*link, error) {
	wait := dialWait
	if until, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(until))
	}
	if wait <= 0 {
		return nil, &spec.Error{Reason: spec.Unavailable, Err: ctx.Err()}
	}
	l := &link{closed: make(chan struct{}), asked: make(map[string]map[*refusal]bool)}
	options := []nats.Option{
		nats.Nkey(s.pub, s.key.Sign), nats.CustomInboxPrefix(relay.Inbox(self)),
		nats.NoReconnect(), nats.Timeout(wait), nats.IgnoreDiscoveredServers(), nats.NoEcho(), nats.PingInterval(20 * time.Second),
		nats.ClosedHandler(func(*nats.Conn) { close(l.closed) }), nats.ErrorHandler(l.onError),
	}
	if login != "" {
		options = append(options, nats.Token(login))
	}
	if c.cfg.Guest {
		options = append(options, nats.SetCustomDialer(guarded(wait)))
	}
	refused := false
	if c.cfg.Address.TLS() {
		options = append(options, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: c.cfg.RootCAs,
			VerifyConnection: func(s tls.ConnectionState) error {
				if !vouched(signing.DigestFrom(sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo))) {
					refused = true
					return errTLSKey
				}
				return nil
			}}))
		if strings.HasPrefix(c.cfg.Address.URL, "tls://") {
			options = append(options, nats.TLSHandshakeFirst())
		}
	}
	var err error
	if l.nc, err = nats.Connect(c.cfg.Address.URL, options...); err != nil {
		if refused {
			return nil, errTLSKey
		}
		return nil, loginError(err)
	}
	return l, nil
}

// greet is the first question of every connection.
func (c *Conn) greet(ctx context.Context, l *link, self relay.Token) (relay.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	answer, err := l.request(ctx, nats.NewMsg(relay.Subject(relay.VerbHello, relay.Token{}, self)))
	if err != nil {
		return relay.Hello{}, err
	}
	return relay.OpenHello(answer, c.cfg.Address.DID, c.cfg.Now())
}

func loginError(err error) error {
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errNotPublic):
		return errNotPublic
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return &spec.Error{Reason: spec.NotPermitted, Limit: "login", Err: err}
	case errors.As(err, &cert):
		return &spec.Error{Reason: spec.BadSignature, Limit: "TLS", Err: err}
	}
	return &spec.Error{Reason: spec.Unavailable, Err: err}
}
