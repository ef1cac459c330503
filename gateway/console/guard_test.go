package console_test

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/console"
	"sealbridge/manifest"
	"sealbridge/spec"
)

func TestAnotherHostIsToldNothing(t *testing.T) {
	ann, _ := owners(t)
	ann.open()
	b := ann.loggedIn()
	port := strings.TrimPrefix(ann.s.Origin(), "http://localhost")
	for _, host := range []string{"evil.example" + port, "localhost", "localhost:1", "LOCALHOST.evil.example" + port, "localhost." + port, "0.0.0.0" + port} {
		res, page := b.get("/", set("Host", host))
		if res.StatusCode != http.StatusMisdirectedRequest || strings.Contains(page, "Waiting") {
			t.Errorf("Host %q: %s %q", host, res.Status, page)
		}
	}
	b.c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, host := range []string{"127.0.0.1" + port, "[::1]" + port} {
		res, _ := b.get("//evil.example/tasks?x=1", set("Host", host))
		if at := res.Header.Get("Location"); res.StatusCode != http.StatusTemporaryRedirect || !strings.HasPrefix(at, ann.s.Origin()+"/") {
			t.Errorf("Host %q: %s to %q, want %s", host, res.Status, at, ann.s.Origin())
		}
		if res, _ := b.do(http.MethodPost, "/logout", "", set("Host", host)); res.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("a post to %q: %s", host, res.Status)
		}
	}
}

func TestAPostFromElsewhereChangesNothing(t *testing.T) {
	ann, _ := owners(t)
	ann.propose("Count", "Count the lines")
	ask := ann.asked(manifest.ContractGate)
	ann.open()
	b := ann.loggedIn()
	deny := "/asks/" + ask.AskID.String() + "/deny"
	form := func() url.Values { return url.Values{"token": {b.token()}} }
	for what, change := range map[string][]func(*http.Request){
		"another origin":            {set("Origin", "https://evil.example")},
		"another port":              {set("Origin", "http://localhost:3000"), set("Sec-Fetch-Site", "same-site")},
		"another scheme":            {set("Origin", strings.Replace(ann.s.Origin(), "http:", "https:", 1))},
		"an opaque origin":          {set("Origin", "null")},
		"no origin":                 {set("Origin", "")},
		"no origin nor site":        {set("Origin", ""), set("Sec-Fetch-Site", "")},
		"a cross-site form":         {set("Sec-Fetch-Site", "cross-site")},
		"another page of this site": {set("Sec-Fetch-Site", "same-site")},
	} {
		if res, _ := b.post(deny, form(), change...); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s, want 403", what, res.Status)
		}
	}
	for what, f := range map[string]url.Values{"no token": {"token": {""}}, "another session's token": {"token": {ann.loggedIn().token()}}} {
		if res, _ := b.post(deny, f); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s, want 403", what, res.Status)
		}
	}
	if res, _ := b.get(deny + "?token=" + b.token()); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a no by a link: %s, want 405", res.Status)
	}
	stranger := ann.browser()
	if res, _ := stranger.do(http.MethodPost, deny, form().Encode()); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a session: %s, want 401", res.Status)
	}
	if s := ann.state(ask); s != "open" {
		t.Fatalf("the ask is %s", s)
	}
}

func TestNoAnswerCanBeFramedStoredOrScripted(t *testing.T) {
	ann, _ := owners(t)
	ann.propose("Count", "Count the lines")
	ask := ann.asked(manifest.ContractGate)
	ann.open()
	b := ann.loggedIn()
	for _, path := range []string{"/", "/decided", "/asks/" + ask.AskID.String(), "/asks/none", "/nowhere", "/login/used", "/static/console.js", "/static/console.css", "/static/none"} {
		res, page := b.get(path)
		csp := res.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: policy %q lacks %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("%s: policy %q", path, csp)
		}
		for name, want := range map[string]string{"X-Frame-Options": "DENY", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s: %s %q, want %q", path, name, got, want)
			}
		}
		for _, bad := range []string{" style=", " onclick=", "<style", "javascript:", "http://", "https://"} {
			if strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") && strings.Contains(page, bad) {
				t.Errorf("%s holds %q", path, bad)
			}
		}
	}
}

func TestAnotherPageCanOnlyLinkHere(t *testing.T) {
	ann, _ := owners(t)
	ann.open()
	b := ann.loggedIn()
	from := func(site, mode, dest string) []func(*http.Request) {
		return []func(*http.Request){set("Sec-Fetch-Site", site), set("Sec-Fetch-Mode", mode), set("Sec-Fetch-Dest", dest)}
	}
	for _, site := range []string{"cross-site", "same-site"} {
		for _, as := range [][2]string{{"navigate", "iframe"}, {"navigate", "object"}, {"no-cors", "image"}, {"no-cors", "script"}, {"cors", "empty"}, {"websocket", "websocket"}, {"", ""}} {
			for _, path := range []string{"/", "/static/console.js", "/events?after=1"} {
				if res, _ := b.get(path, from(site, as[0], as[1])...); res.StatusCode != http.StatusForbidden {
					t.Errorf("%s as %v of a %s page: %s, want 403", path, as, site, res.Status)
				}
			}
		}
		if res, _ := b.get("/", from(site, "navigate", "document")...); res.StatusCode != http.StatusOK {
			t.Errorf("a link on a %s page: %s", site, res.Status)
		}
	}
}

