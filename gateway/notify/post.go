package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sealbridge/spec"
)

// SecretPrefix stands before the base64 of a secret, as receivers of Standard Webhooks expect it.
const SecretPrefix = "whsec_"

// ParseSecret reads whsec_ and the base64 of 24 to 64 bytes.
func ParseSecret(text string) ([]byte, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), SecretPrefix)
	b, err := base64.StdEncoding.DecodeString(rest)
	if !ok || err != nil || len(b) < 24 || len(b) > 64 {
		return nil, spec.Refuse(spec.Malformed, "", "whsec_ and the base64 of 24 to 64 bytes")
	}
	return b, nil
}

// Signature is the value of webhook-signature: HMAC-SHA-256 over id, time and body (J11).
func Signature(secret []byte, id string, at time.Time, body []byte) string {
	m := hmac.New(sha256.New, secret)
	fmt.Fprintf(m, "%s.%d.", id, at.Unix())
	m.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// body is what a receiver gets: a number and ids of ours.
type body struct {
	V       int      `json:"v"`
	ID      string   `json:"id"`
	Count   int      `json:"count"`
	Waiting []string `json:"waiting"`
	Trial   bool     `json:"trial,omitempty"`
}

// post posts one note. It follows no redirect, uses no proxy, and connects only
// to an address that the row may mean.
func (t *Teller) post(ctx context.Context, w Way, n Note) error {
	u, err := address(w.URL)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(body{V: 1, ID: n.ID, Count: len(n.Waits), Waiting: n.Waits[:min(len(n.Waits), maxIDs)], Trial: n.Trial})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(raw))
	if err != nil {
		return plain(err)
	}
	at := t.now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sealbridge")
	req.Header.Set("webhook-id", n.ID)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	req.Header.Set("webhook-signature", Signature(t.secret, n.ID, at, raw))
	c := http.Client{Transport: transport(u.Hostname(), w.Private), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer c.CloseIdleConnections()
	res, err := c.Do(req)
	if err != nil {
		return plain(err)
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, 4<<10)) //nolint:errcheck // what it says beside its status is not read
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("answered %d", res.StatusCode)
	}
	return nil
}

func transport(host string, private bool) *http.Transport {
	named := loopback(host)
	if a, err := netip.ParseAddr(host); err == nil && !a.IsLoopback() {
		private, named = true, false // the row names the address itself
	}
	d := net.Dialer{Timeout: perWay, Control: func(_, to string, _ syscall.RawConn) error { // to is what was resolved, and what is dialled
		a, err := netip.ParseAddrPort(to)
		if err != nil {
			return err
		}
		return permitted(a.Addr().Unmap(), named, private)
	}}
	return &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: perWay, MaxResponseHeaderBytes: 16 << 10,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
}

// permitted holds an address against what the row means: this machine only by
// its name, the private network only where the row says so, and never what
// reaches no single host.
func permitted(a netip.Addr, loopbackNamed, private bool) error {
	no := func(what string) error { return spec.Refuse(spec.NotPermitted, "", what) }
	switch {
	case a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return no("not an address of one host")
	case a.IsLoopback() != loopbackNamed:
		return no("this machine, and nothing else, goes by the names localhost, 127.0.0.1 and [::1]")
	case a.IsLoopback(), private, public(a):
		return nil
	}
	return no("an address of a private network: `private: true` in the row says that it is meant")
}

// inner are networks that are nobody's on the open net, beyond what netip knows.
var inner = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("fec0::/10")}

func public(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range inner {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// plain takes the address out of an error: its path or query can be a secret.
func plain(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
