package policy

import (
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// handing is a task of Ann and Ben at work that may be handed on once.
func handing(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, func(m *manifest.TaskManifest) {
		m.Permissions.MaxDelegationDepth = 1
		m.HITLPolicy.RequiredGates = append(m.HITLPolicy.RequiredGates, manifest.SubGate)
		m.IO.InputArtifacts = []manifest.ArtifactRef{{Name: "sales.csv", Digest: signing.DigestOf([]byte("sales")), MediaType: "text/csv", SizeBytes: 5}}
	})
	p := s.proposal()
	p.Passes = []jcs.Value{passFor(s.m, ann.agent, nil, nil)}
	return s.say(asR, p).say(asW, s.acceptance()).say(asW, manifest.Started{})
}

// part is a child of the scene for Cleo, as the mend has it.
func (s *scene) part(mend func(*manifest.TaskManifest)) *manifest.Child {
	m := s.m
	m.TaskID, m.ParentTaskID = must(manifest.ParseTaskID("task_part_0001")), &s.m.TaskID
	m.Requester, m.Worker = *s.m.Worker, &manifest.Party{OwnerDid: cleo.owner.DID(), AgentDid: cleo.agent.DID()}
	m.Permissions.MaxDelegationDepth = 0
	m.Budget.MaxInputTokens, m.Budget.MaxOutputTokens, m.Budget.MaxToolInvocations, m.Budget.MaxWallClockSeconds = 400, 200, 4, 240
	if mend != nil {
		mend(&m)
	}
	c := &manifest.Child{Manifest: must(jcs.Encode(m))}
	if m.Permissions.MaxDelegationDepth > 0 {
		pass := passFor(m, ben.agent, s.task.Passes(), nil)
		c.Pass = &pass
	}
	return c
}

// signedYes is some decision that Ann's owner signed.
func signedYes() *jcs.Value {
	d := manifest.GateDecision{Type: "sealbridge/gate-decision", ProtocolVersion: manifest.ProtocolVersion, AskDigest: signing.DigestOf(nil), AskID: must(manifest.ParseAskID("apr_01JDZ8M4")),
		Gate: manifest.SubGate, TaskID: must(manifest.ParseTaskID("task_01KBQ4T9YJ6W2M8Z3R5X7C1D0E")), ContractDigest: signing.DigestOf(nil), SubjectDigest: signing.DigestOf(nil),
		OwnerDid: ann.owner.DID(), Verdict: "allow", Lasts: "once", Presence: "passphrase", DecidedAt: signing.TimeOf(t0)}
	v := must(manifest.Sign(&d, ann.owner, t0)).Wire()
	return &v
}

func (s *scene) asking(c *manifest.Child) manifest.Asked {
	return manifest.Asked{Contract: s.task.InForce().Digest, Child: c}
}

