package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/spec"
)

// stand says a standing yes to an ask; mend changes the grant before it is signed.
func (s *side) stand(a gateway.AskView, uses int64, span time.Duration, mend func(*manifest.Standing, *manifest.GateDecision)) (gateway.Decided, error) {
	s.t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	grant, err := approval.StandingFor(a.Ask, uses, now, now.Add(span))
	if err != nil {
		return gateway.Decided{}, err
	}
	d := approval.DecideStanding(a.Ask, grant, "passphrase", now)
	if mend != nil {
		mend(&grant, &d)
	}
	v, err := manifest.Sign(&d, s.owner(), time.Now())
	if err != nil {
		return gateway.Decided{}, err
	}
	return s.g.DecideGate(context.Background(), gateway.Owner, gateway.Answer{Decision: v.Wire().String(), Standing: &grant})
}

// proposeAs asks for the same small work with some terms changed.
func (s *side) proposeAs(mend func(*manifest.Draft)) gateway.Proposed {
	s.t.Helper()
	d := manifest.Draft{Title: "Nothing", Goal: "do nothing", Output: map[string]any{"type": "object"}, Sandbox: manifest.DraftSandbox{ClaimedOK: true},
		Check: []manifest.DraftCheck{{Word: "schema"}}, Gates: []string{"contract"}}
	if mend != nil {
		mend(&d)
	}
	p, err := s.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: d})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.answer(s.askOf(p.Task), approval.Allow); err != nil {
		s.t.Fatal(err)
	}
	return p
}

// accepted says how a task was accepted at Ben's: by a standing yes, or an ask that waits.
func (s *side) accepted(id string) (by string) {
	s.t.Helper()
	s.until("decided about", func() bool {
		v := s.state(id)
		for _, g := range v.Gates {
			if g.State == string(approval.Waiting) {
				by = "asked"
			}
		}
		for _, m := range v.History {
			if m.Kind == manifest.KindAccepted && by == "" {
				by = "accepted"
			}
		}
		return by != ""
	})
	return by
}

// A standing yes serves its uses and no more; each is recorded, survives a
// restart, and stands in the event, where the other owner and an auditor hold it (G6).
func TestAStandingYesIsUsedUp(t *testing.T) {
	ann, ben := pair(t)
	ctx := context.Background()
	first := ann.proposeAs(nil)
	if out, err := ben.stand(ben.askOf(first.Task), 3, 24*time.Hour, nil); err != nil || out.Outcome != "accepted" {
		t.Fatalf("%+v, %v", out, err)
	}
	ids := []string{first.Task}
	for range 2 {
		p := ann.proposeAs(func(d *manifest.Draft) { d.Goal = "other words" })
		if by := ben.accepted(p.Task); by != "accepted" {
			t.Fatalf("within the grant: %s", by)
		}
		ids = append(ids, p.Task)
		ben.restart()
	}
	over := ann.proposeAs(nil)
	if by := ben.accepted(over.Task); by != "asked" {
		t.Errorf("beyond its uses: %s", by)
	}
	list, err := ben.g.Standing(ctx, gateway.Owner, gateway.None{})
	if err != nil || len(list) != 1 || list[0].State != "used up" || len(list[0].Uses) != 3 || list[0].Left.InputTokens != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, u := range list[0].Uses {
		if u.Task != ids[i] || u.Use != int64(i+1) {
			t.Errorf("use %d is %+v", i+1, u)
		}
	}
	if g := gateOf(t, ben, ids[2]); !strings.Contains(g.Why, "use 3 of 3") {
		t.Errorf("the task says %+v", g)
	}
	for _, s := range []*side{ann, ben} {
		s.until("ended", func() bool { return s.state(ids[1]).Outcome != "" })
		s.until("acknowledged", func() bool {
			st, err := s.g.Status(ctx, gateway.Owner, gateway.None{})
			return err == nil && st.Outgoing == 0
		})
		b, err := s.g.Export(ctx, gateway.Owner, gateway.Ref{Task: ids[1]})
		if err != nil {
			t.Fatal(err)
		}
		rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{})
		if err != nil || !rep.Verified || !rep.Binding {
			t.Fatalf("%s: %v %+v", s.home.Config.Name, err, rep.Findings)
		}
		found := false
		for _, ap := range rep.Facts.Approvals {
			found = found || ap.Standing != nil && ap.Standing.Use == 2 && ap.Standing.Uses == 3
		}
		if !found {
			t.Errorf("%s's auditor does not see the standing yes: %+v", s.home.Config.Name, rep.Facts.Approvals)
		}
	}
}

