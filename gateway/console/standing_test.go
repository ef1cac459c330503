package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
)

func TestAStandingYesShowsEveryUseAndIsTakenBack(t *testing.T) { // G6
	ann, ben := owners(t)
	task := ann.propose("Count lines", "Count the lines of sales.csv")
	ann.allow(manifest.ContractGate)
	ask := ben.asked(manifest.ContractGate)
	ben.open()
	b := ben.loggedIn()
	if _, page := b.get("/asks/" + ask.AskID.String()); !strings.Contains(page, "sealbridge gate allow "+ask.Short()+" --standing") {
		t.Errorf("the page does not say how to say yes for the next ones:\n%s", page)
	}
	now := ben.Clock.Now().UTC().Truncate(time.Second)
	grant, err := approval.StandingFor(ask, 3, now, now.Add(time.Hour))
	must(t, err)
	d := approval.DecideStanding(ask, grant, "passphrase", now)
	v, err := manifest.Sign(&d, ben.Owner(), now)
	must(t, err)
	_, err = ben.g.DecideGate(t.Context(), gateway.Owner, gateway.Answer{Decision: v.Wire().String(), Standing: &grant})
	must(t, err)
	_, page := b.get("/decided")
	for _, want := range []string{"Standing yeses", "in force", "1 of 3 used", "/tasks/" + task, "works for Ann without asking you again", "Take it back"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	for range 2 { // two tabs
		if res, page := b.post("/standing/"+ask.AskID.String()+"/revoke", nil); res.StatusCode != http.StatusOK || !strings.Contains(page, "revoked") || strings.Contains(page, "Take it back</button>") {
			t.Fatalf("%s\n%s", res.Status, page)
		}
	}
	if res, _ := b.post("/standing/none/revoke", nil); res.StatusCode != http.StatusNotFound {
		t.Errorf("no such one: %s", res.Status)
	}
}

func TestAnAgentsWishForAContactIsDataAndMakesNothing(t *testing.T) { // K2, M8
	ann, _ := owners(t)
	ann.Rules.Agents["claude"] = gateway.Agent{}
	_, err := ann.g.RequestContact(t.Context(), gateway.Caller{Agent: "claude"}, gateway.Wish{Who: "Eve <b>\u202e", Why: hostile})
	must(t, err)
	page := ann.browserWith()("/contacts")
	if !strings.Contains(page, "Eve &lt;b&gt;⟨U&#43;202E⟩") || strings.Contains(page, "<script>alert") || strings.Contains(page, "\u202e") {
		t.Errorf("the page:\n%s", page)
	}
}
