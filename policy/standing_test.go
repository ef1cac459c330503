package policy

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// benStands is Ben's standing yes to contracts like the scene's.
func benStands(uses int64) Consent {
	m := contract(nil)
	s := manifest.Standing{Gate: manifest.ContractGate, Side: asW, Contact: ann.owner.DID(), Agent: "coder", Each: m.Budget.Limits(),
		Total:   manifest.Meters{InputTokens: 1000 * uses, OutputTokens: 500 * uses, ToolInvocations: 10 * uses, WallClockSeconds: 600 * uses},
		Seconds: int64(deadline.Sub(t0) / time.Second), Retries: 1, Mode: "schema_only", Over: m.Budget.OnOverrun, Gates: m.HITLPolicy.RequiredGates, Level: "subprocess_restricted", Scope: "ephemeral_workspace_only",
		Box: &manifest.Isolation{Level: "subprocess_restricted", Enforced: "gateway"}, Model: "none", Uses: uses, From: signing.TimeOf(t0), Until: signing.TimeOf(t0.Add(24 * time.Hour))}
	return Consent{Gate: manifest.ContractGate, AskDigest: signing.DigestOf([]byte("ask")), Contract: signing.DigestOf([]byte("another")), Subject: s.Subject(),
		Owner: ben.owner.DID(), Decision: signing.DigestOf([]byte(`{"decision":1}`)), Lasts: manifest.LastsStanding, Grant: &s, Presence: "passphrase"}
}

func mendGrant(k Consent, f func(*manifest.Standing)) Consent {
	s := *k.Grant
	f(&s)
	k.Grant, k.Subject = &s, s.Subject()
	return k
}

// G6: a standing yes serves the contracts within its grant, with its uses moved in the step.
func TestAStandingYesServesItsContractsAndIsUsedUp(t *testing.T) {
	s := newScene(t, nil).say(asR, newScene(t, nil).proposal())
	c := s.draft(asW, asW, s.acceptance())
	c.Consents = []Consent{benStands(2)}
	for i, want := range []Outcome{Allow, Allow, Hold} {
		for _, a := range Accounts(c) {
			if a.Kind == StandingUses && !c.Ledger.Has(a) && i > 0 {
				t.Fatal("its uses are not counted")
			}
		}
		d := Contract(c)
		if d.Outcome != want {
			t.Fatalf("use %d: %+v, want %s", i+1, d, want)
		}
		if want == Allow {
			c.Ledger = must(c.Ledger.Apply(d.Moves...))
		}
	}
}