// TestAChildIsHandedOnByBothOwners is G11: the worker asks, the requester's
// owner decides, then the worker's owner, who names the first.
func TestAChildIsHandedOnByBothOwners(t *testing.T) {
	s := handing(t)
	c := s.part(nil)
	d := Contract(s.draft(asW, asW, s.asking(c)))
	if d.Outcome != Allow || len(d.Moves) != 4 || d.Moves[0] != (Move{Op: Reserve, Account: MeterOf(s.task.Key(), InputTokens), Hold: ChildHold(c.Digest()), Amount: 400}) {
		t.Fatalf("Contract(asked) = %+v, want the share reserved", d)
	}
	s.say(asW, s.asking(c))
	answer := manifest.Answered{Ask: s.task.Asks()[0].Event, Yes: true}
	first := Contract(s.draft(asR, asR, answer))
	if first.Outcome != Hold || first.Gate.Gate != manifest.SubGate || first.Gate.Owner != ann.owner.DID() || first.Gate.Subject != ChildSubject(s.task.InForce().Digest, *c, s.m, nil) {
		t.Fatalf("Contract(answered) = %+v, want a hold for Ann", first)
	}
	answer.Decision = signedYes()
	s.say(asR, answer)
	by := s.task.Asks()[0].AnswerDecision
	next := manifest.Delegated{Child: c.Digest(), Reserved: manifest.Meters{InputTokens: 400, OutputTokens: 200, ToolInvocations: 4, WallClockSeconds: 240}, Answer: s.task.Asks()[0].Answer}
	second := Contract(s.draft(asW, asW, next))
	if second.Outcome != Hold || second.Gate.Owner != ben.owner.DID() || second.Gate.Subject != ChildSubject(s.task.InForce().Digest, *c, s.m, &by) {
		t.Fatalf("Contract(delegated) = %+v, want a hold for Ben that names the first", second)
	}
	if second.Gate.Subject == first.Gate.Subject {
		t.Error("one subject for both")
	}
	for _, by := range []manifest.Role{asR, ""} {
		if d := Contract(s.draft(asW, by, next)); d.Outcome != Deny || d.Reason != spec.GateOpen {
			t.Errorf("without Ben's decision, as %q: %+v, want gate-open", by, d)
		}
	}
	less := next
	less.Reserved.InputTokens--
	if d := Contract(s.draft(asW, asW, less)); d.Outcome != Deny || d.Rule != "B3" {
		t.Errorf("a share that is less than the child may use: %+v", d)
	}
}

// TestAYesNeedsAnAttenuatedChild: what is wider gets no yes, at no owner and in no audit (P1).
func TestAYesNeedsAnAttenuatedChild(t *testing.T) {
	for name, c := range map[string]struct {
		mend func(*manifest.TaskManifest)
		path string
		word spec.Reason
	}{
		"more tokens":  {func(m *manifest.TaskManifest) { m.Budget.MaxInputTokens = 1001 }, "/budget/maxInputTokens", spec.NotAttenuated},
		"longer":       {func(m *manifest.TaskManifest) { m.Deadline = signing.TimeOf(deadline.Add(time.Hour)) }, "/deadline", spec.NotAttenuated},
		"a gate less":  {func(m *manifest.TaskManifest) { m.HITLPolicy.RequiredGates = nil }, "/hitlPolicy/requiredGates", spec.NotAttenuated},
		"as deep":      {func(m *manifest.TaskManifest) { m.Permissions.MaxDelegationDepth = 1 }, "/permissions/maxDelegationDepth", spec.DepthExceeded},
		"back to Ann":  {func(m *manifest.TaskManifest) { m.Worker.OwnerDid = ann.owner.DID() }, "/body/manifest/worker/ownerDid", spec.NotAttenuated},
		"made earlier": {func(m *manifest.TaskManifest) { m.CreatedAt = signing.TimeOf(t0.Add(-time.Hour)) }, "/createdAt", spec.NotAttenuated},
		"with a grant": {func(m *manifest.TaskManifest) {
			m.Permissions.GrantedCapabilities = []manifest.Grant{{Resource: "mcp://docs/*", AllowedTools: []string{"read"}, MaxInvocations: 1, ExpiresAt: m.Deadline}}
			_ = m.Permissions.GrantedCapabilities[0].CapabilityID.UnmarshalText([]byte("cap_docs"))
		}, "/permissions/grantedCapabilities/0", spec.NotAttenuated},
	} {
		s := handing(t)
		ask := s.asking(s.part(c.mend))
		if d := Contract(s.draft(asW, asW, ask)); d.Outcome != Deny || d.Reason != c.word || d.Path != "/body/child"+c.path {
			t.Errorf("%s: Contract(asked) = %+v", name, d)
		}
		if d := Contract(s.draft(asW, asR, ask)); d.Outcome != Allow {
			t.Errorf("%s: what the other side asks is no breach, it gets a no: %+v", name, d)
		}
		s.say(asW, ask)
		yes := manifest.Answered{Ask: s.task.Asks()[0].Event, Yes: true, Decision: holdDecision()}
		for _, by := range []manifest.Role{asR, asW, ""} {
			if d := Contract(s.draft(asR, by, yes)); d.Outcome != Deny || d.Reason != c.word || d.Path != "/body/ask"+c.path {
				t.Errorf("%s: Contract(yes) as %q = %+v", name, by, d)
			}
		}
	}
}

