package server_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
	"sealbridge/signing"
	"sealbridge/spec"
)

// smallDisk mounts a disk of its own; grow makes it larger.
func smallDisk(t *testing.T, size string) (dir string, grow func(size string)) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "disk")
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size)
	}
	if err != nil {
		why := "a full disk was not tested: mounting a small one needs root: " + err.Error()
		if os.Getenv("CI") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	return dir, func(size string) {
		t.Helper()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
}

func bigLetter(n int) []byte {
	raw := make([]byte, 200_000)
	rand.Read(raw)
	return relaytest.Envelope(ben, fmt.Sprint(n)+base64.RawURLEncoding.EncodeToString(raw), time.Now().Add(time.Hour))
}

// Before the disk is full the relay stops taking, and begins again by itself
// when what it holds was collected.
func TestAFillingDiskStopsTakingAndBeginsAgain(t *testing.T) {
	dir, _ := smallDisk(t, "64m")
	s := start(t, func(c *server.Config) {
		c.Dir, c.KeepFree = filepath.Join(dir, "relay"), 0.5
		c.Quotas = server.Quotas{PutsPerSecond: 1e6, MailCount: 1e6, MailBytes: 1 << 30, PerSender: 1e6}
	})
	a, b := dial(t, s, ann), dial(t, s, ben)
	relaytest.Ready(t, b, ben, ann)
	taken := 0
	var err error
	for limit := time.Now().Add(30 * time.Second); err == nil && time.Now().Before(limit); {
		if _, err = a.Put(t.Context(), ben.DID(), bigLetter(taken), ""); err == nil {
			taken++
		}
		<-time.After(20 * time.Millisecond) // slower than the relay looks at its disk
	}
	relaytest.Want(t, "Put on a filling disk", err, spec.Unavailable)
	if s.Failed() || taken == 0 {
		t.Fatalf("failed %v, %d taken", s.Failed(), taken)
	}
	relaytest.Collect(t, b, taken)
	putUntilTaken(t, a, bigLetter(taken))
}

// A disk that is full for real ends the relay; started again with room it has
// every envelope with a receipt.
func TestAFullDiskLosesNothingWithAReceipt(t *testing.T) {
	disk, grow := smallDisk(t, "24m")
	dir := filepath.Join(disk, "relay")
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
	var mu sync.Mutex // guards taken
	taken := map[string]bool{}
	var senders sync.WaitGroup
	for _, who := range []signing.Signer{ann, eve} {
		c := connect(who)
		senders.Go(func() {
			for n := range 1000 {
				e := bigLetter(n)
				if _, err := c.Put(t.Context(), ben.DID(), e, ""); err != nil {
					if w := spec.ReasonOf(err); w != spec.Unavailable {
						t.Errorf("Put on a full disk: %v", err)
					}
					return
				}
				mu.Lock()
				taken[relay.Tag(e)] = true
				mu.Unlock()
			}
			t.Error("the disk was never full")
		})
	}
	senders.Wait()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the relay ended as if all were well")
		}
	case <-time.After(20 * time.Second):
		cmd.Process.Kill() // it only refuses; that is as good
		<-ended
	}
	grow("256m")
	spawn(t, dir, strings.TrimPrefix(at.URL, "nats://"))
	got := map[string]bool{}
	missing := func() (n int) {
		for tag := range taken {
			if !got[tag] {
				n++
			}
		}
		return n
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b.Receive(ctx, 1, func(_ context.Context, e []byte) relay.Verdict { //nolint:errcheck // ended by us
		if got[relay.Tag(e)] = true; missing() == 0 {
			cancel()
		}
		return relay.Ack
	})
	if n := missing(); n > 0 || len(taken) == 0 {
		t.Errorf("%d of %d envelopes with a receipt were lost", n, len(taken))
	}
	t.Logf("%d receipts on a disk of 24 MB", len(taken))
}
