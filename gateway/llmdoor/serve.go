package llmdoor

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// ServeConn serves one connection until it or ctx ends; every call on it has ended then.
func ServeConn(ctx context.Context, conn net.Conn, h http.Handler) {
	l := &single{conn: conn, done: make(chan struct{})}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				l.Close()
			}
		}}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	s.Serve(l) //nolint:errcheck // it ends with the connection
}

// single is a listener that has one connection to give.
type single struct {
	mu   sync.Mutex // guards conn
	conn net.Conn
	once sync.Once
	done chan struct{}
}

var errGiven = errors.New("the one connection was given")

func (l *single) Accept() (net.Conn, error) {
	l.mu.Lock()
	c := l.conn
	l.conn = nil
	l.mu.Unlock()
	if c != nil {
		return c, nil
	}
	<-l.done
	return nil, errGiven
}

func (l *single) Close() error { l.once.Do(func() { close(l.done) }); return nil }

func (l *single) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