// TestChildrenShareWhatIsLeft is B3: children get no fresh money. Root 9,000,
// 1,000 spent; of three children asking 4,000 each the third finds too little,
// and the root's own work neither; what comes back comes back once (B013).
func TestChildrenShareWhatIsLeft(t *testing.T) {
	s := handing(t)
	key := s.task.Key()
	meter := MeterOf(key, InputTokens)
	l := limits(s.task).With(meter, Balance{Limit: 9000, Committed: 1000})
	ask := func(n string) Decision {
		c := s.draft(asW, asW, s.asking(s.part(func(m *manifest.TaskManifest) {
			m.TaskID = must(manifest.ParseTaskID("task_part_" + n))
			m.Budget.MaxInputTokens, m.Budget.MaxOutputTokens, m.Budget.MaxToolInvocations, m.Budget.MaxWallClockSeconds = 1000, 1, 1, 1
		})))
		c.Ledger = l
		return Contract(c)
	}
	var children []signing.Digest
	for _, n := range []string{"0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008"} {
		d := ask(n)
		if d.Outcome != Allow {
			t.Fatalf("child %s: %+v", n, d)
		}
		l = must(l.Apply(d.Moves...))
		for _, m := range d.Moves {
			if m.Account == meter {
				children = append(children, must(signing.ParseDigest(string(m.Hold)[len("child "):])))
			}
		}
	}
	if l.Of(meter).Free() != 0 {
		t.Fatalf("%d are free, want 0", l.Of(meter).Free())
	}
	if d := ask("0009"); d.Outcome != Deny || d.Reason != spec.BudgetExhausted {
		t.Errorf("one child more: %+v, want budget-exhausted", d)
	}
	if _, err := l.Apply(Move{Op: Reserve, Account: meter, Hold: "run-1", Amount: 1}); spec.ReasonOf(err) != spec.BudgetExhausted {
		t.Errorf("the parent's own work: %v, want budget-exhausted", err)
	}
	back := SettleShare(l, key, children[0], manifest.Meters{InputTokens: 300, OutputTokens: 5})
	l = must(l.Apply(back...))
	if b := l.Of(meter); b.Free() != 700 || b.Committed != 1300 {
		t.Errorf("after the first came back with 300 used: %+v", b)
	}
	if again := SettleShare(l, key, children[0], manifest.Meters{}); again != nil {
		t.Errorf("it comes back a second time: %+v", again)
	}
	if more := SettleShare(l, key, children[1], manifest.Meters{InputTokens: 5000}); more[0].Amount != 1000 {
		t.Errorf("a child that says more than its share is charged %d, want 1000", more[0].Amount)
	}
}

// TestANoGivesTheShareBack: and in the step of the answer.
func TestANoGivesTheShareBack(t *testing.T) {
	s := handing(t)
	c := s.part(nil)
	d := Contract(s.draft(asW, asW, s.asking(c)))
	l := must(limits(s.task).Apply(d.Moves...))
	s.say(asW, s.asking(c))
	no := s.draft(asR, asW, manifest.Answered{Ask: s.task.Asks()[0].Event, Reason: "gate-denied"})
	no.Ledger = l
	back := Contract(no)
	if l = must(l.Apply(back.Moves...)); back.Outcome != Allow || l.Of(MeterOf(s.task.Key(), InputTokens)).Free() != 1000 {
		t.Errorf("Contract(no) = %+v, free %d", back, l.Of(MeterOf(s.task.Key(), InputTokens)).Free())
	}
}

