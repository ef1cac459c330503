package console

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"sealbridge/spec"
)

// Listen takes a port on loopback, 0 any free one: both addresses that
// "localhost" can mean, so that no other program answers under our name.
func Listen(port int) (ls []net.Listener, at int, err error) {
	four, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return nil, 0, taken(port, err)
	}
	at = four.Addr().(*net.TCPAddr).Port
	if !hasIPv6() {
		return []net.Listener{four}, at, nil
	}
	six, err := net.Listen("tcp6", "[::1]:"+strconv.Itoa(at))
	if err != nil {
		four.Close()
		return nil, 0, taken(at, err)
	}
	return []net.Listener{four, six}, at, nil
}

// hasIPv6 says whether this machine has the loopback of IPv6 at all.
func hasIPv6() bool {
	as, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(as, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(net.IPv6loopback)
	})
}

func taken(port int, err error) error {
	return &spec.Error{Reason: spec.Unavailable, Limit: "the console's port " + strconv.Itoa(port) + " cannot be had", Err: err}
}

// Serve answers on every listener until ctx ends. Open live pages end with it.
func (s *Server) Serve(ctx context.Context, ls []net.Listener) error {
	h := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	failed := make(chan error, len(ls))
	for _, l := range ls {
		go func() { failed <- h.Serve(l) }()
	}
	defer context.AfterFunc(ctx, func() { h.Close() })()
	var first error
	for range ls {
		if err := <-failed; first == nil && ctx.Err() == nil {
			first = err
			h.Close()
		}
	}
	return first
}
