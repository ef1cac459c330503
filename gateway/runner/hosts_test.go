package runner

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sealbridge/spec"
)

// world is an outside that is not there: names have the addresses that it says,
// and every address that is dialled leads to one server of the test's.
type world struct {
	t     *testing.T
	names map[string][]string
	to    string // of the server
	mu    sync.Mutex
	dials []string
	asked []string
}

// public is what Hosts is given for it: here, addresses that begin with 9.
func public(a netip.Addr) bool {
	return a.Is4() && a.As4()[0] == 9 || strings.HasPrefix(a.String(), "9000:")
}

func (w *world) hosts(allowed ...string) *Hosts {
	return &Hosts{
		Allowed: allowed, Public: public,
		Way: func(context.Context, string) (Way, error) { return Way{}, nil },
		Open: func(_ context.Context, _ *Box, host string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked = append(w.asked, host)
			return nil
		},
		Resolve: func(_ context.Context, host string) (out []netip.Addr, err error) {
			for _, a := range w.names[host] {
				out = append(out, netip.MustParseAddr(a))
			}
			if len(out) == 0 {
				err = errors.New("no such host")
			}
			return out, err
		},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			w.mu.Lock()
			w.dials = append(w.dials, to.String())
			w.mu.Unlock()
			if w.to == "" {
				return nil, errors.New("nobody there")
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", w.to)
		},
		Own: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("9.9.9.9")}, nil },
	}
}

// say sends raw bytes to the proxy and reads all that comes back.
func say(t *testing.T, h *Hosts, raw string) string {
	t.Helper()
	ours, theirs := pair(t)
	done := make(chan struct{})
	go func() { defer close(done); defer theirs.Close(); h.serve(t.Context(), nil, theirs) }()
	go func() { io.WriteString(ours, raw) }()
	got, _ := io.ReadAll(ours)
	ours.Close()
	<-done
	return string(got)
}

// pair is two ends of one connection that can be closed half.
func pair(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// client is an http client behind the proxy.
func client(t *testing.T, h *Hosts) *http.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer c.Close(); h.serve(t.Context(), nil, c) })
		}
	})
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String()}), DisableKeepAlives: true}
	t.Cleanup(func() { tr.CloseIdleConnections(); l.Close(); all.Wait() })
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func TestTheProxyReachesTheHostsOfTheContract(t *testing.T) { // X2
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://other.example/", http.StatusFound)
			return
		}
		fmt.Fprintf(w, "%s %s at %s: %s; %v", r.Method, r.URL.Path, r.Host, body, r.Header)
	}))
	defer srv.Close()
	w := &world{t: t, names: map[string][]string{"api.example": {"9.1.1.1"}}, to: srv.Listener.Addr().String()}
	h := w.hosts("api.example")
	resp, err := client(t, h).Post("http://api.example/x", "text/plain", strings.NewReader("rows"))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if want := "POST /x at api.example: rows"; resp.StatusCode != 200 || !strings.HasPrefix(string(got), want) || strings.Contains(string(got), "Proxy") {
		t.Errorf("plain: %d %q, want %q…", resp.StatusCode, got, want)
	}
	resp, err = client(t, h).Get("http://api.example/away")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusFound || resp.Header.Get("Location") != "http://other.example/" {
		t.Errorf("a redirect: %d to %q, want it handed on and not followed", resp.StatusCode, resp.Header.Get("Location"))
	}
	got2 := say(t, h, "CONNECT API.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\nGET /in HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got2, "HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK") || !strings.Contains(got2, "GET /in at x") {
		t.Errorf("CONNECT: %q", got2)
	}
	if want := []string{"9.1.1.1:80", "9.1.1.1:80", "9.1.1.1:443"}; !slices.Equal(w.dials, want) {
		t.Errorf("dialled %v, want %v", w.dials, want)
	}
	r := h.Reached()
	if len(r) != 2 || r[0].Host != "api.example" || r[0].Port != 80 || r[0].Connections != 2 || r[0].Sent == 0 || r[0].Received == 0 ||
		r[1].Port != 443 || r[1].Connections != 1 || r[1].Addresses[0].String() != "9.1.1.1" || h.Refused() != 0 {
		t.Errorf("Reached = %+v, refused %d", r, h.Refused())
	}
}