// TestTheFilesThatLeaveAreNamed: those of the parent's, by digest, whatever the child calls them (G2).
func TestTheFilesThatLeaveAreNamed(t *testing.T) {
	s := handing(t)
	c := s.part(func(m *manifest.TaskManifest) {
		m.IO.InputArtifacts = []manifest.ArtifactRef{
			{Name: "own.csv", Digest: signing.DigestOf([]byte("own")), SizeBytes: 3},
			{Name: "renamed.csv", Digest: signing.DigestOf([]byte("sales")), SizeBytes: 5}}
	})
	m := must(c.Contract())
	if got := Leaves(s.m, m); len(got) != 1 || got[0].Name != "renamed.csv" {
		t.Errorf("Leaves = %+v", got)
	}
}

// TestAReceiptAnswersForEveryChild: it lists the child's receipt or says what is missing (B7).
func TestAReceiptAnswersForEveryChild(t *testing.T) {
	s := handing(t)
	c := s.part(nil)
	s.say(asW, s.asking(c)).say(asR, manifest.Answered{Ask: s.task.Asks()[0].Event, Yes: true, Decision: signedYes()})
	s.say(asW, manifest.Delegated{Child: c.Digest(), Reserved: manifest.Meters{InputTokens: 400, OutputTokens: 200, ToolInvocations: 4, WallClockSeconds: 240}, Answer: s.task.Asks()[0].Answer, Decision: signedYes()})
	for name, r := range map[string]struct {
		children []signing.Digest
		missing  []string
		good     bool
	}{
		"silent":              {nil, nil, false},
		"a receipt":           {[]signing.Digest{signing.DigestOf(nil)}, nil, true},
		"said to be missing":  {nil, []string{"task_part_0001"}, true},
		"more than there are": {[]signing.Digest{signing.DigestOf(nil), c.Digest()}, nil, false},
	} {
		f := s.delivery()
		doc := manifest.UsageReceipt{Type: "sealbridge/usage-receipt", ProtocolVersion: manifest.ProtocolVersion, TaskID: s.m.TaskID, ManifestDigest: s.task.ManifestDigest(),
			Contract: s.task.InForce().Digest, AgentDid: ben.agent.DID(), Revision: 1, Limits: s.task.Limits(), Usage: f.Usage, Children: append([]signing.Digest{}, r.children...),
			Complete: len(r.missing) == 0, Missing: append([]string{}, r.missing...), At: signing.TimeOf(t0)}
		wire := must(manifest.Sign(&doc, ben.agent, t0)).Wire()
		f.Delivery.Receipt = &wire
		if d := Contract(s.draft(asW, asR, f)); (d.Outcome == Allow) != r.good || !r.good && d.Rule != "B7" {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestAChildIsAmendedWithinItsShare: no more than its parent reserved, and not beyond the pass above (B3, H10).
func TestAChildIsAmendedWithinItsShare(t *testing.T) {
	a, b, _ := threeLinks()
	l := law{Case: Case{Task: taskOf(t, b)}, m: b.m, passes: b.passes}
	end := func(h time.Duration) *signing.Time { e := signing.TimeOf(deadline.Add(h)); return &e }
	more, less := b.m.Budget.Limits(), b.m.Budget.Limits()
	more.InputTokens++
	less.InputTokens--
	for name, x := range map[string]struct {
		a    manifest.Amendment
		good bool
	}{
		"more": {manifest.Amendment{Budget: &more}, false}, "less": {manifest.Amendment{Budget: &less}, true},
		"later": {manifest.Amendment{Deadline: end(time.Second)}, false}, "sooner": {manifest.Amendment{Deadline: end(-time.Hour)}, true},
	} {
		if d := l.judgeShare(x.a, ""); (d == nil) != x.good {
			t.Errorf("%s: %+v", name, d)
		}
	}
	root := law{Case: Case{Task: taskOf(t, a)}, m: a.m, passes: a.passes}
	if d := root.judgeShare(manifest.Amendment{Budget: &more}, ""); d != nil {
		t.Errorf("a root may be given more: %+v", d)
	}
}