func TestALoginLinkOpensTheConsoleOnce(t *testing.T) { // G9
	ann, _ := owners(t)
	ann.open()
	link := strings.TrimPrefix(ann.link(), ann.s.Origin())
	for what, change := range map[string]func(*http.Request){
		"another site's link": set("Sec-Fetch-Site", "cross-site"), "another port's link": set("Sec-Fetch-Site", "same-site"), "a fetch ahead": set("Sec-Purpose", "prefetch"),
	} {
		b := ann.browser()
		if res, _ := b.get(link, set("Sec-Fetch-Mode", "navigate"), set("Sec-Fetch-Dest", "document"), change); res.StatusCode != http.StatusForbidden || len(res.Cookies()) > 0 {
			t.Errorf("%s: %s, %v", what, res.Status, res.Cookies())
		}
	}
	first, second := ann.browser(), ann.browser()
	first.c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, _ := first.get(link, set("Sec-Fetch-Site", "none"))
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Fatalf("the first use: %s, %v", res.Status, res.Cookies())
	}
	if c := res.Cookies()[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || len(c.Value) < 32 {
		t.Errorf("cookie %+v", c)
	}
	if res, page := second.get(link); res.StatusCode != http.StatusForbidden || len(res.Cookies()) > 0 || !strings.Contains(page, "used already") {
		t.Errorf("a replay: %s %v", res.Status, res.Cookies())
	}
	if res, _ := second.get("/"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("after a replay: %s, want 401", res.Status)
	}
	if res, _ := first.get("/"); res.StatusCode != http.StatusOK {
		t.Errorf("after the first use: %s, want 200", res.Status)
	}
}

func TestLinksAndSessionsEnd(t *testing.T) {
	ann, _ := owners(t)
	ann.open()
	late, b := strings.TrimPrefix(ann.link(), ann.s.Origin()), ann.loggedIn()
	ann.Clock.Forward(3 * time.Minute)
	if res, _ := ann.browser().get(late); res.StatusCode != http.StatusForbidden {
		t.Errorf("a link after three minutes: %s, want 403", res.Status)
	}
	ann.Clock.Forward(11 * time.Hour)
	if res, _ := b.get("/"); res.StatusCode != http.StatusOK {
		t.Errorf("a session within its day: %s", res.Status)
	}
	ann.Clock.Forward(time.Hour)
	if res, _ := b.get("/"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a session after twelve hours: %s, want 401", res.Status)
	}
	b = ann.loggedIn()
	token := b.token()
	if res, _ := b.post("/logout", url.Values{"token": {token}}); res.StatusCode != http.StatusOK {
		t.Errorf("logging out: %s", res.Status)
	}
	if res, _ := b.get("/"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("after logging out: %s, want 401", res.Status)
	}
}

func TestNoAgentGetsALinkSaysNoOrOpensAFile(t *testing.T) { // G9
	ann, _ := owners(t)
	ann.propose("Count", "Count the lines")
	ask := ann.asked(manifest.ContractGate).AskID.String()
	ann.open()
	by := gateway.Caller{Agent: "claude"}
	_, link := ann.g.Login(t.Context(), by, gateway.None{})
	_, no := ann.g.DenyGate(t.Context(), by, gateway.Denial{Ask: ask})
	_, _, look := ann.g.Peek(t.Context(), by, gateway.Peek{Ask: ask, Name: "count.csv"})
	for what, err := range map[string]error{"asks for a link": link, "says no": no, "opens a file": look} {
		if spec.ReasonOf(err) != spec.NotPermitted {
			t.Errorf("an agent %s: %v, want not-permitted", what, err)
		}
	}
}

func TestWithoutAConsoleThereIsNoLink(t *testing.T) {
	ann, _ := owners(t)
	if _, err := ann.g.Login(t.Context(), gateway.Owner, gateway.None{}); spec.ReasonOf(err) != spec.Unavailable {
		t.Errorf("%v, want unavailable", err)
	}
	ann.open()
	for range 16 {
		ann.link()
	}
	if _, err := ann.g.Login(t.Context(), gateway.Owner, gateway.None{}); spec.ReasonOf(err) != spec.Quota {
		t.Errorf("a seventeenth link: %v, want quota", err)
	}
	ann.Clock.Forward(2 * time.Minute)
	ann.link()
}

func TestThePortIsTakenWhole(t *testing.T) { // both addresses that localhost can mean, or none
	ls, at, err := console.Listen(0)
	must(t, err)
	for _, l := range ls {
		if !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
			t.Errorf("listens on %s", l.Addr())
		}
	}
	if _, _, err := console.Listen(at); spec.ReasonOf(err) != spec.Unavailable {
		t.Errorf("a port that is taken: %v, want unavailable", err)
	}
	last := ls[len(ls)-1]
	for _, l := range ls[:len(ls)-1] {
		l.Close()
	}
	if _, _, err := console.Listen(at); spec.ReasonOf(err) != spec.Unavailable {
		t.Errorf("with %s taken: %v, want unavailable", last.Addr(), err)
	}
	last.Close()
}

func TestALivePageNeedsASessionAndAPlace(t *testing.T) {
	ann, _ := owners(t)
	ann.open()
	b := ann.loggedIn()
	if res, _ := ann.browser().get("/events?after=1"); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a session: %s, want 401", res.Status)
	}
	for _, q := range []string{"", "?after=0", "?after=-1", "?after=x", "?after=99999999999999999999"} {
		if res, _ := b.get("/events" + q); res.StatusCode != http.StatusBadRequest {
			t.Errorf("after %q: %s, want 400", q, res.Status)
		}
	}
	streams := 0
	for ; streams < 40; streams++ {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, ann.s.Origin()+"/events?after=1", nil)
		must(t, err)
		res, err := b.c.Do(r)
		must(t, err)
		defer res.Body.Close()
		if res.StatusCode == http.StatusServiceUnavailable {
			break
		}
		first := make([]byte, len("event: moved\n"))
		if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "event: moved\n" {
			t.Fatalf("%q, %v", first, err)
		}
	}
	if streams != 32 {
		t.Errorf("%d live pages at once, want 32", streams)
	}
}
