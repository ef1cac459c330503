package server_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
	"sealbridge/signing"
	"sealbridge/spec"
)

// authority is a certificate authority of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	pair := issue(t, c, c, nil)
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

// issue makes a key and a certificate for it; without a parent's key it signs itself.
func issue(t *testing.T, c, parent *x509.Certificate, by *ecdsa.PrivateKey) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// server is a certificate for this machine.
func (a *authority) server(t *testing.T) tls.Certificate {
	return issue(t, &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * time.Minute),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, a.cert, a.key)
}

// shop is a relay's TLS configuration whose certificate can be renewed.
type shop struct {
	mu   sync.Mutex // guards cert
	cert tls.Certificate
}

func (s *shop) show(c tls.Certificate) { s.mu.Lock(); defer s.mu.Unlock(); s.cert = c }

func (s *shop) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		c := s.cert
		return &c, nil
	}}
}

func dialTLS(t *testing.T, at relay.Address, who signing.Signer, roots *x509.CertPool) (*client.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, client.Config{Address: at, Agent: who, RootCAs: roots})
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

// schemes are the two ways in.
func schemes(t *testing.T, run func(t *testing.T, ws bool)) {
	for name, ws := range map[string]bool{"tls": false, "wss": true} {
		t.Run(name, func(t *testing.T) { run(t, ws) })
	}
}

func startTLS(t *testing.T, ws bool, s *shop, change func(*server.Config)) *server.Server {
	return start(t, func(c *server.Config) {
		c.TLS, c.WebSocket, c.Admission = s.config(), ws, server.Open
		if change != nil {
			change(c)
		}
	})
}

func TestARelayIsDialledOverTLS(t *testing.T) {
	schemes(t, func(t *testing.T, ws bool) {
		ca := newAuthority(t)
		s := startTLS(t, ws, &shop{cert: ca.server(t)}, nil)
		if want := map[bool]string{false: "tls://", true: "wss://"}[ws]; !strings.HasPrefix(s.Address().URL, want) {
			t.Fatalf("address %s, want %s…", s.Address(), want)
		}
		a, err := dialTLS(t, s.Address(), ann, ca.pool)
		if err != nil {
			t.Fatal(err)
		}
		b, err := dialTLS(t, s.Address(), ben, ca.pool)
		if err != nil {
			t.Fatal(err)
		}
		relaytest.Ready(t, a, ann, ben)
		relaytest.Ready(t, b, ben, ann)
		e := relaytest.Envelope(ben, "over TLS", time.Now().Add(time.Hour))
		if _, err := a.Put(t.Context(), ben.DID(), e, ""); err != nil {
			t.Fatal(err)
		}
		if got := relaytest.Collect(t, b, 1); !bytes.Equal(got[0], e) {
			t.Error("another envelope came")
		}
		if s.Stats().Certificate <= 0 {
			t.Error("the days of the certificate are not told")
		}
		_, err = dialTLS(t, s.Address(), eve, x509.NewCertPool())
		relaytest.Want(t, "Dial to a certificate of nobody we know", err, spec.BadSignature)
	})
}

// middle is a man in the middle with a certificate that the client's authority
// vouches for. It ends TLS on both sides and keeps what it heard.
type middle struct {
	at string
	mu sync.Mutex // guards heard
	// what the client said in clear
	heard bytes.Buffer
}

func (m *middle) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.heard.Write(p)
}

func (m *middle) text() string { m.mu.Lock(); defer m.mu.Unlock(); return m.heard.String() }

func newMiddle(t *testing.T, cert tls.Certificate, to string, roots *x509.CertPool) *middle {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	m := &middle{at: l.Addr().String()}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := tls.Dial("tcp", to, &tls.Config{RootCAs: roots})
				if err != nil {
					return
				}
				defer out.Close()
				go func() { io.Copy(in, out); in.Close() }()
				io.Copy(io.MultiWriter(m, out), in)
			}()
		}
	}()
	return m
}

// R3: who presents another TLS key is refused before the client has said who it
// is, even if every authority vouches for that key and it forwards a true hello.
func TestAManInTheMiddleHearsNothing(t *testing.T) {
	schemes(t, func(t *testing.T, ws bool) {
		ca := newAuthority(t)
		s := startTLS(t, ws, &shop{cert: ca.server(t)}, nil)
		u, err := url.Parse(s.Address().URL)
		if err != nil {
			t.Fatal(err)
		}
		m := newMiddle(t, ca.server(t), u.Host, ca.pool)
		_, err = dialTLS(t, relay.Address{URL: u.Scheme + "://" + m.at, DID: s.Address().DID}, ann, ca.pool)
		relaytest.Want(t, "Dial through another TLS key", err, spec.WrongSigner)
		if n := len(s.Members()); n != 0 {
			t.Errorf("the relay has %d members, want none: somebody logged in", n)
		}
		for _, secret := range []string{ann.DID().String(), relay.TokenOf(ann.DID()).String(), "relay-binding"} {
			if strings.Contains(m.text(), secret) {
				t.Errorf("the man in the middle heard %q", secret)
			}
		}
		if !ws && !strings.Contains(m.text(), "sb.hello.") { // over WebSocket it is masked
			t.Error("the man in the middle was not there: the test shows nothing")
		}
	})
}

