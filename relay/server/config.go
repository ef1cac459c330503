// Package server is a relay: an embedded NATS server, and beside it a relay
// service, an ordinary client of it, that owns the store and answers put, get
// and ack (protocol section 11). Clients have no rights in the store at all.
//
// It keeps sealed bytes and what it needs to carry them, and says so in
// [Server.Human].
package server

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Admission says who gets a mailbox.
type Admission string

const (
	Open   Admission = "open"   // any key
	Invite Admission = "invite" // keys with a join ticket, and members
)

// Config is what an operator decides. Dir, Listen and Signer are required.
type Config struct {
	Dir       string                  // the store and the admin socket
	Listen    string                  // host:port; port 0 is chosen by the system
	Signer    signing.Signer          // the relay's key
	WebSocket bool                    // wss:// or ws:// instead of tls:// or nats://
	TLS       *tls.Config             // nil: plain, on loopback or behind a proxy
	URL       string                  // what owners dial, if it is not what we listen on
	TLSKeys   func() []signing.Digest // keys of a proxy or servers before us, for the hello, as of now; nil: none
	Proxies   []netip.Addr            // of proxies before us: who connects from elsewhere may not log in; none: anybody may

	Attach    *Attach   // an operator's own NATS instead of the server within us; then Listen, TLS, MaxStore are its
	Admission Admission // default: open on loopback, else invite
	Quotas    Quotas
	Sync      relay.SyncMode // default: always
	MaxStore  int64          // bytes; default 8 GiB, at most half of what is free
	KeepFree  float64        // share of the disk at which it stops taking; default 0.05
	OpsListen string         // /healthz /readyz /metrics; "" for none. Never public

	Name, Contact, Terms string // for people

	Log *slog.Logger
	Now func() time.Time
}

// Quotas are per key unless said otherwise. Zero means the default.
type Quotas struct {
	PutsPerSecond int           // 200: a busy gateway does 20
	MailCount     int           // 2,000 envelopes waiting in a mailbox
	MailBytes     int64         // 64 MiB waiting in a mailbox
	MailAge       time.Duration // 14 days, as long as an envelope may live
	PerSender     int           // 64 envelopes of one sender in one mailbox
	FileBytes     int64         // 2 GiB of chunks
	FileAge       time.Duration // 7 days
	Drops         int           // 64 invites waiting
	Connections   int           // 4; a fifth ends the oldest
	Gets          int           // 4 waiting: more is one client asking too much
	Queue         int           // 256 requests waiting to be looked at
	Refusals      int           // 2,000 in a second end the connection
	Bar           time.Duration // 30 s until it may log in again
}

func or[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (q *Quotas) fill() {
	or(&q.PutsPerSecond, 200)
	or(&q.MailCount, 2000)
	or(&q.MailBytes, 64<<20)
	or(&q.MailAge, relay.MaxLife)
	or(&q.PerSender, 64)
	or(&q.FileBytes, 2<<30)
	or(&q.FileAge, 7*24*time.Hour)
	or(&q.Drops, 64)
	or(&q.Connections, 4)
	or(&q.Gets, 4)
	or(&q.Queue, 256)
	or(&q.Refusals, 2000)
	or(&q.Bar, 30*time.Second)
}

func (c *Config) validate() (host string, port int, err error) {
	bad := func(path, why string) (string, int, error) { return "", 0, spec.Refuse(spec.Malformed, path, why) }
	if c.Dir == "" || c.Signer == nil {
		return bad("/store/dir", "required, with the relay's key")
	}
	if c.Attach != nil {
		if err := c.Attach.validate(); err != nil {
			return "", 0, err
		}
		if c.URL == "" {
			return bad("/url", "required: what owners dial")
		}
		c.Listen = "127.0.0.1:0" // nothing listens
	}
	a, err := net.ResolveTCPAddr("tcp", c.Listen)
	if err != nil || c.Listen == "" {
		return bad("/listen", "host:port")
	}
	loop := a.IP != nil && a.IP.IsLoopback()
	if c.TLS == nil && !loop {
		return bad("/listen", "without tls only on loopback, where a proxy can stand before it (R3)")
	}
	if c.Admission == "" {
		c.Admission = Invite
		if loop && c.URL == "" {
			c.Admission = Open
		}
	}
	if c.Admission != Open && c.Admission != Invite {
		return bad("/admission/mode", "open or invite")
	}
	if c.Attach != nil {
		or(&c.Sync, relay.SyncInterval) // what an operator's servers do, it has to say
	}
	or(&c.Sync, relay.SyncAlways)
	if c.Sync != relay.SyncAlways && c.Sync != relay.SyncInterval {
		return bad("/store/sync", "always or interval")
	}
	if c.KeepFree == 0 {
		c.KeepFree = 0.05
	}
	if c.KeepFree < 0 || c.KeepFree >= 1 {
		return bad("/store/keep_free", "a share of the disk below 100 %")
	}
	if c.MaxStore == 0 {
		c.MaxStore = 8 << 30
		if free, _, ok := diskFree(c.Dir); ok {
			c.MaxStore = min(c.MaxStore, free/2)
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Quotas.fill()
	host = ""
	if a.IP != nil {
		host = a.IP.String()
	}
	return host, a.Port, nil
}
