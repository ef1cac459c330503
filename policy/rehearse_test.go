package policy

import (
	"slices"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/spec"
)

// TestARehearsalDecidesAsAGatewayWould has one row for each thing that a draft may come to.
func TestARehearsalDecidesAsAGatewayWould(t *testing.T) {
	base := Default()
	base.Incoming = []Incoming{{Name: "jobs", From: Names{"ben"}, AtMost: AtMost{OutputTokens: amount(30_000)}, PerDay: PerDay{Tasks: amount(1)}, Then: ThenAsk}}
	base.Outgoing[0].MaySend = []string{"/s/*"}
	draft := manifest.Draft{Title: "t", Goal: "g"}
	large := draft
	large.Budget.OutputTokens = "40k"
	deep := draft
	deep.Depth = 1
	free := draft
	free.Grants = []manifest.DraftGrant{{Resource: "mcp://docs/../x", Tools: []string{"read"}}}
	for what, c := range map[string]struct {
		r       Rehearsal
		want    Outcome
		reason  spec.Reason
		section string
		index   int
	}{
		"asked of ben":        {Rehearsal{Draft: draft, Side: manifest.Requester, Contact: "ben"}, Hold, spec.GateOpen, "outgoing", 0},
		"a file of an agent":  {Rehearsal{Draft: draft, Side: manifest.Requester, Contact: "ben", Caller: "claude", Files: []string{"/t/x"}}, Deny, spec.PolicyDenied, "outgoing", 0},
		"a file of a person":  {Rehearsal{Draft: draft, Side: manifest.Requester, Contact: "ben", Files: []string{"/t/x"}, Named: true}, Hold, spec.GateOpen, "outgoing", 0},
		"work from ben":       {Rehearsal{Draft: draft, Side: manifest.Worker, Contact: "ben", Caller: "coder"}, Hold, spec.GateOpen, "incoming", 0},
		"too much from ben":   {Rehearsal{Draft: large, Side: manifest.Worker, Contact: "ben", Caller: "coder"}, Deny, spec.PolicyDenied, "incoming", 0},
		"work from eve":       {Rehearsal{Draft: draft, Side: manifest.Worker, Contact: "eve", Caller: "coder"}, Deny, spec.PolicyDenied, "incoming", -1},
		"to be handed on":     {Rehearsal{Draft: deep, Side: manifest.Worker, Contact: "ben", Caller: "coder"}, Hold, spec.GateOpen, "incoming", 0},
		"what no gateway can": {Rehearsal{Draft: free, Side: manifest.Worker, Contact: "ben", Caller: "coder"}, Deny, spec.CapabilityDenied, "", -1},
	} {
		c.r.At = t0
		m, d, err := base.Rehearse(c.r)
		if err != nil || d.Outcome != c.want || d.Reason != c.reason || d.Section != c.section || d.Index != c.index {
			t.Errorf("%s: %+v, %v; want %v by %s %d", what, d, err, c.want, c.section, c.index)
		}
		if m.Task.Title != "t" {
			t.Errorf("%s: the contract is %+v", what, m.Task)
		}
	}
	if _, _, err := base.Rehearse(Rehearsal{Draft: manifest.Draft{Title: "t", Goal: "g", Deadline: "soon"}, Side: manifest.Requester, Contact: "ben", At: t0}); pathOf(err) != "/deadline" {
		t.Errorf("a draft that is no contract: %v", err)
	}
}

// TestDefaultsFillWhatADraftDoesNotSay and change nothing that it says.
func TestDefaultsFillWhatADraftDoesNotSay(t *testing.T) {
	d := Defaults{Deadline: Duration(24 * time.Hour), Gates: []GateWord{DeliveryWord}, Budget: Budget{InputTokens: 5, Time: Duration(time.Minute), Over: "ask"}}
	got := d.Fill(manifest.Draft{Budget: manifest.DraftBudget{InputTokens: "7"}, Depth: 1})
	if got.Deadline != "1d" || got.Budget.InputTokens != "7" || got.Budget.OutputTokens != "" || got.Budget.Time != "1m" || got.Budget.Over != "ask" {
		t.Errorf("%+v", got)
	}
	if want := []string{"delivery", "delegation", "budget"}; !slices.Equal(got.Gates, want) {
		t.Errorf("gates %v, want %v", got.Gates, want)
	}
	if said := d.Fill(manifest.Draft{Gates: []string{}, Deadline: "2h"}); len(said.Gates) != 0 || said.Deadline != "2h" {
		t.Errorf("what the draft says was changed: %+v", said)
	}
	if none := (Defaults{}).Fill(manifest.Draft{}); none.Gates != nil || none.Deadline != "" {
		t.Errorf("defaults of nothing: %+v", none)
	}
}

func TestARuleThatNothingMeetsIsFound(t *testing.T) {
	p := Policy{
		Incoming: []Incoming{{From: Names{"ben"}, Tasks: []string{"a"}}, {From: Names{Anyone}}, {From: Names{"ben"}}, {From: Names{}}},
		Outgoing: []Outgoing{{To: Names{"ben"}, Agent: "x"}, {To: Names{"ben"}}, {To: Names{"ben"}, Agent: "y"}},
	}
	if got, want := p.Unreached(), []string{"/incoming/2", "/incoming/3", "/outgoing/2"}; !slices.Equal(got, want) {
		t.Errorf("Unreached = %v, want %v", got, want)
	}
}
