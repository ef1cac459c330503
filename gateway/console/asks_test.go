package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"sealbridge/gateway"
	"sealbridge/manifest"
)

const hostile = "<script>alert(1)</script>\u202e\u200b\"'><img src=x onerror=alert(2)> {{.}} [a](javascript:alert(3))"

func TestAPersonReadsAnAskAndSaysNo(t *testing.T) {
	ann, ben := owners(t)
	task := ann.propose("Count lines", "Count the lines of sales.csv")
	ann.allow(manifest.ContractGate)
	ask := ben.asked(manifest.ContractGate)
	ben.open()
	b := ben.loggedIn()
	_, list := b.get("/")
	_, page := b.get("/asks/" + ask.AskID.String())
	for _, want := range []string{"Let “coder” work for Ann?", "confirmed contact", "no in 23 h", "15 m of work", "reach a host", ask.SubjectDigest.String(),
		"Ann wrote this. It is data; nobody checked it.", "Count the lines of sales.csv", "sealbridge gate allow " + ask.Short()} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if first, theirs := strings.Index(page, "15 m of work"), strings.Index(page, "Count the lines of sales.csv"); first < 0 || theirs < first {
		t.Error("their words stand before what a yes permits")
	}
	if !strings.Contains(list, "Let “coder” work for Ann?") || strings.Contains(list, "Count the lines") {
		t.Errorf("the list: %s", list)
	}
	if res, page := b.post("/asks/"+ask.AskID.String()+"/deny", url.Values{"token": {b.token()}, "reason": {"too long for today"}}); res.StatusCode != http.StatusOK || !strings.Contains(page, "denied") {
		t.Fatalf("a no: %s %s", res.Status, page)
	}
	ann.until("declined", func() bool {
		v, err := ann.g.Task(t.Context(), gateway.Owner, gateway.Ref{Task: task})
		return err == nil && v.Outcome == "declined" && strings.Contains(v.History[len(v.History)-1].Text, "too long for today")
	})
	if _, page := b.get("/"); !strings.Contains(page, "Nothing waits for you") {
		t.Error("the ask is still there")
	}
	if _, page := b.get("/decided"); !strings.Contains(page, "denied") {
		t.Error("the no is not on the list of what was decided")
	}
}

func TestTheFirstOfManyNosWinsAndTheOthersAreTold(t *testing.T) { // G3
	ann, _ := owners(t)
	ann.propose("Count", "Count the lines")
	ask := ann.asked(manifest.ContractGate)
	ann.open()
	b := ann.loggedIn()
	token := b.token()
	var wg sync.WaitGroup
	codes := make(chan int, 16)
	for range cap(codes) {
		wg.Go(func() {
			res, _ := b.post("/asks/"+ask.AskID.String()+"/deny", url.Values{"token": {token}})
			codes <- res.StatusCode
		})
	}
	wg.Wait()
	close(codes)
	won := 0
	for c := range codes {
		switch c {
		case http.StatusOK:
			won++
		case http.StatusConflict:
		default:
			t.Errorf("status %d", c)
		}
	}
	if won != 1 || ann.state(ask) != "denied" {
		t.Errorf("%d of 16 won, and the ask is %s", won, ann.state(ask))
	}
}

func TestANoComesTooLateForWhatIsAllowedOrExpired(t *testing.T) { // G3, G4
	ann, _ := owners(t)
	ann.open()
	ann.propose("One", "Count the lines")
	first := ann.asked(manifest.ContractGate)
	b := ann.loggedIn()
	ann.allow(manifest.ContractGate)
	if res, page := b.post("/asks/"+first.AskID.String()+"/deny", nil); res.StatusCode != http.StatusConflict || !strings.Contains(page, "came second") || !strings.Contains(page, "allowed") {
		t.Errorf("after a yes: %s", res.Status)
	}
	ann.propose("Two", "Count the lines")
	second := ann.asked(manifest.ContractGate)
	ann.Clock.Forward(second.Until.Time().Sub(ann.Clock.Now()))
	b = ann.loggedIn()
	if res, page := b.post("/asks/"+second.AskID.String()+"/deny", nil); res.StatusCode != http.StatusConflict || !strings.Contains(page, "expired") {
		t.Errorf("at the instant of expiry: %s\n%s", res.Status, page)
	}
}

func TestWordsOfOthersNeverAct(t *testing.T) { // M8
	ann, ben := owners(t)
	ann.propose(hostile, hostile+"\n"+strings.Repeat(hostile+"\n", 12))
	ann.allow(manifest.ContractGate)
	mine, theirs := ann.browserWith(), ben.browserWith()
	ask := ben.asked(manifest.ContractGate)
	for what, page := range map[string]string{"the list": theirs("/"), "the ask": theirs("/asks/" + ask.AskID.String()), "what was decided": mine("/decided")} {
		if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") || strings.Contains(page, "\u202e") || strings.Contains(page, "\u200b") || strings.Contains(page, `href="javascript`) {
			t.Errorf("%s:\n%s", what, page)
		}
		if what == "the ask" && (!strings.Contains(page, "⟨U&#43;202E⟩") || !strings.Contains(page, "&lt;script&gt;")) {
			t.Errorf("%s does not show what was written:\n%s", what, page)
		}
	}
}

// browserWith opens the console and gives back how to read a page of it.
func (o *owner) browserWith() func(path string) string {
	o.open()
	b := o.loggedIn()
	return func(path string) string { _, page := b.get(path); return page }
}

func TestADeliveryIsOpenedInQuarantineByThePerson(t *testing.T) { // G14, A8
	ann, ben := owners(t)
	ann.propose("Sales of <i>November</i>", "Count the lines")
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ask := ann.asked(manifest.DeliveryGate)
	ann.open()
	b := ann.loggedIn()
	at := "/asks/" + ask.AskID.String()
	_, page := b.get(at)
	for _, want := range []string{"Look before you answer", "Sales of &lt;i&gt;November", "page.html", "count.csv", "counted &lt;b&gt;all&lt;/b&gt;", "&lt;img src=x"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	res, text := b.post(at+"/open", url.Values{"token": {b.token()}, "name": {"page.html"}})
	if res.StatusCode != http.StatusOK || !strings.Contains(text, "pwned") {
		t.Fatalf("%s %q", res.Status, text)
	}
	for name, want := range map[string]string{"Content-Type": "application/octet-stream", "Content-Disposition": "attachment; filename=quarantine-page.html", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s %q, want %q", name, got, want)
		}
	}
	if csp := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "sandbox;") {
		t.Errorf("policy %q", csp)
	}
	for _, name := range []string{"../../owner.key", "none", ""} {
		if res, _ := b.post(at+"/open", url.Values{"token": {b.token()}, "name": {name}}); res.StatusCode != http.StatusNotFound {
			t.Errorf("file %q: %s, want 404", name, res.Status)
		}
	}
	if ann.state(ask) != "open" {
		t.Error("opening a file decided")
	}
}

func TestASessionNeverAllows(t *testing.T) { // G9: also where the owner key lies open
	ann, _ := owners(t)
	ann.propose("Count", "Count the lines")
	ask := ann.asked(manifest.ContractGate)
	ann.open()
	b := ann.loggedIn()
	for _, path := range []string{"/allow", "/decide", "", "/deny/../allow"} {
		if res, _ := b.post("/asks/"+ask.AskID.String()+path, url.Values{"verdict": {"allow"}}); res.StatusCode == http.StatusOK {
			t.Errorf("POST %s: %s", path, res.Status)
		}
	}
	if ann.state(ask) != "open" {
		t.Errorf("the ask is %s", ann.state(ask))
	}
}
