package mcptools_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sealbridge/gateway/gatewaytest"
	"sealbridge/gateway/mcptools"
)

// opener is a client of Ann's socket that opens URLs, and holds each back until it may answer.
func (h *house) opener(answer string) (c *client, opened chan *mcp.ElicitParams, hold chan struct{}) {
	h.t.Helper()
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	h.t.Cleanup(cancel)
	go func() {
		defer far.Close()
		mcptools.Pipe{Socket: h.socket, Token: "claude-token", In: far, Out: far}.Run(ctx)
	}()
	opened, hold = make(chan *mcp.ElicitParams, 10), make(chan struct{})
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			opened <- r.Params
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return &mcp.ElicitResult{Action: answer}, nil
		}}).Connect(ctx, &mcp.IOTransport{Reader: near, Writer: near}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}) // later versions let no server ask by itself
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { s.Close() })
	return &client{h.t, s}, opened, hold
}

func TestAClientThatOpensURLsGetsTheCardAndDecidesNothing(t *testing.T) { // A15, G9
	h := newHouse(t, gatewaytest.Counter)
	h.ann.G.ConsoleAt("http://localhost:7811")
	c, opened, hold := h.opener("accept")
	first := c.must("delegate_task", object{"to": "Ben", "goal": "x", "sandbox": object{"claimed_ok": true}}) // answers while the card is still open
	ask := first["ask_id"].(string)
	get := func() *mcp.ElicitParams {
		select {
		case p := <-opened:
			return p
		case <-time.After(time.Minute):
			t.Fatal("no card was offered")
			return nil
		}
	}
	if p := get(); p.Mode != "url" || p.URL != "http://localhost:7811/asks/"+ask || p.ElicitationID != ask || strings.Contains(p.Message, "x\n") {
		t.Errorf("%+v", p)
	}
	close(hold) // the client says accept
	if a := c.must("request_approval", object{"ask_id": ask}); a["state"] != "open" {
		t.Errorf("the client's accept decided: %v", a)
	}
	if p := get(); p.URL != "http://localhost:7811/asks/"+ask {
		t.Errorf("%+v", p)
	}
	if again := c.must("delegate_task", object{"to": "Ben", "goal": "x", "sandbox": object{"claimed_ok": true}}); again["joined"] != true || len(opened) != 0 {
		t.Errorf("a repeat: %v, %d cards", again, len(opened))
	}
	plain := h.over("socket", "claude-token") // a client that says nothing of URLs hears of it in the answer alone
	if a := plain.must("request_approval", object{"ask_id": ask}); a["url"] != "http://localhost:7811/asks/"+ask || len(opened) != 0 {
		t.Errorf("%v", a)
	}
}
