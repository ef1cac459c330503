package server_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
	"sealbridge/signing"
)

// again starts a relay over a folder at the address it had.
func again(t *testing.T, dir string, at relay.Address) *server.Server {
	t.Helper()
	return start(t, func(c *server.Config) { c.Dir, c.Listen = dir, strings.TrimPrefix(at.URL, "nats://") })
}

func TestARestartKeepsWhatWasTaken(t *testing.T) {
	dir := t.TempDir()
	s := start(t, func(c *server.Config) { c.Dir = dir })
	a, b := dial(t, s, ann), dial(t, s, ben)
	relaytest.Ready(t, a, ann, ben)
	relaytest.Ready(t, b, ben, ann)
	e := relaytest.Envelope(ben, "before", time.Now().Add(time.Hour))
	first, err := a.Put(t.Context(), ben.DID(), e, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.PutChunk(t.Context(), ben.DID(), strings.Repeat("ab", 16), 0, []byte("chunk")); err != nil {
		t.Fatal(err)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	s2 := again(t, dir, s.Address())
	second := putUntilTaken(t, a, relaytest.Envelope(ben, "after", time.Now().Add(time.Hour)))
	if second.Origin != first.Origin || second.LeafIndex != first.LeafIndex+1 {
		t.Errorf("the log did not go on: %v/%d, then %v/%d", first.Origin, first.LeafIndex, second.Origin, second.LeafIndex)
	}
	relaytest.Collect(t, b, 2)
	if got, err := b.GetChunk(t.Context(), ann.DID(), strings.Repeat("ab", 16), 0); err != nil || string(got) != "chunk" {
		t.Errorf("GetChunk = %q, %v", got, err)
	}
	wire, err := s2.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	head, err := relay.OpenCheckpoint(wire, relayKey.DID())
	if err != nil || head.Size != 2 {
		t.Fatalf("OpenCheckpoint = %+v, %v", head, err)
	}
	for _, r := range []relay.Receipt{first, second} {
		proof, err := s2.Prove(head.Size, r.LeafIndex)
		if err != nil {
			t.Fatal(err)
		}
		if err := head.Includes(r, proof); err != nil {
			t.Errorf("Includes(leaf %d): %v", r.LeafIndex, err)
		}
		r.Sequence++
		if head.Includes(r, proof) == nil {
			t.Error("a changed receipt is in the log")
		}
	}
}

// A relay that lost its store counts from 1 again. The client publishes its
// key and list again and gets what is sent again; an old cursor takes nothing.
func TestALostStoreLosesNothingThatIsSentAgain(t *testing.T) {
	s := start(t, nil)
	a, b := dial(t, s, ann), dial(t, s, ben)
	relaytest.Ready(t, b, ben, ann)
	letters := make([][]byte, 5)
	for i := range letters {
		letters[i] = relaytest.Envelope(ben, fmt.Sprint(i), time.Now().Add(time.Hour))
	}
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Receive(ctx, 1, func(_ context.Context, e []byte) relay.Verdict { got <- string(e); return relay.Ack })
	}()
	defer func() { cancel(); <-done }()
	putUntilTaken(t, a, letters[0])
	<-got
	for _, e := range letters[1:] {
		putUntilTaken(t, a, e)
	}
	s.Close()
	again(t, t.TempDir(), s.Address())
	seen := map[string]bool{}
	for _, e := range letters { // the sender keeps them until Ben has signed
		putUntilTaken(t, a, e)
	}
	for limit := time.After(30 * time.Second); len(seen) < len(letters); {
		select {
		case e := <-got:
			seen[e] = true
		case <-limit:
			t.Fatalf("%d of %d arrived", len(seen), len(letters))
		}
	}
}

func putUntilTaken(t testing.TB, c *client.Conn, e []byte) relay.Receipt {
	t.Helper()
	var err error
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); {
		var r relay.Receipt
		if r, err = c.Put(t.Context(), ben.DID(), e, ""); err == nil {
			return r
		}
	}
	t.Fatalf("Put: %v", err)
	return relay.Receipt{}
}

