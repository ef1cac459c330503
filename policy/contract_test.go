package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

const (
	asR = manifest.Requester
	asW = manifest.Worker
)

// TestAGateIsSatisfiedOnlyByItsOwnYes is G1 and G2: a yes to another gate,
// contract, subject or owner, a late one, a standing one or an unsigned one is none.
func TestAGateIsSatisfiedOnlyByItsOwnYes(t *testing.T) {
	s := newScene(t, nil)
	c := s.draft(asR, asR, s.proposal())
	held := Contract(c)
	if held.Outcome != Hold || held.Gate.Gate != manifest.ContractGate || held.Gate.Owner != ann.owner.DID() || held.Gate.Subject != ContractSubject(s.raw) {
		t.Fatalf("Contract = %+v, want a hold for the requester's owner", held)
	}
	good := yes(held.Gate)
	other := signing.DigestOf([]byte("other"))
	for name, spoil := range map[string]func(*Consent){
		"another gate":     func(k *Consent) { k.Gate = manifest.DeliveryGate },
		"another contract": func(k *Consent) { k.Contract = other },
		"no contract":      func(k *Consent) { k.Contract = signing.Digest{} },
		"another subject":  func(k *Consent) { k.Subject = other },
		"another owner":    func(k *Consent) { k.Owner = ben.owner.DID() },
		"the agent":        func(k *Consent) { k.Owner = ann.agent.DID() },
		"no decision":      func(k *Consent) { k.Decision = signing.Digest{} },
		"standing":         func(k *Consent) { k.Lasts = "standing" },
		"at expiry":        func(k *Consent) { k.Until = t0 },
		"nothing":          func(k *Consent) { *k = Consent{} },
	} {
		k := good
		spoil(&k)
		c.Consents = []Consent{k}
		if d := Contract(c); d.Outcome != Hold {
			t.Errorf("%s: Contract = %s, want hold", name, d.Outcome)
		}
	}
	c.Consents = []Consent{{}, good}
	if d := Contract(c); d.Outcome != Allow || d.Consent == nil || *d.Consent != good {
		t.Errorf("Contract with its yes = %+v, want allow", d)
	}
}

// TestAnothersGateIsNotHeld: what the other side said without the decision that
// the contract wants is refused; it has to be in its event (G11).
func TestAnothersGateIsNotHeld(t *testing.T) {
	s := newScene(t, nil)
	f := s.proposal()
	c := s.draft(asR, asW, f)
	c.Consents = []Consent{yes(Contract(s.draft(asR, asR, f)).Gate)}
	for _, role := range []manifest.Role{asW, ""} {
		c.Role = role
		if d := Contract(c); d.Outcome != Deny || d.Reason != spec.GateOpen {
			t.Errorf("without the decision, as %q: Contract = %+v, want gate-open", role, d)
		}
	}
	f.Decision = holdDecision()
	c.Event = s.task.Next(ann.agent.DID(), manifest.Body{Fact: f}, t0)
	for _, role := range []manifest.Role{asW, asR, ""} {
		c.Role = role
		if d := Contract(c); d.Outcome != Allow {
			t.Errorf("with the decision, as %q: Contract = %+v, want allow", role, d)
		}
	}
	wrong := must(jcs.Parse([]byte(`{"decision":2}`)))
	f.Decision = &wrong
	c.Event = s.task.Next(ann.agent.DID(), manifest.Body{Fact: f}, t0)
	for _, role := range []manifest.Role{asW, asR, ""} {
		c.Role = role
		if d := Contract(c); d.Outcome != Deny {
			t.Errorf("with another decision, as %q: Contract = %+v, want deny", role, d)
		}
	}
}

