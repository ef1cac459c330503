package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/manifest"
)

func TestANoCanSayUnderWhichTermsItWouldBeAYes(t *testing.T) { // G7
	ann, ben := owners(t)
	task := ann.propose("Count lines", "Count the lines of sales.csv")
	ann.allow(manifest.ContractGate)
	ask := ben.asked(manifest.ContractGate)
	ben.open()
	b := ben.loggedIn()
	at := "/asks/" + ask.AskID.String()
	if _, page := b.get(at); !strings.Contains(page, `name="budget.time" placeholder="15m"`) {
		t.Errorf("no form for other terms:\n%s", page)
	}
	token := b.token()
	for what, form := range map[string]url.Values{
		"nothing": {}, "the same": {"budget.time": {"15m"}}, "no span": {"budget.time": {"soon"}}, "markup": {"budget.time": {`"><script>x</script>`}}, "a term of no field": {"goal": {"x"}},
		"a time in the past": {"deadline": {"2020-01-01T00:00:00Z"}},
	} {
		form.Set("token", token)
		res, page := b.post(at+"/counter", form)
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(page, "Nothing was decided") || strings.Contains(page, "<script>x") {
			t.Errorf("%s: %s\n%s", what, res.Status, page)
		}
	}
	if s := ben.state(ask); s != "open" {
		t.Fatalf("the ask is %s", s)
	}
	res, page := b.post(at+"/counter", url.Values{"token": {token}, "budget.time": {"5m"}, "budget.output_tokens": {"10k"}, "budget.input_tokens": {""}, "reason": {"with less"}})
	if res.StatusCode != http.StatusOK || !strings.Contains(page, "denied") {
		t.Fatalf("%s\n%s", res.Status, page)
	}
	ann.until("countered", func() bool {
		v, err := ann.g.Task(t.Context(), gateway.Owner, gateway.Ref{Task: task})
		return err == nil && v.Counter != nil
	})
	read := ann.browserWith()
	for _, path := range []string{"/", "/tasks/" + task} {
		page := read(path)
		for _, want := range []string{"Ben would do it differently", "</i> work</dt>", "5m", "yours: 15m", "10k", "sealbridge propose --counter " + task[len(task)-4:]} {
			if !strings.Contains(page, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, page)
			}
		}
	}
}

func TestOnlyAContractOfAnotherCanBeCountered(t *testing.T) {
	ann, _ := owners(t)
	ann.propose("Count", "Count the lines")
	ask := ann.asked(manifest.ContractGate)
	ann.open()
	b := ann.loggedIn()
	if res, page := b.post("/asks/"+ask.AskID.String()+"/counter", url.Values{"token": {b.token()}, "budget.time": {"5m"}}); res.StatusCode != http.StatusBadRequest || strings.Contains(page, "Counter with less") {
		t.Errorf("our own proposal: %s\n%s", res.Status, page)
	}
	if s := ann.state(ask); s != "open" {
		t.Errorf("the ask is %s", s)
	}
}
