package server_test

import (
	"context"
	"testing"
	"time"

	"sealbridge/relay/client"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
	"sealbridge/signing"
)

var (
	ann, ben, eve = relaytest.Agent("ann"), relaytest.Agent("ben"), relaytest.Agent("eve")
	relayKey      = relaytest.Agent("relay")
)

func config(t testing.TB, change func(*server.Config)) server.Config {
	c := server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Signer: relayKey, Sync: "interval", MaxStore: 1 << 30, KeepFree: 1e-9}
	if change != nil {
		change(&c)
	}
	return c
}

func start(t testing.TB, change func(*server.Config)) *server.Server {
	t.Helper()
	s, err := server.Start(context.Background(), config(t, change))
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func dial(t testing.TB, s *server.Server, who signing.Signer) *client.Conn {
	t.Helper()
	c, err := tryDial(t, s, who, "")
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

func tryDial(t testing.TB, s *server.Server, who signing.Signer, join string) (*client.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return client.Dial(ctx, client.Config{Address: s.Address(), Agent: who, JoinTicket: join})
}
