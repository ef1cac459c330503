package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/spec"
)

func amount(n int64) *Amount { a := Amount(n); return &a }

func noGates(m *manifest.TaskManifest) { m.HITLPolicy.RequiredGates = []manifest.Gate{} }

// proposing is the case in which ann's agent would propose.
func proposing(t *testing.T, mend func(*manifest.TaskManifest)) Case {
	s := newScene(t, mend)
	return s.draft(asR, asR, s.proposal())
}

// accepting is the case in which ben's agent would accept.
func accepting(t *testing.T, mend func(*manifest.TaskManifest)) Case {
	s := newScene(t, mend)
	s.say(asR, s.proposal())
	return s.draft(asW, asW, s.acceptance())
}

// TestNothingIsTakenOnUnasked: where the manifest names no gate the policy adds
// one (G1), to the people of its row, until no later than the deadline (G4).
func TestNothingIsTakenOnUnasked(t *testing.T) {
	for name, c := range map[string]Case{"proposed": proposing(t, noGates), "accepted": accepting(t, noGates)} {
		d := Default().Decide(c)
		if d.Outcome != Hold || !d.Gate.Added || !slices.Equal(d.Gate.Who, []string{"me"}) || d.Gate.Need != 1 ||
			!d.Gate.Until.Equal(t0.Add(WaitContract)) || !slices.Equal(d.Gate.Presence, []string{"passkey", "device", "passphrase"}) {
			t.Errorf("%s: Decide = %+v %+v, want a hold for me", name, d, d.Gate)
		}
		c.Consents = []Consent{yes(d.Gate)}
		if d := Default().Decide(c); d.Outcome != Allow || d.Consent == nil {
			t.Errorf("%s with its yes: Decide = %+v, want allow", name, d)
		}
		p := Default()
		p.Ask.Contract.Wait = Duration(MaxAskWait)
		if d := p.Decide(Case{}); d.Outcome != Deny {
			t.Errorf("an empty case: %+v", d)
		}
		c.Consents = nil
		if d := p.Decide(c); !d.Gate.Until.Equal(deadline) {
			t.Errorf("%s: asked until %v, want the deadline", name, d.Gate.Until)
		}
	}
}

