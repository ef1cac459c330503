package console_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/signing/passkey/passkeytest"
)

// shots is where the pictures of the pages go; without it they are taken and dropped.
var shots = flag.String("shots", "", "keep a picture of each page in this folder")

// chromium finds a browser. Without one a run that must pass (CI) fails and
// says what to install; elsewhere the test says what it leaves out.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil {
			return at
		}
	}
	const want = "no chromium: `apt-get install chromium` installs what this test drives"
	if os.Getenv("CI") != "" {
		t.Fatal(want)
	}
	t.Skip(want + "; the console is not looked at in a browser")
	return ""
}

// window is one browser with its own profile; complaints are what its pages
// said to the developer: scripts that failed, what the policy blocked.
type window struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex // guards complaints
	complaints []string
}

func newWindow(t *testing.T) *window {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-device-scale-factor", "1"))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	w := &window{t: t, ctx: ctx}
	w.hear()
	return w
}

// tab is another tab of the same browser: the same cookies.
func (w *window) tab() *window {
	w.t.Helper()
	ctx, stop := chromedp.NewContext(w.ctx)
	w.t.Cleanup(stop)
	n := &window{t: w.t, ctx: ctx}
	n.hear()
	return n
}

func (w *window) hear() {
	w.t.Helper()
	must(w.t, chromedp.Listen(w.ctx, func(e any) {
		say := ""
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			say = e.ExceptionDetails.Text
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError {
				say = e.Entry.Text + " " + e.Entry.URL
			}
		case *page.EventJavascriptDialogOpening:
			say = "a dialog: " + e.Message
		}
		if say != "" {
			w.mu.Lock()
			w.complaints = append(w.complaints, say)
			w.mu.Unlock()
		}
	}))
}

// bounded is the context of one step.
func (w *window) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.ctx, time.Minute)
}

// run does things in the window, one after the other.
func (w *window) run(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, stop := w.bounded()
	defer stop()
	if err := chromedp.Do(ctx, steps...); err != nil {
		ctx, stop := w.bounded()
		defer stop()
		html, _ := chromedp.Run(ctx, chromedp.OuterHTML(chromedp.CSS("html")))
		w.t.Fatalf("%v\n%v\n%s", err, w.said(), html)
	}
}

// get is what one action gives back.
func get[T any](w *window, a chromedp.Action[T]) T {
	w.t.Helper()
	ctx, stop := w.bounded()
	defer stop()
	v, err := chromedp.Run(ctx, a)
	must(w.t, err)
	return v
}

func (w *window) said() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.complaints...)
}

func (w *window) text() string { w.t.Helper(); return get(w, chromedp.Text(chromedp.CSS("main"))) }
func (w *window) at() string   { w.t.Helper(); return get(w, chromedp.Location()) }

// box is how large a part of the page is drawn.
func (w *window) box(id string) [2]int {
	w.t.Helper()
	return get(w, chromedp.Evaluate[[2]int](`(r => [Math.round(r.width), Math.round(r.height)])(document.getElementById("`+id+`").getBoundingClientRect())`))
}

// quiet: nothing failed and nothing was blocked.
func (w *window) quiet() {
	w.t.Helper()
	if s := w.said(); len(s) > 0 {
		w.t.Errorf("the browser complains: %q", s)
	}
}

// visible waits for a part of a page: pages change by themselves.
func visible(css string) chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(chromedp.CSS(css))
}

