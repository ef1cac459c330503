package manifest_test

import (
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// G6: a standing yes covers what it names, axis by axis, and nothing else.
func TestAStandingYesCoversNothingWider(t *testing.T) {
	if err := standing().Covers(simple(), annOwner.DID()); err != nil {
		t.Fatal(err)
	}
	for what, mend := range map[string]func(*manifest.TaskManifest){
		"another contact":   func(m *manifest.TaskManifest) { w := *m.Worker; w.OwnerDid = eveOwner.DID(); m.Worker = &w },
		"another task type": func(m *manifest.TaskManifest) { m.Task.TaskType = "reports" },
		"no task type":      func(m *manifest.TaskManifest) { m.Task.TaskType = "" },
		"more input":        func(m *manifest.TaskManifest) { m.Budget.MaxInputTokens++ },
		"more output":       func(m *manifest.TaskManifest) { m.Budget.MaxOutputTokens++ },
		"more calls":        func(m *manifest.TaskManifest) { m.Budget.MaxToolInvocations++ },
		"more time":         func(m *manifest.TaskManifest) { m.Budget.MaxWallClockSeconds++ },
		"money":             func(m *manifest.TaskManifest) { m.Budget.CostBearer = "external_settlement_plugin" },
		"a settlement":      func(m *manifest.TaskManifest) { m.Budget.SettlementExtension = canonical(`{"iban":"x"}`) },
		"a grant": func(m *manifest.TaskManifest) {
			m.Permissions.GrantedCapabilities = contract().Permissions.GrantedCapabilities
		},
		"handing on":    func(m *manifest.TaskManifest) { m.Permissions.MaxDelegationDepth = 1 },
		"a parent":      func(m *manifest.TaskManifest) { m.ParentTaskID = contract().ParentTaskID },
		"a host":        func(m *manifest.TaskManifest) { m.SandboxPolicy.AllowedHosts = []string{"example.org"} },
		"a network":     func(m *manifest.TaskManifest) { m.SandboxPolicy.NetworkAccess = "allowlist_only" },
		"another box":   func(m *manifest.TaskManifest) { m.SandboxPolicy.IsolationLevel = "oci_container" },
		"a fallback":    func(m *manifest.TaskManifest) { m.SandboxPolicy.AllowSubprocessFallback = ptr(true) },
		"another scope": func(m *manifest.TaskManifest) { m.SandboxPolicy.FilesystemScope = "read_only_inputs" },
		"one more file": func(m *manifest.TaskManifest) {
			m.IO.InputArtifacts = append(m.IO.InputArtifacts[:1:1], manifest.ArtifactRef{Name: "b"})
		},
		"one more byte": func(m *manifest.TaskManifest) {
			f := m.IO.InputArtifacts[0]
			f.SizeBytes++
			m.IO.InputArtifacts = []manifest.ArtifactRef{f}
		},
		"a later deadline":      func(m *manifest.TaskManifest) { m.Deadline = signing.TimeOf(m.Deadline.Time().Add(time.Second)) },
		"one more retry":        func(m *manifest.TaskManifest) { m.Verification.MaxRetries++ },
		"a weaker verification": func(m *manifest.TaskManifest) { m.Verification.Mode = "schema_only" },
		"a command": func(m *manifest.TaskManifest) {
			m.Verification.Checks = []manifest.Check{{Kind: "deterministic_command", Target: "rm"}}
		},
		"another receipt": func(m *manifest.TaskManifest) {
			m.Verification.RequireUsageReceipt = !m.Verification.RequireUsageReceipt
		},
		"another attestation": func(m *manifest.TaskManifest) {
			m.Verification.RequireExecutionAttestation = !m.Verification.RequireExecutionAttestation
		},
		"asking for more": func(m *manifest.TaskManifest) { m.Budget.OnOverrun = "request_hitl_amendment" },
		"a gate less":     func(m *manifest.TaskManifest) { m.HITLPolicy.RequiredGates = nil },
		"no worker":       func(m *manifest.TaskManifest) { m.Worker = nil },
	} {
		m := simple()
		mend(&m)
		if err := standing().Covers(m, annOwner.DID()); spec.ReasonOf(err) != spec.PolicyDenied {
			t.Errorf("%s: %v, want policy-denied", what, err)
		}
	}
	for what, owner := range map[string]signing.DID{"the other owner": benOwner.DID(), "nobody": {}, "a stranger": eveOwner.DID()} {
		if standing().Covers(simple(), owner) == nil {
			t.Errorf("it is a yes of %s", what)
		}
	}
	less := simple()
	less.Budget.MaxInputTokens, less.IO.InputArtifacts, less.Verification.MaxRetries = 0, nil, 0
	if err := standing().Covers(less, annOwner.DID()); err != nil {
		t.Errorf("less is not covered: %v", err)
	}
}

func TestAStandingYesIsBounded(t *testing.T) {
	for what, mend := range map[string]func(*manifest.Standing){
		"without end":     func(s *manifest.Standing) { s.Until = later(31 * day) },
		"backwards":       func(s *manifest.Standing) { s.Until = s.From },
		"no use":          func(s *manifest.Standing) { s.Uses = 0 },
		"101 uses":        func(s *manifest.Standing) { s.Uses = 101 },
		"worker, no box":  func(s *manifest.Standing) { s.Side, s.Model = manifest.Worker, "own" },
		"requester's box": func(s *manifest.Standing) { s.Box = &manifest.Isolation{} },
		"any model":       func(s *manifest.Standing) { s.Side, s.Box = manifest.Worker, &manifest.Isolation{} },
	} {
		s := standing()
		mend(&s)
		if s.Check() == nil || s.Covers(simple(), annOwner.DID()) == nil {
			t.Errorf("%s is taken", what)
		}
	}
	s := standing()
	for at, want := range map[time.Time]bool{s.From.Time(): true, s.From.Time().Add(-time.Nanosecond): false, s.Until.Time().Add(-time.Nanosecond): true, s.Until.Time(): false} {
		if s.At(at) != want {
			t.Errorf("at %s: %t", at, !want)
		}
	}
}

// The digest stands in the event, with what it is the digest of (G6, G11).
func TestAStandingDecisionComesWithItsGrant(t *testing.T) {
	ever := decision()
	ever.Lasts, ever.SubjectDigest = manifest.LastsStanding, standing().Subject()
	always, once := ptr(signedWire(ever, annOwner)), ptr(signedWire(decision(), annOwner))
	use := func(mend func(*manifest.StandingUse)) *manifest.StandingUse {
		u := manifest.StandingUse{Grant: standing(), Use: 1}
		mend(&u)
		return &u
	}
	block, payload, err := manifest.SignManifest(contract(), manifest.Requester, annAgent, noon)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		decision *jcs.Value
		use      *manifest.StandingUse
		ok       bool
	}{
		"both":               {always, use(func(*manifest.StandingUse) {}), true},
		"no grant":           {always, nil, false},
		"a grant for once":   {once, use(func(*manifest.StandingUse) {}), false},
		"a grant alone":      {nil, use(func(*manifest.StandingUse) {}), false},
		"another grant":      {always, use(func(u *manifest.StandingUse) { u.Grant.Uses = 6 }), false},
		"more than its uses": {always, use(func(u *manifest.StandingUse) { u.Use = 6 }), false},
	} {
		e, by := event(manifest.Proposed{Manifest: payload, Signature: block, Decision: c.decision, Standing: c.use})
		v, err := manifest.Sign(e, by, noon)
		if err == nil {
			_, err = manifest.Open(v.Wire().Bytes(), nil)
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// B009: what a grant leaves empty permits nothing, never everything.
func TestAnEmptyGrantCoversNothing(t *testing.T) {
	if (manifest.Standing{}).Covers(simple(), annOwner.DID()) == nil {
		t.Error("the empty grant covers a contract")
	}
	for what, mend := range map[string]func(*manifest.Standing){
		"no contact":   func(s *manifest.Standing) { s.Contact = signing.DID{} },
		"no figures":   func(s *manifest.Standing) { s.Each = manifest.Meters{} },
		"no files":     func(s *manifest.Standing) { s.Files, s.Bytes = 0, 0 },
		"no task type": func(s *manifest.Standing) { s.TaskType = "" },
		"no mode":      func(s *manifest.Standing) { s.Mode = "" },
		"no box":       func(s *manifest.Standing) { s.Level = "" },
		"no scope":     func(s *manifest.Standing) { s.Scope = "" },
		"no time":      func(s *manifest.Standing) { s.Seconds = 0 },
	} {
		s := standing()
		mend(&s)
		if s.Covers(simple(), annOwner.DID()) == nil {
			t.Errorf("%s covers a contract", what)
		}
	}
}
