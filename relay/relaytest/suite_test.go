package relaytest_test

import (
	"context"
	"testing"
	"time"

	"sealbridge/relay/client"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
	"sealbridge/signing"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	relaytest.Suite(t, func(*testing.T) relaytest.Connector {
		m := relaytest.NewMemory()
		return func(a signing.Signer) relaytest.Conn { return m.Conn(a) }
	})
}

func TestServerKeepsTheContract(t *testing.T) {
	relaytest.Suite(t, func(t *testing.T) relaytest.Connector {
		s, err := server.Start(t.Context(), server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Signer: relaytest.Agent("relay"),
			Sync: "interval", MaxStore: 1 << 30, KeepFree: 1e-9})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return func(a signing.Signer) relaytest.Conn {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			c, err := client.Dial(ctx, client.Config{Address: s.Address(), Agent: a})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			return c
		}
	})
}