// withGrant puts a grant that is good but for its edit into a contract.
func withGrant(edit func(*manifest.Grant)) func(*manifest.TaskManifest) {
	return func(m *manifest.TaskManifest) {
		var id manifest.CapabilityID
		_ = id.UnmarshalText([]byte("cap_docs"))
		g := manifest.Grant{CapabilityID: id, Resource: "mcp://docs/*", AllowedTools: []string{"docs.read"}, MaxInvocations: 1, ExpiresAt: m.Deadline}
		edit(&g)
		m.Permissions.GrantedCapabilities = []manifest.Grant{g}
	}
}

// TestWhatThisVersionCannotHoldIsRefused fails closed, at both owners.
func TestWhatThisVersionCannotHoldIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		mend func(*manifest.TaskManifest)
		want spec.Reason
	}{
		{"a grant outside the grammar of resources", withGrant(func(g *manifest.Grant) { g.Resource = "mcp://docs/../secret" }), spec.CapabilityDenied},
		{"a grant with constraints outside the dialect", withGrant(func(g *manifest.Grant) { g.ArgConstraints = must(jcs.Parse([]byte(`{"not":{}}`))) }), spec.CapabilityDenied},
		{"delegation without a pass", func(m *manifest.TaskManifest) { m.Permissions.MaxDelegationDepth = 1 }, spec.NotAttenuated},
		{"a child without passes", func(m *manifest.TaskManifest) {
			id := must(manifest.ParseTaskID("task_parent00"))
			m.ParentTaskID = &id
		}, spec.NotAttenuated},
		{"too many hosts", func(m *manifest.TaskManifest) {
			m.SandboxPolicy.NetworkAccess = "allowlist_only"
			for i := range MaxHosts + 1 {
				m.SandboxPolicy.AllowedHosts = append(m.SandboxPolicy.AllowedHosts, fmt.Sprintf("h%d.example.org", i))
			}
		}, spec.TooLarge},
		{"a host twice", func(m *manifest.TaskManifest) {
			m.SandboxPolicy.NetworkAccess, m.SandboxPolicy.AllowedHosts = "allowlist_only", []string{"example.org", "example.org"}
		}, spec.Malformed},
		{"microvm", func(m *manifest.TaskManifest) { m.SandboxPolicy.IsolationLevel = "microvm" }, spec.UnsupportedIsolation},
	} {
		s := newScene(t, c.mend)
		for _, by := range []manifest.Role{asR, asW} {
			if d := Contract(s.draft(asR, by, s.proposal())); d.Outcome != Deny || d.Reason != c.want {
				t.Errorf("%s: Contract(proposed) as %s = %+v, want %s", c.name, by, d, c.want)
			}
		}
		s.say(asR, s.proposal())
		if d := Contract(s.draft(asW, asW, s.acceptance())); d.Outcome != Deny || d.Reason != c.want {
			t.Errorf("%s: Contract(accepted) = %+v, want %s", c.name, d, c.want)
		}
	}
}

// TestTheBoxIsAtLeastWhatWasAskedFor is the order of P1, and X6.
func TestTheBoxIsAtLeastWhatWasAskedFor(t *testing.T) {
	levels := []string{"subprocess_restricted", "oci_container", "wasm", "microvm"}
	holds := map[string]bool{"subprocess_restricted<oci_container": true, "subprocess_restricted<wasm": true,
		"subprocess_restricted<microvm": true, "oci_container<microvm": true}
	for _, want := range levels {
		for _, have := range levels {
			if got := isolates(have, want); got != (have == want || holds[want+"<"+have]) {
				t.Errorf("isolates(%s, %s) = %v", have, want, got)
			}
		}
	}
	on := true
	for _, c := range []struct {
		want, have, enforced string
		fallback             *bool
		claimedOK, ok        bool
	}{
		{"wasm", "wasm", "gateway", nil, false, true},
		{"wasm", "subprocess_restricted", "gateway", nil, false, false},
		{"wasm", "subprocess_restricted", "gateway", &on, false, true},
		{"wasm", "oci_container", "gateway", &on, false, false},
		{"wasm", "wasm", "claimed", nil, false, false},
		{"wasm", "wasm", "claimed", nil, true, true},
	} {
		s := newScene(t, func(m *manifest.TaskManifest) {
			m.SandboxPolicy.IsolationLevel, m.SandboxPolicy.AllowSubprocessFallback = c.want, c.fallback
			m.HITLPolicy.RequiredGates = []manifest.Gate{}
		})
		s.say(asR, s.proposal())
		f := s.acceptance()
		f.Isolation = manifest.Isolation{Level: c.have, Enforced: c.enforced}
		k := s.draft(asW, asR, f)
		k.ClaimedIsEnough = c.claimedOK
		if d := Contract(k); (d.Outcome == Allow) != c.ok || !c.ok && d.Reason != spec.UnsupportedIsolation {
			t.Errorf("%+v: Contract = %+v", c, d)
		}
	}
}

