package console_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/gateway/console"
	"sealbridge/gateway/gatewaytest"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
)

// owner is one person with a gateway of real parts, and a console once it is open.
type owner struct {
	*gatewaytest.Side
	t testing.TB
	g *gateway.Gateway
	s *console.Server
}

// agent is a program that works for others: it counts lines, and says what a hostile one might.
const agent = `#!/bin/sh
set -e
n=$(wc -l < in/sales.csv | tr -d ' ')
echo "lines,$n" > out/count.csv
printf '<script>document.title="pwned"</script>' > out/page.html
printf '{"output":{"lines":%s,"note":"<img src=x onerror=alert(1)>"},"evidence":[{"criterion":"ac_1","text":"counted <b>all</b>"}]}' "$n"
`

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// owners are Ann, who asks, and Ben, whose agent works; each confirmed the other.
func owners(t testing.TB) (ann, ben *owner) {
	t.Helper()
	a, b := gatewaytest.Pair(t, agent)
	return &owner{Side: a, t: t, g: a.G}, &owner{Side: b, t: t, g: b.G}
}

// until looks again whenever something may have been written.
func (o *owner) until(what string, ok func() bool) {
	o.t.Helper()
	o.Until(what, func() error {
		if !ok() {
			return os.ErrNotExist
		}
		return nil
	})
}

// asked waits for an open ask of a gate.
func (o *owner) asked(gate manifest.Gate) approval.Ask { o.t.Helper(); return o.Ask(gate).Ask }

// allow says yes as a person does in a terminal.
func (o *owner) allow(gate manifest.Gate) { o.t.Helper(); o.Allow(gate) }

func (o *owner) state(ask approval.Ask) string {
	o.t.Helper()
	as, err := o.g.Asks(o.t.Context(), gateway.Owner, true)
	must(o.t, err)
	for _, a := range as {
		if a.Ask.AskID == ask.AskID {
			return a.State
		}
	}
	return ""
}

// propose asks Ben for something, in words that may be hostile.
func (o *owner) propose(title, goal string) string {
	o.t.Helper()
	in := filepath.Join(o.t.TempDir(), "sales.csv")
	must(o.t, os.WriteFile(in, []byte("a,1\nb,2\nc,3\n"), 0o600))
	out, err := o.g.Propose(o.t.Context(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: title, Goal: goal,
		Inputs: []manifest.DraftInput{{File: in}}, Output: map[string]any{"type": "object", "required": []any{"lines"}}, Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
	must(o.t, err)
	return out.Task
}

// open starts the console on a free port of loopback.
func (o *owner) open() {
	o.t.Helper()
	ls, port, err := console.Listen(0)
	must(o.t, err)
	o.s = console.New(console.Config{Gateway: o.g, Port: port, Now: o.Clock.Now,
		PolicyFile: func() (string, string, error) {
			b, err := os.ReadFile(filepath.Join(o.Home.Dir, "policy.yaml"))
			must(o.t, err)
			p, err := o.Home.Policy()
			return string(b), p.Digest().String(), err
		},
		Health: func(context.Context) []console.Finding {
			return []console.Finding{{What: "owner key", Text: "sealed", OK: true}}
		}})
	o.g.ConsoleAt(o.s.Origin())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- o.s.Serve(ctx, ls) }()
	o.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			o.t.Errorf("serving: %v", err)
		}
	})
}

func (o *owner) link() string {
	o.t.Helper()
	l, err := o.g.Login(o.t.Context(), gateway.Owner, gateway.None{})
	must(o.t, err)
	return l.URL
}

// browser is a client with a jar; it follows redirects as a browser does.
type browser struct {
	o *owner
	c *http.Client
}

func (o *owner) browser() *browser {
	jar, err := cookiejar.New(nil)
	must(o.t, err)
	return &browser{o, &http.Client{Jar: jar}}
}

func (o *owner) loggedIn() *browser {
	o.t.Helper()
	b := o.browser()
	if res, _ := b.get(strings.TrimPrefix(o.link(), o.s.Origin())); res.StatusCode != http.StatusOK {
		o.t.Fatalf("logging in: %s", res.Status)
	}
	return b
}

func (b *browser) do(method, path, body string, change ...func(*http.Request)) (*http.Response, string) {
	b.o.t.Helper()
	r, err := http.NewRequestWithContext(b.o.t.Context(), method, b.o.s.Origin()+path, strings.NewReader(body))
	must(b.o.t, err)
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", b.o.s.Origin())
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, f := range change {
		f(r)
	}
	res, err := b.c.Do(r)
	must(b.o.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(b.o.t, err)
	return res, string(text)
}

func (b *browser) get(path string, change ...func(*http.Request)) (*http.Response, string) {
	b.o.t.Helper()
	return b.do(http.MethodGet, path, "", change...)
}

// post sends a form with the token of the session's pages.
func (b *browser) post(path string, form url.Values, change ...func(*http.Request)) (*http.Response, string) {
	b.o.t.Helper()
	if form == nil {
		form = url.Values{}
	}
	if !form.Has("token") {
		form.Set("token", b.token())
	}
	return b.do(http.MethodPost, path, form.Encode(), change...)
}

var tokenIn = regexp.MustCompile(`name="token" value="([^"]+)"`)

func (b *browser) token() string {
	b.o.t.Helper()
	_, page := b.get("/")
	m := tokenIn.FindStringSubmatch(page)
	if m == nil {
		b.o.t.Fatalf("no token in %s", page)
	}
	return m[1]
}

func set(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		switch {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
}
