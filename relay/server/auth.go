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

// auth answers the server's one question at login (R3a). It fails closed: what
// is not registered with permissions does not pass.
type auth struct {
	s       *Server
	service string // the nkey of our own connections

	mu    sync.Mutex // guards what follows
	conns map[relay.Token][]uint64
	bar   map[relay.Token]time.Time // until when a flooder may not log in
	last  map[relay.Token]time.Time // last login
}

func newAuth(s *Server, service string) *auth {
	return &auth{s: s, service: service, conns: make(map[relay.Token][]uint64),
		bar: make(map[relay.Token]time.Time), last: make(map[relay.Token]time.Time)}
}

// Check is called for every connection, ours among them.
func (a *auth) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if c.Kind() != server.CLIENT || !signedNonce(o.Nkey, o.Sig, c.GetNonce()) {
		return a.refuse("nonce")
	}
	if o.Nkey == a.service {
		all := &server.SubjectPermission{Allow: []string{">"}}
		c.RegisterUser(&server.User{Username: "service", Permissions: &server.Permissions{Publish: all, Subscribe: all}})
		return true
	}
	select { // the state is being read; the server's own time-out ends a longer wait
	case <-a.s.ready:
	case <-time.After(loginWait):
		return a.refuse("starting")
	}
	if !a.fromProxy(c.RemoteAddress()) {
		return a.refuse("address")
	}
	if o.Token == "" {
		return a.greeter(c, o.Nkey)
	}
	if len(o.Token) > relay.MaxLogin {
		return a.refuse("size")
	}
	wire, join, _ := strings.Cut(o.Token, "\n")
	now := a.s.cfg.Now()
	b, err := relay.OpenBinding([]byte(wire), a.s.cfg.Signer.DID(), now)
	if err != nil || b.Session.String() != o.Nkey {
		return a.refuse("binding")
	}
	self := relay.TokenOf(b.AgentDid)
	member, ok := a.s.state.login(self, join, now)
	if !ok || !a.enter(self, c.GetID(), now) {
		return a.refuse("admission")
	}
	verbs := relay.GuestVerbs
	if member {
		verbs = relay.MemberVerbs
	}
	c.RegisterUser(&server.User{
		Username:           self.String(),
		ConnectionDeadline: time.Now().Add(b.ExpiresAt.Time().Sub(now)),
		Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: relay.MayPublish(self, verbs)},
			Subscribe: &server.SubjectPermission{Allow: []string{relay.Inbox(self) + ".>"}},
		},
	})
	a.s.metrics.logins.WithLabelValues("accepted").Inc()
	return true
}

// greeter lets a session in that does not say whose it is: for a few seconds,
// for the hello and nothing else, so that a client knows who answers before it
// says who it is (R3).
func (a *auth) greeter(c server.ClientAuthentication, session string) bool {
	self, err := relay.ParseToken(session)
	if err != nil {
		return a.refuse("nonce")
	}
	c.RegisterUser(&server.User{
		Username:           self.String(),
		ConnectionDeadline: time.Now().Add(greetWithin),
		Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: relay.MayPublish(self, []relay.Verb{relay.VerbHello})},
			Subscribe: &server.SubjectPermission{Allow: []string{relay.Inbox(self) + ".>"}},
		},
	})
	a.s.metrics.logins.WithLabelValues("greeting").Inc()
	return true
}

// fromProxy says whether a connection comes from where it may: with proxies
// before us nobody goes around them. What they say of others is not read.
func (a *auth) fromProxy(from net.Addr) bool {
	if len(a.s.cfg.Proxies) == 0 {
		return true
	}
	at, err := netip.ParseAddrPort(from.String())
	return err == nil && slices.Contains(a.s.cfg.Proxies, at.Addr().Unmap())
}

func (a *auth) refuse(why string) bool {
	a.s.metrics.logins.WithLabelValues(why).Inc()
	return false
}

// signedNonce says whether the session key signed this connection's nonce.
func signedNonce(pub, sig string, nonce []byte) bool {
	key, err := nkeys.FromPublicKey(pub)
	if err != nil || len(nonce) == 0 || !strings.HasPrefix(pub, "U") {
		return false
	}
	raw, ok := decodeSig(sig)
	return ok && key.Verify(nonce, raw) == nil
}

// enter counts the connection; past the quota the oldest ends, because a
// client that lost its network is still counted here for minutes.
func (a *auth) enter(self relay.Token, cid uint64, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.bar[self]) {
		return false
	}
	live := a.conns[self][:0]
	for _, id := range a.conns[self] {
		if a.s.ns.GetClient(id) != nil {
			live = append(live, id)
		}
	}
	for ; len(live) >= a.s.cfg.Quotas.Connections; live = live[1:] {
		go a.s.ns.DisconnectClientByID(live[0]) //nolint:errcheck // gone already is as good
	}
	a.conns[self] = append(live, cid)
	a.last[self] = now
	return true
}

// kick ends every connection of a key and bars it for a while.
func (a *auth) kick(self relay.Token, bar time.Duration) {
	a.mu.Lock()
	cids := a.conns[self]
	delete(a.conns, self)
	if bar > 0 {
		a.bar[self] = a.s.cfg.Now().Add(bar)
	}
	a.mu.Unlock()
	for _, id := range cids {
		a.s.ns.DisconnectClientByID(id) //nolint:errcheck // gone already is as good
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
