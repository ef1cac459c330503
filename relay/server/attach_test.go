package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"sealbridge/relay"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
	"sealbridge/signing"
	"sealbridge/spec"
)

func attachKeys(t testing.TB) server.Attach {
	t.Helper()
	a, err := server.NewAttachKeys()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// operators is a stock server, told what we say that it has to be told.
func operators(t testing.TB, a server.Attach) *natsd.Server {
	t.Helper()
	text, err := a.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "nats.conf")
	text += fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q, max_file_store: 1GB, max_memory_store: 1MB }\n", filepath.Join(dir, "js"))
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := natsd.ProcessConfigFile(at)
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog = true, true
	ns, err := natsd.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the operator's server did not come up")
	}
	return ns
}

func attached(t testing.TB, change func(*server.Config)) *server.Server {
	t.Helper()
	a := attachKeys(t)
	ns := operators(t, a)
	a.URLs = []string{ns.ClientURL()}
	return start(t, func(c *server.Config) {
		c.Attach, c.URL, c.Listen, c.Admission = &a, ns.ClientURL(), "", server.Open
		if change != nil {
			change(c)
		}
	})
}

// The service on an operator's own server is the same relay.
func TestAnAttachedRelayKeepsTheContract(t *testing.T) {
	relaytest.Suite(t, func(t *testing.T) relaytest.Connector {
		s := attached(t, nil)
		return func(agent signing.Signer) relaytest.Conn { return dial(t, s, agent) }
	})
}

func TestAnAttachedRelayGivesNoRightsInTheStore(t *testing.T) {
	s := attached(t, nil)
	b := dial(t, s, ben)
	relaytest.Ready(t, b, ben, ann)
	refused := make(chan error, 100)
	kp, tok := session(t)
	nc, err := nats.Connect(s.Address().URL, nats.Nkey(tok.String(), kp.Sign), nats.Token(bind(t, eve, relayKey.DID(), tok, time.Now())),
		nats.CustomInboxPrefix(relay.Inbox(relay.TokenOf(eve.DID()))), nats.NoReconnect(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	evil, good := relay.TokenOf(eve.DID()).String(), relay.TokenOf(ben.DID()).String()
	publish := []string{"sb.put." + evil + "." + good, "sb.get." + good, "sb.ack." + good, relay.MailSubject(relay.TokenOf(ben.DID()), relay.TokenOf(eve.DID())), "sb.l.x", "sb.s.ban." + good,
		"$JS.API.STREAM.INFO.SBL", "$JS.API.STREAM.PURGE.SBM0", "$JS.API.DIRECT.GET.SBK", "$SYS.REQ.USER.AUTH", "$SYS.REQ.SERVER.PING", "sb.r." + good + ".x", "sb.alive"}
	subscribe := []string{">", "sb.>", "sb.put.*.*", "sb.r." + good + ".>", "sb.m.>", "$JS.>", "$SYS.>", "_INBOX.>"}
	for _, p := range publish {
		if err := nc.Publish(p, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	for _, sub := range subscribe {
		if _, err := nc.SubscribeSync(sub); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	for i := range len(publish) + len(subscribe) {
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("refusal %d: %v", i, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%d of %d were refused", i, len(publish)+len(subscribe))
		}
	}
}

func TestAnAttachedLoginFailsClosed(t *testing.T) {
	s := attached(t, func(c *server.Config) { c.Admission = server.Invite })
	kp, tok := session(t)
	other, _ := session(t)
	good := bind(t, eve, relayKey.DID(), tok, time.Now())
	for name, o := range map[string][]nats.Option{
		"nothing at all":                  {},
		"a binding without a session key": {nats.Token(good)},
		"a signature by another key":      {nats.Nkey(tok.String(), other.Sign), nats.Token(good)},
		"a binding for another relay":     {nats.Nkey(tok.String(), kp.Sign), nats.Token(bind(t, eve, ann.DID(), tok, time.Now()))},
		"a changed binding":               {nats.Nkey(tok.String(), kp.Sign), nats.Token(strings.Replace(good, eve.DID().String(), ben.DID().String(), 1))},
		"a ticket that is none":           {nats.Nkey(tok.String(), kp.Sign), nats.Token(good + "\nnone")},
	} {
		if nc, err := nats.Connect(s.Address().URL, append(o, nats.NoReconnect())...); err == nil {
			nc.Close()
			t.Errorf("login with %s: accepted", name)
		}
	}
	ticket, err := s.Admit(1, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryDial(t, s, eve, ticket); err != nil {
		t.Errorf("login with a ticket: %v", err)
	}
	if err := s.Ban(eve.DID(), "floods"); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(10 * time.Second); s.Stats().Connections > 0; { // KICK, by the system account
		if time.Now().After(limit) {
			t.Fatalf("%d connections after the ban", s.Stats().Connections)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestAnAccountHasOneRelay(t *testing.T) {
	a := attachKeys(t)
	ns := operators(t, a)
	a.URLs = []string{ns.ClientURL()}
	c := config(t, func(c *server.Config) { c.Attach, c.URL = &a, ns.ClientURL() })
	s, err := server.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	c2 := c
	c2.Dir = t.TempDir()
	_, err = server.Start(t.Context(), c2)
	relaytest.Want(t, "a second relay", err, spec.Conflict)
	s.Close()
	s, err = server.Start(t.Context(), c2)
	if err != nil {
		t.Fatalf("after the first ended: %v", err)
	}
	s.Close()
}

func TestWhatCannotBeAttachedSaysWhy(t *testing.T) {
	a := attachKeys(t)
	at := func(change func(*server.Attach), url string) error {
		x := a
		x.URLs = []string{"nats://127.0.0.1:1"}
		change(&x)
		_, err := server.Start(context.Background(), config(t, func(c *server.Config) { c.Attach, c.URL = &x, url }))
		return err
	}
	relaytest.Want(t, "nobody there", at(func(*server.Attach) {}, "nats://127.0.0.1:1"), spec.Unavailable)
	relaytest.Want(t, "no address for owners", at(func(*server.Attach) {}, ""), spec.Malformed)
	relaytest.Want(t, "two replicas", at(func(a *server.Attach) { a.Replicas = 2 }, "nats://127.0.0.1:1"), spec.Malformed)
	relaytest.Want(t, "a user as issuer", at(func(a *server.Attach) { a.Issuer = a.Service }, "nats://127.0.0.1:1"), spec.Malformed)
	relaytest.Want(t, "no server", at(func(a *server.Attach) { a.URLs = nil }, "nats://127.0.0.1:1"), spec.Malformed)
}

// An attached store may take an envelope whose answer is lost with a node. What
// came after it is not held up, and it is delivered too.
func TestAPutWhoseAnswerWasLostIsDelivered(t *testing.T) {
	s := attached(t, nil)
	a, b := dial(t, s, ann), dial(t, s, ben)
	relaytest.Ready(t, b, ben, ann)
	put(t, a, ben, "before")
	lost := relaytest.Envelope(ben, "its answer was lost", time.Now().Add(time.Hour))
	if err := server.Fill(s, 1, lost, func(int) signing.DID { return ben.DID() }, ann.DID()); err != nil {
		t.Fatal(err)
	}
	put(t, a, ben, "after")
	got := relaytest.Collect(t, b, 3)
	if string(got[1]) != string(lost) {
		t.Errorf("the second is %s", got[1])
	}
}