func TestInABrowserAPersonReadsAndDenies(t *testing.T) {
	w := newWindow(t)
	ann, ben := owners(t)
	task := ann.propose("Count lines", "Count the lines of sales.csv")
	ann.allow(manifest.ContractGate)
	ask := ben.asked(manifest.ContractGate)
	ben.open()
	link := ben.link()
	w.run(chromedp.Navigate(link), visible("#"+ask.AskID.String()))
	if w.at() != ben.s.Origin()+"/" {
		t.Fatalf("after the link the browser is at %s", w.at())
	}
	w.run(chromedp.KeyEvent("j"), visible(".card.marked"), chromedp.KeyEvent("v"), visible("#deny"))
	if s := w.text(); !strings.Contains(s, "Let “coder” work for Ann?") || !strings.Contains(s, "Count the lines of sales.csv") {
		t.Errorf("the ask reads: %s", s)
	}
	if no, yes := w.box("deny"), w.box("to-allow"); no != yes {
		t.Errorf("deny is %v and allow %v: not the same size", no, yes)
	}
	w.run(chromedp.KeyEvent("a"), chromedp.KeyEvent(kb.Enter))
	if s := ben.state(ask); s != "open" {
		t.Fatalf("keys alone made the ask %s", s)
	}
	w.run(chromedp.KeyEvent("d"))
	if s := ben.state(ask); s != "open" {
		t.Fatalf("one key made the ask %s", s)
	}
	w.run(chromedp.KeyEvent(kb.Enter), visible(".done .state.denied"))
	if s := ben.state(ask); s != "denied" {
		t.Errorf("the ask is %s", s)
	}
	ann.until("declined", func() bool {
		v, err := ann.g.Task(t.Context(), gateway.Owner, gateway.Ref{Task: task})
		return err == nil && v.Outcome == "declined"
	})
	w.quiet()
	w.run(chromedp.Navigate(link), visible(".out"))
	if s := w.text(); !strings.Contains(s, "used already") {
		t.Errorf("a replayed link shows %s", s)
	}
}

func TestInABrowserAPersonCountersWithLess(t *testing.T) { // G7
	w := newWindow(t)
	ann, ben := owners(t)
	task := ann.propose("Count lines", "Count the lines of sales.csv")
	ann.allow(manifest.ContractGate)
	ask := ben.asked(manifest.ContractGate)
	ben.open()
	w.run(chromedp.Navigate(ben.link()), visible(".card"), chromedp.Navigate(ben.s.Origin()+"/asks/"+ask.AskID.String()), visible("#deny"))
	w.run(chromedp.KeyEvent("c"), visible("#counter form"), chromedp.KeyEvent("soon"), chromedp.KeyEvent(kb.Enter), visible(".said"))
	if s := w.text(); !strings.Contains(s, "Nothing was decided") || ben.state(ask) != "open" {
		t.Fatalf("a slip of the pen: %s, %s", ben.state(ask), s)
	}
	w.run(chromedp.SetValue(chromedp.CSS("#counter [name='budget.time']"), "5m"), chromedp.Click(chromedp.CSS("#counter button")), visible(".done .state.denied"))
	ann.until("countered", func() bool {
		v, err := ann.g.Task(t.Context(), gateway.Owner, gateway.Ref{Task: task})
		return err == nil && v.Counter != nil && v.Counter.Terms[0].To == "5m"
	})
}

func TestInABrowserTwoTabsHaveOneOutcome(t *testing.T) { // G3
	w := newWindow(t)
	ann, _ := owners(t)
	ann.propose("Count", "Count the lines")
	ask := ann.asked(manifest.ContractGate)
	ann.open()
	w.run(chromedp.Navigate(ann.link()), visible(".card"))
	other := w.tab()
	at := ann.s.Origin() + "/asks/" + ask.AskID.String()
	w.run(chromedp.Navigate(at), visible("#deny"))
	other.run(chromedp.Navigate(at), visible("#deny"))
	// both press at once; a page that hears of the other's no first has no button left
	var wg sync.WaitGroup
	for _, one := range []*window{w, other} {
		wg.Go(func() { get(one, chromedp.Evaluate[any](`setTimeout(() => document.getElementById("deny")?.click())`)) })
	}
	wg.Wait()
	for _, one := range []*window{w, other} {
		one.run(visible(".done .state.denied"))
	}
	if s := ann.state(ask); s != "denied" {
		t.Errorf("the ask is %s", s)
	}
}

func TestInABrowserPagesAreLive(t *testing.T) {
	w := newWindow(t)
	ann, _ := owners(t)
	ann.open()
	w.run(chromedp.Navigate(ann.link()), visible(".empty"))
	ann.propose("Count", "Count the lines")
	ask := ann.asked(manifest.ContractGate)
	w.run(visible("#" + ask.AskID.String()))
	w.run(chromedp.Navigate(ann.s.Origin()+"/asks/"+ask.AskID.String()), visible("#deny"), chromedp.SendKeys(chromedp.CSS("[name=reason]"), "not today"))
	ann.allow(manifest.ContractGate) // in a terminal
	w.run(chromedp.Blur(chromedp.CSS("[name=reason]")), visible(".done .state.allowed"))
	w.quiet()
}