// TestADeliveryComesWithWhatTheContractRequires: receipt, attestation, and no more used than it allows.
func TestADeliveryComesWithWhatTheContractRequires(t *testing.T) {
	s := newScene(t, func(m *manifest.TaskManifest) {
		m.Verification.RequireUsageReceipt, m.Verification.RequireExecutionAttestation = true, true
	}).working()
	receipt := func(by party, mend func(*manifest.UsageReceipt)) *jcs.Value {
		r := manifest.UsageReceipt{Type: "sealbridge/usage-receipt", ProtocolVersion: manifest.ProtocolVersion, TaskID: s.m.TaskID,
			ManifestDigest: s.task.ManifestDigest(), Contract: s.task.InForce().Digest, AgentDid: by.agent.DID(), Revision: 1,
			Limits: s.task.Limits(), Usage: used(100), Children: []signing.Digest{}, Complete: true, Missing: []string{}, At: signing.TimeOf(t0)}
		mend(&r)
		v := must(manifest.Sign(&r, by.agent, t0)).Wire()
		return &v
	}
	asIs := func(*manifest.UsageReceipt) {}
	good := s.delivery()
	good.Delivery.Receipt = receipt(ben, asIs)
	good.Delivery.Attestation = &manifest.Attestation{Runner: "subprocess", Isolation: s.acceptance().Isolation, Enforces: []string{}}
	if d := Contract(s.draft(asW, asW, good)); d.Outcome != Allow {
		t.Fatalf("Contract = %+v, want allow", d)
	}
	for name, spoil := range map[string]func(*manifest.Delivered){
		"no receipt":                 func(f *manifest.Delivered) { f.Delivery.Receipt = nil },
		"the requester's receipt":    func(f *manifest.Delivered) { f.Delivery.Receipt = receipt(ann, asIs) },
		"a receipt of other figures": func(f *manifest.Delivered) { f.Usage = used(101) },
		"a receipt of no signature":  func(f *manifest.Delivered) { f.Delivery.Receipt = holdDecision() },
		"a receipt of another revision": func(f *manifest.Delivered) {
			f.Delivery.Receipt = receipt(ben, func(r *manifest.UsageReceipt) { r.Revision = 2 })
		},
		"a receipt of other limits": func(f *manifest.Delivered) {
			f.Delivery.Receipt = receipt(ben, func(r *manifest.UsageReceipt) { r.Limits.InputTokens++ })
		},
		"no attestation": func(f *manifest.Delivered) { f.Delivery.Attestation = nil },
		"attested as less than accepted": func(f *manifest.Delivered) {
			a := *f.Delivery.Attestation
			a.Isolation.Enforced = "claimed"
			f.Delivery.Attestation = &a
		},
	} {
		f := good
		spoil(&f)
		if d := Contract(s.draft(asW, asW, f)); d.Outcome != Deny || d.Reason != spec.VerificationFailed {
			t.Errorf("%s: Contract = %+v, want verification-failed", name, d)
		}
	}
	strange := good
	strange.Delivery.Evidence = []manifest.Evidence{{Criterion: must(manifest.ParseCriterionID("ac_nowhere")), Text: "done"}}
	if d := Contract(s.draft(asW, asW, strange)); d.Reason != spec.VerificationFailed || d.Rule != "V1" {
		t.Errorf("evidence for what nobody asked: Contract = %+v, want V1", d)
	}
	over := good
	over.Usage = used(1001)
	if d := Contract(s.draft(asW, asW, over)); d.Reason != spec.BudgetExhausted {
		t.Errorf("more used than allowed: Contract = %+v, want budget-exhausted", d)
	}
}

