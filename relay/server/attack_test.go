package server_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
	"sealbridge/signing"
	"sealbridge/spec"
)

func session(t testing.TB) (nkeys.KeyPair, relay.Token) {
	t.Helper()
	kp, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	pub, err := kp.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	tok, err := relay.ParseToken(pub)
	if err != nil {
		t.Fatal(err)
	}
	return kp, tok
}

func bind(t testing.TB, who signing.Signer, to signing.DID, s relay.Token, at time.Time) string {
	t.Helper()
	v, err := relay.Bind(relay.Binding{RelayDid: to, Session: s, ExpiresAt: signing.TimeOf(at.Add(time.Hour))}, who, at)
	if err != nil {
		t.Fatal(err)
	}
	return v.String()
}

// raw is a client that may do anything: what a stranger's own program would be.
func raw(t testing.TB, s *server.Server, who signing.Signer) *nats.Conn {
	t.Helper()
	kp, tok := session(t)
	nc, err := nats.Connect(s.Address().URL, nats.Nkey(tok.String(), kp.Sign), nats.Token(bind(t, who, relayKey.DID(), tok, time.Now())),
		nats.CustomInboxPrefix(relay.Inbox(relay.TokenOf(who.DID()))), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestLoginFailsClosed(t *testing.T) {
	s := start(t, nil)
	kp, tok := session(t)
	other, otherTok := session(t)
	now := time.Now()
	good := bind(t, eve, relayKey.DID(), tok, now)
	for name, o := range map[string][]nats.Option{
		"nothing at all":                  {},
		"a binding without a session key": {nats.Token(good)},
		"another session key":             {nats.Nkey(otherTok.String(), other.Sign), nats.Token(good)},
		"a signature by another key":      {nats.Nkey(tok.String(), other.Sign), nats.Token(good)},
		"a signature of another nonce":    {nats.Nkey(tok.String(), func([]byte) ([]byte, error) { return kp.Sign([]byte("abcdefghijk")) }), nats.Token(good)},
		"a binding for another relay":     {nats.Nkey(tok.String(), kp.Sign), nats.Token(bind(t, eve, ann.DID(), tok, now))},
		"an expired binding":              {nats.Nkey(tok.String(), kp.Sign), nats.Token(bind(t, eve, relayKey.DID(), tok, now.Add(-2*time.Hour)))},
		"a binding from the future":       {nats.Nkey(tok.String(), kp.Sign), nats.Token(bind(t, eve, relayKey.DID(), tok, now.Add(2*time.Minute)))},
		"a changed binding":               {nats.Nkey(tok.String(), kp.Sign), nats.Token(strings.Replace(good, eve.DID().String(), ben.DID().String(), 1))},
		"a user and a password":           {nats.UserInfo("service", "x")},
	} {
		nc, err := nats.Connect(s.Address().URL, append(o, nats.NoReconnect())...)
		if err == nil {
			nc.Close()
			t.Errorf("login with %s: accepted", name)
		}
	}
	nc, err := nats.Connect(s.Address().URL, nats.Nkey(tok.String(), kp.Sign), nats.Token(good))
	if err != nil {
		t.Fatalf("the good login: %v", err)
	}
	nc.Close()
}

// A session without a binding may ask who answers, and nothing else (R3).
func TestWithoutABindingThereIsTheHelloAndNothingElse(t *testing.T) {
	s := start(t, nil)
	kp, tok := session(t)
	refused := make(chan error, 100)
	nc, err := nats.Connect(s.Address().URL, nats.Nkey(tok.String(), kp.Sign), nats.CustomInboxPrefix(relay.Inbox(tok)), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m, err := nc.Request(relay.Subject(relay.VerbHello, relay.Token{}, tok), nil, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := relay.OpenHello(m.Data, relayKey.DID(), time.Now()); err != nil {
		t.Errorf("OpenHello: %v", err)
	}
	want := 0
	for _, v := range relay.MemberVerbs {
		if v != relay.VerbHello {
			want++
			if err := nc.PublishRequest(relay.Subject(v, relay.TokenOf(ben.DID()), tok), nc.NewInbox(), []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, subject := range []string{"$JS.API.INFO", "sb.hello." + relay.TokenOf(ben.DID()).String()} {
		want++
		if err := nc.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("refusal %d: %v", i, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%d of %d were refused", i, want)
		}
	}
	if n := len(s.Members()); n != 0 {
		t.Errorf("it became a member: %d", n)
	}
}

// The small-order key verifies a constant signature of anything under loose
// rules: it is no key of ours (I1).
func TestASmallOrderKeyDoesNotLogIn(t *testing.T) {
	s := start(t, nil)
	small := relay.TokenOfKey([32]byte{1}) // the identity point
	sig := make([]byte, 64)
	sig[0] = 1
	pub := make([]byte, 32)
	pub[0] = 1
	if !ed25519.Verify(pub, []byte("anything"), sig) {
		t.Fatal("the attack does not even work on plain Ed25519: the test shows nothing")
	}
	sign := func([]byte) ([]byte, error) { return sig, nil }
	v, err := relay.Bind(relay.Binding{RelayDid: relayKey.DID(), Session: small, ExpiresAt: signing.TimeOf(time.Now().Add(time.Hour))}, eve, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if nc, err := nats.Connect(s.Address().URL, nats.Nkey(small.String(), sign), nats.Token(v.String()), nats.NoReconnect()); err == nil {
		nc.Close()
		t.Error("a small-order session key logged in")
	}
	if _, err := relay.OpenBinding(v.Bytes(), relayKey.DID(), time.Now()); err == nil {
		t.Error("a binding of a small-order session key was opened")
	}
}

// Limits 5.2, nonce forwarding: a relay that Ben dials passes our nonce on and
// comes here with what Ben signed for it.
func TestALoginElsewhereIsNoLoginHere(t *testing.T) {
	s := start(t, nil)
	kp, tok := session(t)
	hostile := relaytest.Agent("hostile relay")
	theirs := bind(t, ben, hostile.DID(), tok, time.Now()) // all that Ben ever gives that relay
	nc, err := nats.Connect(s.Address().URL, nats.Nkey(tok.String(), kp.Sign), nats.Token(theirs), nats.NoReconnect())
	if err == nil {
		nc.Close()
		t.Error("a binding for another relay logged in")
	}
}

// Limits 5.2, signing oracle: whatever a relay sends as a nonce, the agent key
// signs only what we wrote.
func TestTheAgentKeyNeverSignsWhatAServerChose(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const nonce = `a-whole-manifest-as-a-nonce`
	sent := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "INFO {\"server_id\":\"X\",\"version\":\"2.15.2\",\"max_payload\":1048576,\"auth_required\":true,\"nonce\":%q}\r\n", nonce)
		buf := make([]byte, 8192)
		n, _ := c.Read(buf)
		sent <- string(buf[:n])
	}()
	spy := &spySigner{Signer: ben}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = client.Dial(ctx, client.Config{Address: relay.Address{URL: "nats://" + l.Addr().String(), DID: relayKey.DID()}, Agent: spy})
	if err == nil {
		t.Error("Dial of no relay succeeded")
	}
	connect := <-sent
	for _, input := range spy.signed {
		if strings.Contains(input, nonce) || !strings.Contains(input, "sealbridge/0.2.0/relay-binding") {
			t.Errorf("the agent key signed %q", input)
		}
	}
	if len(spy.signed) == 0 || strings.Contains(connect, relay.TokenOf(ben.DID()).String()) {
		t.Errorf("the agent key stood as a session key: %s", connect)
	}
}

type spySigner struct {
	signing.Signer
	signed []string
}

func (s *spySigner) Sign(input []byte) ([64]byte, error) {
	s.signed = append(s.signed, string(input))
	return s.Signer.Sign(input)
}

// Limits 5.1 and 5.2: everything that a logged-in stranger may try.
func TestAClientHasNoOtherRights(t *testing.T) {
	s := start(t, nil)
	b := dial(t, s, ben)
	relaytest.Ready(t, b, ben, ann)
	a := dial(t, s, ann)
	if _, err := a.Put(t.Context(), ben.DID(), relaytest.Envelope(ben, "secret", time.Now().Add(time.Hour)), ""); err != nil {
		t.Fatal(err)
	}
	U, V := relay.TokenOf(ben.DID()).String(), relay.TokenOf(ann.DID()).String()
	E := relay.TokenOf(eve.DID()).String()
	kp, tok := session(t)
	violations := make(chan string, 100)
	nc, err := nats.Connect(s.Address().URL, nats.Nkey(tok.String(), kp.Sign), nats.Token(bind(t, eve, relayKey.DID(), tok, time.Now())),
		nats.CustomInboxPrefix(relay.Inbox(relay.TokenOf(eve.DID()))), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err.Error() }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	shard := relay.MailPrefix(relay.TokenOf(ben.DID()))
	publishes := []string{
		"sb.put." + U + "." + V, "sb.get." + U, "sb.ack." + U, "sb.key.set." + U, "sb.list." + U, "sb.obj.drop." + U, "sb.drop.del." + U,
		shard + "." + E, "sb.o." + E + ".x.1", "sb.s.member." + E, "sb.l.x", "sb.r." + U + ".x",
		"$JS.API.STREAM.INFO.SBM0", "$JS.API.STREAM.MSG.GET.SBM0", "$JS.API.DIRECT.GET.SBM0", "$JS.API.STREAM.PURGE.SBM0", "$JS.API.STREAM.DELETE.SBM0",
		"$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.UPDATE.SBM0", "$JS.API.STREAM.SNAPSHOT.SBM0", "$JS.API.CONSUMER.CREATE.SBM0", "$JS.API.CONSUMER.MSG.NEXT.SBM0.x",
		"$SYS.REQ.SERVER.PING", "$SRV.PING",
	}
	for _, subject := range publishes {
		if err := nc.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	subscribes := []string{"sb.put." + U + ".*", "sb.>", ">", "sb.m.>", "sb.r." + U + ".>", "sb.r.*.>", "_INBOX.>", "$JS.>", "$SYS.>", "sb.n." + U}
	for _, subject := range subscribes {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if _, err := nc.QueueSubscribeSync(subject, "relay"); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	want := len(publishes) + 2*len(subscribes)
	deadline := time.After(10 * time.Second)
	for seen := 0; seen < want; seen++ {
		select {
		case <-violations:
		case <-deadline:
			t.Fatalf("%d of %d attempts were refused", seen, want)
		}
	}
	if got := s.Stats(); got.Waiting != 1 {
		t.Errorf("%d envelopes wait, want the one", got.Waiting)
	}
	if got := relaytest.Collect(t, b, 1); !strings.Contains(string(got[0]), base64.RawURLEncoding.EncodeToString([]byte("sealed secret"))) {
		t.Error("the mail was changed")
	}
}

// A refused right shows at once, never as a time-out.
func TestARefusedRightShowsAtOnce(t *testing.T) {
	s := start(t, func(c *server.Config) { c.Admission = server.Invite })
	e, err := tryDial(t, s, eve, "")
	if err != nil {
		t.Fatalf("a guest: %v", err)
	}
	defer e.Close()
	began := time.Now()
	relaytest.Want(t, "SetList of a guest", e.SetList(t.Context(), nil, nil), spec.NotPermitted)
	err = e.Receive(t.Context(), 1, func(context.Context, []byte) relay.Verdict { return relay.Ack })
	relaytest.Want(t, "Receive of a guest", err, spec.NotPermitted)
	if took := time.Since(began); took >= 3*time.Second {
		t.Errorf("refused after %v, as a time-out would be", took)
	}
}

// Limits 5.2, the reply-subject deputy: the server does not check where an
// answer goes, so a request could make the service write for its sender.
func TestAnAnswerGoesToNobodyElse(t *testing.T) {
	s := start(t, nil)
	b := dial(t, s, ben)
	relaytest.Ready(t, b, ben, ann, eve)
	nc := raw(t, s, eve)
	U, E := relay.TokenOf(ben.DID()), relay.TokenOf(eve.DID())
	own := relay.Inbox(E)
	for _, reply := range []string{
		relay.MailSubject(U, E), relay.MailSubject(U, relay.TokenOf(ann.DID())), relay.Inbox(U) + ".x", "sb.l.x", "sb.s.member." + E.String(),
		"$JS.API.STREAM.PURGE.SBM0", "$JS.API.STREAM.DELETE.SBM0", "_INBOX.x", "$SYS.REQ.SERVER.PING", "sb.put." + U.String() + "." + E.String(), "",
		own, own + ".", own + "x.y", own + ".a..b",
	} {
		m := nats.NewMsg(relay.Subject(relay.VerbPut, U, E))
		m.Reply, m.Data = reply, relaytest.Envelope(ben, "deputy "+reply, time.Now().Add(time.Hour))
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	// The service takes requests of one kind in order: after this answer all were seen.
	m, err := nc.Request(relay.Subject(relay.VerbPut, U, E), relaytest.Envelope(ben, "honest", time.Now().Add(time.Hour)), 5*time.Second)
	if err != nil || relay.Failed(m.Data) != nil {
		t.Fatalf("the honest put: %v, %v", err, relay.Failed(m.Data))
	}
	if got := s.Stats(); got.Waiting != 1 || got.Members != 2 {
		t.Errorf("%d envelopes, %d members, want 1, 2", got.Waiting, got.Members)
	}
}

// Limits 5.2, Msg-Id poisoning: no header of a client reaches the store.
func TestAForeignMessageIdSuppressesNothing(t *testing.T) {
	s := start(t, nil)
	b := dial(t, s, ben)
	relaytest.Ready(t, b, ben, ann, eve)
	U := relay.TokenOf(ben.DID())
	for _, who := range []signing.Signer{eve, ann} {
		m := nats.NewMsg(relay.Subject(relay.VerbPut, U, relay.TokenOf(who.DID())))
		m.Header.Set(nats.MsgIdHdr, "the same")
		m.Header.Set("Nats-Rollup", "all")
		m.Header.Set("Nats-Expected-Last-Sequence", "99")
		m.Header.Set("Nats-TTL", "1s")
		m.Data = relaytest.Envelope(ben, who.DID().String(), time.Now().Add(time.Hour))
		answer, err := raw(t, s, who).RequestMsg(m, 5*time.Second)
		if err != nil || relay.Failed(answer.Data) != nil {
			t.Fatalf("put: %v, %v", err, relay.Failed(answer.Data))
		}
	}
	relaytest.Collect(t, b, 2)
}

// The tag guards new mail from an old cursor; what was not handed over cannot
// be acknowledged.
func TestAnAckReachesOnlyWhatWasHandedOver(t *testing.T) {
	s := start(t, nil)
	a, b := dial(t, s, ann), dial(t, s, ben)
	relaytest.Ready(t, b, ben, ann)
	e := relaytest.Envelope(ben, "x", time.Now().Add(time.Hour))
	r, err := a.Put(t.Context(), ben.DID(), e, "")
	if err != nil {
		t.Fatal(err)
	}
	seq := uint64(r.Sequence)
	relaytest.Want(t, "Ack before Get", b.Ack(t.Context(), seq, relay.Tag(e)), spec.Stale)
	if ms, err := b.Get(t.Context(), 0, 0); err != nil || len(ms) != 1 || ms[0].From != relay.TokenOf(ann.DID()) {
		t.Fatalf("Get = %v, %v", ms, err)
	}
	relaytest.Want(t, "Ack with another tag", b.Ack(t.Context(), seq, relay.Tag([]byte("y"))), spec.Stale)
	relaytest.Want(t, "Ack past the end", b.Ack(t.Context(), seq+5, relay.Tag(e)), spec.Stale)
	if err := b.Ack(t.Context(), seq, relay.Tag(e)); err != nil {
		t.Errorf("Ack: %v", err)
	}
	if ms, err := b.Get(t.Context(), 0, 0); err != nil || len(ms) != 0 {
		t.Errorf("Get after Ack = %v, %v", ms, err)
	}
}

func TestASenderHasAShare(t *testing.T) {
	s := start(t, func(c *server.Config) { c.Quotas.PerSender = 3 })
	a, b, e := dial(t, s, ann), dial(t, s, ben), dial(t, s, eve)
	relaytest.Ready(t, b, ben, ann, eve)
	put := func(c *client.Conn, n int) error {
		_, err := c.Put(t.Context(), ben.DID(), relaytest.Envelope(ben, fmt.Sprint(n), time.Now().Add(time.Hour)), "")
		return err
	}
	for i := range 3 {
		if err := put(e, i); err != nil {
			t.Fatal(err)
		}
	}
	relaytest.Want(t, "Put past the share", put(e, 4), spec.Quota)
	if err := put(a, 5); err != nil {
		t.Errorf("another sender's put: %v", err)
	}
}

func TestAFlooderIsPutOut(t *testing.T) {
	s := start(t, func(c *server.Config) { c.Quotas.PutsPerSecond, c.Quotas.Refusals = 10, 100 })
	b := dial(t, s, ben)
	relaytest.Ready(t, b, ben, ann)
	nc := raw(t, s, eve)
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	go func() {
		m := nats.NewMsg(relay.Subject(relay.VerbPut, relay.TokenOf(ben.DID()), relay.TokenOf(eve.DID())))
		m.Reply, m.Data = relay.Inbox(relay.TokenOf(eve.DID()))+".x", []byte("flood")
		for nc.PublishMsg(m) == nil {
		}
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("a flooder was left connected")
	}
	if _, err := tryDial(t, s, eve, ""); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("the flooder's next login: %v, want not-permitted", err)
	}
	if _, err := dial(t, s, ann).Put(t.Context(), ben.DID(), relaytest.Envelope(ben, "polite", time.Now().Add(time.Hour)), ""); err != nil {
		t.Errorf("a polite put: %v", err)
	}
}

func TestTokensAreNATSUserKeys(t *testing.T) {
	for i := range 50 {
		d := relaytest.Agent(fmt.Sprint(i)).DID()
		key := d.Key()
		want, err := nkeys.Encode(nkeys.PrefixByteUser, key[:])
		if err != nil {
			t.Fatal(err)
		}
		tok := relay.TokenOf(d)
		if tok.String() != string(want) {
			t.Errorf("TokenOf(%v) = %v, want %s", d, tok, want)
		}
		if back, err := tok.DID(); err != nil || back != d {
			t.Errorf("%v.DID() = %v, %v", tok, back, err)
		}
	}
}

// What the relay stores of a put is the envelope as it came, and the envelope
// shows exactly the header.
func TestTheStoreHoldsTheEnvelopeAndNothingElse(t *testing.T) {
	s := start(t, nil)
	a, b := dial(t, s, ann), dial(t, s, ben)
	relaytest.Ready(t, b, ben, ann)
	e := relaytest.Envelope(ben, "x", time.Now().Add(time.Hour))
	if _, err := a.Put(t.Context(), ben.DID(), e, ""); err != nil {
		t.Fatal(err)
	}
	tr, err := s.Trace(ben.DID().String())
	if err != nil || len(tr.Mail) != 1 {
		t.Fatalf("Trace = %+v, %v", tr, err)
	}
	one := tr.Mail[0]
	if one.Digest != signing.DigestOf(e) || one.From != ann.DID() || one.To != ben.DID() || one.Size != len(e) {
		t.Errorf("Trace = %+v", one)
	}
	stored := server.Stored(s, ben.DID())
	if len(stored) != 1 || string(stored[0].Data) != string(e) || len(slices.DeleteFunc(keys(stored[0].Header), func(k string) bool { return strings.HasPrefix(k, "Nats-") })) != 0 {
		t.Errorf("stored: %+v", stored)
	}
}

func keys(h nats.Header) (out []string) {
	for k := range h {
		out = append(out, k)
	}
	return out
}
