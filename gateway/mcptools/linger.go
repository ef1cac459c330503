package mcptools

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lingering answers what was asked before the other end closed its half: a
// script that pipes questions in gets its answers, and the SDK alone would
// cancel them. It gives them a bounded time.
type lingering struct{ mcp.Transport }

func (t lingering) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	return &lingerer{Connection: c, idle: make(chan struct{}, 1)}, err
}

type lingerer struct {
	mcp.Connection
	idle chan struct{} // a token: nothing is open any more

	mu   sync.Mutex
	open int // questions without an answer
}

func (l *lingerer) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := l.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && err == nil && r.IsCall() {
		l.count(1)
	}
	if errors.Is(err, io.EOF) && l.count(0) > 0 {
		late := time.NewTimer(lingerFor)
		defer late.Stop()
		select {
		case <-l.idle:
		case <-late.C:
		case <-ctx.Done():
		}
	}
	return m, err
}

func (l *lingerer) Write(ctx context.Context, m jsonrpc.Message) error {
	err := l.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok && l.count(-1) == 0 {
		select {
		case l.idle <- struct{}{}:
		default:
		}
	}
	return err
}

// count counts questions; a token of an idle moment before is taken back.
func (l *lingerer) count(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += n
	if n > 0 {
		select {
		case <-l.idle:
		default:
		}
	}
	return l.open
}
