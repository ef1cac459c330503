package gateway_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
)

// closed is a relay that takes members by invitation only.
func closed(t *testing.T, name string) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), server.Config{Dir: filepath.Join(t.TempDir(), name), Listen: "127.0.0.1:0", Admission: server.Invite,
		Signer: relaytest.Agent(name), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// reaching dials contacts' relays without being a member there.
func reaching(t *testing.T, s *side) func(context.Context, manifest.RelayRef) (gateway.Away, error) {
	var mu sync.Mutex
	conns := map[manifest.RelayRef]*client.Conn{}
	t.Cleanup(func() {
		for _, c := range conns {
			c.Close()
		}
	})
	return func(ctx context.Context, r manifest.RelayRef) (gateway.Away, error) {
		mu.Lock()
		defer mu.Unlock()
		if c := conns[r]; c != nil {
			return c, nil
		}
		c, err := client.Dial(ctx, client.Config{Address: relay.Address{URL: r.Endpoint, DID: r.Did}, Agent: s.home.Agent})
		if err != nil {
			return nil, err
		}
		conns[r] = c
		return c, nil
	}
}

func memberOf(t *testing.T, at *server.Server, name string) *side {
	t.Helper()
	ticket, err := at.Admit(1, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return newSide(t, func(h side) gatewayConn {
		c, err := client.Dial(context.Background(), client.Config{Address: at.Address(), Agent: h.home.Agent, JoinTicket: ticket})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}, at.Address(), name)
}

func TestOwnersAtTwoRelaysWorkForEachOther(t *testing.T) { // R3
	one, two := closed(t, "one"), closed(t, "two")
	ann, ben := memberOf(t, one, "Ann"), memberOf(t, two, "Ben")
	inv, _, err := manifest.ParseInviteToken(ann.invite())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ben.g.Contacts(t.Context(), gateway.Owner, gateway.None{}); err != nil || inv.Relay.Did == ben.home.Certified().Relay.Did {
		t.Fatal("the two are at one relay")
	}
	for _, s := range []*side{ann, ben} {
		s.reach = reaching(t, s)
		s.restart()
	}
	ben.worker(t)
	ben.redeem(ann.invite())
	ben.confirm()
	ann.confirm()
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	ben.until("completed", func() bool { return ben.state(p.Task).Outcome == "completed" })
	ann.verifies(p.Task)
	ben.verifies(p.Task)
	if n := len(one.Members()) + len(two.Members()); n != 2 {
		t.Errorf("%d members: writing to a contact made somebody a member", n)
	}
}