// The law takes no standing yes for anything but what it was said of.
func TestAStandingYesServesNothingElse(t *testing.T) {
	s := newScene(t, nil).say(asR, newScene(t, nil).proposal())
	c := s.draft(asW, asW, s.acceptance())
	for what, k := range map[string]Consent{
		"another owner's":   func() Consent { k := benStands(5); k.Owner = ann.owner.DID(); return k }(),
		"another gate's":    func() Consent { k := benStands(5); k.Gate = manifest.DeliveryGate; return k }(),
		"no decision":       func() Consent { k := benStands(5); k.Decision = signing.Digest{}; return k }(),
		"another grant's":   func() Consent { k := benStands(5); k.Subject = signing.DigestOf(nil); return k }(),
		"no grant":          func() Consent { k := benStands(5); k.Grant = nil; return k }(),
		"for once":          func() Consent { k := benStands(5); k.Lasts = LastsOnce; return k }(),
		"for ever":          func() Consent { k := benStands(5); k.Lasts = "ever"; return k }(),
		"the other side's":  mendGrant(benStands(5), func(s *manifest.Standing) { s.Side, s.Box, s.Model = asR, nil, "any" }),
		"another contact's": mendGrant(benStands(5), func(s *manifest.Standing) { s.Contact = ben.agent.DID() }),
		"another type's":    mendGrant(benStands(5), func(s *manifest.Standing) { s.TaskType = "report" }),
		"a smaller one's":   mendGrant(benStands(5), func(s *manifest.Standing) { s.Each.OutputTokens-- }),
		"a smaller total's": mendGrant(benStands(5), func(s *manifest.Standing) { s.Total.ToolInvocations = 9 }),
		"of another box": mendGrant(benStands(5), func(s *manifest.Standing) {
			s.Box = &manifest.Isolation{Level: "subprocess_restricted", Enforced: "claimed"}
		}),
		"of another model":     mendGrant(benStands(5), func(s *manifest.Standing) { s.Model = "own" }),
		"over":                 mendGrant(benStands(5), func(s *manifest.Standing) { s.From, s.Until = signing.TimeOf(t0.Add(-time.Hour)), signing.TimeOf(t0) }),
		"not yet":              mendGrant(benStands(5), func(s *manifest.Standing) { s.From = signing.TimeOf(t0.Add(time.Second)) }),
		"longer than a month":  mendGrant(benStands(5), func(s *manifest.Standing) { s.Until = signing.TimeOf(t0.Add(31 * 24 * time.Hour)) }),
		"more than it can be":  mendGrant(benStands(5), func(s *manifest.Standing) { s.Uses = 101 }),
		"of a contract's gate": mendGrant(benStands(5), func(s *manifest.Standing) { s.Gates = append(s.Gates[:2:2], manifest.SubGate) }),
	} {
		c.Consents = []Consent{k}
		if d := Contract(c); d.Outcome != Hold {
			t.Errorf("%s: %s, want hold", what, d.Outcome)
		}
	}
	w := newScene(t, nil).delivered()
	for what, c := range map[string]Case{"an amendment": w.draft(asW, asW, w.asks(2000)), "a delivery": w.draft(asR, asR, w.completion())} {
		for _, owner := range []party{ann, ben} {
			k := benStands(5)
			k.Owner = owner.owner.DID()
			c.Consents = []Consent{k}
			if d := Contract(c); d.Outcome != Hold {
				t.Errorf("%s: %s, want hold", what, d.Outcome)
			}
		}
	}
}

// The other owner and an auditor find the grant in the event, and hold it to its bounds (G6, G11).
func TestAStandingYesStandsInTheEvent(t *testing.T) {
	s := newScene(t, nil).say(asR, newScene(t, nil).proposal())
	k := benStands(2)
	f := s.acceptance()
	f.Decision, f.Standing = holdDecision(), &manifest.StandingUse{Grant: *k.Grant, Use: 2}
	k.Decision, k.Presence = signing.DigestOf(f.Decision.Bytes()), ""
	for _, role := range []manifest.Role{asR, ""} {
		c := s.draft(asW, asR, f)
		c.Role, c.Consents = role, []Consent{k}
		d := Contract(c)
		if d.Outcome != Allow {
			t.Fatalf("as %q: %+v, want allow", role, d)
		}
		if role == asR { // its own ledger says no from the third task on
			l := must(c.Ledger.Apply(d.Moves...))
			c.Ledger = must(l.Apply(d.Moves...))
			if d := Contract(c); d.Outcome != Deny {
				t.Errorf("a third use of two: %+v, want deny", d)
			}
			c.Ledger = Ledger{}
		}
		for what, use := range map[string]*manifest.StandingUse{"nothing": nil, "use 0": {Grant: *k.Grant}, "use 3 of 2": {Grant: *k.Grant, Use: 3},
			"another grant": {Grant: *mendGrant(k, func(s *manifest.Standing) { s.Uses = 3 }).Grant, Use: 1}} {
			f.Standing = use
			c.Event = s.task.Next(ben.agent.DID(), manifest.Body{Fact: f}, t0)
			if d := Contract(c); d.Outcome != Deny {
				t.Errorf("as %q, with %s in the event: %+v, want deny", role, what, d)
			}
		}
		f.Standing = &manifest.StandingUse{Grant: *k.Grant, Use: 2}
	}
}

