package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"sealbridge/relay"
	"sealbridge/spec"
)

// Attach is an operator's own NATS server or cluster (R3a). The relay is then
// three ordinary clients of it: the service in the account of the clients, the
// one that answers its auth callout, and one of the system account, which ends
// connections. [Attach.ServerConfig] is what the servers have to be told.
type Attach struct {
	URLs    []string
	Account string // of clients and store; default SB
	// Seeds of nkeys: the account key that signs users, and three users.
	Issuer, Service, Callout, System string
	Replicas                         int            // of the streams: 1, or 3 on a cluster
	RootCAs                          *x509.CertPool // for tls:// URLs; nil: the system's
}

// NewAttachKeys makes the four keys.
func NewAttachKeys() (a Attach, err error) {
	for i, to := range []*string{&a.Issuer, &a.Service, &a.Callout, &a.System} {
		kp, kerr := nkeys.CreateUser()
		if i == 0 {
			kp, kerr = nkeys.CreateAccount()
		}
		if kerr != nil {
			return a, kerr
		}
		seed, kerr := kp.Seed()
		if kerr != nil {
			return a, kerr
		}
		*to = string(seed)
	}
	return a, nil
}

func (a Attach) validate() error {
	bad := func(path, why string) error { return spec.Refuse(spec.Malformed, "/nats"+path, why) }
	if len(a.URLs) == 0 {
		return bad("/urls", "required: nats://host:4222")
	}
	if a.Replicas < 0 || a.Replicas > 5 || a.Replicas%2 == 0 && a.Replicas != 0 {
		return bad("/replicas", "1, 3 or 5")
	}
	for path, seed := range map[string]string{"/service": a.Service, "/callout": a.Callout, "/system": a.System, "/issuer": a.Issuer} {
		prefix, _, err := nkeys.DecodeSeed([]byte(seed))
		if want := map[bool]nkeys.PrefixByte{true: nkeys.PrefixByteAccount, false: nkeys.PrefixByteUser}[path == "/issuer"]; err != nil || prefix != want {
			return bad(path, "the seed of an nkey: a user's, and an account's for the issuer")
		}
	}
	return nil
}

func (a Attach) account() string {
	if a.Account == "" {
		return "SB"
	}
	return a.Account
}

// ServerConfig is what every server of the operator has to have in its
// configuration, for these keys.
func (a Attach) ServerConfig() (string, error) {
	pub := func(seed string) string {
		kp, err := nkeys.FromSeed([]byte(seed))
		if err != nil {
			return ""
		}
		p, err := kp.PublicKey()
		if err != nil {
			return ""
		}
		return p
	}
	issuer, service, callout, system := pub(a.Issuer), pub(a.Service), pub(a.Callout), pub(a.System)
	if issuer == "" || service == "" || callout == "" || system == "" {
		return "", a.validate()
	}
	return fmt.Sprintf(`# For a Sealbridge relay that is attached to this server. The server also needs
# jetstream { store_dir: … }, and a listener with TLS for owners.
max_payload: %d
max_pending: 32MB
accounts {
  SYS { users: [ { nkey: %s } ] }
  AUTH { users: [ { nkey: %s } ] }
  %s { jetstream: enabled, users: [ { nkey: %s } ] }
}
system_account: SYS
authorization {
  timeout: 5
  auth_callout { issuer: %s, account: AUTH, auth_users: [ %s, %s, %s ] }
}
`, maxPayload, system, callout, a.account(), service, issuer, callout, service, system), nil
}

// attached is an operator's own NATS.
type attached struct {
	s      *Server
	a      Attach
	issuer nkeys.KeyPair
	out    []*nats.Conn // callout and system
	calls  chan struct{}
	work   sync.WaitGroup
	free   atomic.Int64 // of the account's store
	all    atomic.Int64

	mu   sync.Mutex           // guards open
	open map[connID]time.Time // until when a connection lasts at most: a server that dies says no farewell
}

const callsAtOnce = 64 // logins judged side by side

func attach(s *Server) (*attached, error) {
	b := &attached{s: s, a: *s.cfg.Attach, calls: make(chan struct{}, callsAtOnce), open: make(map[connID]time.Time)}
	var err error
	if b.issuer, err = nkeys.FromSeed([]byte(b.a.Issuer)); err != nil {
		return nil, err
	}
	s.auth = newAuth(s)
	for _, x := range []struct {
		name, seed, subject string
		take                nats.MsgHandler
	}{
		{"callout", b.a.Callout, "$SYS.REQ.USER.AUTH", b.asked},
		{"system", b.a.System, "$SYS.ACCOUNT." + b.a.account() + ".DISCONNECT", b.left},
	} {
		nc, err := b.dial(x.name, x.seed)
		if err != nil {
			b.close()
			return nil, err
		}
		b.out = append(b.out, nc)
		if _, err = nc.Subscribe(x.subject, x.take); err == nil {
			err = nc.Flush()
		}
		if err != nil {
			b.close()
			return nil, fmt.Errorf("subscribing to %s: %w", x.subject, err)
		}
	}
	return b, nil
}

