package console_test

import (
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sealbridge/gateway"
	"sealbridge/gateway/gatewaytest"
	"sealbridge/manifest"
)

// handedOn is Ben, between Ann and Cleo, with a task of which Cleo has a part.
func handedOn(t *testing.T) (ben *owner, id, part string) {
	t.Helper()
	row := gatewaytest.Row(t, gatewaytest.Counter, "Ann", "Ben", "Cleo")
	ann, between, cleo := row[0], row[1], row[2]
	_, file := gatewaytest.File(t, "sales.csv", "a,1\nb,2\n")
	p, err := ann.G.Propose(t.Context(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "Count the lines of every region that was sold to last month", Goal: "Count.", Depth: 1,
		Inputs: []manifest.DraftInput{{File: file}}, Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
	must(t, err)
	ann.Yes(p.Ask)
	between.Yes(between.OpenAsk(p.Task, "contract"))
	scribe := gateway.Caller{Agent: "scribe"}
	between.Until("started", func() error {
		v, err := between.G.StartWork(t.Context(), scribe, gateway.Ref{Task: p.Task})
		if err == nil && !v.Running {
			err = os.ErrNotExist
		}
		return err
	})
	k, err := between.G.Propose(t.Context(), scribe, gateway.Proposal{To: "Cleo", Parent: p.Task, HandOn: []string{"sales.csv"},
		Draft: manifest.Draft{Title: "Count the north <b>&amp;", Goal: "Count.", Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
	must(t, err)
	ann.Yes(ann.OpenAsk(p.Task, "delegation"))
	between.Yes(between.OpenAsk(p.Task, "delegation"))
	between.Yes(between.OpenAsk(k.Task, "contract"))
	cleo.Yes(cleo.OpenAsk(k.Task, "contract"))
	o := &owner{Side: between, t: t, g: between.G}
	o.open()
	return o, p.Task, k.Task
}

func TestInABrowserTheTreeFits(t *testing.T) {
	w := newWindow(t)
	ben, id, part := handedOn(t)
	for _, shown := range []string{id, part} {
		w.run(chromedp.Navigate(ben.link()), visible("header"), chromedp.Navigate(ben.s.Origin()+"/tasks/"+shown), visible("svg.tree"))
		for _, width := range []int64{1000, 380} {
			w.run(chromedp.EmulateViewport(width, 900))
			// every text stays in its box, every box in the drawing, the drawing in the window
			over := get(w, chromedp.Evaluate[[]string](`[...document.querySelectorAll('svg.tree g.node')].flatMap(g => { const b = g.querySelector('.box').getBoundingClientRect();
				return [...g.querySelectorAll('text, .all')].filter(e => { const r = e.getBoundingClientRect(); return r.right > b.right + 1 || r.left < b.left - 1 || r.bottom > b.bottom + 1 || r.top < b.top - 1 }).map(e => e.textContent || e.outerHTML)
				.concat(b.right > document.querySelector('svg.tree').getBoundingClientRect().right + 1 || b.right > innerWidth ? ['a box'] : []) })`))
			if len(over) > 0 {
				t.Errorf("at %d the tree of %s leaves its place: %q", width, shown, over)
			}
			keep(t, "tree-"+map[bool]string{true: "above", false: "part"}[shown == id]+map[int64]string{1000: "", 380: "-380"}[width], get(w, chromedp.FullScreenshot(100)))
		}
		if n := get(w, chromedp.Evaluate[int](`document.querySelectorAll('svg.tree g.node').length`)); n != 2 {
			t.Errorf("%d tasks are drawn, want 2", n)
		}
		if text := get(w, chromedp.Evaluate[string](`document.querySelector('svg.tree g.this .head').textContent`)); strings.HasPrefix(text, "Count the lines") != (shown == id) {
			t.Errorf("marked is %q", text)
		}
	}
	if text := get(w, chromedp.Evaluate[string](`document.querySelector('svg.tree').textContent`)); !strings.Contains(text, "Count the north <b>&amp;") || !strings.Contains(text, "kept back above") {
		t.Errorf("the tree reads %q", text)
	}
	w.run(chromedp.Click(chromedp.CSS("svg.tree g.node:not(.this) .head")), chromedp.WaitVisible(chromedp.CSS("svg.tree a[href='/tasks/"+id+"'] g.this")))
	w.quiet()
}

func TestInABrowserAGroupIsShown(t *testing.T) { // P4
	w := newWindow(t)
	a, by := gatewaytest.Circle(t, map[string]string{"Ben": "#!/bin/sh\nprintf '{\"output\":{\"n\":7}}'\n", "Cleo": "#!/bin/sh\nprintf '{\"output\":{\"n\":8}}'\n"})
	ann := &owner{Side: a, t: t, g: a.G}
	ann.open()
	j, err := a.G.ProposeSeveral(t.Context(), gateway.Owner, gateway.Several{To: []string{"Ben", "Cleo"}, Kind: manifest.Quorum, Need: 2, Draft: manifest.Draft{Title: "Count", Goal: "Count.", Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
	must(t, err)
	w.run(chromedp.Navigate(ann.link()), visible("header"), chromedp.Navigate(ann.s.Origin()+"/asks/"+j.Tasks[0].Ask), visible("main"))
	if text := w.text(); !strings.Contains(text, "one of 2 tasks for the same work, to Ben and Cleo") {
		t.Errorf("the card reads %q", text)
	}
	for i, name := range []string{"Ben", "Cleo"} {
		a.Yes(j.Tasks[i].Ask)
		by[name].Yes(by[name].OpenAsk(j.Tasks[i].Task, "contract"))
	}
	a.Until("disagreed", func() error {
		v, err := a.G.Task(t.Context(), gateway.Owner, gateway.Ref{Task: j.Tasks[0].Task})
		if err == nil && v.Group.State != "disagreed" {
			err = os.ErrNotExist
		}
		return err
	})
	w.run(chromedp.EmulateViewport(380, 900), chromedp.Navigate(ann.s.Origin()+"/tasks/"+j.Tasks[0].Task), visible("main"))
	if text := w.text(); !strings.Contains(text, "2 must deliver the same") || !strings.Contains(text, "next: you (the deliveries differ)") || !strings.Contains(text, "Too few can deliver the same") || !strings.Contains(text, "nobody else delivered the same") {
		t.Errorf("the page reads %q", text)
	}
	keep(t, "group-380", get(w, chromedp.FullScreenshot(100)))
	w.quiet()
}

func TestInABrowserAnOpenProposalIsAsked(t *testing.T) { // M10
	w := newWindow(t)
	ann, _ := owners(t)
	ann.open()
	p, err := ann.g.Open(t.Context(), gateway.Owner, gateway.Opening{To: []string{"Ben"}, Draft: manifest.Draft{Title: "Count", Goal: "Count."}})
	must(t, err)
	w.run(chromedp.Navigate(ann.link()), visible("header"), chromedp.Navigate(ann.s.Origin()+"/asks/"+p.Ask), visible("main"))
	if text := w.text(); !strings.Contains(text, "Ask Ben who would do this?") {
		t.Errorf("the card reads %q", text)
	}
	for _, path := range []string{"/", "/tasks", "/decided"} {
		w.run(chromedp.Navigate(ann.s.Origin()+path), visible("main"))
	}
	w.quiet()
}

func TestATaskPageSaysWhy(t *testing.T) { // E1
	ann, ben := owners(t)
	id := ann.propose("Count", "Count.")
	ann.allow(manifest.ContractGate)
	_, err := ben.g.DenyGate(t.Context(), gateway.Owner, gateway.Denial{Ask: ben.asked(manifest.ContractGate).AskID.String(), Reason: "<b>not</b> today"})
	must(t, err)
	ben.open()
	_, page := ben.loggedIn().get("/tasks/" + id)
	for _, want := range []string{"<h2>Why</h2>", "<code>gate-denied</code> by you", "rule G1", "&lt;b&gt;not&lt;/b&gt; today", "next: <b>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q: %s", want, page)
		}
	}
	ann.open()
	ann.until("declined", func() bool {
		_, p := ann.loggedIn().get("/tasks/" + id)
		return strings.Contains(p, "declined</b>") && strings.Contains(p, "by Ben")
	})
}
