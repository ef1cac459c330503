package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sealbridge/manifest"
)

// neighbour is a page of another program on this machine, at another port of
// the same name: to the browser the same site, so the session's cookie goes to both.
const neighbour = `<!doctype html><title>neighbour</title><iframe id="frame" name="frame"></iframe><pre id="told"></pre>
<form id="form" method="post" target="frame"><input name="reason" value="pwned"><input name="token" value="x"></form>
<script>
(async () => {
  const at = %q, ask = %q, told = {};
  const tag = (name, url) => new Promise(done => { const e = document.createElement(name); e.onload = () => done("came"); e.onerror = () => done("nothing"); e.src = url; document.body.append(e); });
  told.script = await tag("script", at + "/static/console.js");
  told.image = await tag("img", at + "/static/icon.svg");
  told.read = await fetch(at + ask, { credentials: "include" }).then(r => r.text(), () => "nothing");
  told.blind = await fetch(at + ask, { credentials: "include", mode: "no-cors" }).then(() => "came", () => "nothing");
  told.post = await fetch(at + ask + "/deny", { method: "POST", credentials: "include", body: new URLSearchParams({ reason: "pwned" }) }).then(r => r.text(), () => "nothing");
  told.events = await new Promise(done => { const e = new EventSource(at + "/events?after=1", { withCredentials: true }); e.onmessage = e.onopen = () => done("came"); e.onerror = () => { e.close(); done("nothing"); }; });
  const frame = document.getElementById("frame"), loaded = () => new Promise(done => { frame.onload = done; });
  frame.src = at + ask;
  await loaded();
  document.getElementById("form").action = at + ask + "/deny";
  document.getElementById("form").submit();
  await loaded();
  document.getElementById("told").textContent = Object.entries(told).map(e => e.join(" ")).join("\n");
  document.title = "done";
})();
</script>`

func TestInABrowserANeighboursPageReadsAndDoesNothing(t *testing.T) { // G9
	w := newWindow(t)
	ann, _ := owners(t)
	ann.propose("Count", "Count the lines")
	ask := ann.asked(manifest.ContractGate)
	ann.open()
	cookies := make(chan bool, 1)
	evil := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			_, err := r.Cookie("sealbridge-" + ann.s.Origin()[strings.LastIndexByte(ann.s.Origin(), ':')+1:])
			cookies <- err == nil
		}
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, neighbour, ann.s.Origin(), "/asks/"+ask.AskID.String())
	}))
	defer evil.Close()
	w.run(chromedp.Navigate(ann.link()), visible(".card"))
	w.run(chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)+"/"),
		chromedp.WaitVisible(chromedp.CSS("#told:not(:empty)")))
	told := get(w, chromedp.Text(chromedp.CSS("#told")))
	for _, what := range []string{"script", "image", "read", "blind", "post", "events"} {
		if !strings.Contains(told+"\n", what+" nothing\n") {
			t.Errorf("%s: %s", what, told)
		}
	}
	if s := ann.state(ask); s != "open" {
		t.Errorf("the ask is %s", s)
	}
	if !<-cookies { // else this test would say nothing about a page that has the cookie
		t.Error("the neighbour was not sent the cookie: spec/policy.md says that it is")
	}
	w.run(chromedp.Navigate(ann.s.Origin()+"/asks/"+ask.AskID.String()), visible("#deny"))
}

func TestInABrowserALinkOnAnotherSiteLeadsToItsAsk(t *testing.T) {
	w := newWindow(t)
	ann, _ := owners(t)
	ann.propose("Count", "Count the lines")
	ask := ann.asked(manifest.ContractGate)
	ann.open()
	chat := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, `<a id="card" href="%s/asks/%s">what your agent waits for</a>`, ann.s.Origin(), ask.AskID)
	}))
	defer chat.Close()
	w.run(chromedp.Navigate(ann.link()), visible(".card"))
	w.run(chromedp.Navigate(chat.URL), visible("#card"), chromedp.Click(chromedp.CSS("#card")), visible("#again"), chromedp.Click(chromedp.CSS("#again")), visible("#deny"))
	if at := w.at(); at != ann.s.Origin()+"/asks/"+ask.AskID.String() {
		t.Errorf("the browser is at %s", at)
	}
}
