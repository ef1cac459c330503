package server

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"sealbridge/relay"
)

// auth answers the broker's one question at login (R3a). It fails closed: what
// gets no pass does not come in.
type auth struct {
	s *Server

	mu    sync.Mutex // guards what follows
	conns map[relay.Token][]connID
	bar   map[relay.Token]time.Time // until when a flooder may not log in
	last  map[relay.Token]time.Time // last login
}

func newAuth(s *Server) *auth {
	return &auth{s: s, conns: make(map[relay.Token][]connID), bar: make(map[relay.Token]time.Time), last: make(map[relay.Token]time.Time)}
}

// login is what a connection shows.
type login struct {
	nkey, sig string
	nonce     []byte
	token     string
	from      string // host, or host:port
	conn      connID
}

// pass is what a connection may do, until when.
type pass struct {
	name      string
	publish   []string
	subscribe string
	lasts     time.Duration
}

// door is the question of a server within us, asked for every connection, ours
// among them.
type door struct {
	*auth
	service string // the nkey of our own connections
}

func (d door) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	l := login{nkey: o.Nkey, sig: o.Sig, nonce: c.GetNonce(), token: o.Token, conn: connID{cid: c.GetID()}}
	if c.Kind() != server.CLIENT || !l.signed() {
		return d.refuse("nonce")
	}
	if l.nkey == d.service {
		all := &server.SubjectPermission{Allow: []string{">"}}
		c.RegisterUser(&server.User{Username: "service", Permissions: &server.Permissions{Publish: all, Subscribe: all}})
		return true
	}
	if at := c.RemoteAddress(); at != nil {
		l.from = at.String()
	}
	p, ok := d.judge(l)
	if ok {
		c.RegisterUser(&server.User{Username: p.name, ConnectionDeadline: time.Now().Add(p.lasts), Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: p.publish}, Subscribe: &server.SubjectPermission{Allow: []string{p.subscribe}}}})
	}
	return ok
}

// judge gives a connection its pass, or none.
func (a *auth) judge(l login) (pass, bool) {
	if !l.signed() {
		return pass{}, a.refuse("nonce")
	}
	select { // the state is being read; the server's own time-out ends a longer wait
	case <-a.s.ready:
	case <-time.After(loginWait):
		return pass{}, a.refuse("starting")
	}
	if !a.fromProxy(l.from) {
		return pass{}, a.refuse("address")
	}
	if l.token == "" {
		return a.greeter(l.nkey)
	}
	if len(l.token) > relay.MaxLogin {
		return pass{}, a.refuse("size")
	}
	wire, join, _ := strings.Cut(l.token, "\n")
	now := a.s.cfg.Now()
	b, err := relay.OpenBinding([]byte(wire), a.s.cfg.Signer.DID(), now)
	if err != nil || b.Session.String() != l.nkey {
		return pass{}, a.refuse("binding")
	}
	self := relay.TokenOf(b.AgentDid)
	member, ok := a.s.state.login(self, join, now)
	if !ok || !a.enter(self, l.conn, now) {
		return pass{}, a.refuse("admission")
	}
	verbs := relay.GuestVerbs
	if member {
		verbs = relay.MemberVerbs
	}
	a.s.metrics.logins.WithLabelValues("accepted").Inc()
	return passOf(self, verbs, b.ExpiresAt.Time().Sub(now)), true
}

func passOf(self relay.Token, verbs []relay.Verb, lasts time.Duration) pass {
	return pass{self.String(), relay.MayPublish(self, verbs), relay.Inbox(self) + ".>", lasts}
}

// greeter lets a session in that does not say whose it is: for a few seconds,
// for the hello and nothing else, so that a client knows who answers before it
// says who it is (R3).
func (a *auth) greeter(session string) (pass, bool) {
	self, err := relay.ParseToken(session)
	if err != nil {
		return pass{}, a.refuse("nonce")
	}
	a.s.metrics.logins.WithLabelValues("greeting").Inc()
	return passOf(self, []relay.Verb{relay.VerbHello}, greetWithin), true
}

// fromProxy says whether a connection comes from where it may: with proxies
// before us nobody goes around them. What they say of others is not read.
func (a *auth) fromProxy(from string) bool {
	if len(a.s.cfg.Proxies) == 0 {
		return true
	}
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	at, err := netip.ParseAddr(from)
	return err == nil && slices.Contains(a.s.cfg.Proxies, at.Unmap())
}

func (a *auth) refuse(why string) bool {
	a.s.metrics.logins.WithLabelValues(why).Inc()
	return false
}

// signed says whether the session key signed this connection's nonce.
func (l login) signed() bool {
	key, err := nkeys.FromPublicKey(l.nkey)
	if err != nil || len(l.nonce) == 0 || !strings.HasPrefix(l.nkey, "U") {
		return false
	}
	raw, ok := decodeSig(l.sig)
	return ok && key.Verify(l.nonce, raw) == nil
}

// enter counts the connection; past the quota the oldest ends, because a
// client that lost its network is still counted here for minutes.
func (a *auth) enter(self relay.Token, conn connID, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.bar[self]) {
		return false
	}
	live := a.conns[self][:0]
	for _, c := range a.conns[self] {
		if a.s.broker.alive(c) {
			live = append(live, c)
		}
	}
	for ; len(live) >= a.s.cfg.Quotas.Connections; live = live[1:] {
		go a.s.broker.end(live[0])
	}
	a.conns[self] = append(live, conn)
	a.last[self] = now
	return true
}

// kick ends every connection of a key and bars it for a while.
func (a *auth) kick(self relay.Token, bar time.Duration) {
	a.mu.Lock()
	conns := a.conns[self]
	delete(a.conns, self)
	if bar > 0 {
		a.bar[self] = a.s.cfg.Now().Add(bar)
	}
	a.mu.Unlock()
	for _, c := range conns {
		a.s.broker.end(c)
	}
}

func (a *auth) lastLogin(self relay.Token) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last[self]
}

// forget drops what has no connection and no bar any more.
func (a *auth) forget(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, until := range a.bar {
		if !now.Before(until) {
			delete(a.bar, k)
		}
	}
	for k, at := range a.last {
		if now.Sub(at) > loginMemory {
			delete(a.last, k)
			delete(a.conns, k)
		}
	}
}