// Whatever is wider than the grant is asked, axis by axis, through the real path (B016).
func TestAStandingYesServesNothingWider(t *testing.T) {
	ann, ben := pair(t)
	first := ann.proposeAs(nil)
	if _, err := ben.stand(ben.askOf(first.Task), 100, 24*time.Hour, nil); err != nil {
		t.Fatal(err)
	}
	for what, mend := range map[string]func(*manifest.Draft){
		"more input":  func(d *manifest.Draft) { d.Budget.InputTokens = "201k" },
		"more output": func(d *manifest.Draft) { d.Budget.OutputTokens = "21k" },
		"more calls":  func(d *manifest.Draft) { d.Budget.ToolCalls = "41" },
		"more time":   func(d *manifest.Draft) { d.Budget.Time = "16m" },
		"longer":      func(d *manifest.Draft) { d.Deadline = "3d" },
		"a retry":     func(d *manifest.Draft) { n := int64(2); d.Verify.Retries = &n },
		"a gate less": func(d *manifest.Draft) { d.Gates = []string{} },
		"a person":    func(d *manifest.Draft) { d.Check = []manifest.DraftCheck{{Word: "person"}} },
		"data":        func(d *manifest.Draft) { d.Data = map[string]any{"a": 1} },
		"a payer":     func(d *manifest.Draft) { d.PaidBy = "plugin" },
		"a workspace": func(d *manifest.Draft) { d.Sandbox.Files = "workspace" },
	} {
		d := manifest.Draft{Title: "Nothing", Goal: "do nothing", Output: map[string]any{"type": "object"}, Sandbox: manifest.DraftSandbox{ClaimedOK: true},
			Check: []manifest.DraftCheck{{Word: "schema"}}, Gates: []string{"contract"}}
		mend(&d)
		p, err := ann.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: d})
		if err != nil {
			t.Fatal(what, err)
		}
		if _, err := ann.answer(ann.askOf(p.Task), approval.Allow); err != nil {
			t.Fatal(what, err)
		}
		if by := ben.accepted(p.Task); by != "asked" {
			t.Errorf("%s: %s", what, by)
		} else if _, err := ben.deny(ben.askOf(p.Task).Ask.AskID.String(), "no"); err != nil { // five open asks are the most (B9)
			t.Fatal(what, err)
		}
	}
	if p := ann.proposeAs(nil); ben.accepted(p.Task) != "accepted" {
		t.Error("the same again is asked")
	}
}