// TestRulesRefuse has one row for each way in which a rule or its lack says no.
func TestRulesRefuse(t *testing.T) {
	out, in := proposing(t, nil), accepting(t, nil)
	quarter := Duration(time.Minute)
	for _, c := range []struct {
		name    string
		base    Case
		policy  func(*Policy)
		mend    func(*Case)
		want    spec.Reason
		section string
		index   int
		path    string
	}{
		{"unconfirmed, out", out, nil, func(c *Case) { c.Contact.Confirmed = false }, spec.PolicyDenied, "", -1, ""},
		{"unconfirmed, in", in, nil, func(c *Case) { c.Contact.Confirmed = false }, spec.PolicyDenied, "", -1, ""},
		{"blocked", in, nil, func(c *Case) { c.Contact.Blocked = true }, spec.PolicyDenied, "", -1, ""},
		{"another owner than the contact's", in, nil, func(c *Case) { c.Contact.Owner = ben.owner.DID() }, spec.PolicyDenied, "", -1, ""},
		{"no rules, out", out, func(p *Policy) { p.Outgoing = nil }, nil, spec.PolicyDenied, "outgoing", -1, ""},
		{"no rules, in", in, func(p *Policy) { p.Incoming = nil }, nil, spec.PolicyDenied, "incoming", -1, ""},
		{"a rule for somebody else", in, func(p *Policy) { p.Incoming[0].From = Names{"eve"} }, nil, spec.PolicyDenied, "incoming", -1, ""},
		{"a rule for nobody", in, func(p *Policy) { p.Incoming[0].From = Names{} }, nil, spec.PolicyDenied, "incoming", -1, ""},
		{"the first rule decides", in, func(p *Policy) {
			p.Incoming = append([]Incoming{{Name: "no", From: Names{"other"}, Then: ThenRefuse}}, p.Incoming...)
		}, nil, spec.PolicyDenied, "incoming", 0, ""},
		{"an unknown word", in, func(p *Policy) { p.Incoming[0].Then = "yes" }, nil, spec.PolicyDenied, "incoming", 0, ""},
		{"allow is no word of a contract", in, func(p *Policy) { p.Incoming[0].Then = ThenAllow }, nil, spec.PolicyDenied, "incoming", 0, ""},
		{"another agent, in", in, func(p *Policy) { p.Incoming[0].Agent = "else" }, nil, spec.PolicyDenied, "incoming", 0, ""},
		{"another agent, out", out, func(p *Policy) { p.Outgoing[0].Agent = "else" }, nil, spec.PolicyDenied, "outgoing", -1, ""},
		{"too many tokens", in, func(p *Policy) { p.Incoming[0].AtMost.InputTokens = amount(999) }, nil, spec.PolicyDenied, "incoming", 0, "/budget/maxInputTokens"},
		{"none at all", in, func(p *Policy) { p.Incoming[0].AtMost.ToolCalls = amount(0) }, nil, spec.PolicyDenied, "incoming", 0, "/budget/maxToolInvocations"},
		{"too long", in, func(p *Policy) { p.Incoming[0].AtMost.Time = &quarter }, nil, spec.PolicyDenied, "incoming", 0, "/budget/maxWallClockSeconds"},
		{"a box we do not have", in, nil, func(c *Case) { c.Isolation = nil }, spec.UnsupportedIsolation, "incoming", 0, "/body/isolation/level"},
		{"no task today", in, func(p *Policy) { p.Incoming[0].PerDay.Tasks = amount(0) }, nil, spec.Quota, "incoming", 0, ""},
		{"too many tokens a day", in, func(p *Policy) { p.Incoming[0].PerDay.OutputTokens = amount(499) }, nil, spec.Quota, "incoming", 0, ""},
		{"none at once", in, func(p *Policy) { p.Incoming[0].AtOnce = new(int64) }, nil, spec.Quota, "incoming", 0, ""},
		{"a file that nobody named", out, nil, func(c *Case) { c.Files = []string{"/home/ann/.ssh/id"} }, spec.PolicyDenied, "outgoing", 0, "/inputs/0"},
		{"a second file outside", out, func(p *Policy) { p.Outgoing[0].MaySend = []string{"/s/**"} },
			func(c *Case) { c.Files = []string{"/s/a", "/t/a"} }, spec.PolicyDenied, "outgoing", 0, "/inputs/1"},
		{"nobody to ask", in, func(p *Policy) { p.Ask.Contract.Who = nil }, nil, spec.PolicyDenied, "", -1, ""},
		{"an approver whose day is over", in, func(p *Policy) {
			p.People = map[string]Person{"me": {Key: ben.owner.DID(), Gates: GateWords(), Until: "2026-11-29"}}
		}, nil, spec.PolicyDenied, "", -1, ""},
		{"an approver of another gate", in, func(p *Policy) {
			p.People = map[string]Person{"me": {Key: ben.owner.DID(), Gates: []GateWord{EffectWord}}}
		}, nil, spec.PolicyDenied, "", -1, ""},
		{"too few for a quorum", in, func(p *Policy) { p.Ask.Contract.Need = 2 }, nil, spec.PolicyDenied, "", -1, ""},
	} {
		p, k := Default(), c.base
		if c.policy != nil {
			c.policy(&p)
		}
		if c.mend != nil {
			c.mend(&k)
		}
		d := p.Decide(k)
		if d.Outcome != Deny || d.Reason != c.want || d.Section != c.section && c.section != "" || d.Path != c.path || c.section != "" && d.Index != c.index {
			t.Errorf("%s: Decide = %+v, want %s of %s/%d at %q", c.name, d, c.want, c.section, c.index, c.path)
		}
	}
}

// TestNamedFilesLeave: a person named them, or may_send lists them (K3).
func TestNamedFilesLeave(t *testing.T) {
	c := proposing(t, nil)
	c.Files, c.NamedFiles = []string{"/home/ann/.hidden", "/s/a.csv"}, []string{"/home/ann/.hidden"}
	p := Default()
	p.Outgoing[0].MaySend = []string{"/s/*.csv"}
	if d := p.Decide(c); d.Outcome != Hold {
		t.Errorf("Decide = %+v, want a hold", d)
	}
}

