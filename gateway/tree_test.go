package gateway_test

import (
	"context"
	"testing"

	"sealbridge/gateway"
	"sealbridge/spec"
)

func TestWhyNamesTheRuleOfACall(t *testing.T) { // E1, C5
	ann, ben, id := lent(t, &shelf{}, reading(3))
	if _, err := ben.call(id, "docs.read", `{"path":"private/a.txt"}`); spec.ReasonOf(err) != spec.CapabilityDenied {
		t.Fatal(err)
	}
	if r, ok := refusal(ben.why(id), "law"); !ok || r.What != "call of docs.read" || r.Agent != "scribe" || r.Word != spec.CapabilityDenied || r.Rule != "C1" {
		t.Errorf("what never left: %+v", ben.why(id).Refused)
	}
	u, err := ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Tool: "docs.read", Resources: []string{"mcp://docs/public/a.txt"}, Arguments: args(t, `{"path":"private/a.txt"}`)})
	if err != nil {
		t.Fatal(err)
	}
	ben.until("refused", func() bool {
		u, err = ben.g.CallTool(context.Background(), scribe, gateway.Use{Task: id, Call: u.Call})
		return err == nil && u.State == "refused"
	})
	for _, s := range []*side{ann, ben} {
		for _, ref := range []string{id, u.Call, u.Call[len(u.Call)-6:]} {
			by := "law"
			if s == ben {
				by = "contact"
			}
			r, ok := refusal(s.why(ref), by)
			if !ok || r.Call != u.Call || r.What != "call of docs.read" || r.Rule != u.Denial.Rule || r.Link != u.Denial.Link || r.Word != spec.Reason(u.Denial.Reason) || r.Limit != u.Denial.Limit {
				t.Errorf("%s, why %s: %+v, want what the call was told: %+v", s.home.Config.Name, ref, s.why(ref).Refused, u.Denial)
			}
		}
	}
}

func TestTheTreeSaysWhatIsLeftOfAGrant(t *testing.T) { // E1
	ann, ben, id := lent(t, &shelf{}, reading(3))
	if u, err := ben.call(id, "docs.read", `{"path":"public/a.txt"}`); err != nil || u.State != "done" {
		t.Fatalf("%+v, %v", u, err)
	}
	for _, s := range []*side{ann, ben} {
		n := s.state(id).Tree
		if n == nil || !n.This || len(n.Tools) != 1 || n.Tools[0].Left != 2 || n.Tools[0].Of != 3 || n.Tools[0].Resource != "mcp://docs/public/*" {
			t.Errorf("%s sees %+v", s.home.Config.Name, n)
		}
	}
}

func TestTheTreeIsDrawnFromTheHighestTaskThatIsHere(t *testing.T) {
	sides := row(t, "Ann", "Ben", "Cleo")
	ann, ben, cleo := sides[0], sides[1], sides[2]
	id := begun(t, ann, ben, ann.deep(1))
	part := handsOn(t, ann, ben, cleo, partOf(id, "Cleo"))
	ben.until("hearing of the start", func() bool { return ben.state(part).State == "working" })
	for _, shown := range []string{id, part} { // at Ben's, who is between
		n := ben.state(shown).Tree
		if n == nil || n.TaskID != id || n.This != (shown == id) || n.Depth != 1 || n.Share || len(n.Parts) != 1 {
			t.Fatalf("Ben, shown %s: %+v", shown, n)
		}
		p := n.Parts[0]
		if p.TaskID != part || p.This != (shown == part) || p.With != "Cleo" || p.State != "working" || !p.Held || p.Share || p.Left["input_tokens"].Limit != 1000 {
			t.Errorf("Ben, shown %s: the part is %+v", shown, p)
		}
		if b := n.Left["input_tokens"]; b.Reserved < 1000 {
			t.Errorf("the share is not kept back: %+v", b)
		}
	}
	n := ann.state(id).Tree // Ann knows what both owners signed
	if n == nil || len(n.Parts) != 1 || !n.Parts[0].Share || n.Parts[0].State != "handed on" || n.Parts[0].Left["output_tokens"].Limit != 100 {
		t.Errorf("Ann: %+v", n)
	}
	if n := cleo.state(part).Tree; n != nil {
		t.Errorf("Cleo, who knows nothing above: %+v", n)
	}
}
