package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sealbridge/spec"
)

// hello opens a connection; welcome answers it. Then both ends speak JSON-RPC, a message a line.
type hello struct {
	Token string `json:"token"`
	Tools Tools  `json:"tools"`
	Agent string `json:"agent"` // held against the token's, where it is given
}

type welcome struct {
	Code  spec.Reason `json:"code,omitempty"`
	Path  string      `json:"path,omitempty"`
	Limit string      `json:"limit,omitempty"`
}

// Serve takes connections on l until ctx ends.
func (d *Door) Serve(ctx context.Context, l net.Listener) error {
	stopped := context.AfterFunc(ctx, func() { l.Close() })
	defer stopped()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		wg.Go(func() { d.connection(ctx, conn) })
	}
}

// connection serves one agent until either end closes.
func (d *Door) connection(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stopped := context.AfterFunc(ctx, func() { conn.Close() })
	defer stopped()
	conn.SetDeadline(time.Now().Add(helloWithin)) //nolint:errcheck // a connection without deadlines ends with ctx
	h, a, err := d.greet(conn)
	if err == nil {
		var back func()
		if back, err = d.take(d.conns, a.Name, maxConns); err == nil {
			defer back()
		}
	}
	if json.NewEncoder(conn).Encode(welcomeOf(err)) != nil || err != nil {
		return
	}
	conn.SetDeadline(time.Time{}) //nolint:errcheck // as above
	known := func() bool {
		now, ok := d.Identify(h.Token)
		return ok && now.Name == a.Name
	}
	err = d.server(a, socketWait, known).Run(ctx, lingering{&mcp.IOTransport{Reader: conn, Writer: conn, MaxLineLength: maxMessage}})
	d.Log.Debug("agent left", "agent", a.Name, "error", err)
}

// greet reads the first line and finds the agent.
func (d *Door) greet(conn io.Reader) (h hello, a Agent, err error) {
	line, err := readLine(conn, maxHello)
	if err != nil || json.Unmarshal(line, &h) != nil {
		return h, a, spec.Refuse(spec.Malformed, "", "a line of JSON with a token")
	}
	a, ok := d.Identify(h.Token)
	if !ok || h.Agent != "" && h.Agent != a.Name {
		return h, a, spec.Refuse(spec.NotPermitted, "/token", "the token names no agent of this gateway")
	}
	want, err := ParseTools(string(h.Tools))
	if err == nil {
		a.Tools, err = a.Tools.narrowed(want)
	}
	return h, a, err
}

func welcomeOf(err error) (w welcome) {
	if err != nil {
		w.Code = spec.ReasonOf(err)
	}
	var e *spec.Error
	if errors.As(err, &e) {
		w.Path, w.Limit = e.Path, e.Limit
	}
	return w
}

// readLine reads a line and not a byte beyond it: what follows is another reader's.
func readLine(r io.Reader, limit int) (line []byte, err error) {
	var one [1]byte
	for len(line) < limit {
		if _, err := io.ReadFull(r, one[:]); err != nil {
			return nil, err
		}
		if one[0] == '\n' {
			return line, nil
		}
		line = append(line, one[0])
	}
	return nil, spec.Refuse(spec.TooLarge, "", "4 KiB")
}

// Pipe is what `sealbridge mcp` does: it opens the socket with a token and
// copies bytes both ways until an end closes. Only what the gateway writes goes
// to out.
type Pipe struct {
	Socket string
	Token  string
	Tools  Tools
	Agent  string // held against the token's; "" takes any
	In     io.Reader
	Out    io.Writer
}

// Run ends without an error when In ends.
func (p Pipe) Run(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", p.Socket)
	if err != nil {
		return &spec.Error{Reason: spec.Unavailable, Limit: "no gateway runs in this home", Err: err}
	}
	defer conn.Close()
	stopped := context.AfterFunc(ctx, func() { conn.Close() })
	defer stopped()
	if err := json.NewEncoder(conn).Encode(hello{p.Token, p.Tools, p.Agent}); err != nil {
		return gone(err)
	}
	line, err := readLine(conn, maxHello)
	var w welcome
	if err != nil || json.Unmarshal(line, &w) != nil {
		return gone(err)
	}
	if w.Code != "" {
		return spec.Refuse(w.Code, w.Path, w.Limit)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(conn, p.In) //nolint:errcheck // the other direction says how it ended
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			half.CloseWrite() //nolint:errcheck // as above
		}
	}()
	_, err = io.Copy(p.Out, conn)
	select {
	case <-ended: // our client left first
		return nil
	default:
	}
	if ctx.Err() != nil {
		return nil
	}
	return gone(err)
}

func gone(err error) error {
	return &spec.Error{Reason: spec.Unavailable, Limit: "the gateway ended the connection", Err: err}
}