// TestACommandRunsOnlyIfThePolicyListsIt is M6.
func TestACommandRunsOnlyIfThePolicyListsIt(t *testing.T) {
	zero := int64(0)
	c := proposing(t, func(m *manifest.TaskManifest) {
		m.Verification.Checks = []manifest.Check{{CheckID: must(manifest.ParseCheckID("chk_1")), Kind: "deterministic_command", Target: "python3 check.py", ExpectedExitCode: &zero}}
	})
	p := Default()
	if d := p.Decide(c); d.Outcome != Deny || d.Section != "checks" || d.Path != "/verification/checks/0/target" {
		t.Errorf("Decide = %+v, want a refusal", d)
	}
	p.Checks = []string{"python3 check.py --fast", "python3", "python3 *"} // the whole line, and no pattern
	if d := p.Decide(c); d.Outcome != Deny {
		t.Errorf("Decide = %+v, want a refusal", d)
	}
	p.Checks = append(p.Checks, "python3 check.py")
	if d := p.Decide(c); d.Outcome != Hold {
		t.Errorf("Decide = %+v, want a hold", d)
	}
	c.Isolation = nil
	if d := p.Decide(c); d.Outcome != Deny || d.Reason != spec.UnsupportedIsolation {
		t.Errorf("without a box: Decide = %+v, want unsupported-isolation", d)
	}
}

// TestADayIsCounted: each task of a contact is charged once to its day, and
// what it did not use comes back at its end (B8, B014).
func TestADayIsCounted(t *testing.T) {
	s := newScene(t, noGates)
	s.say(asR, s.proposal())
	c := s.draft(asW, asW, s.acceptance())
	p := Default()
	one := int64(1)
	p.Incoming[0].PerDay, p.Incoming[0].AtOnce = PerDay{Tasks: amount(2), OutputTokens: amount(900)}, &one
	c.Consents = []Consent{yes(p.Decide(c).Gate)}
	d := p.Decide(c)
	l, err := c.Ledger.Apply(d.Moves...)
	if d.Outcome != Allow || err != nil {
		t.Fatalf("Decide = %+v, %v", d, err)
	}
	day := func(k AccountKind) Balance { return l.Of(ContactAccount(k, ann.owner.DID(), asW, "2026-11-30")) }
	if day(DayTasks).Reserved() != 1 || day(DayOutput).Reserved() != 500 {
		t.Errorf("held: %+v %+v, want a task and 500 tokens", day(DayTasks), day(DayOutput))
	}
	c.Ledger = l
	if d := p.Decide(c); d.Outcome != Deny || d.Reason != spec.Quota {
		t.Errorf("a second task at once: %+v, want quota", d)
	}
	s.say(asW, s.acceptance()).say(asW, manifest.Started{})
	fail := s.draft(asW, asW, manifest.Failed{Reason: "internal", Usage: used(400)})
	fail.Ledger = l
	d = p.Decide(fail)
	if l, err = l.Apply(d.Moves...); d.Outcome != Allow || err != nil {
		t.Fatalf("Decide(failed) = %+v, %v", d, err)
	}
	if b := day(DayOutput); b.Committed != 40 || b.Reserved() != 0 || day(DayTasks).Committed != 1 {
		t.Errorf("after the end: %+v %+v, want 40 tokens and one task", b, day(DayTasks))
	}
	if b := l.Of(ContactAccount(OpenTasks, ann.owner.DID(), asW, "")); b.Reserved() != 0 {
		t.Errorf("the place among the open tasks is still held: %+v", b)
	}
	fail.Ledger = l
	if again := p.Decide(fail); len(again.Moves) != 0 {
		t.Errorf("settled twice: %+v", again.Moves)
	}
}

// TestAccountsAreWhatDecidingReads: a ledger with just those decides as the whole one.
func TestAccountsAreWhatDecidingReads(t *testing.T) {
	c := accepting(t, nil)
	p := Default()
	p.Incoming[0].PerDay = PerDay{Tasks: amount(1), InputTokens: amount(5000), OutputTokens: amount(5000), ToolCalls: amount(50)}
	p.Incoming[0].AtOnce = new(int64)
	*p.Incoming[0].AtOnce = 1
	c.Consents = []Consent{yes(p.Decide(c).Gate)}
	listed := Accounts(c)
	for _, m := range p.Decide(c).Moves {
		if !slices.Contains(listed, m.Account) {
			t.Errorf("%v is moved and not listed", m.Account)
		}
	}
}

