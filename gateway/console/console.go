// Package console answers one question: what may a person see and say in a
// browser? It is a door: server-rendered pages over the gateway, on loopback.
//
// A login link opens it once and gives a session: a cookie that shows and never
// allows (G9). From a session a person reads everything and can say no, because
// a no needs nothing (G10). A yes needs what neither the browser's cookie nor
// this machine's account holds: a passkey that the owner key certified, whose
// assertion is over the very decision. Without one the page says how to give a
// yes in a terminal.
//
// What comes in is held against one list, in this order: the Host we are bound
// to, the Origin and fetch site of every post, the session, the session's own
// token in every form. What goes out allows no script but ours, no frame, no
// store. Text of others is escaped twice: what cannot be seen by
// [manifest.Display] (M8), what is markup by html/template.
package console

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"sealbridge/gateway"
)

// Port is where the console listens unless config.yaml says otherwise: one
// place, because a passkey is bound to it.
const Port = 7811

// Config is all that a console is given.
type Config struct {
	Gateway *gateway.Gateway
	Port    int    // it listens on; part of its origin
	AlsoAt  string // https origin behind a proxy of the owner's own; "" for none

	PolicyFile func() (text, digest string, err error) // policy.yaml as it lies on disk; nil: not shown
	Health     func(ctx context.Context) []Finding     // what doctor would say; nil: nothing
	Now        func() time.Time                        // nil: the clock
	Chance     io.Reader                               // nil: the system's
	Zone       *time.Location                          // of times on pages; nil: local
	Log        *slog.Logger                            // nil: silence
}

// Finding is one line of the health page.
type Finding struct {
	What, Text string
	OK         bool
}

// Server is one owner's console. It may be used from many goroutines.
type Server struct {
	Config
	sites    []site // on this machine first
	sessions sessions

	ceremonies ceremonies
	streams    chan struct{} // one token a live page
	looked     looked
	mux        *http.ServeMux
}

// New makes a console; nothing listens yet.
func New(c Config) *Server {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Chance == nil {
		c.Chance = rand.Reader
	}
	if c.Zone == nil {
		c.Zone = time.Local
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{Config: c, sites: []site{local(strconv.Itoa(c.Port))}, sessions: sessions{open: map[key]session{}}, streams: make(chan struct{}, maxStreams), mux: http.NewServeMux()}
	if x, ok := also(c.AlsoAt); ok {
		s.sites = append(s.sites, x)
	}
	s.routes()
	return s
}

// Origin is what a browser says for these pages: http://localhost:7811.
func (s *Server) Origin() string { return s.sites[0].origin }

// routes lists every page and every post; nothing else is answered.
func (s *Server) routes() {
	s.mux.HandleFunc("GET /static/{file}", static)
	s.mux.HandleFunc("GET /login/{secret}", s.login)

	s.page("GET /{$}", s.waiting)
	s.page("GET /decided", s.decided)
	s.page("GET /asks/{ask}", s.ask)
	s.post("POST /asks/{ask}/deny", s.deny)
	s.post("POST /asks/{ask}/counter", s.counter)
	s.post("POST /asks/{ask}/open", s.open)
	s.post("POST /standing/{ask}/revoke", s.unstand)
	s.page("GET /tasks", s.tasks)
	s.page("GET /tasks/{task}", s.task)
	s.page("GET /tasks/{task}/evidence", s.evidence)
	s.page("GET /tasks/{task}/receipt", s.receipt)
	s.post("POST /tasks/{task}/cancel", s.cancel)
	s.page("GET /contacts", s.contacts)
	s.page("GET /policy", s.policy)
	s.page("GET /health", s.health)
	s.page("GET /passkeys", s.passkeys)
	s.asked("POST /passkeys/new", s.newPasskey)
	s.asked("POST /passkeys/offer", s.offerPasskey)
	s.asked("POST /asks/{ask}/passkey", s.askPasskey)
	s.asked("POST /asks/{ask}/allow", s.allow)
	s.page("GET /events", s.events)
	s.post("POST /logout", s.logout)
}