func TestTheHostThatIsServedIsTheHostThatWasOpened(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "for ", r.Host, r.Header) }))
	defer srv.Close()
	w := &world{t: t, names: map[string][]string{"api.example": {"9.1.1.1"}}, to: srv.Listener.Addr().String()}
	h := w.hosts("api.example")
	got := say(t, h, "GET http://api.example/ HTTP/1.1\r\nHost: other.example\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\nProxy-Authorization: Basic eA==\r\nExpect: 100-continue\r\n\r\n")
	if !strings.HasSuffix(got, "for api.examplemap[Connection:[close]]") {
		t.Errorf("a Host that differs: %q", got)
	}
	// A second request on the connection is not served: the first ends it.
	got = say(t, h, "GET http://api.example/1 HTTP/1.1\r\nHost: a\r\n\r\nGET http://api.example/2 HTTP/1.1\r\nHost: a\r\n\r\n")
	if strings.Count(got, "for api.example") != 1 {
		t.Errorf("two requests on one connection: %q", got)
	}
}

func TestWhatIsNotOfTheContractIsRefused(t *testing.T) { // X1, X2
	w := &world{t: t, names: map[string][]string{
		"api.example": {"9.1.1.1"}, "localhost": {"127.0.0.1"}, "private.example": {"10.0.0.1", "192.168.1.1"}, "own.example": {"9.9.9.9"},
		"mapped.example": {"::ffff:10.0.0.1"}, "zone.example": {"fe80::1%eth0"}, "none.example": {},
	}}
	h := w.hosts("api.example", "localhost", "private.example", "own.example", "mapped.example", "zone.example", "none.example", "127.0.0.1", "9.2.2.2", "9000::1", "::1", "0.0.0.0")
	for _, test := range []struct {
		name, target string
		status       int
	}{
		{"another host", "other.example:443", 403},
		{"a name below", "x.api.example:443", 403},
		{"a name above", "example:443", 403},
		{"a trailing dot", "api.example.:443", 403},
		{"a port of mail", "api.example:25", 403},
		{"ssh", "api.example:22", 403},
		{"port 0", "api.example:0", 403},
		{"a port that is none", "api.example:65979", 400},
		{"a port in another spelling", "api.example:0443", 400},
		{"a port with a sign", "api.example:+443", 400},
		{"a port by name", "api.example:https", 400},
		{"no port", "api.example", 400},
		{"loopback by name", "localhost:443", 403},
		{"loopback by address", "127.0.0.1:80", 403},
		{"loopback in octal", "0177.0.0.1:80", 403},
		{"loopback in hex", "0x7f.0.0.1:80", 403},
		{"loopback as one number", "2130706433:80", 403},
		{"loopback cut short", "127.1:80", 403},
		{"loopback with a dot", "127.0.0.1.:80", 403},
		{"loopback of IPv6", "[::1]:80", 403},
		{"mapped loopback", "[::ffff:127.0.0.1]:80", 403},
		{"mapped, another spelling", "[::ffff:7f00:1]:80", 403},
		{"any address", "0.0.0.0:80", 403},
		{"an address of IPv6 in another spelling", "[9000:0::1]:80", 403},
		{"an address with a zone", "[9000::1%25eth0]:80", 403},
		{"private addresses", "private.example:443", 403},
		{"our own address", "own.example:443", 403},
		{"a mapped private address", "mapped.example:443", 403},
		{"a link-local address", "zone.example:443", 403},
		{"no address", "none.example:443", 502},
		{"nobody answers", "api.example:443", 502},
		{"an address that is listed", "9.2.2.2:443", 502},
		{"an address of IPv6", "[9000::1]:443", 502},
	} {
		got := say(t, h, "CONNECT "+test.target+" HTTP/1.1\r\nHost: "+test.target+"\r\n\r\n")
		if want := fmt.Sprintf("HTTP/1.1 %d ", test.status); !strings.HasPrefix(got, want) {
			t.Errorf("%s, %s: %q, want %s", test.name, test.target, got, want)
		}
	}
	if want := []string{"9.1.1.1:443", "9.2.2.2:443", "[9000::1]:443"}; !slices.Equal(w.dials, want) {
		t.Errorf("dialled %v, want only %v", w.dials, want)
	}
	asked := slices.DeleteFunc(slices.Clone(w.asked), func(host string) bool { return host != "api.example" })
	if len(asked) != 1 || slices.Contains(w.asked, "other.example") { // once, for the only port that may be
		t.Errorf("asked about %v", w.asked)
	}
	for name, raw := range map[string]string{
		"no proxy request":      "GET / HTTP/1.1\r\nHost: api.example\r\n\r\n",
		"https in the clear":    "GET https://api.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n",
		"a file":                "GET file:///etc/passwd HTTP/1.1\r\nHost: api.example\r\n\r\n",
		"ftp":                   "GET ftp://api.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n",
		"a user":                "GET http://u:p@api.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n",
		"a user that is a host": "GET http://api.example@other.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n",
		"an empty port":         "GET http://api.example:/ HTTP/1.1\r\nHost: api.example\r\n\r\n",
		"a header too long":     "GET http://api.example/ HTTP/1.1\r\nX: " + strings.Repeat("x", maxHead) + "\r\n\r\n",
		"noise":                 rand.Text() + "\r\n\r\n",
		"socks":                 "\x05\x01\x00\r\n\r\n",
	} {
		if got := say(t, h, raw); !strings.HasPrefix(got, "HTTP/1.1 4") || strings.HasPrefix(got, "HTTP/1.1 404") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if len(w.dials) != 3 {
		t.Errorf("dialled %v", w.dials)
	}
}

func TestANameIsResolvedOnceAndThatAddressIsDialled(t *testing.T) { // X2: rebinding
	w := &world{t: t, names: map[string][]string{"api.example": {"9.1.1.1"}}}
	h := w.hosts("api.example")
	turn := 0
	answers := [][]string{{"9.1.1.1"}, {"10.0.0.1"}, {"127.0.0.1", "9.3.3.3"}, {"169.254.169.254"}}
	h.Resolve = func(context.Context, string) (out []netip.Addr, err error) {
		for _, a := range answers[turn] {
			out = append(out, netip.MustParseAddr(a))
		}
		turn++
		return out, nil
	}
	for range answers {
		say(t, h, "CONNECT api.example:443 HTTP/1.1\r\n\r\n")
	}
	if want := []string{"9.1.1.1:443", "9.3.3.3:443"}; !slices.Equal(w.dials, want) || turn != len(answers) {
		t.Errorf("dialled %v, want only %v; resolved %d times, want once a connection", w.dials, want, turn)
	}
}

func TestOnlyTheOwnersRulesReachAPrivateAddress(t *testing.T) { // X2
	w := &world{t: t, names: map[string][]string{"wiki.corp": {"10.0.0.7", "10.0.1.7", "127.0.0.1"}, "own.corp": {"9.9.9.9"}}}
	h := w.hosts("wiki.corp", "own.corp")
	h.Way = func(_ context.Context, host string) (Way, error) {
		return Way{Ports: []uint16{8080}, Private: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("9.9.9.9/32")}}, nil
	}
	say(t, h, "CONNECT wiki.corp:8080 HTTP/1.1\r\n\r\n")
	say(t, h, "CONNECT own.corp:80 HTTP/1.1\r\n\r\n")
	if want := []string{"10.0.0.7:8080", "9.9.9.9:80"}; !slices.Equal(w.dials, want) {
		t.Errorf("dialled %v, want %v", w.dials, want)
	}
}