// TestNothingIsCompletedUnverified is V2 and V3.
func TestNothingIsCompletedUnverified(t *testing.T) {
	for _, mode := range []string{"schema_only", "human_in_the_loop", "hybrid", "automated_checks"} {
		s := newScene(t, func(m *manifest.TaskManifest) {
			m.Verification.Mode = mode
			m.Verification.Checks = []manifest.Check{{CheckID: must(manifest.ParseCheckID("chk_1")), Kind: "json_schema", Target: "output"}}
			m.HITLPolicy.RequiredGates = []manifest.Gate{}
		}).delivered()
		good := s.completion()
		good.Report.Checks = append(good.Report.Checks, manifest.CheckResult{Check: "chk_1", Kind: "json_schema", Result: "pass"})
		want := Allow
		if mode == "human_in_the_loop" || mode == "hybrid" {
			want = Hold // even though the manifest lists no gate
		}
		if d := Contract(s.draft(asR, asR, good)); d.Outcome != want {
			t.Errorf("%s: Contract = %+v, want %s", mode, d, want)
		}
		for name, spoil := range map[string]func(*manifest.Report){
			"failed":                 func(r *manifest.Report) { r.Verdict = "fail" },
			"no verdict":             func(r *manifest.Report) { r.Verdict = "" },
			"a check not evaluated":  func(r *manifest.Report) { r.Checks[1].Result = "not_evaluated" },
			"a check left out":       func(r *manifest.Report) { r.Checks = r.Checks[:1] },
			"of another delivery":    func(r *manifest.Report) { r.Delivery = r.Contract },
			"under another contract": func(r *manifest.Report) { r.Contract = r.Delivery },
			"in another mode":        func(r *manifest.Report) { r.Mode = "nothing" },
		} {
			f := good
			f.Report.Checks = append([]manifest.CheckResult(nil), good.Report.Checks...)
			spoil(&f.Report)
			if d := Contract(s.draft(asR, asR, f)); d.Outcome != Deny || d.Reason != spec.VerificationFailed {
				t.Errorf("%s, %s: Contract = %+v, want verification-failed", mode, name, d)
			}
		}
	}
}

