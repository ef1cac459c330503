package gateway_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/relay/relaytest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// watched is a relay's store of chunks that can be closed for reading, and that knows who left what.
type watched struct {
	mu     sync.Mutex // guards puts
	puts   map[string]signing.DID
	closed atomic.Bool
}

type watchedConn struct {
	gatewayConn
	who signing.DID
	w   *watched
}

func (c watchedConn) PutChunk(ctx context.Context, to signing.DID, id string, n int, b []byte) error {
	c.w.mu.Lock()
	c.w.puts[id] = c.who
	c.w.mu.Unlock()
	return c.gatewayConn.PutChunk(ctx, to, id, n, b)
}

func (c watchedConn) GetChunk(ctx context.Context, from signing.DID, id string, n int) ([]byte, error) {
	if c.w.closed.Load() {
		return nil, spec.Refuse(spec.Unavailable, "", "closed")
	}
	return c.gatewayConn.GetChunk(ctx, from, id, n)
}

// there is how many transfers still have chunks at the relay.
func (w *watched) there(conn gatewayConn) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, who := range w.puts {
		if runs, err := conn.HasChunks(context.Background(), who, id); err != nil || len(runs) > 0 {
			n++
		}
	}
	return n
}

func watchedPair(t *testing.T) (ann, ben *side, mem *relaytest.Memory, w *watched) {
	mem, w = relaytest.NewMemory(), &watched{puts: map[string]signing.DID{}}
	ann, ben = pairOver(t, func(s side) gatewayConn { return watchedConn{mem.Conn(s.home.Agent), s.home.Agent.DID(), w} }, mem.Address())
	return ann, ben, mem, w
}

// sealedLeft counts the sealed chunks and half files that a side still has on its disk.
func (s *side) sealedLeft() int {
	n := 0
	for _, dir := range []string{"incoming", "outgoing"} {
		left, err := filepath.Glob(filepath.Join(s.home.Files(), dir, "*"))
		if err != nil {
			s.t.Fatal(err)
		}
		n += len(left)
	}
	return n
}

func TestSealedChunksAreDroppedOnceNobodyNeedsThem(t *testing.T) { // R5
	ann, ben, mem, w := watchedPair(t)
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	conn := mem.Conn(ann.home.Agent)
	for _, s := range []*side{ann, ben} {
		s.until("drop what was sent", func() bool { return s.sealedLeft() == 0 && w.there(conn) == 0 })
	}
	if len(w.puts) != 2 {
		t.Errorf("%d transfers, want an input and an output", len(w.puts))
	}
}

// A task that is cancelled while its input waits at the relay leaves nothing there.
func TestATaskThatIsCancelledLeavesNoChunks(t *testing.T) { // R5, B020
	ann, ben, mem, w := watchedPair(t)
	w.closed.Store(true)
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	conn := mem.Conn(ann.home.Agent)
	ann.until("send the input", func() bool { return w.there(conn) == 1 })
	ben.until("see it on the way", func() bool {
		v := ben.state(p.Task)
		return len(v.Transfers) == 1 && v.Transfers[0].Way == "in" && v.Transfers[0].Size == 12 && v.Transfers[0].Why == "closed"
	})
	if _, err := ann.g.Cancel(t.Context(), gateway.Owner, gateway.Cancellation{Task: p.Task}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*side{ann, ben} {
		s.until("drop what was sent", func() bool { return s.sealedLeft() == 0 && w.there(conn) == 0 && len(s.state(p.Task).Transfers) == 0 })
	}
}

// A relay that loses its store after a file was put is given it again.
func TestARelayThatLostItsChunksIsGivenThemAgain(t *testing.T) { // R5
	ann, ben, mem, w := watchedPair(t)
	var ahead atomic.Int64
	ann.clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	ann.restart()
	w.closed.Store(true)
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	conn := mem.Conn(ann.home.Agent)
	ben.until("know the keys", func() bool { return len(ben.state(p.Task).Transfers) == 1 })
	for id := range w.puts {
		if err := conn.DropChunks(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.there(conn); n != 0 {
		t.Fatalf("%d transfers are there", n)
	}
	ahead.Store(int64(2*time.Minute + time.Second))
	if err := ann.g.Reload(ann.rules); err != nil { // a turn, after which she looks what is owed
		t.Fatal(err)
	}
	ann.until("give it again", func() bool { return w.there(conn) == 1 })
	w.closed.Store(false)
	ben.until("deliver", func() bool { return ben.state(p.Task).State == "delivered" })
}
