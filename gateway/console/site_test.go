package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"sealbridge/gateway/console"
	"sealbridge/manifest"
)

// behind asks the console as a proxy of the owner's own does: it keeps the Host.
func behind(s *console.Server, method, path, body string, change ...func(*http.Request)) *http.Response {
	r := httptest.NewRequest(method, "https://ann.example"+path, strings.NewReader(body))
	r.Host = "ann.example"
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "https://ann.example")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func TestTheConsoleBehindTheOwnersProxyIsASiteOfItsOwn(t *testing.T) { // A12
	ann, _ := owners(t)
	ann.propose("Count", "Count the lines")
	ask := ann.asked(manifest.ContractGate)
	ann.open()
	if res := behind(ann.s, http.MethodGet, "/", ""); res.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a name that config.yaml does not have: %s", res.Status)
	}
	s := console.New(console.Config{Gateway: ann.g, Port: 7811, AlsoAt: "https://ann.example", Now: ann.Clock.Now})
	ann.g.ConsoleAt(s.Origin())
	link, err := url.Parse(ann.link())
	must(t, err)
	res := behind(s, http.MethodGet, link.Path, "")
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Fatalf("logging in: %s %v", res.Status, res.Cookies())
	}
	c := res.Cookies()[0]
	if c.Name != "__Host-sealbridge" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("cookie %+v", c)
	}
	in := func(r *http.Request) { r.AddCookie(c) }
	page := behind(s, http.MethodGet, "/", "", in)
	if page.StatusCode != http.StatusOK {
		t.Fatalf("the page: %s", page.Status)
	}
	var text strings.Builder
	must(t, page.Write(&text))
	token := tokenIn.FindStringSubmatch(text.String())[1]
	form := url.Values{"token": {token}}.Encode()
	deny := "/asks/" + ask.AskID.String() + "/deny"
	for what, change := range map[string]func(*http.Request){
		"from the page on this machine": set("Origin", s.Origin()),
		"without TLS":                   set("Origin", "http://ann.example"),
		"from another name":             set("Origin", "https://ann.example.evil.example"),
		"the cookie under a local name": func(r *http.Request) {
			r.Host = "localhost:7811"
			r.Header.Set("Origin", s.Origin())
		},
	} {
		if res := behind(s, http.MethodPost, deny, form, in, change); res.StatusCode < 400 {
			t.Errorf("%s: %s", what, res.Status)
		}
	}
	if ann.state(ask) != "open" {
		t.Fatalf("the ask is %s", ann.state(ask))
	}
	if res := behind(s, http.MethodPost, deny, form, in); res.StatusCode >= 400 {
		t.Errorf("a no: %s", res.Status)
	}
	if ann.state(ask) != "denied" {
		t.Errorf("the ask is %s, want denied", ann.state(ask))
	}
}