// TestEveryModeAndKindOfCheck is V3 over V2: what a completion needs in each of
// the four modes with each of the four kinds of checks. A person is asked where
// the mode or a check says so; every other check passes or nothing is completed;
// a command passes only with the run that it names (M6).
func TestEveryModeAndKindOfCheck(t *testing.T) {
	run := func(exit int64, timedOut bool) *manifest.CheckRun {
		return &manifest.CheckRun{Exit: exit, TimedOut: timedOut}
	}
	two := int64(2)
	for _, mode := range []string{"schema_only", "automated_checks", "human_in_the_loop", "hybrid"} {
		for _, kind := range []string{"json_schema", "sha256_match", "deterministic_command", "human_review"} {
			check := manifest.Check{CheckID: must(manifest.ParseCheckID("chk_1")), Kind: kind, Target: "output"}
			if kind == "sha256_match" {
				check.Target = strings.Repeat("0", 64)
			}
			s := newScene(t, func(m *manifest.TaskManifest) {
				m.Verification.Mode, m.Verification.Checks, m.HITLPolicy.RequiredGates = mode, []manifest.Check{check}, []manifest.Gate{}
			}).delivered()
			result := manifest.CheckResult{Check: "chk_1", Kind: kind, Result: "pass"}
			if kind == manifest.CommandCheck {
				result.Run = run(0, false)
			}
			ask := func(r ...manifest.CheckResult) Decision {
				f := s.completion()
				f.Report.Checks = append(f.Report.Checks, r...)
				return Contract(s.draft(asR, asR, f))
			}
			want := Allow
			if mode == "human_in_the_loop" || mode == "hybrid" || kind == humanReview {
				want = Hold
			}
			if d := ask(result); d.Outcome != want || want == Hold && d.Gate.Gate != manifest.DeliveryGate {
				t.Errorf("%s, %s: a report that passes: %+v, want %s", mode, kind, d, want)
			}
			if kind == humanReview { // the decision is the check
				if d := ask(); d.Outcome != Hold {
					t.Errorf("%s, %s: %+v, want hold", mode, kind, d)
				}
				continue
			}
			bad := map[string][]manifest.CheckResult{"left out": nil, "failed": {{Check: "chk_1", Kind: kind, Result: "fail", Run: result.Run}},
				"not evaluated": {{Check: "chk_1", Kind: kind, Result: "not_evaluated"}}, "of another kind": {{Check: "chk_1", Kind: "other", Result: "pass", Run: result.Run}}}
			if kind == manifest.CommandCheck {
				for name, r := range map[string]*manifest.CheckRun{"no run": nil, "exit 1": run(1, false), "timed out": run(0, true), "ended": run(-1, false)} {
					bad["a pass with "+name] = []manifest.CheckResult{{Check: "chk_1", Kind: kind, Result: "pass", Run: r}}
				}
			}
			for name, r := range bad {
				if d := ask(r...); d.Outcome != Deny || d.Reason != spec.VerificationFailed {
					t.Errorf("%s, %s %s: %+v, want verification-failed", mode, kind, name, d)
				}
			}
		}
	}
	c := manifest.Check{ExpectedExitCode: &two}
	if !run(2, false).Passes(c) || run(0, false).Passes(c) {
		t.Error("a command that is expected to exit with 2")
	}
	s := newScene(t, noGates).delivered()
	f := s.completion()
	f.Report.Checks = []manifest.CheckResult{}
	if d := Contract(s.draft(asR, asR, f)); d.Outcome != Deny || d.Reason != spec.VerificationFailed {
		t.Errorf("nothing was evaluated: %+v, want verification-failed", d)
	}
}

// TestASecondDecisionNamesTheFirst: the answerer's subject is another than the asker's (H10).
func TestASecondDecisionNamesTheFirst(t *testing.T) {
	s := newScene(t, nil).working()
	ask := s.asks(2000)
	first := Contract(s.draft(asW, asW, ask))
	if first.Outcome != Hold || first.Gate.Gate != manifest.BudgetGate || first.Gate.Owner != ben.owner.DID() {
		t.Fatalf("Contract(asked) = %+v, want the worker's owner asked about the budget", first)
	}
	without := newScene(t, nil).working().say(asW, ask)
	answer := func(s *scene) Decision {
		return Contract(s.draft(asR, asR, manifest.Answered{Ask: s.task.Asks()[0].Event, Yes: true}))
	}
	second := answer(without)
	if second.Outcome != Hold || second.Gate.Owner != ann.owner.DID() || second.Gate.Subject != AmendmentSubject(ask.Contract, *ask.Amendment, nil) {
		t.Errorf("Contract(answered) = %+v", second)
	}
	if d := Contract(without.draft(asR, asR, manifest.Answered{Ask: without.task.Asks()[0].Event})); d.Outcome != Allow {
		t.Errorf("a no needs a yes: %+v", d)
	}
}