func (b *attached) dial(name, seed string) (*nats.Conn, error) {
	kp, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return nil, err
	}
	pub, err := kp.PublicKey()
	if err != nil {
		return nil, err
	}
	options := append(b.s.serviceOptions("sealbridge "+name), nats.Nkey(pub, kp.Sign), nats.Timeout(5*time.Second), nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond))
	if b.a.RootCAs != nil {
		options = append(options, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: b.a.RootCAs}))
	}
	nc, err := nats.Connect(strings.Join(b.a.URLs, ","), options...)
	if err != nil {
		return nil, &spec.Error{Reason: spec.Unavailable, Path: "/nats", Limit: name, Err: err}
	}
	return nc, nil
}

func (b *attached) connect(name string) (*nats.Conn, error) { return b.dial(name, b.a.Service) }

// asked answers the callout: a user with the permissions of the pass, or no.
func (b *attached) asked(m *nats.Msg) {
	b.calls <- struct{}{}
	b.work.Go(func() {
		defer func() { <-b.calls }()
		rq, err := jwt.DecodeAuthorizationRequestClaims(string(m.Data))
		if err != nil {
			b.s.auth.refuse("callout")
			return
		}
		answer := jwt.NewAuthorizationResponseClaims(rq.UserNkey)
		answer.Audience = rq.Server.ID
		if answer.Jwt, err = b.admit(rq); err != nil {
			answer.Error = "not permitted"
		}
		token, err := answer.Encode(b.issuer)
		if err == nil {
			err = m.Respond([]byte(token))
		}
		if err != nil {
			b.s.log.Warn("answering a login", "error", err)
		}
	})
}

var errNoPass = errors.New("no pass")

func (b *attached) admit(rq *jwt.AuthorizationRequestClaims) (string, error) {
	ci, co := rq.ClientInformation, rq.ConnectOptions
	conn := connID{rq.Server.ID, ci.ID}
	p, ok := b.s.auth.judge(login{nkey: co.Nkey, sig: co.SignedNonce, nonce: []byte(ci.Nonce), token: co.Token, from: ci.Host, conn: conn})
	if !ok || ci.Kind != "Client" {
		return "", errNoPass
	}
	u := jwt.NewUserClaims(rq.UserNkey)
	u.Name, u.Audience = p.name, b.a.account()
	u.Pub.Allow, u.Sub.Allow = p.publish, []string{p.subscribe}
	u.Limits.Payload, u.Limits.Subs = maxPayload, maxSubs
	u.Expires = time.Now().Add(p.lasts).Unix()
	token, err := u.Encode(b.issuer)
	if err == nil {
		b.mu.Lock()
		b.open[conn] = time.Now().Add(p.lasts)
		b.mu.Unlock()
	}
	return token, err
}

// left hears that a connection of the account ended.
func (b *attached) left(m *nats.Msg) {
	var e struct {
		Server struct {
			ID string `json:"id"`
		} `json:"server"`
		Client struct {
			ID uint64 `json:"id"`
		} `json:"client"`
	}
	if json.Unmarshal(m.Data, &e) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, connID{e.Server.ID, e.Client.ID})
}

// end asks the server that has the connection to close it, which it does only
// for who wants an answer. Is it down, so is the connection.
func (b *attached) end(c connID) {
	body := fmt.Appendf(nil, `{"cid":%d}`, c.cid)
	if err := b.out[1].PublishRequest("$SYS.REQ.SERVER."+c.server+".KICK", nats.NewInbox(), body); err != nil {
		b.s.log.Warn("ending a connection", "error", err)
	}
}

func (b *attached) alive(c connID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.open[c])
}

func (b *attached) clients() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.open, func(_ connID, until time.Time) bool { return !time.Now().Before(until) })
	return len(b.open)
}

func (b *attached) url() string { return b.s.cfg.URL }

// room is that of the account, as of the last look.
func (b *attached) room() (free, all int64, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if info, err := b.s.st.js.AccountInfo(ctx); err == nil && info.Limits.MaxStore > 0 {
		b.all.Store(info.Limits.MaxStore)
		b.free.Store(max(0, info.Limits.MaxStore-int64(info.Store))) //nolint:gosec // bytes of a disk
	}
	return b.free.Load(), b.all.Load(), b.all.Load() > 0
}

func (b *attached) close() {
	for _, nc := range b.out {
		nc.Close()
	}
	b.work.Wait()
}

const aliveSubject = "sb.alive"

// alone refuses to serve an account that a relay serves already: two would keep
// two indexes. One that comes later is seen by the log, which has one writer.
func (s *Server) alone() error {
	if !s.st.attached {
		return nil
	}
	if _, err := s.st.nc.Request(aliveSubject, nil, time.Second); err == nil {
		return spec.Refuse(spec.Conflict, "/nats", "a relay serves this account already")
	}
	_, err := s.ingress.Subscribe(aliveSubject, func(m *nats.Msg) { m.Respond(nil) }) //nolint:errcheck // who asks waits no longer
	return err
}

const (
	maxPayload = relay.MaxEnvelope + 64<<10
	maxSubs    = 16 // a client hears its answers on one
)
