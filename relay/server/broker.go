package server

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"sealbridge/relay"
)

// broker is what carries the messages: the server within us, or an operator's own.
type broker interface {
	connect(name string) (*nats.Conn, error) // a connection of the service
	end(connID)                              // of a client
	alive(connID) bool
	clients() int
	url() string
	room() (free, all int64, ok bool) // of the store
	close()
}

// connID names a connection of a client.
type connID struct {
	server string // "" within us
	cid    uint64
}

// reach starts or finds the broker, and makes our two connections.
func (s *Server) reach(ctx context.Context, host string, port int) (err error) {
	var b broker
	if s.cfg.Attach != nil {
		b, err = attach(s)
	} else {
		b, err = embed(s, s.options(host, port))
	}
	if err != nil {
		return err
	}
	s.broker = b
	return s.connect(ctx)
}

func (s *Server) connect(ctx context.Context) (err error) {
	if a := s.cfg.Attach; a != nil {
		s.st.attached, s.st.replicas = true, a.Replicas
	}
	if s.st.nc, err = s.broker.connect("store"); err != nil {
		return fmt.Errorf("connecting to the store: %w", err)
	}
	if s.st.js, err = jetstream.New(s.st.nc); err != nil {
		return err
	}
	if s.ingress, err = s.broker.connect("ingress"); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	return ctx.Err()
}

// embedded is the server within us.
type embedded struct {
	s       *Server
	ns      *server.Server
	session nkeys.KeyPair
	pub     string
}

func embed(s *Server, o *server.Options) (*embedded, error) {
	e := &embedded{s: s}
	var err error
	if e.session, err = nkeys.CreateUser(); err != nil {
		return nil, err
	}
	if e.pub, err = e.session.PublicKey(); err != nil {
		return nil, err
	}
	s.auth = newAuth(s)
	o.CustomClientAuthentication = door{s.auth, e.pub}
	if e.ns, err = server.NewServer(o); err != nil {
		return nil, fmt.Errorf("configuring the server: %w", err)
	}
	e.ns.SetLoggerV2(natsLog{s.log}, false, false, false)
	e.ns.Start()
	if !e.ns.ReadyForConnections(10*time.Second) || !e.ns.JetStreamEnabled() {
		e.close()
		return nil, fmt.Errorf("starting on %s: the server did not come up", s.cfg.Listen)
	}
	return e, nil
}

func (e *embedded) connect(name string) (*nats.Conn, error) {
	return nats.Connect("", append(e.s.serviceOptions(name), nats.InProcessServer(e.ns), nats.Nkey(e.pub, e.session.Sign))...)
}

// serviceOptions are those of every connection of the service.
func (s *Server) serviceOptions(name string) []nats.Option {
	return []nats.Option{nats.Name(name), nats.ReconnectWait(20 * time.Millisecond), nats.MaxReconnects(-1), nats.NoEcho(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.log.Warn("service connection", "error", err) })}
}

func (e *embedded) end(c connID) { e.ns.DisconnectClientByID(c.cid) } //nolint:errcheck // gone already is as good

func (e *embedded) alive(c connID) bool { return e.ns.GetClient(c.cid) != nil }

func (e *embedded) clients() int { return max(0, e.ns.NumClients()-2) } // two are ours

func (e *embedded) url() string {
	if e.s.cfg.WebSocket {
		return e.ns.WebsocketURL()
	}
	return e.ns.ClientURL()
}

func (e *embedded) room() (free, all int64, ok bool) { return diskFree(e.s.cfg.Dir) }

func (e *embedded) close() {
	e.ns.Shutdown()
	e.ns.WaitForShutdown()
}

func (s *Server) options(host string, port int) *server.Options {
	if port == 0 {
		port = -1
	}
	o := &server.Options{
		ServerName: "sealbridge", Host: host, Port: port, NoSigs: true, NoSystemAccount: false,
		JetStream: true, StoreDir: filepath.Join(s.cfg.Dir, "store"), JetStreamMaxMemory: 1 << 20, JetStreamMaxStore: s.cfg.MaxStore,
		SyncAlways: s.cfg.Sync == relay.SyncAlways, SyncInterval: 10 * time.Second,
		AlwaysEnableNonce: true,
		MaxPayload:        relay.MaxEnvelope + 64<<10, MaxPending: 32 << 20, MaxSubs: 0, MaxControlLine: 4096,
		AuthTimeout: 5, PingInterval: 30 * time.Second, WriteDeadline: 10 * time.Second,
	}
	if s.cfg.WebSocket {
		o.DontListen = true
		o.Websocket = server.WebsocketOpts{Host: host, Port: port, NoTLS: s.cfg.TLS == nil, TLSConfig: s.cfg.TLS, HandshakeTimeout: 5 * time.Second}
		return o
	}
	if s.cfg.TLS != nil {
		o.TLSConfig, o.TLSHandshakeFirst, o.TLSTimeout = s.cfg.TLS, true, 5
	}
	return o
}

// natsLog hands the server's warnings to our log, without network addresses,
// which we do not write down; its notices are noise.
type natsLog struct{ l *slog.Logger }

var peer = regexp.MustCompile(`\[[0-9A-Fa-f.]*:[0-9A-Za-z:.%]*\](:\d+)?|\d+\.\d+\.\d+\.\d+(:\d+)?`)

func (n natsLog) say(level slog.Level, f string, v ...any) {
	n.l.Log(context.Background(), level, "nats: "+peer.ReplaceAllString(fmt.Sprintf(f, v...), "(address)"))
}

func (natsLog) Noticef(string, ...any)      {}
func (n natsLog) Warnf(f string, v ...any)  { n.say(slog.LevelWarn, f, v...) }
func (n natsLog) Fatalf(f string, v ...any) { n.say(slog.LevelError, f, v...) }
func (n natsLog) Errorf(f string, v ...any) { n.say(slog.LevelError, f, v...) }
func (natsLog) Debugf(string, ...any)       {}
func (natsLog) Tracef(string, ...any)       {}
