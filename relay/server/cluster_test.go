package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
	"sealbridge/signing"
)

const nodeConfig = "SEALBRIDGE_NATS_CONFIG"

// node is one stock server of a cluster, in a process of its own.
func node(at string) {
	o, err := natsd.ProcessConfigFile(at)
	if err == nil {
		o.NoSigs, o.NoLog = true, true
		var ns *natsd.Server
		if ns, err = natsd.NewServer(o); err == nil {
			ns.Start()
			ns.ReadyForConnections(20 * time.Second)
			fmt.Println("up")
			ns.WaitForShutdown()
		}
	}
	fmt.Println("error", err)
	os.Exit(1)
}

// cluster starts three nodes and returns what kills each, and their addresses.
func cluster(t *testing.T, a server.Attach) (kill []func(), clients []string) {
	t.Helper()
	base, err := a.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	for range 3 {
		clients, routes = append(clients, free(t)), append(routes, free(t))
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var started sync.WaitGroup
	for i := range 3 {
		dir := t.TempDir()
		at := filepath.Join(dir, "nats.conf")
		text := base + fmt.Sprintf("server_name: n%d\nlisten: %q\njetstream { store_dir: %q, max_file_store: 1GB, max_memory_store: 1MB }\ncluster { name: c, listen: %q, routes: [ \"nats://%s\" ] }\n",
			i, clients[i], filepath.Join(dir, "js"), routes[i], strings.Join(routes, "\", \"nats://"))
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe)
		cmd.Env, cmd.Stderr = append(os.Environ(), nodeConfig+"="+at), os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end := sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
		t.Cleanup(end)
		kill = append(kill, end)
		started.Go(func() {
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
				t.Errorf("node %d: %q, %v", i, line, err)
			}
		})
	}
	started.Wait()
	return kill, clients
}

// free is an address that nobody listens at now.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// balancer is what owners dial: it passes each connection to a node that is there.
func balancer(t *testing.T, nodes []string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for i := 0; ; i++ {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				for j := range nodes {
					out, err := net.DialTimeout("tcp", nodes[(i+j)%len(nodes)], time.Second)
					if err != nil {
						continue
					}
					defer out.Close()
					go func() { io.Copy(in, out); in.Close() }()
					io.Copy(out, in)
					return
				}
			}()
		}
	}()
	return l.Addr().String()
}

// leads is the node that leads a stream: the one whose death is felt.
func leads(t *testing.T, a server.Attach, stream string) int {
	t.Helper()
	kp, err := nkeys.FromSeed([]byte(a.Service))
	if err != nil {
		t.Fatal(err)
	}
	pub, err := kp.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(strings.Join(a.URLs, ","), nats.Nkey(pub, kp.Sign))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m, err := nc.Request("$JS.API.STREAM.INFO."+stream, nil, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.URLs {
		if strings.Contains(string(m.Data), fmt.Sprintf(`"leader":"n%d"`, i)) {
			return i
		}
	}
	t.Fatalf("nobody leads %s: %s", stream, m.Data)
	return 0
}

// Bar F4: three nodes, one killed under load: no loss, and delivery goes on.
func TestAClusterLosesANodeAndNoMail(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster of three processes: not with -short")
	}
	a := attachKeys(t)
	kill, nodes := cluster(t, a)
	for _, n := range nodes {
		a.URLs = append(a.URLs, "nats://"+n)
	}
	a.Replicas = 3
	s := start(t, func(c *server.Config) {
		c.Attach, c.Admission, c.URL = &a, server.Open, "nats://"+balancer(t, nodes)
		c.Quotas = server.Quotas{PutsPerSecond: 1e6, MailCount: 1e6, MailBytes: 1 << 30, PerSender: 1e6}
	})
	connect := func(who signing.Signer) *client.Conn {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c, err := client.Dial(ctx, client.Config{Address: s.Address(), Agent: who})
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
	var mu sync.Mutex // guards what follows
	got, taken := map[string]int{}, map[string]bool{}
	var lastPut, lastGot time.Time
	var putStall, gotStall time.Duration
	var all sync.WaitGroup
	all.Go(func() {
		b.Receive(ctx, 8, func(_ context.Context, e []byte) relay.Verdict { //nolint:errcheck // ended by us
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			if !lastGot.IsZero() {
				gotStall = max(gotStall, now.Sub(lastGot))
			}
			lastGot = now
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
						now := time.Now()
						if !lastPut.IsZero() {
							putStall = max(putStall, now.Sub(lastPut))
						}
						lastPut = now
						mu.Unlock()
						break
					}
					<-time.After(20 * time.Millisecond) // as a sender that is told to come back
				}
			}
		})
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(taken) }
	until := func(n int) {
		t.Helper()
		for limit := time.Now().Add(90 * time.Second); count() < n; {
			if time.Now().After(limit) {
				t.Fatalf("%d receipts, want %d", count(), n)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	until(200)
	kill[leads(t, a, fmt.Sprint("SBM", relay.Shard(relay.TokenOf(ben.DID()))))]()
	until(count() + 400)
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
	for limit := time.Now().Add(90 * time.Second); missing() > 0 && time.Now().Before(limit); {
		<-time.After(20 * time.Millisecond)
	}
	mu.Lock()
	t.Logf("one node of three killed: %d receipts, longest stall of puts %v, of deliveries %v", len(taken), putStall.Round(time.Millisecond), gotStall.Round(time.Millisecond))
	mu.Unlock()
	if n := missing(); n > 0 {
		t.Errorf("%d of %d envelopes with a receipt were lost", n, count())
	}
	if s.Failed() {
		t.Error("the relay took it for a fault of its store")
	}
	cancel()
	all.Wait()
}