// TestBudgetMoves: accepting opens the meters, a yes changes them, and a limit
// never goes below what was spent (H10).
func TestBudgetMoves(t *testing.T) {
	noGates := func(m *manifest.TaskManifest) { m.HITLPolicy.RequiredGates = []manifest.Gate{} }
	s := newScene(t, noGates)
	s.say(asR, s.proposal())
	c := s.draft(asW, asW, s.acceptance())
	c.Ledger = Ledger{}
	l, err := c.Ledger.Apply(Contract(c).Moves...)
	if got := l.Of(MeterOf(s.task.Key(), OutputTokens)); err != nil || got.Limit != 500 {
		t.Errorf("after accepting: %+v, %v, want a limit of 500", got, err)
	}
	s.say(asW, s.acceptance())
	input := MeterOf(s.task.Key(), InputTokens)
	spent := limits(s.task).With(input, Balance{Limit: 1000, Committed: 300, Holds: map[HoldID]int64{"call": 300}})

	for limit, want := range map[int64]Outcome{599: Deny, 600: Allow, 5000: Allow} {
		c = s.draft(asW, asW, s.asks(limit))
		c.Ledger = spent
		d := Contract(c)
		if d.Outcome != want || want == Deny && d.Reason != spec.BudgetExhausted {
			t.Errorf("the worker asks for %d: %+v, want %s", limit, d, want)
		}
		if want == Allow {
			l, err := spent.Apply(d.Moves...)
			if got := l.Of(input).Limit; err != nil || got != min(limit, 1000) {
				t.Errorf("until the answer the limit is %d, want the stricter of %d and 1000", got, limit)
			}
		}
	}
	asked := newScene(t, noGates).accepted()
	asked.say(asW, asked.asks(600))
	for yes, want := range map[bool]int64{true: 600, false: 1000} {
		c = asked.draft(asR, asW, manifest.Answered{Ask: asked.task.Asks()[0].Event, Yes: yes})
		l, err := c.Ledger.With(input, Balance{Limit: 600}).Apply(Contract(c).Moves...)
		if got := l.Of(input).Limit; err != nil || got != want {
			t.Errorf("answered %v: the limit is %d, want %d", yes, got, want)
		}
	}
	low := newScene(t, noGates).accepted()
	low.say(asR, low.asks(500))
	c = low.draft(asW, asW, manifest.Answered{Ask: low.task.Asks()[0].Event, Yes: true})
	c.Ledger = spent
	if d := Contract(c); d.Outcome != Deny || d.Reason != spec.BudgetExhausted {
		t.Errorf("yes to less than is spent: %+v, want budget-exhausted", d)
	}
}

// TestTurnAndClock: out of turn, too early and a stranger are no.
func TestTurnAndClock(t *testing.T) {
	s := newScene(t, nil).working()
	if d := Contract(s.draft(asR, asR, manifest.Rejected{Delivery: s.task.ManifestDigest()})); d.Reason != spec.IllegalTransition {
		t.Errorf("rejected out of turn: %+v, want illegal-transition", d)
	}
	c := s.draft(asW, asR, manifest.Progressed{Waiting: "nobody"})
	c.At = t0.Add(-61 * time.Second)
	if d := Contract(c); d.Outcome != Deny || d.Reason != spec.Unavailable {
		t.Errorf("61 s ahead: %+v, want unavailable", d)
	}
	c.At = t0.Add(-59 * time.Second)
	if d := Contract(c); d.Outcome != Allow {
		t.Errorf("59 s ahead: %+v, want allow", d)
	}
	c.By = ann.owner.DID()
	if d := Contract(c); d.Reason != spec.WrongSigner {
		t.Errorf("signed by another than its author: %+v, want wrong-signer", d)
	}
	if d := Contract(Case{}); d.Outcome != Deny {
		t.Errorf("an empty case: %+v, want deny", d)
	}
}

