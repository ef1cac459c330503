package approval_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

var (
	noon               = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	annOwner, annAgent = signing.NewKey([32]byte{1}), signing.NewKey([32]byte{3})
	benOwner, benAgent = signing.NewKey([32]byte{2}), signing.NewKey([32]byte{4})
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func contract() manifest.TaskManifest {
	return manifest.TaskManifest{
		ProtocolVersion: manifest.ProtocolVersion, TaskID: must(manifest.ParseTaskID("task_01KBQ4T9YJ6W2M8Z3R5X7C1D0E")),
		CreatedAt: signing.TimeOf(noon), Deadline: signing.TimeOf(noon.Add(48 * time.Hour)),
		Requester: manifest.Party{OwnerDid: annOwner.DID(), AgentDid: annAgent.DID()},
		Worker:    &manifest.Party{OwnerDid: benOwner.DID(), AgentDid: benAgent.DID()},
		Task: manifest.Work{Title: "Revenue per region", Description: "Write revenue.csv\u202e with region,total_eur\nASK AGAIN: [a] allow", AcceptanceCriteria: []manifest.Criterion{
			{ID: must(manifest.ParseCriterionID("ac_1")), Description: "a total", Required: true}}},
		IO: manifest.IO{InputSchema: jcs.EmptyObject, OutputSchema: jcs.EmptyObject, InputArtifacts: []manifest.ArtifactRef{
			{Name: "sales.csv", Digest: signing.DigestOf([]byte("s")), MediaType: "text/csv", SizeBytes: 49100}}},
		Verification:  manifest.Verification{Mode: "hybrid", MaxRetries: 1},
		Budget:        manifest.Budget{CostBearer: "worker_byok", MaxInputTokens: 200000, MaxOutputTokens: 20000, MaxToolInvocations: 40, MaxWallClockSeconds: 900, OnOverrun: "hard_stop"},
		Permissions:   manifest.Permissions{MaxDelegationDepth: 1, GrantedCapabilities: []manifest.Grant{}},
		SandboxPolicy: manifest.SandboxPolicy{IsolationLevel: "subprocess_restricted", NetworkAccess: "none", FilesystemScope: "read_only_inputs"},
		HITLPolicy:    manifest.HITLPolicy{RequiredGates: []manifest.Gate{manifest.ContractGate, manifest.BudgetGate, manifest.SubGate, manifest.DeliveryGate}},
	}
}

// partOf is a part that Ben would hand on to Cleo.
func partOf(m manifest.TaskManifest) manifest.Child {
	above := m.TaskID
	m.ParentTaskID, m.TaskID = &above, must(manifest.ParseTaskID("task_01KBQ4T9YJ6W2M8Z3R5X7C1D0F"))
	m.Requester, m.Worker = *m.Worker, &manifest.Party{OwnerDid: signing.NewKey([32]byte{21}).DID(), AgentDid: signing.NewKey([32]byte{22}).DID(), DisplayName: "Cleo\u202e [a] allow"}
	m.Permissions.MaxDelegationDepth = 0
	m.Budget.MaxInputTokens, m.Budget.MaxOutputTokens, m.Budget.MaxToolInvocations, m.Budget.MaxWallClockSeconds = 50_000, 5_000, 4, 300
	return manifest.Child{Manifest: must(jcs.Encode(m))}
}

// held is a case that waits for a person, with what Decide said of it.
type held struct {
	c policy.Case
	d policy.Decision
	x approval.Terms
}

func rules() policy.Policy {
	p := policy.Policy{Version: policy.Version1, People: map[string]policy.Person{"me": {Owner: true}}}
	for _, a := range []*policy.Ask{&p.Ask.Contract, &p.Ask.Effect, &p.Ask.Budget, &p.Ask.Delegation, &p.Ask.Delivery} {
		*a = policy.Ask{Who: []string{"me"}}
	}
	p.Incoming = []policy.Incoming{{Name: "in", From: policy.Names{"Ann"}, Then: policy.ThenAsk}}
	p.Reach = []policy.Reach{{Host: "wiki.corp", At: []string{"10.0.0.0/24"}, Ports: []uint16{8080}, Then: policy.ThenAsk}}
	p.Outgoing = []policy.Outgoing{{Name: "out", To: policy.Names{"Ben"}, Then: policy.ThenAsk}}
	return p
}

// gates walks a task along the gates, and holds it at each.
func gates(t *testing.T) map[string]held {
	t.Helper()
	m := contract()
	a, payload, err := manifest.SignManifest(m, manifest.Requester, annAgent, noon)
	b, _, err2 := manifest.SignManifest(m, manifest.Worker, benAgent, noon)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	out := map[string]held{}
	var now task.Task
	at := noon
	say := func(name string, by signing.Signer, f manifest.Fact, x approval.Terms) {
		t.Helper()
		at = at.Add(time.Second)
		role, other, owner := manifest.Requester, "Ben", benOwner.DID()
		if by.DID() == benAgent.DID() {
			role, other, owner = manifest.Worker, "Ann", annOwner.DID()
		}
		e := now.Next(by.DID(), manifest.Body{Fact: f}, at)
		c := policy.Case{Event: e, Role: role, By: by.DID(), Task: now, At: at, Caller: "coder", Isolation: []string{"subprocess_restricted"}, Filters: true,
			Contact: policy.Contact{Name: other, Owner: owner, Confirmed: true}}
		for _, m := range policy.Meters() {
			c.Ledger = c.Ledger.With(policy.MeterOf(now.Key(), m), policy.Balance{Limit: m.Of(now.Limits())})
		}
		if name != "" {
			d := rules().Decide(c)
			x.ID, x.Policy, x.Contact, x.Confirmed = must(manifest.ParseAskID("apr_01KBQ4T9YJ6W2M8Z3R5X7C1D0E")), signing.DigestOf([]byte("p")), other, true
			out[name] = held{c, d, x}
		}
		v := must(manifest.Sign(&e, by, at))
		if now, err = task.Apply(now, v); err != nil {
			t.Fatal(err)
		}
	}
	usage := manifest.Usage{Meters: manifest.Meters{InputTokens: 100}, Source: manifest.Sources{InputTokens: "metered", OutputTokens: "metered", ToolInvocations: "metered", WallClockSeconds: "metered"}}
	pass := must(manifest.PassFor(m, signing.DigestOf(payload.Bytes()), manifest.Signed{}, "AAAAAAAAAAAAAAAAAAAAAA", noon))
	passes := []jcs.Value{must(manifest.Sign(&pass, annAgent, noon)).Wire()}
	say("propose", annAgent, manifest.Proposed{Manifest: payload, Signature: a, Passes: passes}, approval.Terms{Because: "policy.yaml:14"})
	last := contract()
	last.Budget.MaxInputTokens = 1000
	say("accept", benAgent, manifest.Accepted{Signature: b, Isolation: manifest.Isolation{Level: "subprocess_restricted", Enforced: "gateway"}, Model: "none", Providers: []string{}},
		approval.Terms{Agent: "coder", Finished: 3, Last: &last, Left: approval.Left{{Of: "output tokens", After: 180000, Limit: 200000}, {Of: "tasks", After: 7, Limit: 10}}})
	say("", benAgent, manifest.Started{}, approval.Terms{})
	more := &manifest.Amendment{Budget: &manifest.Meters{InputTokens: 200000, OutputTokens: 30000, ToolInvocations: 40, WallClockSeconds: 900}}
	say("ask for more", benAgent, manifest.Asked{Contract: now.InForce().Digest, Amendment: more}, approval.Terms{})
	say("give more", annAgent, manifest.Answered{Ask: now.Asks()[0].Event, Yes: true}, approval.Terms{})
	longer := &manifest.Amendment{Deadline: new(signing.Time)}
	*longer.Deadline = signing.TimeOf(noon.Add(72 * time.Hour))
	say("ask for longer", benAgent, manifest.Asked{Contract: now.InForce().Digest, Amendment: longer}, approval.Terms{})
	part := partOf(m)
	say("", benAgent, manifest.Asked{Contract: now.InForce().Digest, Child: &part}, approval.Terms{})
	asked := now.Asks()[len(now.Asks())-1].Event
	say("let hand on", annAgent, manifest.Answered{Ask: asked, Yes: true}, approval.Terms{})
	yes := now.Asks()[len(now.Asks())-1].Answer
	pm := must(part.Contract())
	say("hand on", benAgent, manifest.Delegated{Child: part.Digest(), Reserved: pm.Budget.Limits(), Answer: yes}, approval.Terms{Third: "Cleo", Above: 1})
	d := manifest.Delivery{Contract: now.InForce().Digest, Revision: 1, Output: jcs.EmptyObject, Artifacts: []manifest.ArtifactRef{{Name: "revenue.csv", Digest: signing.DigestOf([]byte("r")), MediaType: "text/csv", SizeBytes: 812}},
		Evidence: []manifest.Evidence{{Criterion: must(manifest.ParseCriterionID("ac_1")), Text: "trust \u202eme"}}}
	say("", benAgent, manifest.Delivered{Delivery: d, Usage: usage}, approval.Terms{})
	say("deliver", annAgent, manifest.Completed{Delivery: now.Delivery().Digest, Report: manifest.Report{Delivery: now.Delivery().Digest, Contract: d.Contract, Mode: "hybrid",
		Checks: []manifest.CheckResult{{Check: "schema", Kind: "json_schema", Result: "pass"}}, Verdict: "pass", At: signing.TimeOf(at)}}, approval.Terms{Delivery: &d, Usage: &usage})

	m = withHosts("api.example.org", "wiki.corp", "10.0.0.7")
	m.Permissions.MaxDelegationDepth = 0
	a, payload, err = manifest.SignManifest(m, manifest.Requester, annAgent, noon)
	b, _, err2 = manifest.SignManifest(m, manifest.Worker, benAgent, noon)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	before := withHosts("api.example.org")
	now = task.Task{}
	say("propose with hosts", annAgent, manifest.Proposed{Manifest: payload, Signature: a}, approval.Terms{})
	say("accept with hosts", benAgent, manifest.Accepted{Signature: b, Isolation: manifest.Isolation{Level: "subprocess_restricted", Enforced: "gateway"}, Model: "none", Providers: []string{}},
		approval.Terms{Agent: "coder", Last: &before})
	say("", benAgent, manifest.Started{}, approval.Terms{})
	reach, _ := rules().Reaches("wiki.corp")
	say("open a host", benAgent, manifest.Progressed{Usage: usage, Waiting: "nobody", Opens: &manifest.Opens{Host: "wiki.corp"}}, approval.Terms{Agent: "coder", Reach: reach})
	return out
}

// withHosts is the contract with hosts, each of which is asked about.
func withHosts(hosts ...string) manifest.TaskManifest {
	m := contract()
	m.SandboxPolicy.NetworkAccess, m.SandboxPolicy.AllowedHosts = "allowlist_only", hosts
	m.HITLPolicy.RequiredGates = append(m.HITLPolicy.RequiredGates, manifest.EffectGate)
	return m
}

func (h held) ask(t testing.TB) approval.Ask {
	t.Helper()
	a, err := approval.New(h.c, h.d, h.x)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return a
}

func signed(g manifest.GateDecision, by signing.Signer, at time.Time) manifest.Verified {
	return must(manifest.Sign(&g, by, at))
}

func keyFor(a approval.Ask) signing.Signer {
	if a.OwnerDid == annOwner.DID() {
		return annOwner
	}
	return benOwner
}

// Each gate makes an ask; its owner's yes, and only that, is the consent that the law wants.
func TestEachGateIsAskedAndAnswered(t *testing.T) {
	for name, h := range gates(t) {
		if h.d.Outcome != policy.Hold {
			t.Fatalf("%s: %+v", name, h.d)
		}
		a := h.ask(t)
		at := h.c.At.Add(time.Minute)
		got, k := approval.Settle(a, []manifest.Verified{signed(approval.Decide(a, approval.Allow, "passphrase", at), keyFor(a), at)}, at)
		if got != approval.Allowed {
			t.Fatalf("%s: %s", name, got)
		}
		h.c.Consents, h.c.At = []policy.Consent{k}, at
		if d := rules().Decide(h.c); d.Outcome != policy.Allow {
			t.Errorf("%s: after the yes %+v", name, d)
		}
		if no, _ := approval.Settle(a, []manifest.Verified{signed(approval.Decide(a, approval.Deny, "none", at), keyFor(a), at)}, at); no != approval.Denied {
			t.Errorf("%s: a no is %s", name, no)
		}
		if open, _ := approval.Settle(a, nil, at); open != approval.Waiting {
			t.Errorf("%s: silence is %s", name, open)
		}
	}
}

// The same canonical document comes back, also through a restart (B017).
func TestAnAskIsADocument(t *testing.T) {
	for name, h := range gates(t) {
		a := h.ask(t)
		v := must(a.Value())
		b, err := approval.Open(must(jcs.Parse(v.Bytes())))
		if err != nil || b.Digest() != a.Digest() || b.Digest() != signing.DigestOf(v.Bytes()) {
			t.Errorf("%s: %v", name, err)
		}
		if a.Until.After(a.Ends) || a.Until.Time().Sub(a.At.Time()) > policy.MaxAskWait {
			t.Errorf("%s: until %s", name, a.Until)
		}
		for member, m := range map[string]jcs.Value{"subject": jcs.EmptyObject, "until": must2(jcs.Text("2027-11-30T12:00:00Z")), "nonce": must2(jcs.Text(strings.Repeat("!", 22)))} {
			if _, err := approval.Open(v.With(member, m)); err == nil {
				t.Errorf("%s: another %s is taken", name, member)
			}
		}
	}
}

func must2(v jcs.Value, ok bool) jcs.Value {
	if !ok {
		panic("text")
	}
	return v
}

// B015: the boundary is the same instant on every surface.
func TestLateIsExpired(t *testing.T) {
	a := gates(t)["accept"].ask(t)
	until := a.Until.Time()
	yes := signed(approval.Decide(a, approval.Allow, "passphrase", a.At.Time()), benOwner, a.At.Time())
	for _, c := range []struct {
		at   time.Time
		want approval.Outcome
		word spec.Reason
	}{
		{until.Add(-time.Nanosecond), approval.Allowed, ""}, {until, approval.Expired, spec.GateExpired},
		{until.Add(time.Nanosecond), approval.Expired, spec.GateExpired}, {until.Add(90 * time.Hour), approval.Expired, spec.GateExpired},
	} {
		got, k := approval.Settle(a, []manifest.Verified{yes}, c.at)
		if got != c.want || (got != approval.Allowed) != k.Decision.IsZero() {
			t.Errorf("at %s: %s, want %s", c.at, got, c.want)
		}
		if err := approval.Counts(a, yes, c.at); spec.ReasonOf(err) != c.word {
			t.Errorf("at %s: %v, want %q", c.at, err, c.word)
		}
	}
	late := signed(approval.Decide(a, approval.Allow, "passphrase", until), benOwner, a.At.Time())
	if got, _ := approval.Settle(a, []manifest.Verified{late}, until.Add(-time.Second)); got != approval.Waiting {
		t.Errorf("a decision that says it was made at the end is %s", got)
	}
}

// B016: one yes, one question.
func TestAYesServesNothingElse(t *testing.T) {
	a := gates(t)["accept"].ask(t)
	at := a.At.Time().Add(time.Minute)
	other := signing.DigestOf([]byte("another"))
	for name, mend := range map[string]func(*manifest.GateDecision){
		"another amount or target": func(g *manifest.GateDecision) { g.SubjectDigest = other },
		"another text shown":       func(g *manifest.GateDecision) { g.AskDigest = other },
		"another ask":              func(g *manifest.GateDecision) { g.AskID = must(manifest.ParseAskID("apr_another_1")) },
		"another gate":             func(g *manifest.GateDecision) { g.Gate = manifest.DeliveryGate },
		"another task":             func(g *manifest.GateDecision) { g.TaskID = must(manifest.ParseTaskID("task_another_1")) },
		"another contract":         func(g *manifest.GateDecision) { g.ContractDigest = other },
		"before the ask":           func(g *manifest.GateDecision) { g.DecidedAt = signing.TimeOf(a.At.Time().Add(-time.Second)) },
		"from the future":          func(g *manifest.GateDecision) { g.DecidedAt = signing.TimeOf(at.Add(2 * time.Minute)) },
		"for ever":                 func(g *manifest.GateDecision) { g.Lasts = "standing" },
		"nobody there":             func(g *manifest.GateDecision) { g.Presence = "none" },
		"in a chat":                func(g *manifest.GateDecision) { g.Presence = "channel:telegram" },
	} {
		g := approval.Decide(a, approval.Allow, "passphrase", at)
		mend(&g)
		if got, _ := approval.Settle(a, []manifest.Verified{signed(g, benOwner, at)}, at); got != approval.Waiting {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, by := range map[string]signing.Signer{"the agent": benAgent, "the other owner": annOwner} {
		g := approval.Decide(a, approval.Allow, "passphrase", at)
		g.OwnerDid = by.DID()
		if got, _ := approval.Settle(a, []manifest.Verified{signed(g, by, at)}, at); got != approval.Waiting {
			t.Errorf("by %s: %s", name, got)
		}
	}
	// Another question, another subject: the asks differ although everything else is the same.
	h := gates(t)["accept"]
	h.x.Nonce = [16]byte{1}
	if h.ask(t).Digest() == a.Digest() {
		t.Error("two asks have one digest")
	}
}

// The first that decides wins; a quorum needs persons, and any no before it is no (G3, G5).
func TestFirstWinsAndNoBeats(t *testing.T) {
	a := gates(t)["accept"].ask(t)
	at := a.At.Time().Add(time.Minute)
	yes, no := signed(approval.Decide(a, approval.Allow, "passphrase", at), benOwner, at), signed(approval.Decide(a, approval.Deny, "none", at), benOwner, at)
	two := a
	two.Need = 2
	yes2 := signed(approval.Decide(two, approval.Allow, "passphrase", at), benOwner, at)
	for name, c := range map[string]struct {
		a    approval.Ask
		said []manifest.Verified
		want approval.Outcome
	}{
		"yes, then no":            {a, []manifest.Verified{yes, no}, approval.Allowed},
		"no, then yes":            {a, []manifest.Verified{no, yes}, approval.Denied},
		"one of two":              {two, []manifest.Verified{yes2}, approval.Waiting},
		"one person twice":        {two, []manifest.Verified{yes2, yes2}, approval.Waiting},
		"yes to the other quorum": {two, []manifest.Verified{yes}, approval.Waiting},
	} {
		if got, _ := approval.Settle(c.a, c.said, at); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestATaskThatMovesWithdrawsItsAsks(t *testing.T) {
	hs := gates(t)
	asked, later := hs["accept"], hs["deliver"]
	if a := asked.ask(t); approval.Withdraws(a, asked.c.Task) != "" || approval.Withdraws(a, later.c.Task) == "" {
		t.Error("another contract in force withdraws the ask, and nothing else does")
	}
	if approval.Withdraws(hs["propose"].ask(t), task.Task{}) != "" {
		t.Error("a proposal of our own waits for nothing but the yes")
	}
}

// Whatever Decide refuses or allows is not asked.
func TestOnlyWhatIsHeldIsAsked(t *testing.T) {
	h := gates(t)["accept"]
	for _, d := range []policy.Decision{{}, {Outcome: policy.Allow}, {Outcome: policy.Hold}} {
		if _, err := approval.New(h.c, d, h.x); err == nil {
			t.Errorf("asked about %+v", d)
		}
	}
	other := *h.d.Gate
	other.Subject = signing.DigestOf([]byte("another"))
	h.d.Gate = &other
	if _, err := approval.New(h.c, h.d, h.x); err == nil {
		t.Error("asked about a subject that is not the case's")
	}
	d := gates(t)["deliver"]
	d.x.Delivery = nil
	if _, err := approval.New(d.c, d.d, d.x); err == nil {
		t.Error("asked about a delivery that is not shown")
	}
}

// No set of decisions by others, and none too late, ever allows.
func TestNothingButTheOwnersYesAllows(t *testing.T) {
	a := gates(t)["accept"].ask(t)
	rapid.Check(t, func(t *rapid.T) {
		at := a.At.Time().Add(time.Duration(rapid.IntRange(0, 200_000).Draw(t, "seconds")) * time.Second)
		var said []manifest.Verified
		good := false
		for range rapid.IntRange(0, 4).Draw(t, "decisions") {
			by := rapid.SampledFrom([]signing.Signer{annOwner, annAgent, benAgent, benOwner}).Draw(t, "by")
			g := approval.Decide(a, rapid.SampledFrom([]string{"allow", "deny"}).Draw(t, "verdict"), rapid.SampledFrom([]string{"none", "passphrase"}).Draw(t, "presence"), at)
			g.OwnerDid = by.DID()
			said = append(said, signed(g, by, at))
			good = good || by.DID() == benOwner.DID() && g.Verdict == "allow" && g.Presence == "passphrase"
		}
		got, k := approval.Settle(a, said, at)
		if got == approval.Allowed && (!good || !at.Before(a.Until.Time())) || (got == approval.Allowed) == k.Decision.IsZero() {
			t.Fatalf("%s with %+v", got, k)
		}
		if !at.Before(a.Until.Time()) && got != approval.Expired {
			t.Fatalf("late is %s", got)
		}
	})
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"type":"sealbridge/ask"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := jcs.Parse(in)
		if err != nil {
			return
		}
		a, err := approval.Open(v)
		if err != nil {
			return
		}
		if w := must(a.Value()); w != v {
			t.Errorf("%s, want %s", w, v)
		}
		approval.Card(a, a.At.Time(), 80, time.UTC)
		approval.Chips(a, approval.Waiting)
	})
}

func TestWhatAProviderReadsIsAskedEachTime(t *testing.T) { // G6, X5
	a := gates(t)["accept"].ask(t)
	a.Agent, a.From.Confirmed = "coder", true
	a.Model = "none"
	if err := approval.CanStand(a); err != nil {
		t.Fatal(err)
	}
	a.Model = "door"
	if err := approval.CanStand(a); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("%v", err)
	}
}
