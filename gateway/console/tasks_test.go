package console_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/audit"
)

func TestATaskShowsBothHistoriesAndItsEvidence(t *testing.T) {
	ann, ben := owners(t)
	task := ann.propose("Count lines", "Count the lines of sales.csv")
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("released", func() bool {
		v, err := ann.g.Task(t.Context(), gateway.Owner, gateway.Ref{Task: task})
		return err == nil && v.Released
	})
	ann.open()
	b := ann.loggedIn()
	_, list := b.get("/tasks")
	_, page := b.get("/tasks/" + task)
	for _, want := range []string{"Count lines", "completed", "count.csv", "tokens in", "0 of 200k", "sealbridge task result " + task[len(task)-4:] + " -o out/"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	at := 0
	for _, said := range []string{"<b>you</b> <span>proposed", "<b>Ben</b> <span>accepted", "<b>Ben</b> <span>started", "<b>Ben</b> <span>delivered", "<b>you</b> <span>completed"} {
		i := strings.Index(page[at:], said)
		if i < 0 {
			t.Fatalf("%q is not in its place:\n%s", said, page)
		}
		at += i
	}
	if !strings.Contains(list, "Ended") || !strings.Contains(list, "/tasks/"+task) {
		t.Errorf("the list: %s", list)
	}
	res, bundle := b.get("/tasks/" + task + "/evidence")
	if d := res.Header.Get("Content-Disposition"); d != "attachment; filename="+task+".json" {
		t.Errorf("Content-Disposition %q", d)
	}
	if rep, err := audit.Verify(strings.NewReader(bundle), audit.Options{}); err != nil || !rep.Verified {
		t.Errorf("the evidence: %v, %+v", err, rep.Findings)
	}
	res, receipt := b.get("/tasks/" + task + "/receipt")
	for _, want := range []string{"RECEIPT", "completed", "Count lines", "Ann asked Ben"} {
		if !strings.Contains(receipt, want) {
			t.Errorf("the receipt lacks %q:\n%s", want, receipt)
		}
	}
	if d := res.Header.Get("Content-Disposition"); !strings.HasPrefix(d, "attachment; filename=receipt-") {
		t.Errorf("Content-Disposition %q", d)
	}
	for _, path := range []string{"/tasks/none/receipt", "/tasks/none", "/tasks/none/evidence", "/asks/none"} {
		if res, _ := b.get(path); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s, want 404", path, res.Status)
		}
	}
}

func TestAPersonEndsATaskTheyAskedFor(t *testing.T) { // H4
	ann, ben := owners(t)
	task := ann.propose("Count", "Count the lines")
	ann.allow(manifest.ContractGate)
	ben.asked(manifest.ContractGate)
	ann.open()
	ben.open()
	mine, theirs := ann.loggedIn(), ben.loggedIn()
	if _, page := theirs.get("/tasks/" + task); strings.Contains(page, "End this task") {
		t.Error("a worker is offered what only the requester can do")
	}
	if res, _ := theirs.post("/tasks/"+task+"/cancel", nil); res.StatusCode != http.StatusForbidden {
		t.Errorf("a worker ends it: %s, want 403", res.Status)
	}
	for range 2 {
		if res, page := mine.post("/tasks/"+task+"/cancel", url.Values{"token": {mine.token()}, "reason": {"found it <b>myself</b>"}}); res.StatusCode != http.StatusOK || !strings.Contains(page, "found it &lt;b&gt;myself") {
			t.Fatalf("%s\n%s", res.Status, page)
		}
	}
	ben.until("cancelled", func() bool { _, page := theirs.get("/tasks/" + task); return strings.Contains(page, "cancelled") })
	if _, page := mine.get("/tasks/" + task); strings.Contains(page, "End this task") {
		t.Error("an ended task can be ended")
	}
}

func TestAContactThatNobodyConfirmedShowsItsSixWords(t *testing.T) { // K2
	ann, _ := owners(t)
	cs, err := ann.g.Contacts(t.Context(), gateway.Owner, gateway.None{})
	must(t, err)
	page := ann.browserWith()("/contacts")
	for _, want := range []string{"Ben", cs[0].Words, cs[0].Fingerprint, cs[0].Owner, "confirmed"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "sealbridge contact confirm") {
		t.Error("a confirmed contact is to be confirmed")
	}
}

func TestThePolicyPageSaysWhatIsInForce(t *testing.T) { // G12
	ann, _ := owners(t)
	read := ann.browserWith()
	st, err := ann.g.Status(t.Context(), gateway.Owner, gateway.None{})
	must(t, err)
	if page := read("/policy"); !strings.Contains(page, st.Policy) || !strings.Contains(page, "incoming:") || strings.Contains(page, "not in force") {
		t.Errorf("the page:\n%s", page)
	}
	file := filepath.Join(ann.Home.Dir, "policy.yaml")
	text, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, append(text, "# <script>x</script>\u202e\n"...), 0o600))
	if page := read("/policy"); strings.Contains(page, "<script>x") || strings.Contains(page, "\u202e") {
		t.Errorf("a comment acts:\n%s", page)
	}
	must(t, os.WriteFile(file, []byte(strings.Replace(string(text), "may_send: []", "may_send: [/home/ann/<b>outbox</b>/**]", 1)), 0o600))
	if page := read("/policy"); !strings.Contains(page, "not in force") {
		t.Errorf("another file passes for the rules in force:\n%s", page)
	}
	p, err := ann.Home.Policy()
	must(t, err)
	must(t, ann.g.Reload(gateway.Rules{Policy: p}))
	page := read("/policy")
	for _, want := range []string{"permits more", "/home/ann/&lt;b&gt;outbox", "sealbridge policy apply", st.Policy} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if !strings.Contains(read("/"), "Your policy file permits more") {
		t.Error("what waits does not name the policy")
	}
}