// TestOpenProposalsAreCounted is B9: the twenty-first waits outside.
func TestOpenProposalsAreCounted(t *testing.T) {
	s := newScene(t, func(m *manifest.TaskManifest) { m.HITLPolicy.RequiredGates = []manifest.Gate{} })
	c := s.draft(asR, asW, s.proposal())
	open := ContactAccount(OpenProposals, ann.owner.DID(), asW, "")
	full := Balance{Limit: MaxOpenProposals, Holds: map[HoldID]int64{}}
	for i := range MaxOpenProposals {
		if d := Contract(c); d.Outcome != Allow {
			t.Fatalf("proposal %d: %+v", i, d)
		}
		full.Holds[HoldID(string(rune('a'+i)))] = 1
		c.Ledger = Ledger{}.With(open, full)
	}
	if d := Contract(c); d.Outcome != Deny || d.Reason != spec.Quota {
		t.Errorf("one too many: %+v, want quota", d)
	}
	s.say(asR, s.proposal())
	d := s.draft(asW, asW, manifest.Declined{Reason: "policy-denied"})
	d.Ledger = Ledger{}.With(open, Balance{Limit: 20, Holds: map[HoldID]int64{TaskHold(s.task.Key()): 1}})
	if l, err := d.Ledger.Apply(Contract(d).Moves...); err != nil || l.Of(open).Reserved() != 0 {
		t.Errorf("declining gives the place back: %v, %+v", err, l.Of(open))
	}
}

// TestWhatWaitsIsCountedInBytes is B9: contracts and the files that they name, until somebody accepts or ends them.
func TestWhatWaitsIsCountedInBytes(t *testing.T) {
	s := newScene(t, func(m *manifest.TaskManifest) {
		noGates(m)
		m.IO.InputArtifacts = []manifest.ArtifactRef{{Name: "a.bin", Digest: signing.DigestOf([]byte("a")), MediaType: "application/octet-stream", SizeBytes: 1 << 30}}
	})
	c := s.draft(asR, asW, s.proposal())
	for kind, room := range map[AccountKind]int64{UnacceptedFiles: 1 << 30, UnacceptedBytes: int64(len(s.raw.Bytes()))} {
		a := ContactAccount(kind, ann.owner.DID(), asW, "")
		limit := map[AccountKind]int64{UnacceptedFiles: MaxUnacceptedFileBytes, UnacceptedBytes: MaxUnacceptedBytes}[kind]
		full := Balance{Limit: limit, Holds: map[HoldID]int64{"others": limit - room + 1}}
		c.Ledger = Ledger{}.With(a, full)
		if d := Contract(c); d.Outcome != Deny || d.Reason != spec.Quota {
			t.Errorf("%s, one byte too much: %+v, want quota", kind, d)
		}
		full.Holds = map[HoldID]int64{"others": limit - room}
		c.Ledger = Ledger{}.With(a, full)
		d := Contract(c)
		l, err := c.Ledger.Apply(d.Moves...)
		if d.Outcome != Allow || err != nil || l.Of(a).Free() != 0 {
			t.Errorf("%s, just enough: %+v, %v, %d left", kind, d, err, l.Of(a).Free())
		}
	}
	d := Contract(c)
	l, err := c.Ledger.Apply(d.Moves...)
	if err != nil {
		t.Fatal(err)
	}
	s.say(asR, s.proposal())
	for what, f := range map[string]manifest.Fact{"accepted": s.acceptance(), "declined": manifest.Declined{Reason: "quota"}} {
		end := s.draft(asW, asW, f)
		end.Ledger = l
		after, err := l.Apply(Contract(end).Moves...)
		if err != nil {
			t.Fatal(what, err)
		}
		for _, k := range []AccountKind{OpenProposals, UnacceptedBytes, UnacceptedFiles} {
			if b := after.Of(ContactAccount(k, ann.owner.DID(), asW, "")); b.Holds[TaskHold(s.task.Key())] != 0 || len(b.Holds) > 1 {
				t.Errorf("%s: %s still holds %v", what, k, b.Holds)
			}
		}
	}
}