// The owner's rules of today narrow what was said before (G12).
func TestTodaysRulesNarrowAStandingYes(t *testing.T) {
	s := newScene(t, nil).say(asR, newScene(t, nil).proposal())
	good := Policy{Version: 1, People: map[string]Person{"me": {Owner: true}, "you": {Key: ann.agent.DID(), Gates: []GateWord{ContractWord}}}, Ask: Asks{Contract: Ask{Who: []string{"me", "you"}}},
		Incoming: []Incoming{{Name: "in", From: Names{"other"}, Then: ThenAsk}}}
	for what, c := range map[string]struct {
		mend func(*Policy, *Case)
		want Outcome
	}{
		"as it was":       {func(*Policy, *Case) {}, Allow},
		"asks again":      {func(p *Policy, _ *Case) { p.Ask.Contract.StepUp = true }, Hold},
		"wants two":       {func(p *Policy, _ *Case) { p.Ask.Contract.Need = 2 }, Hold},
		"wants a passkey": {func(p *Policy, _ *Case) { p.Ask.Contract.Presence = []string{"passkey"} }, Hold},
		"another agent":   {func(_ *Policy, c *Case) { c.Caller = "claude" }, Hold},
		"another contact": {func(_ *Policy, c *Case) {
			k := mendGrant(c.Consents[0], func(s *manifest.Standing) { s.Contact = ben.owner.DID() })
			c.Consents = []Consent{k}
		}, Hold},
		"refuses him":        {func(p *Policy, _ *Case) { p.Incoming[0].Then = ThenRefuse }, Deny},
		"smaller bounds":     {func(p *Policy, _ *Case) { n := Amount(1); p.Incoming[0].AtMost.InputTokens = &n }, Deny},
		"not confirmed":      {func(_ *Policy, c *Case) { c.Contact.Confirmed = false }, Deny},
		"blocked":            {func(_ *Policy, c *Case) { c.Contact.Blocked = true }, Deny},
		"no task left today": {func(p *Policy, _ *Case) { n := Amount(0); p.Incoming[0].PerDay.Tasks = &n }, Deny},
	} {
		p, x := good, s.draft(asW, asW, s.acceptance())
		p.Incoming = append([]Incoming{}, good.Incoming...)
		x.Consents = []Consent{benStands(5)}
		c.mend(&p, &x)
		if d := p.Decide(x); d.Outcome != c.want {
			t.Errorf("%s: %+v, want %s", what, d, c.want)
		}
	}
}

// Whatever is asked for, uses and totals are never passed.
func TestNoSequenceOfUsesPassesTheGrant(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		uses := rapid.Int64Range(1, 4).Draw(rt, "uses")
		k := mendGrant(benStands(uses), func(s *manifest.Standing) { s.Total.OutputTokens = rapid.Int64Range(0, 2000).Draw(rt, "total") })
		ledger, agreed, n := Ledger{}, int64(0), int64(0)
		for i := range 8 {
			out := rapid.Int64Range(0, 600).Draw(rt, "output")
			mend := func(m *manifest.TaskManifest) {
				m.TaskID = must(manifest.ParseTaskID("task_number_" + string(rune('a'+i))))
				m.Budget.MaxOutputTokens = out
			}
			s := newScene(t, mend).say(asR, newScene(t, mend).proposal())
			c := s.draft(asW, asW, s.acceptance())
			c.Ledger, c.Consents = ledger, []Consent{k}
			if d := Contract(c); d.Outcome == Allow {
				ledger, agreed, n = must(ledger.Apply(d.Moves...)), agreed+out, n+1
			}
		}
		if n > uses || agreed > k.Grant.Total.OutputTokens {
			rt.Fatalf("%d uses of %d, %d of %d tokens", n, uses, agreed, k.Grant.Total.OutputTokens)
		}
	})
}