func TestANoIsTold(t *testing.T) { // X1
	w := &world{t: t, names: map[string][]string{"api.example": {"9.1.1.1"}}}
	h := w.hosts("api.example")
	h.Open = func(context.Context, *Box, string) error {
		return spec.Refuse(spec.GateDenied, "", "her words stay here")
	}
	got := say(t, h, "CONNECT api.example:443 HTTP/1.1\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, "gate-denied") || strings.Contains(got, "her words") || len(w.dials) != 0 || h.Refused() != 1 {
		t.Errorf("a no: %q, dialled %v, refused %d", got, w.dials, h.Refused())
	}
	h.Way = func(context.Context, string) (Way, error) { return Way{}, spec.Refuse(spec.PolicyDenied, "", "") }
	if got := say(t, h, "CONNECT api.example:443 HTTP/1.1\r\n\r\n"); !strings.Contains(got, "policy-denied") {
		t.Errorf("a rule's no: %q", got)
	}
}

func TestARunTakesNoMoreThanItsConnectionsAndBytes(t *testing.T) {
	w := &world{t: t, names: map[string][]string{"api.example": {"9.1.1.1"}}}
	h := w.hosts("api.example")
	h.count.Store(MaxConnections - 1)
	say(t, h, "CONNECT api.example:443 HTTP/1.1\r\n\r\n")
	if got := say(t, h, "CONNECT api.example:443 HTTP/1.1\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 429 ") || len(w.dials) != 1 {
		t.Errorf("one connection too many: %q", got)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, io.LimitReader(rand.Reader, 1<<20)) }))
	defer srv.Close()
	w.to = srv.Listener.Addr().String()
	h = w.hosts("api.example")
	h.got.Store(MaxReachBytes - 1000)
	if got := say(t, h, "CONNECT api.example:80 HTTP/1.1\r\n\r\nGET / HTTP/1.0\r\n\r\n"); len(got) > 64<<10 {
		t.Errorf("%d bytes past the limit", len(got))
	}
}

func TestASlowHeadLosesItsSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		ours, theirs := net.Pipe()
		begin := time.Now()
		var slow sync.WaitGroup
		defer slow.Wait()
		slow.Go(func() {
			for _, c := range "CONNECT api.example:443 HTTP/1.1\r\nX-Slow: " + strings.Repeat("x", 100) {
				if _, err := ours.Write([]byte(string(c))); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		go func() { defer theirs.Close(); w.hosts("api.example").serve(t.Context(), nil, theirs) }()
		got, _ := io.ReadAll(ours)
		if took := time.Since(begin); took != headTime || !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
			t.Errorf("%q after %v, want an end after %v", got, took, headTime)
		}
	})
}

func TestAHostThatSaysNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, names: map[string][]string{"api.example": {"9.1.1.1"}}}
		h := w.hosts("api.example")
		h.Dial = func(context.Context, netip.AddrPort) (net.Conn, error) {
			a, b := net.Pipe()
			go io.Copy(io.Discard, b)
			return a, nil
		}
		ours, theirs := net.Pipe()
		begin := time.Now()
		go func() { defer theirs.Close(); h.serve(t.Context(), nil, theirs) }()
		io.WriteString(ours, "CONNECT api.example:443 HTTP/1.1\r\n\r\n")
		in := bufio.NewReader(ours)
		if line, _ := in.ReadString('\n'); !strings.Contains(line, "200") {
			t.Fatal(line)
		}
		io.Copy(io.Discard, in)
		if took := time.Since(begin); took != idleTime {
			t.Errorf("left after %v, want %v", took, idleTime)
		}
	})
}

func FuzzTheProxyDialsOnlyWhatIsAllowed(f *testing.F) { // X2
	for _, s := range []string{"CONNECT api.example:443 HTTP/1.1\r\n\r\n", "GET http://api.example/ HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT [::1]:80 HTTP/1.1\r\n\r\n",
		"GET http://api.example@evil.example/ HTTP/1.1\r\n\r\n", "CONNECT 0x7f.1:80 HTTP/1.1\r\n\r\n", "POST http://api.example:443/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		w := &world{t: t, names: map[string][]string{"api.example": {"9.1.1.1"}, "bad.example": {"10.0.0.1"}}}
		h := w.hosts("api.example", "bad.example")
		ours, theirs := net.Pipe()
		go func() { io.WriteString(ours, raw); ours.Close() }()
		go io.Copy(io.Discard, ours)
		h.serve(t.Context(), nil, theirs)
		theirs.Close()
		for _, d := range w.dials {
			if d != "9.1.1.1:80" && d != "9.1.1.1:443" {
				t.Errorf("%q dialled %s", raw, d)
			}
		}
	})
}