func TestInABrowserWordsOfOthersDoNothing(t *testing.T) { // M8
	w := newWindow(t)
	ann, ben := owners(t)
	task := ann.propose(hostile, hostile+"\n"+strings.Repeat(hostile+"\n", 12))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ask := ann.asked(manifest.DeliveryGate)
	ann.open()
	w.run(chromedp.Navigate(ann.link()), visible(".card"))
	for _, path := range []string{"/", "/decided", "/asks/" + ask.AskID.String(), "/tasks", "/tasks/" + task, "/contacts", "/policy", "/passkeys", "/health"} {
		w.run(chromedp.Navigate(ann.s.Origin()+path), visible("main"))
		get(w, chromedp.Evaluate[any](`for (const d of document.querySelectorAll('details')) d.open = true; 0`))
		found := get(w, chromedp.Evaluate[[]string](`[...document.querySelectorAll('main script, main img, main iframe, main [onerror], main a')].filter(e => e.tagName !== 'A' || !e.getAttribute('href').match(/^[\/#]/)).map(e => e.outerHTML)`))
		if len(found) > 0 {
			t.Errorf("%s holds %q", path, found)
		}
		title := get(w, chromedp.Title())
		if strings.Contains(title, "pwned") || strings.ContainsAny(title, "\u202e\u200b") {
			t.Errorf("%s has the title %q", path, title)
		}
	}
	w.quiet()
}

func TestInABrowserPagesFit(t *testing.T) {
	w := newWindow(t)
	ann, ben := owners(t)
	declined := ann.propose("Translate the release notes into German", "Translate notes.md.")
	ann.allow(manifest.ContractGate)
	_, err := ben.g.DenyGate(t.Context(), gateway.Owner, gateway.Denial{Ask: ben.asked(manifest.ContractGate).AskID.String(), Reason: "with half the time",
		Set: []manifest.Setting{{Key: "budget.time", Value: "7m"}, {Key: "budget.output_tokens", Value: "10k"}}})
	must(t, err)
	ann.until("declined", func() bool {
		v, err := ann.g.Task(t.Context(), gateway.Owner, gateway.Ref{Task: declined})
		return err == nil && v.Counter != nil
	})
	done := ann.propose("Revenue per region, November", "Read sales.csv (date, region, amount_eur). Add up amount_eur per region and write count.csv with region,total_eur.\nDo not round.")
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.open()
	ben.open()
	delivery := ann.asked(manifest.DeliveryGate)
	ann.propose("Count the lines of last month’s sales", "Count the lines of sales.csv\u202e and say how many there are, one line a region.")
	ann.allow(manifest.ContractGate)
	contract := ben.asked(manifest.ContractGate)
	ben.certify(ben.loggedIn().register(passkeytest.New(7, "localhost", ben.s.Origin())))
	for _, at := range []struct {
		name string
		o    *owner
		path string
	}{
		{"waiting", ann, "/"}, {"ask-contract", ben, "/asks/" + contract.AskID.String()}, {"ask-delivery", ann, "/asks/" + delivery.AskID.String()}, {"decided", ann, "/decided"},
		{"tasks", ann, "/tasks"}, {"task", ann, "/tasks/" + done}, {"contacts", ann, "/contacts"}, {"policy", ann, "/policy"}, {"passkeys", ann, "/passkeys"}, {"health", ann, "/health"}, {"login", ann, "/login/used"},
	} {
		w.run(chromedp.Navigate(at.o.link()), visible("header"), chromedp.Navigate(at.o.s.Origin()+at.path), visible("main"))
		for _, look := range []struct {
			name, scheme string
			width        int64
		}{{"light", "light", 1000}, {"dark", "dark", 1000}, {"380", "light", 380}} {
			_, err := chromedp.Call(w.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}})
			must(t, err)
			w.run(chromedp.EmulateViewport(look.width, 700))
			over := get(w, chromedp.Evaluate[[]string](`[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 200))`))
			shot := get(w, chromedp.FullScreenshot(100))
			if strings.HasPrefix(at.name, "ask-") {
				if no, yes := w.box("deny"), w.box("to-allow"); no != yes {
					t.Errorf("%s %s: deny is %v and allow %v", at.name, look.name, no, yes)
				}
			}
			if len(over) > 0 {
				t.Errorf("%s %s is wider than its window: %q", at.name, look.name, over)
			}
			keep(t, at.name+"-"+look.name, shot)
		}
	}
}