// TestAmendmentsNeedAPersonAndStayWithinTheRule.
func TestAmendmentsNeedAPersonAndStayWithinTheRule(t *testing.T) {
	s := newScene(t, noGates).working()
	s.say(asR, s.asks(2000))
	c := s.draft(asW, asW, manifest.Answered{Ask: s.task.Asks()[0].Event, Yes: true})
	p := Default()
	if d := p.Decide(c); d.Outcome != Hold || d.Gate.Gate != manifest.BudgetGate || !d.Gate.Added || !d.Gate.Until.Equal(t0.Add(WaitBudget)) {
		t.Errorf("Decide(yes) = %+v, want a hold on the budget", d)
	}
	p.Incoming[0].AtMost.InputTokens = amount(1999)
	if d := p.Decide(c); d.Outcome != Deny || d.Path != "/budget/maxInputTokens" {
		t.Errorf("Decide(yes to more than the rule allows) = %+v, want deny", d)
	}
	c = s.draft(asW, asW, manifest.Answered{Ask: s.task.Asks()[0].Event})
	if d := p.Decide(c); d.Outcome != Allow {
		t.Errorf("Decide(no) = %+v, want allow", d)
	}
	c = newScene(t, noGates).working().draft(asW, asW, s.asks(1500))
	if d := Default().Decide(c); d.Outcome != Allow {
		t.Errorf("Decide(what the owner asks) = %+v, want allow", d)
	}
	c.Wished = true
	if d := Default().Decide(c); d.Outcome != Hold || d.Gate.Gate != manifest.BudgetGate || !d.Gate.Added {
		t.Errorf("Decide(what an agent wishes) = %+v, want a hold on the budget", d)
	}
}

// TestAnEndNeedsNoRule: nobody is held in a task by a policy (B020).
func TestAnEndNeedsNoRule(t *testing.T) {
	s := newScene(t, nil).working()
	for _, x := range []struct {
		by manifest.Role
		f  manifest.Fact
	}{{asR, manifest.Cancelled{Reason: "no"}}, {asW, manifest.Failed{Reason: "internal", Usage: used(1)}}} {
		c := s.draft(x.by, x.by, x.f)
		c.Contact = Contact{Blocked: true}
		if d := (Policy{}).Decide(c); d.Outcome != Allow {
			t.Errorf("%s under an empty policy: %+v, want allow", x.f.Kind(), d)
		}
	}
}

// TestDecideOnlyNarrows is G1 as a property: Decide never allows what Contract
// does not, never without a gate that Contract holds; and a rule that refuses,
// put anywhere, never widens.
func TestDecideOnlyNarrows(t *testing.T) {
	var cases []Case
	for _, mend := range []func(*manifest.TaskManifest){nil, noGates} {
		s := newScene(t, mend)
		cases = append(cases, s.draft(asR, asR, s.proposal()), s.draft(asR, asW, s.proposal()))
		s.say(asR, s.proposal())
		cases = append(cases, s.draft(asW, asW, s.acceptance()), s.draft(asW, asR, s.acceptance()), s.draft(asR, asR, manifest.Started{}))
		s.say(asW, s.acceptance()).say(asW, manifest.Started{})
		cases = append(cases, s.draft(asW, asW, s.asks(2000)), s.draft(asR, asR, s.asks(200)), s.draft(asW, asW, s.delivery()))
		s.say(asW, s.asks(3000))
		cases = append(cases, s.draft(asR, asR, manifest.Answered{Ask: s.task.Asks()[0].Event, Yes: true}))
		s.say(asW, s.delivery())
		cases = append(cases, s.draft(asR, asR, s.completion()), s.draft(asW, asW, s.delivery()))
	}
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(cases).Draw(t, "case")
		p := drawPolicy(t)
		c.Contact.Confirmed = rapid.Bool().Draw(t, "confirmed")
		c.Caller = rapid.SampledFrom([]string{"", "coder", "claude"}).Draw(t, "caller")
		if g := Contract(c).Gate; g != nil && rapid.Bool().Draw(t, "consent") {
			c.Consents = append(c.Consents, yes(g))
		}
		if g := p.Decide(c).Gate; g != nil && rapid.Bool().Draw(t, "local consent") {
			c.Consents = append(c.Consents, yes(g))
		}
		law, d := Contract(c), p.Decide(c)
		if wider(d.Outcome, law.Outcome) {
			t.Fatalf("Decide %s what Contract %s:\n%+v\n%+v", d.Outcome, law.Outcome, d, law)
		}
		q := p
		no := fmt.Sprint("no", rapid.Int().Draw(t, "name"))
		i := rapid.IntRange(0, len(p.Incoming)).Draw(t, "at")
		q.Incoming = slices.Insert(slices.Clone(p.Incoming), i, Incoming{Name: no, From: drawNames(t), Then: ThenRefuse})
		j := rapid.IntRange(0, len(p.Outgoing)).Draw(t, "at")
		q.Outgoing = slices.Insert(slices.Clone(p.Outgoing), j, Outgoing{Name: no, To: drawNames(t), Then: ThenRefuse})
		if n := q.Decide(c); wider(n.Outcome, d.Outcome) {
			t.Fatalf("a rule that refuses widens %s to %s", d.Outcome, n.Outcome)
		}
	})
}