// A connection that came to be before the man in the middle does not fall to
// him when it comes back.
func TestAManInTheMiddleIsRefusedOnReconnect(t *testing.T) {
	ca := newAuthority(t)
	dir := t.TempDir()
	s := startTLS(t, false, &shop{cert: ca.server(t)}, func(c *server.Config) { c.Dir = dir })
	a, err := dialTLS(t, s.Address(), ann, ca.pool)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(s.Address().URL)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	other := startTLS(t, false, &shop{cert: ca.server(t)}, func(c *server.Config) { c.Listen, c.Signer = u.Host, relaytest.Agent("another relay") })
	for limit := time.Now().Add(20 * time.Second); !strings.Contains(logins(t, other), `outcome="greeting"`); {
		if time.Now().After(limit) {
			t.Fatal("the client did not come back")
		}
		<-time.After(5 * time.Millisecond)
	}
	if a.Connected() || len(other.Members()) != 0 {
		t.Error("the client logged in at another relay")
	}
}

// A renewed certificate is shown to the next connection; the hello follows it,
// and who held the old one comes back by itself.
func TestARenewedCertificateIsTaken(t *testing.T) {
	schemes(t, func(t *testing.T, ws bool) {
		ca := newAuthority(t)
		sh := &shop{cert: ca.server(t)}
		s := startTLS(t, ws, sh, nil)
		a, err := dialTLS(t, s.Address(), ann, ca.pool)
		if err != nil {
			t.Fatal(err)
		}
		old, next := sh.cert, ca.server(t)
		if !vouches(a.Hello(), old) {
			t.Fatal("the hello does not name the key that we speak with")
		}
		sh.show(next)
		if err := a.DropDelete(t.Context(), strings.Repeat("ab", 16)); spec.ReasonOf(err) != spec.NotFound {
			t.Errorf("the open connection after a renewal: %v", err)
		}
		b, err := dialTLS(t, s.Address(), ben, ca.pool)
		if err != nil {
			t.Fatal(err)
		}
		if h := b.Hello(); !vouches(h, next) || vouches(h, old) {
			t.Errorf("the hello names %v", h.TLSKeys)
		}
		server.Kick(s, ann.DID()) // comes back with a hello of the old key in mind
		for limit := time.Now().Add(20 * time.Second); !a.Connected() || !vouches(a.Hello(), next); {
			if time.Now().After(limit) {
				t.Fatal("the client did not come back")
			}
			<-time.After(5 * time.Millisecond)
		}
	})
}

func vouches(h relay.Hello, c tls.Certificate) bool {
	return slices.Contains(h.TLSKeys, server.TLSKey(c.Leaf))
}

// Behind a proxy the relay stands behind the proxy's key, and only the proxy
// may come.
func TestBehindAProxy(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.server(t)
	proxy := httptest.NewUnstartedServer(nil)
	proxy.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	proxy.StartTLS()
	defer proxy.Close()
	var log bytes.Buffer
	s := start(t, func(c *server.Config) {
		c.WebSocket, c.Admission, c.URL = true, server.Open, strings.Replace(proxy.URL, "https://", "wss://", 1)
		c.TLSKeys = func() []signing.Digest { return []signing.Digest{server.TLSKey(cert.Leaf)} }
		c.Proxies = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	target, err := url.Parse(strings.Replace(server.Listening(s), "ws://", "http://", 1))
	if err != nil {
		t.Fatal(err)
	}
	proxy.Config.Handler = httputil.NewSingleHostReverseProxy(target)
	if _, err := dialTLS(t, s.Address(), ann, ca.pool); err != nil {
		t.Errorf("through the proxy: %v", err)
	}
	other := start(t, func(c *server.Config) { c.Proxies = []netip.Addr{netip.MustParseAddr("192.0.2.1")} })
	_, err = tryDial(t, other, ann, "")
	relaytest.Want(t, "Dial around the proxy", err, spec.NotPermitted)
	if n := len(other.Members()); n != 0 {
		t.Errorf("%d members came around the proxy", n)
	}
}

// No address of a client is written down, not even by the server below us.
func TestTheLogHasNoAddresses(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	s := start(t, func(c *server.Config) {
		c.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Admission = server.Invite
	})
	if _, err := tryDial(t, s, eve, "a ticket that is none"); err == nil {
		t.Fatal("logged in with a ticket that is none")
	}
	dial(t, s, ann)
	s.Close()
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(log.String(), "127.0.0.1") || !strings.Contains(log.String(), "authentication error") {
		t.Errorf("the log:\n%s", log.String())
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// logins is what /metrics says of them.
func logins(t *testing.T, s *server.Server) string {
	t.Helper()
	w := httptest.NewRecorder()
	server.Metrics(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var out []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "sealbridge_relay_logins_total") {
			out = append(out, line)
		}
	}
	return fmt.Sprint(out)
}
