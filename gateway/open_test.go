package gateway_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

func (s *side) offers() []gateway.OfferView {
	s.t.Helper()
	out, err := s.g.Offers(context.Background(), gateway.Owner, gateway.Ref{})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *side) open(to ...string) gateway.Proposed {
	s.t.Helper()
	out, err := s.g.Open(context.Background(), gateway.Owner, gateway.Opening{To: to, Draft: manifest.Draft{Title: "Count", Goal: "Count the lines.", Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func TestAnOpenProposalIsClaimedPickedAndOnlyThenAContract(t *testing.T) { // M10
	ann, by := circle(t, map[string]string{"Ben": `{"n":1}`, "Cleo": `{"n":2}`, "Dan": `{"n":3}`})
	ctx := context.Background()
	p := ann.open("Ben", "Cleo")
	for name, s := range by {
		if len(s.offers()) != 0 {
			t.Fatalf("%s read it before Ann's yes", name)
		}
	}
	a, err := ann.g.Ask(ctx, gateway.Owner, p.Ask)
	if err != nil || !strings.Contains(a.Ask.Question, "Ben and Cleo") || !strings.Contains(lineOf(a.Ask, "tell"), "none of them is told of the others") {
		t.Fatalf("the card: %+v, %v", a.Ask, err)
	}
	ann.restart()
	ann.sayYes(p.Ask)
	for _, name := range []string{"Ben", "Cleo"} {
		by[name].until("offered", func() bool { return len(by[name].offers()) == 1 })
		if o := by[name].offers()[0]; o.Ours || o.With[0] != "Ann" || o.State != "open" || o.ID != p.Task || o.Digest != p.Digest {
			t.Errorf("%s sees %+v", name, o)
		}
	}
	if _, err := ann.g.Pick(ctx, gateway.Owner, gateway.Choice{Open: p.Task, To: "Ben"}); spec.ReasonOf(err) != spec.NotFound {
		t.Errorf("picked without a claim: %v", err)
	}
	by["Ben"].restart()
	if _, err := by["Ben"].g.Claim(ctx, gateway.Owner, gateway.Claiming{Offer: p.Task[len(p.Task)-6:]}); err != nil {
		t.Fatal(err)
	}
	if _, err := by["Cleo"].g.Claim(ctx, gateway.Owner, gateway.Claiming{Offer: p.Task, Set: []manifest.Setting{{Key: "budget.time", Value: "5m"}}}); err != nil {
		t.Fatal(err)
	}
	ann.until("claimed twice", func() bool { return len(ann.offers()[0].Claims) == 2 })
	ann.restart()
	o := ann.offers()[0]
	i := slices.IndexFunc(o.Claims, func(c gateway.ClaimView) bool { return c.By == "Cleo" })
	if len(o.Claims[1-i].Terms) != 0 || len(o.Claims[i].Terms) != 1 || o.Claims[i].Terms[0].Key != "budget.time" || o.Claims[i].Terms[0].To != "5m" {
		t.Errorf("the claims: %+v", o.Claims)
	}
	for _, s := range []*side{ann, by["Ben"], by["Cleo"]} { // nothing is a task yet
		if ts, err := s.g.Tasks(ctx, gateway.Owner, gateway.None{}); err != nil || len(ts) != 0 {
			t.Errorf("%s has %d tasks", s.home.Config.Name, len(ts))
		}
	}
	made, err := ann.g.Pick(ctx, gateway.Owner, gateway.Choice{Open: p.Task, To: "Cleo"})
	if err != nil || made.Task == p.Task {
		t.Fatalf("%+v, %v", made, err)
	}
	if _, err := ann.g.Pick(ctx, gateway.Owner, gateway.Choice{Open: p.Task, To: "Ben"}); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("a second pick: %v", err)
	}
	ann.sayYes(made.Ask)
	by["Cleo"].until("asked", func() bool { return openGate(by["Cleo"].state(made.Task), "contract") != "" })
	by["Cleo"].sayYes(openGate(by["Cleo"].state(made.Task), "contract"))
	ann.until("delivered", func() bool { return openGate(ann.state(made.Task), "delivery") != "" })
	if b := ann.state(made.Task).Budget["time"]; b.Limit != 300 {
		t.Errorf("the contract has not the claim's terms: %+v", b)
	}
	ann.sayYes(openGate(ann.state(made.Task), "delivery"))
	ann.until("released", func() bool { return ann.state(made.Task).Released })
	ann.verifies(made.Task)
	// Ben's word comes too late: he is told that it is over.
	if _, err := by["Ben"].g.Claim(ctx, gateway.Owner, gateway.Claiming{Offer: p.Task, Set: []manifest.Setting{{Key: "budget.time", Value: "1m"}}}); err != nil {
		t.Fatal(err)
	}
	by["Ben"].until("refused", func() bool {
		r, ok := refusal(by["Ben"].why(""), "contact")
		return ok && r.What == "claim" && r.Word == spec.Conflict && strings.Contains(r.Limit, "picked")
	})
}

func TestANoToAnOpenProposalTellsNobody(t *testing.T) { // M10, G4
	synctest.Test(t, func(t *testing.T) {
		ann, by := circle(t, map[string]string{"Ben": `{"n":1}`})
		for _, verdict := range []string{approval.Deny, ""} { // and silence
			p := ann.open("Ben")
			a, err := ann.g.Ask(context.Background(), gateway.Owner, p.Ask)
			if err != nil {
				t.Fatal(err)
			}
			if verdict != "" {
				if out, err := ann.answer(a, verdict); err != nil || out.Outcome != "dropped" {
					t.Fatalf("%+v, %v", out, err)
				}
			} else {
				time.Sleep(25 * time.Hour)
			}
			if _, err := ann.answer(a, approval.Allow); spec.ReasonOf(err) != spec.Conflict && spec.ReasonOf(err) != spec.GateExpired {
				t.Errorf("a yes after %q: %v", verdict, err)
			}
			time.Sleep(time.Hour)
			if len(by["Ben"].offers()) != 0 || ann.offers()[0].State != "dropped" {
				t.Errorf("after %q: Ben has %d offers, Ann's is %s", verdict, len(by["Ben"].offers()), ann.offers()[0].State)
			}
		}
	})
}

func TestOffersEndWithTheirDeadlineAndAreBounded(t *testing.T) { // M10, B9
	synctest.Test(t, func(t *testing.T) {
		ann, by := circle(t, map[string]string{"Ben": `{"n":1}`})
		ben := by["Ben"]
		for range 22 {
			ann.sayYes(ann.open("Ben").Ask)
		}
		time.Sleep(time.Hour)
		if n := len(ben.offers()); n != 20 {
			t.Errorf("%d offers of one contact, want 20", n)
		}
		if r, ok := refusal(ann.why(""), "contact"); !ok || r.Word != spec.Quota || r.What != "task-manifest" {
			t.Errorf("what Ann hears: %+v", ann.why("").Refused)
		}
		later(3*24*time.Hour, ann, ben)
		if n := len(ben.offers()); n != 0 {
			t.Errorf("%d offers past their deadline", n)
		}
		if o := ann.offers()[0]; o.State != "over" {
			t.Errorf("ours is %s", o.State)
		}
		ann.sayYes(ann.open("Ben").Ask)
		time.Sleep(time.Hour)
		if n := len(ben.offers()); n != 1 {
			t.Errorf("%d offers: the place of those that are over did not come back", n)
		}
	})
}