// wider orders deny < hold < allow.
func wider(a, b Outcome) bool {
	rank := map[Outcome]int{Deny: 0, Hold: 1, Allow: 2}
	return rank[a] > rank[b]
}

func drawNames(t *rapid.T) Names {
	return rapid.SampledFrom([]Names{{Anyone}, {"other"}, {"eve"}, {"eve", "other"}, nil}).Draw(t, "names")
}

func drawPolicy(t *rapid.T) Policy {
	p := Default()
	p.Incoming, p.Outgoing = nil, nil
	then := []Then{ThenAsk, ThenAsk, ThenRefuse, ThenAllow, ""}
	figures := []*Amount{nil, nil, amount(0), amount(500), amount(5000)}
	for range rapid.IntRange(0, 3).Draw(t, "incoming") {
		p.Incoming = append(p.Incoming, Incoming{Name: "in", From: drawNames(t), Agent: rapid.SampledFrom([]string{"", "coder"}).Draw(t, "agent"),
			AtMost: AtMost{InputTokens: rapid.SampledFrom(figures).Draw(t, "most")}, PerDay: PerDay{Tasks: rapid.SampledFrom(figures).Draw(t, "day")},
			Then: rapid.SampledFrom(then).Draw(t, "then")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "outgoing") {
		p.Outgoing = append(p.Outgoing, Outgoing{Name: "out", To: drawNames(t), Agent: rapid.SampledFrom([]string{"", "claude"}).Draw(t, "agent"),
			AtMost: AtMost{InputTokens: rapid.SampledFrom(figures).Draw(t, "most")}, Then: rapid.SampledFrom(then).Draw(t, "then")})
	}
	if rapid.IntRange(0, 9).Draw(t, "people") == 0 {
		p.People = nil
	}
	return p
}

// TestErrSaysWordPathAndLimit: a denial leaves with them and with no text of ours.
func TestErrSaysWordPathAndLimit(t *testing.T) {
	d := deny("V2", spec.VerificationFailed, "/body/report/verdict", "pass")
	if err := d.Err(); spec.ReasonOf(err) != spec.VerificationFailed || pathOf(err) != "/body/report/verdict" || limitOf(err) != "pass" {
		t.Errorf("Err = %v", err)
	}
	if err := (Decision{Outcome: Hold, Gate: &Gate{Gate: manifest.SubGate}}).Err(); spec.ReasonOf(err) != spec.GateOpen {
		t.Errorf("Err of a hold = %v, want gate-open", err)
	}
	if err := (Decision{Outcome: Allow}).Err(); err != nil {
		t.Errorf("Err of an allow = %v", err)
	}
}

// TestFactsAreJudgedByTheLawAlone: the owner's rules say nothing of what the other side signed.
func TestFactsAreJudgedByTheLawAlone(t *testing.T) {
	s := newScene(t, noGates)
	c := s.draft(asR, asW, s.proposal())
	c.Contact.Confirmed = false
	if law, d := Contract(c), (Policy{}).Decide(c); law.Outcome != Allow || d.Outcome != Allow {
		t.Errorf("Contract = %s, Decide = %+v: want allow", law.Outcome, d)
	}
}

// TestTheWorkerIsTheOneOfTheRuleThatFits: by contact and type, top down; a rule that fits and names nobody names nobody.
func TestTheWorkerIsTheOneOfTheRuleThatFits(t *testing.T) {
	p := Policy{Incoming: []Incoming{
		{Name: "1", From: Names{"ben"}, Tasks: []string{"review"}, Agent: "critic", Then: ThenAsk},
		{Name: "2", From: Names{"ben"}, Agent: "coder", Then: ThenAsk},
		{Name: "3", From: Names{Anyone}, Then: ThenAsk},
		{Name: "4", From: Names{Anyone}, Agent: "never", Then: ThenAsk},
	}}
	for _, c := range [][3]string{{"ben", "review", "critic"}, {"ben", "report", "coder"}, {"ben", "", "coder"}, {"eve", "review", ""}} {
		if got := p.Worker(c[0], c[1]); got != c[2] {
			t.Errorf("Worker(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