// Taken back, blocked or over, it serves nothing; taking back needs no key, and no agent does it (G6, G9, K3).
func TestAStandingYesEnds(t *testing.T) {
	ctx := context.Background()
	for what, end := range map[string]func(t *testing.T, ann, ben *side, id string){
		"revoked": func(t *testing.T, _, ben *side, id string) {
			if _, err := ben.g.RevokeStanding(ctx, gateway.Caller{Agent: "coder"}, gateway.Revoking{ID: id}); spec.ReasonOf(err) != spec.NotPermitted {
				t.Errorf("an agent takes it back: %v", err)
			}
			if _, err := ben.g.RevokeStanding(ctx, gateway.Owner, gateway.Revoking{ID: "none"}); spec.ReasonOf(err) != spec.NotFound {
				t.Errorf("another: %v", err)
			}
			if v, err := ben.g.RevokeStanding(ctx, gateway.Owner, gateway.Revoking{ID: id[len(id)-4:], Reason: "enough"}); err != nil || v.State != "revoked" || v.Why != "enough" {
				t.Errorf("%+v, %v", v, err)
			}
			if _, err := ben.g.RevokeStanding(ctx, gateway.Owner, gateway.Revoking{ID: id}); spec.ReasonOf(err) != spec.Conflict {
				t.Errorf("twice: %v", err)
			}
		},
		"blocked and not": func(t *testing.T, _, ben *side, id string) {
			for _, do := range []string{"block", "unblock"} {
				if _, err := ben.g.ChangeContact(ctx, gateway.Owner, gateway.ContactChange{Name: "Ann", Do: do}); err != nil {
					t.Fatal(err)
				}
			}
		},
		"over": func(t *testing.T, _, ben *side, id string) {
			ben.until("over", func() bool {
				l, err := ben.g.Standing(ctx, gateway.Owner, gateway.None{})
				return err == nil && l[0].State == "over"
			})
		},
		"narrower rules": func(t *testing.T, _, ben *side, id string) {
			ben.rules.Policy.Ask.Contract.Presence = []string{"passkey"}
			ben.g.Reload(ben.rules)
		},
	} {
		t.Run(what, func(t *testing.T) {
			ann, ben := pair(t)
			first := ann.proposeAs(nil)
			span := 24 * time.Hour
			if what == "over" {
				span = 2 * time.Second
			}
			a := ben.askOf(first.Task)
			if _, err := ben.stand(a, 5, span, nil); err != nil {
				t.Fatal(err)
			}
			end(t, ann, ben, a.Ask.AskID.String())
			if p := ann.proposeAs(nil); ben.accepted(p.Task) != "asked" {
				t.Error("it still serves")
			}
		})
	}
}

// What cannot stand does not, and nobody signs a wider one than was asked (G6).
func TestWhatCannotStandDoesNot(t *testing.T) {
	ann, ben := pair(t)
	p := ann.propose()
	if _, err := ann.stand(ann.askOf(p.Task), 5, time.Hour, nil); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("a person's own proposal: %v, want not-permitted", err)
	}
	ann.allow(manifest.ContractGate)
	a := ben.ask(manifest.ContractGate)
	for what, mend := range map[string]func(*manifest.Standing, *manifest.GateDecision){
		"more tokens": func(s *manifest.Standing, d *manifest.GateDecision) {
			s.Each.InputTokens++
			d.SubjectDigest = s.Subject()
		},
		"more in all": func(s *manifest.Standing, d *manifest.GateDecision) {
			s.Total.InputTokens++
			d.SubjectDigest = s.Subject()
		},
		"another contact": func(s *manifest.Standing, d *manifest.GateDecision) {
			s.Contact = ben.home.Agent.DID()
			d.SubjectDigest = s.Subject()
		},
		"101 uses": func(s *manifest.Standing, d *manifest.GateDecision) { s.Uses = 101; d.SubjectDigest = s.Subject() },
		"a year": func(s *manifest.Standing, d *manifest.GateDecision) {
			s.Until = d.DecidedAt
			d.SubjectDigest = s.Subject()
		},
		"another grant":    func(s *manifest.Standing, _ *manifest.GateDecision) { s.Uses = 4 },
		"the ask's own":    func(_ *manifest.Standing, d *manifest.GateDecision) { d.SubjectDigest = a.Ask.SubjectDigest },
		"said once":        func(_ *manifest.Standing, d *manifest.GateDecision) { d.Lasts = "once" },
		"a no":             func(_ *manifest.Standing, d *manifest.GateDecision) { d.Verdict = "deny" },
		"in a chat":        func(_ *manifest.Standing, d *manifest.GateDecision) { d.Presence = "channel:chat" },
		"another contract": func(_ *manifest.Standing, d *manifest.GateDecision) { d.ContractDigest = a.Ask.SubjectDigest },
	} {
		if out, err := ben.stand(a, 5, time.Hour, mend); err == nil {
			t.Errorf("%s: %+v", what, out)
		}
	}
	if l, err := ben.g.Standing(context.Background(), gateway.Owner, gateway.None{}); err != nil || len(l) != 0 {
		t.Fatalf("%+v, %v", l, err)
	}
	ben.allow(manifest.ContractGate)
	if _, err := ann.stand(ann.ask(manifest.DeliveryGate), 5, time.Hour, nil); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("a delivery: %v, want not-permitted", err)
	}
}
