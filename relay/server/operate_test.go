package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
	"sealbridge/signing"
	"sealbridge/spec"
)

func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "relay"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestARelayIsItsIdentityUnderTLS(t *testing.T) {
	cert, pool := certificate(t)
	for _, ws := range []bool{false, true} {
		s := start(t, func(c *server.Config) {
			c.TLS, c.WebSocket = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}, ws
		})
		if !s.Address().TLS() {
			t.Errorf("address %v", s.Address())
		}
		if _, err := relay.ParseAddress(s.Address().String()); err != nil {
			t.Errorf("ParseAddress(%v): %v", s.Address(), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c, err := client.Dial(ctx, client.Config{Address: s.Address(), Agent: ann, RootCAs: pool})
		if err != nil {
			t.Fatalf("%v: %v", s.Address(), err)
		}
		c.Close()
		other := relay.Address{URL: s.Address().URL, DID: ben.DID()}
		if _, err := client.Dial(ctx, client.Config{Address: other, Agent: ann, RootCAs: pool}); spec.ReasonOf(err) != spec.WrongSigner {
			t.Errorf("Dial of another relay at this address: %v, want wrong-signer", err)
		}
	}
}

func TestAWebSocketRelayServes(t *testing.T) {
	s := start(t, func(c *server.Config) { c.WebSocket = true })
	a, b := dial(t, s, ann), dial(t, s, ben)
	relaytest.Ready(t, b, ben, ann)
	if _, err := a.Put(t.Context(), ben.DID(), relaytest.Envelope(ben, "x", time.Now().Add(time.Hour)), ""); err != nil {
		t.Fatal(err)
	}
	relaytest.Collect(t, b, 1)
}

func TestAPlainListenerIsRefusedOffLoopback(t *testing.T) {
	c := config(t, func(c *server.Config) { c.Listen = "0.0.0.0:0" })
	if s, err := server.Start(t.Context(), c); err == nil {
		s.Close()
		t.Error("listening in clear for everybody")
	}
}

func TestAdmissionIsByInvitation(t *testing.T) {
	s := start(t, func(c *server.Config) { c.Admission = server.Invite })
	admin, err := server.DialAdmin(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	ticket, err := admin.Admit(ctx, 1, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tryDial(t, s, eve, "AAAAAAAAAAAAAAAAAAAAAA")
	relaytest.Want(t, "login with a wrong ticket", err, spec.NotPermitted)
	b, err := tryDial(t, s, ben, ticket)
	if err != nil {
		t.Fatal(err)
	}
	relaytest.Ready(t, b, ben, ann)
	_, err = tryDial(t, s, eve, ticket)
	relaytest.Want(t, "second use of the ticket", err, spec.NotPermitted)

	// A guest, whom Ben lists, may put and send files; another may not.
	a, err := tryDial(t, s, ann, "")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	e := relaytest.Envelope(ben, "x", time.Now().Add(time.Hour))
	if _, err := a.Put(ctx, ben.DID(), e, ""); err != nil {
		t.Errorf("a listed guest's put: %v", err)
	}
	id := strings.Repeat("cd", 16)
	if err := a.PutChunk(ctx, ben.DID(), id, 0, []byte("x")); err != nil {
		t.Errorf("a listed guest's chunk: %v", err)
	}
	g, err := tryDial(t, s, eve, "")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	relaytest.Want(t, "an unlisted guest's chunk", g.PutChunk(ctx, ben.DID(), id, 0, []byte("x")), spec.NotPermitted)
	relaytest.Want(t, "a guest's box-key", g.PublishKey(ctx, relaytest.KidOf(eve), []byte("x")), spec.NotPermitted)

	ms, err := admin.Members(ctx)
	if err != nil || len(ms) != 1 || ms[0].Key != ben.DID() || ms[0].Waiting != 1 {
		t.Errorf("Members = %+v, %v", ms, err)
	}
	tr, err := admin.Trace(ctx, signing.DigestOf(e).String())
	if err != nil || len(tr.Mail) != 1 || tr.Mail[0].Delivered {
		t.Errorf("Trace = %+v, %v", tr, err)
	}
	if err := admin.Forget(ctx, ben.DID()); err != nil {
		t.Fatal(err)
	}
	if tr, err := admin.Trace(ctx, ben.DID().String()); err != nil || tr.Member || len(tr.Mail) != 0 {
		t.Errorf("after Forget: %+v, %v", tr, err)
	}
	if err := admin.Ban(ctx, eve.DID(), "spam"); err != nil {
		t.Fatal(err)
	}
	_, err = tryDial(t, s, eve, "")
	relaytest.Want(t, "login of a banned key", err, spec.NotPermitted)
	b.Close()
}

func TestTheOpsPortTells(t *testing.T) {
	s := start(t, func(c *server.Config) { c.OpsListen = "127.0.0.1:0" })
	get := func(path string) (int, string) {
		r, err := http.Get("http://" + s.OpsAddress() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := get(path); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	dial(t, s, ann)
	dial(t, s, ann).DropGet(t.Context(), "none") //nolint:errcheck // refused, to be counted
	_, body := get("/metrics")
	for _, name := range []string{"sealbridge_relay_puts_total", "sealbridge_relay_refused_total", "sealbridge_relay_oldest_waiting_seconds",
		"sealbridge_relay_disk_free_bytes", "sealbridge_relay_taking 1", "sealbridge_relay_members 1", `sealbridge_relay_logins_total{outcome="accepted"} 2`} {
		if !strings.Contains(body, name) {
			t.Errorf("/metrics has no %s", name)
		}
	}
	if strings.Contains(body, relay.TokenOf(ann.DID()).String()) || strings.Contains(body, ann.DID().String()) {
		t.Error("/metrics names a key")
	}
}

func TestANearlyFullDiskTakesNothing(t *testing.T) {
	s := start(t, func(c *server.Config) { c.KeepFree = 0.999999999 }) // any disk with a file on it is too full
	if s.Stats().Taking {
		t.Error("taking")
	}
	b := dial(t, s, ben)
	relaytest.Ready(t, b, ben)
	_, err := b.Put(t.Context(), ben.DID(), relaytest.Envelope(ben, "x", time.Now().Add(time.Hour)), "")
	relaytest.Want(t, "Put on a full disk", err, spec.Unavailable)
}

func TestTheHumanPageFollowsTheConfiguration(t *testing.T) {
	s := start(t, func(c *server.Config) { c.Quotas.MailAge, c.Quotas.FileAge = 5*24*time.Hour, 3*24*time.Hour })
	for _, want := range []string{"at most 5 days", "At most 3 days", "who talks to whom", "After a power failure"} {
		if !strings.Contains(s.Human(), want) {
			t.Errorf("the page does not say %q:\n%s", want, s.Human())
		}
	}
}

func TestAGuestDialsNoAddressOfThisMachine(t *testing.T) { // X2
	s := start(t, nil)
	at := s.Address()
	for _, host := range []string{"127.0.0.1", "localhost"} {
		u, err := url.Parse(at.URL)
		if err != nil {
			t.Fatal(err)
		}
		to := relay.Address{URL: u.Scheme + "://" + net.JoinHostPort(host, u.Port()), DID: at.DID}
		c, err := client.Dial(t.Context(), client.Config{Address: to, Agent: relaytest.Agent("guest"), Guest: true})
		if err == nil {
			c.Close()
		}
		relaytest.Want(t, "Dial of "+host+" by a contact's word", err, spec.NotPermitted)
	}
	if c, err := client.Dial(t.Context(), client.Config{Address: at, Agent: relaytest.Agent("guest")}); err != nil {
		t.Errorf("Dial by the owner's own word: %v", err)
	} else {
		c.Close()
	}
}

// Who asks for the end hears the answer, however fast the end comes.
func TestDrainingIsAnswered(t *testing.T) {
	for range 20 {
		s := start(t, nil)
		a, err := server.DialAdmin(s.Dir())
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Drain(t.Context()); err != nil {
			t.Fatalf("Drain: %v", err)
		}
		s.Close()
	}
}