const childDir, childListen = "SEALBRIDGE_RELAY_DIR", "SEALBRIDGE_RELAY_LISTEN"

// TestMain is the process that is killed, a relay or a node, when it is told to be.
func TestMain(m *testing.M) {
	if at := os.Getenv(nodeConfig); at != "" {
		node(at)
	}
	dir := os.Getenv(childDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := server.Start(context.Background(), server.Config{Dir: dir, Listen: os.Getenv(childListen), Signer: relayKey, Sync: "interval", Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		MaxStore: 1 << 30, KeepFree: 1e-9, Quotas: server.Quotas{PutsPerSecond: 1e6, MailCount: 1e6, MailBytes: 1 << 30, PerSender: 1e6}})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(s.Address())
	select {
	case <-s.Done():
	case <-s.Faulted():
		os.Exit(3)
	}
}

func spawn(t *testing.T, dir, listen string) (*exec.Cmd, relay.Address) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childDir+"="+dir, childListen+"="+listen)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the relay said nothing: %v", err)
	}
	a, err := relay.ParseAddress(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the relay said %q: %v", line, err)
	}
	return cmd, a
}

// Bar F1's relay half: killed under load, nothing that has a receipt is lost.
func TestAKilledRelayLosesNothingWithAReceipt(t *testing.T) {
	kills := 5
	if testing.Short() {
		kills = 1
	}
	dir := filepath.Join(t.TempDir(), "relay")
	cmd, at := spawn(t, dir, "127.0.0.1:0")
	connect := func(who signing.Signer) *client.Conn {
		c, err := client.Dial(t.Context(), client.Config{Address: at, Agent: who})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	b := connect(ben)
	relaytest.Ready(t, b, ben, ann, eve)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	got, taken := map[string]int{}, map[string]bool{}
	var all sync.WaitGroup
	all.Go(func() {
		b.Receive(ctx, 8, func(_ context.Context, e []byte) relay.Verdict {
			mu.Lock()
			defer mu.Unlock()
			got[relay.Tag(e)]++
			return relay.Ack
		})
	})
	stop := make(chan struct{})
	var senders sync.WaitGroup
	for i, who := range []signing.Signer{ann, eve, ann, eve} {
		c := connect(who)
		senders.Go(func() {
			for n := 0; ; n++ {
				e := relaytest.Envelope(ben, fmt.Sprint(i, "-", n, strings.Repeat("x", 2000)), time.Now().Add(time.Hour))
				for { // the same bytes until there is a receipt
					select {
					case <-stop:
						return
					default:
					}
					if _, err := c.Put(ctx, ben.DID(), e, ""); err == nil {
						mu.Lock()
						taken[relay.Tag(e)] = true
						mu.Unlock()
						break
					}
				}
			}
		})
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(taken) }
	until := func(n int) {
		for limit := time.Now().Add(60 * time.Second); count() < n; {
			if time.Now().After(limit) {
				t.Fatalf("%d receipts, want %d", count(), n)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	for range kills {
		until(count() + 200)
		cmd.Process.Kill()
		cmd.Wait()
		cmd, _ = spawn(t, dir, strings.TrimPrefix(at.URL, "nats://"))
	}
	until(count() + 200)
	close(stop)
	senders.Wait()
	missing := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for tag := range taken {
			if got[tag] == 0 {
				n++
			}
		}
		return n
	}
	for limit := time.Now().Add(60 * time.Second); missing() > 0 && time.Now().Before(limit); {
		<-time.After(20 * time.Millisecond)
	}
	twice := 0
	for _, n := range got {
		if n > 1 {
			twice++
		}
	}
	t.Logf("%d kills: %d receipts, %d missing, %d handed over more than once", kills, len(taken), missing(), twice)
	if missing() > 0 {
		t.Errorf("%d of %d envelopes with a receipt were lost", missing(), len(taken))
	}
	cancel()
	all.Wait()
}
