package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// serve answers one connection to the proxy: one request, and then it is closed.
func (h *Hosts) serve(ctx context.Context, b *Box, conn net.Conn) {
	head := &io.LimitedReader{R: conn, N: maxHead}
	in := bufio.NewReader(head)
	conn.SetReadDeadline(time.Now().Add(headTime))
	req, err := http.ReadRequest(in)
	if err != nil {
		status := http.StatusBadRequest
		if head.N <= 0 {
			status = http.StatusRequestHeaderFieldsTooLarge
		}
		h.turnAway(conn, refuse(status, "not a request of a proxy's"))
		return
	}
	head.N = math.MaxInt64
	conn.SetReadDeadline(time.Time{})
	if req.Method == http.MethodConnect {
		h.tunnel(ctx, b, conn, in, req)
		return
	}
	h.forward(ctx, b, conn, req)
}

// turnAway says no in a form that every client of a proxy understands.
func (h *Hosts) turnAway(conn net.Conn, no *refusal) {
	h.refused.Add(1)
	conn.SetWriteDeadline(time.Now().Add(headTime))
	text := "sealbridge: " + no.text + "\n"
	fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		no.status, http.StatusText(no.status), len(text), text)
}

// tunnel copies bytes between the program and the host.
func (h *Hosts) tunnel(ctx context.Context, b *Box, conn net.Conn, in io.Reader, req *http.Request) {
	host, port, err := net.SplitHostPort(req.RequestURI)
	if err != nil {
		h.turnAway(conn, refuse(400, "a host and a port"))
		return
	}
	up, no := h.connect(ctx, b, host, port)
	if no != nil {
		h.turnAway(conn, no)
		return
	}
	defer closeWith(ctx, up)()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { copyUntilEnd(up, in) })
	both.Go(func() { copyUntilEnd(conn, up) })
	both.Wait()
}

// copyUntilEnd copies one direction, then tells the other end that no more comes.
// An error ends both directions.
func copyUntilEnd(to net.Conn, from io.Reader) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		if c, ok := from.(net.Conn); ok {
			c.Close()
		}
		return
	}
	type half interface{ CloseWrite() error }
	if c, ok := to.(half); ok {
		c.CloseWrite()
	}
	to.SetReadDeadline(time.Now().Add(idleTime)) // what it still says must come
}

// forward sends one plain request to its host and the answer back. Both are
// read and written anew: what the host gets is for the host that was opened,
// whatever the request's Host said.
func (h *Hosts) forward(ctx context.Context, b *Box, conn net.Conn, req *http.Request) {
	u := req.URL
	if u.Scheme != "http" || u.Host == "" || u.User != nil || u.Opaque != "" {
		h.turnAway(conn, refuse(400, "an absolute http address; https goes by CONNECT"))
		return
	}
	port := u.Port()
	if port == "" && !strings.HasSuffix(u.Host, ":") {
		port = "80"
	}
	up, no := h.connect(ctx, b, u.Hostname(), port)
	if no != nil {
		h.turnAway(conn, no)
		return
	}
	defer closeWith(ctx, up)()
	req.Host, req.Close = u.Host, true
	ownHeaders(req.Header)
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() { req.Write(up) }) // an error shows as a missing answer
	defer up.Close()
	resp, err := response(bufio.NewReader(up), req)
	if err != nil {
		h.turnAway(conn, refuse(502, "the host's answer cannot be read"))
		return
	}
	resp.Close = true
	defer conn.Close() // ends a body that is still being sent
	resp.Write(conn)
}

// response reads the host's answer; what it says before it is passed over.
func response(from *bufio.Reader, req *http.Request) (*http.Response, error) {
	for range 10 {
		resp, err := http.ReadResponse(from, req)
		if err != nil || resp.StatusCode >= 200 {
			return resp, err
		}
	}
	return nil, errors.New("too much before an answer")
}

// ownHeaders takes out what is between a client and its proxy.
func ownHeaders(head http.Header) {
	for _, list := range head["Connection"] {
		for _, name := range strings.Split(list, ",") {
			head.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Proxy-Connection", "Proxy-Authorization", "Keep-Alive", "Te", "Trailer", "Upgrade", "Expect"} {
		head.Del(name)
	}
	if head.Get("User-Agent") == "" {
		head.Set("User-Agent", "") // else one of ours is added
	}
}

// closeWith closes a connection when ctx ends or what it returns is called.
func closeWith(ctx context.Context, c net.Conn) func() {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	return func() {
		stop()
		c.Close()
	}
}

var errReach = errors.New("bytes of a run")

// metered counts what goes to a host and comes from it, and ends a connection
// that stands still or takes the run past its bytes.
type metered struct {
	net.Conn
	h  *Hosts
	to int // index of its record
}

func (m *metered) Read(p []byte) (int, error) {
	m.SetReadDeadline(time.Now().Add(idleTime))
	n, err := m.Conn.Read(p)
	return n, m.add(n, &m.h.got, func(r *Reached) *int64 { return &r.Received }, err)
}

func (m *metered) Write(p []byte) (int, error) {
	m.SetDeadline(time.Now().Add(idleTime)) // what is sent keeps the other direction alive too
	n, err := m.Conn.Write(p)
	return n, m.add(n, &m.h.sent, func(r *Reached) *int64 { return &r.Sent }, err)
}

func (m *metered) add(n int, all interface{ Add(int64) int64 }, of func(*Reached) *int64, err error) error {
	m.h.mu.Lock()
	*of(&m.h.reach[m.to]) += int64(n)
	m.h.mu.Unlock()
	if all.Add(int64(n)) > MaxReachBytes && err == nil {
		err = errReach
	}
	return err
}

// CloseWrite tells the host that no more comes.
func (m *metered) CloseWrite() error {
	if c, ok := m.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return m.Close()
}
