package tools

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// remote is an MCP server of our owner's. It is started or dialled when it is
// first needed, again after it went away, and not before a pause that doubles.
type remote struct {
	server Server
	log    *slog.Logger
	slots  chan struct{} // calls under way

	mu      sync.Mutex // guards what follows; held while it connects
	session *mcp.ClientSession
	pause   time.Duration
	again   time.Time // not before this
	closed  bool
}

// connected is the session, made if there is none.
func (r *remote) connected(ctx context.Context) (*mcp.ClientSession, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, unsent("the tool server was taken away", nil)
	case r.session != nil:
		return r.session, nil
	case time.Now().Before(r.again):
		return nil, unsent("the tool server does not start; it is tried again in a while", nil)
	}
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	s, err := r.connect(ctx)
	if err != nil {
		r.wait()
		r.log.Warn("a tool server does not start", "error", err)
		return nil, unsent("the tool server does not start", err)
	}
	r.session = s
	go r.watch(s)
	return s, nil
}

// wait puts the next start off; the mutex is held.
func (r *remote) wait() {
	r.pause = min(max(2*r.pause, firstPause), longestPause)
	r.again = time.Now().Add(r.pause)
}

// watch forgets a session that ended.
func (r *remote) watch(s *mcp.ClientSession) {
	r.lost(s, s.Wait())
}

// lost forgets a session that cannot be used any more; a second time it does nothing.
func (r *remote) lost(s *mcp.ClientSession, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session != s {
		return
	}
	r.session = nil
	if !r.closed {
		r.wait()
		r.log.Warn("a tool server went away", "error", err)
	}
}

func (r *remote) connect(ctx context.Context) (*mcp.ClientSession, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "sealbridge", Version: "1"}, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{}, // no roots, no sampling, nobody to ask: a tool gets arguments and nothing else
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	t, err := r.transport()
	if err != nil {
		return nil, err
	}
	return c.Connect(ctx, t, nil)
}

func (r *remote) transport() (mcp.Transport, error) {
	if r.server.URL != "" {
		return overHTTP(r.server)
	}
	return start(r.server, r.log)
}

func (r *remote) close() {
	r.mu.Lock()
	s := r.session
	r.session, r.closed = nil, true
	r.mu.Unlock()
	if s != nil {
		s.Close() //nolint:errcheck // its group is killed in any case
	}
}

func (r *remote) offers(ctx context.Context) (out []Offer, err error) {
	s, err := r.connected(ctx)
	if err != nil {
		return nil, err
	}
	for tool, err := range s.Tools(ctx, nil) {
		if err != nil {
			return nil, unsent("the tool server does not say what it has", err)
		}
		if len(out) == maxOffers {
			return nil, spec.Refuse(spec.TooLarge, "/tool", "500 tools")
		}
		o := Offer{Name: tool.Name, About: tool.Description}
		if o.Input, err = canonical(tool.InputSchema); err != nil {
			o.Input = jcs.EmptyObject
		}
		if a := tool.Annotations; a != nil {
			o.ReadOnly = a.ReadOnlyHint
			o.Destructive = a.DestructiveHint != nil && *a.DestructiveHint
		}
		out = append(out, o)
	}
	return out, nil
}

func (r *remote) call(ctx context.Context, tool string, arguments jcs.Value) (jcs.Value, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		return jcs.Value{}, unsent("too many calls at once", nil)
	}
	s, err := r.connected(ctx)
	if err != nil {
		return jcs.Value{}, err
	}
	most := r.server.Timeout
	if most == 0 {
		most = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments.Bytes())})
	var no *jsonrpc.Error
	switch {
	case errors.As(err, &no): // the server's own no: an answer like any other
		return failed("the tool server refuses: " + cut(no.Message, 500)), nil
	case err != nil:
		r.log.Warn("a tool gave no answer", "error", err)
		if ctx.Err() == nil { // the session broke: forgotten at once, so that the next call is not lost in it
			r.lost(s, err)
			go s.Close() //nolint:errcheck // whatever is left of it
		}
		return jcs.Value{}, unknown("the tool gave no answer", err)
	}
	r.mu.Lock()
	r.pause = 0 // it works: the next crash waits a second again
	r.mu.Unlock()
	v, err := canonical(struct {
		Content    []mcp.Content `json:"content"`
		IsError    bool          `json:"isError,omitempty"`
		Structured any           `json:"structuredContent,omitempty"`
	}{res.Content, res.IsError, res.StructuredContent})
	if err != nil {
		return failed("the tool's answer cannot be signed: no JSON that every reader reads alike"), nil
	}
	return v, nil
}

// canonical is any value as the bytes that are signed; large, because results
// travel as files where a document cannot hold them.
func canonical(of any) (jcs.Value, error) {
	raw, err := json.Marshal(of)
	if err != nil {
		return jcs.Value{}, err
	}
	if len(raw) > maxResult {
		return jcs.Value{}, errTooLarge
	}
	return jcs.CanonicalizeWithin(raw, jcs.Limits{Bytes: maxResult, Depth: 64, Values: 1_000_000, Number: 32})
}

func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}
