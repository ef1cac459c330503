package mcptools_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sealbridge/gateway/gatewaytest"
	"sealbridge/gateway/mcptools"
	"sealbridge/policy"
)

// house is a pair of gateways with an agents' door at Ann's.
type house struct {
	t        *testing.T
	ann, ben *gatewaytest.Side
	socket   string
	url      string
	folder   string // that claude may send from
	file     string // in it

	mu     sync.Mutex
	tokens map[string]mcptools.Agent
}

func newHouse(t *testing.T, script string) *house {
	t.Helper()
	h := &house{t: t, tokens: map[string]mcptools.Agent{"claude-token": {Name: "claude", Tools: mcptools.Requester}, "cursor-token": {Name: "cursor", Tools: mcptools.All}, "scribe-token": {Name: "scribe", Tools: mcptools.Worker}}}
	h.ann, h.ben = gatewaytest.Pair(t, script)
	h.folder, h.file = gatewaytest.File(t, "sales.csv", "a,1\nb,2\nc,3\n")
	h.ann.Rules.Policy.Outgoing = []policy.Outgoing{
		{Name: "claude asks Ben", Agent: "claude", To: policy.Names{"Ben"}, MaySend: []string{h.folder + "/**"}, Then: policy.ThenAsk},
		{Name: "cursor asks Ben", Agent: "cursor", To: policy.Names{"Ben"}, Then: policy.ThenAsk},
	}
	h.ann.Reload()
	h.socket, h.url = h.open(h.ann)
	return h
}

// open opens an agents' door at a side.
func (h *house) open(at *gatewaytest.Side) (socket, url string) {
	h.t.Helper()
	door := mcptools.New(mcptools.Config{Gateway: at.G, Version: "test", Identify: h.identify})
	socket = filepath.Join(h.t.TempDir(), "a.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); door.Serve(ctx, l) }()
	web := httptest.NewServer(door.Handler())
	h.t.Cleanup(func() { cancel(); <-done; web.CloseClientConnections(); web.Close() })
	return socket, web.URL + mcptools.Path
}

func (h *house) identify(token string) (mcptools.Agent, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, ok := h.tokens[token]
	return a, ok
}

// over is a client of Ann's door by one transport.
func (h *house) over(name, token string) *client {
	h.t.Helper()
	return h.client(name, token, h.socket, h.url)
}

func (h *house) client(name, token, socket, url string) *client {
	h.t.Helper()
	var t mcp.Transport
	switch name {
	case "socket":
		near, far := net.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		h.t.Cleanup(cancel)
		go func() {
			defer far.Close()
			mcptools.Pipe{Socket: socket, Token: token, In: far, Out: far}.Run(ctx)
		}()
		t = &mcp.IOTransport{Reader: near, Writer: near}
	case "http":
		t = &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}, DisableStandaloneSSE: true}
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(), t, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { s.Close() })
	return &client{h.t, s}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

type client struct {
	t *testing.T
	*mcp.ClientSession
}

type object = map[string]any

// call calls a tool; refused is the text of an error.
func (c *client) call(name string, args object) (out object, refused string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	text := ""
	if len(res.Content) > 0 {
		text = res.Content[0].(*mcp.TextContent).Text
	}
	if res.IsError {
		return nil, text
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		c.t.Fatal(err)
	}
	var both [2]object
	for i, b := range [][]byte{raw, []byte(text)} {
		if err := json.Unmarshal(b, &both[i]); err != nil {
			c.t.Fatalf("%s answered %s: %v", name, b, err)
		}
	}
	if a, b := canonical(both[0]), canonical(both[1]); a != b {
		c.t.Errorf("%s: the text is not the structured answer:\n%s\n%s", name, a, b)
	}
	return both[0], ""
}

func (c *client) must(name string, args object) object {
	c.t.Helper()
	out, refused := c.call(name, args)
	if refused != "" {
		c.t.Fatalf("%s: %s", name, refused)
	}
	return out
}

func canonical(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
