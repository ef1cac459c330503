package console_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/artifact"
	"sealbridge/gateway/console"
	"sealbridge/gateway/home"
	"sealbridge/gateway/journal"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/relay/relaytest"
	"sealbridge/signing"
)

// owner is one person with a gateway of real parts, but for the relay.
type owner struct {
	t    testing.TB
	name string
	home *home.Home
	g    *gateway.Gateway
	now  *clock
	s    *console.Server
}

// clock runs, and can be put forward.
type clock struct {
	mu  sync.Mutex // guards off
	off time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	c.off += d
	c.mu.Unlock()
}

// agent is a program that works for others: it counts lines, and says what a hostile one might.
const agent = `#!/bin/sh
set -e
n=$(wc -l < in/sales.csv | tr -d ' ')
echo "lines,$n" > out/count.csv
printf '<script>document.title="pwned"</script>' > out/page.html
printf '{"output":{"lines":%s,"note":"<img src=x onerror=alert(1)>"},"evidence":[{"criterion":"ac_1","text":"counted <b>all</b>"}]}' "$n"
`

func newOwner(t testing.TB, mem *relaytest.Memory, name string, agents map[string]gateway.Agent) *owner {
	t.Helper()
	at := mem.Address()
	h, err := home.Create(filepath.Join(t.TempDir(), name), home.New{Name: name, Relay: manifest.RelayRef{Endpoint: at.URL, Did: at.DID}, Chance: rand.Reader, At: time.Now()})
	must(t, err)
	p, err := h.Policy()
	must(t, err)
	j, err := journal.Open(h.Journal())
	must(t, err)
	files, err := artifact.Open(h.Files())
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	run, err := runner.New(ctx, runner.Config{Dir: h.Work()})
	must(t, err)
	o := &owner{t: t, name: name, home: h, now: &clock{}}
	conn := mem.Conn(h.Agent)
	o.g, err = gateway.New(ctx, gateway.Config{Journal: j, Owner: h.Owner, Agent: h.Agent, Certificate: h.Certificate, Secrets: h, Courier: conn, Depot: conn,
		Files: files, Runner: run, Rules: gateway.Rules{Policy: p, Agents: agents}, Now: o.now.Now, Chance: rand.Reader, Log: slog.New(slog.DiscardHandler), Approvers: h})
	must(t, err)
	done := make(chan struct{})
	go func() { defer close(done); o.g.Run(ctx) }() //nolint:errcheck // ends with ctx
	t.Cleanup(func() { cancel(); <-done; j.Close(); files.Close() })
	return o
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// owners are Ann, who asks, and Ben, whose agent works; each confirmed the other.
func owners(t testing.TB) (ann, ben *owner) {
	t.Helper()
	mem := relaytest.NewMemory()
	script := filepath.Join(t.TempDir(), "count.sh")
	must(t, os.WriteFile(script, []byte(agent), 0o755))
	ann = newOwner(t, mem, "Ann", map[string]gateway.Agent{})
	ben = newOwner(t, mem, "Ben", map[string]gateway.Agent{"coder": {Command: []string{"/bin/sh", script}, ReadOnly: []string{filepath.Dir(script)}}})
	ben.redeem(ann.invite())
	for _, o := range []*owner{ben, ann} {
		o.until("a contact", func() bool {
			cs, err := o.g.Contacts(t.Context(), gateway.Owner, gateway.None{})
			must(t, err)
			if len(cs) == 0 {
				return false
			}
			_, err = o.g.ChangeContact(t.Context(), gateway.Owner, gateway.ContactChange{Name: cs[0].Name, Do: "confirm", Words: cs[0].Words})
			must(t, err)
			return true
		})
	}
	return ann, ben
}

func (o *owner) key() signing.Signer {
	k, _, err := o.home.OwnerSigner(nil)
	must(o.t, err)
	return k
}

func text128(t testing.TB) string {
	var b [16]byte
	_, err := rand.Read(b[:])
	must(t, err)
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (o *owner) invite() string {
	o.t.Helper()
	id, err := manifest.ParseInviteID("inv_" + strings.NewReplacer("-", "a", "_", "b").Replace(text128(o.t)))
	must(o.t, err)
	c := o.home.Certified()
	v, err := manifest.Sign(&manifest.Invite{Type: "sealbridge/invite", ProtocolVersion: manifest.ProtocolVersion, InviteID: id, OwnerDid: o.home.Owner, Relay: c.Relay,
		Secret: text128(o.t), Ticket: text128(o.t), ExpiresAt: signing.TimeOf(time.Now().Add(time.Hour)), NextKey: c.NextKey}, o.key(), time.Now())
	must(o.t, err)
	out, err := o.g.AddInvite(o.t.Context(), gateway.Owner, gateway.Document{Wire: v.Wire().String()})
	must(o.t, err)
	return out.Token
}

func (o *owner) redeem(token string) {
	o.t.Helper()
	inv, _, err := manifest.ParseInviteToken(token)
	must(o.t, err)
	k, _, err := o.home.BoxKey()
	must(o.t, err)
	v, err := manifest.Sign(&manifest.ContactRequest{Type: "sealbridge/contact-request", ProtocolVersion: manifest.ProtocolVersion, InviteID: inv.InviteID, OwnerDid: o.home.Owner,
		To: inv.OwnerDid, Proof: manifest.ContactProof(inv.Secret, inv.InviteID, inv.OwnerDid, o.home.Owner), Certificate: o.home.Certificate.Wire(), BoxKey: k,
		At: signing.TimeOf(time.Now())}, o.key(), time.Now())
	must(o.t, err)
	_, err = o.g.AddContact(o.t.Context(), gateway.Owner, gateway.Redemption{Token: token, Request: v.Wire().String()})
	must(o.t, err)
}

// until looks again whenever something may have been written.
func (o *owner) until(what string, ok func() bool) {
	o.t.Helper()
	late := time.After(60 * time.Second)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-late:
			o.t.Fatalf("%s: never %s", o.name, what)
		}
	}
}

// asked waits for an open ask of a gate.
func (o *owner) asked(gate manifest.Gate) (found approval.Ask) {
	o.t.Helper()
	o.until("asked "+string(gate), func() bool {
		as, err := o.g.Asks(o.t.Context(), gateway.Owner, false)
		must(o.t, err)
		for _, a := range as {
			if a.Ask.Gate == gate {
				found = a.Ask
				return true
			}
		}
		return false
	})
	return found
}

// allow says yes as a person does in a terminal.
func (o *owner) allow(gate manifest.Gate) {
	o.t.Helper()
	d := approval.Decide(o.asked(gate), approval.Allow, "passphrase", o.now.Now())
	v, err := manifest.Sign(&d, o.key(), o.now.Now())
	must(o.t, err)
	_, err = o.g.DecideGate(o.t.Context(), gateway.Owner, gateway.Answer{Decision: v.Wire().String()})
	must(o.t, err)
}

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
	o.s = console.New(console.Config{Gateway: o.g, Port: port, Now: o.now.Now,
		PolicyFile: func() (string, string, error) {
			b, err := os.ReadFile(filepath.Join(o.home.Dir, "policy.yaml"))
			must(o.t, err)
			p, err := o.home.Policy()
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
