package manifest_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func encoded(m manifest.TaskManifest) jcs.Value { return must(jcs.Encode(m)) }

func TestACounterProposalChangesTermsAndNothingElse(t *testing.T) { // G7
	m := contract()
	c, err := m.Counter([]manifest.Setting{{Key: "budget.time", Value: "10m"}, {Key: "gates", Value: "contract"}, {Key: "verify.retries", Value: "0"}}, noon)
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest.Differences(m, c); len(got) != 3 || got[0] != (manifest.Difference{Key: "budget.time", From: "1h", To: "10m"}) {
		t.Errorf("%+v", got)
	}
	for i, s := range c.Terms() {
		if s.Key != manifest.TermKeys()[i] || s.Key == "budget.time" && s.Value != "10m" {
			t.Errorf("term %d is %+v", i, s)
		}
	}
	if contract().HITLPolicy.RequiredGates[1] != m.HITLPolicy.RequiredGates[1] {
		t.Error("the contract itself was changed")
	}
	if back, err := manifest.CounterOf(m, encoded(c)); err != nil || encoded(back) != encoded(c) {
		t.Error(err)
	}
	for what, mend := range map[string]func(*manifest.TaskManifest){
		"the goal": func(c *manifest.TaskManifest) { c.Task.Description = "send me everything" },
		"a file": func(c *manifest.TaskManifest) {
			c.IO.InputArtifacts = append([]manifest.ArtifactRef{}, c.IO.InputArtifacts...)
			c.IO.InputArtifacts[0].Digest = signing.DigestOf(nil)
		},
		"a grant":       func(c *manifest.TaskManifest) { c.Permissions.GrantedCapabilities = nil },
		"the worker":    func(c *manifest.TaskManifest) { w := *c.Worker; w.OwnerDid = eveOwner.DID(); c.Worker = &w },
		"the requester": func(c *manifest.TaskManifest) { c.Requester.OwnerDid = eveOwner.DID() },
		"the id":        func(c *manifest.TaskManifest) { c.TaskID = must(manifest.ParseTaskID("task_another_one")) },
		"a host":        func(c *manifest.TaskManifest) { c.SandboxPolicy.AllowedHosts = []string{"evil.example"} },
		"a check":       func(c *manifest.TaskManifest) { c.Verification.Checks = nil },
		"the mode":      func(c *manifest.TaskManifest) { c.Verification.Mode = "schema_only" },
		"a settlement":  func(c *manifest.TaskManifest) { c.Budget.SettlementExtension = canonical(`{"iban":"x"}`) },
		"nothing":       func(c *manifest.TaskManifest) { *c = m },
	} {
		bad := c
		mend(&bad)
		if _, err := manifest.CounterOf(m, encoded(bad)); err == nil {
			t.Errorf("a counter-proposal that changes %s is taken", what)
		}
	}
}

func TestASettingThatIsNoTermIsRefused(t *testing.T) {
	for _, set := range [][]manifest.Setting{
		{{Key: "goal", Value: "another"}}, {{Key: "budget", Value: "1"}}, {{Key: "budget.time", Value: "soon"}}, {{Key: "budget.time", Value: "1h"}},
		{{Key: "paid_by", Value: "nobody"}}, {{Key: "gates", Value: "all"}}, {{Key: "verify.retries", Value: "11"}}, {{Key: "verify.attestation", Value: "maybe"}},
		{{Key: "deadline", Value: "yesterday"}}, {{Key: "deadline", Value: "2026-01-01T00:00:00Z"}}, nil,
	} {
		if _, err := contract().Counter(set, noon); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("%+v: %v, want malformed", set, err)
		}
	}
	for _, s := range []string{"", "=", "budget.time", "budget.time=", "=10m"} {
		if _, err := manifest.ParseSetting(s); err == nil {
			t.Errorf("%q is a setting", s)
		}
	}
}

// What a difference says can be typed again, and makes the same contract.
func TestADifferenceCanBeTyped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, c := contract(), contract()
		c.Budget.MaxInputTokens = rapid.Int64Range(0, 100_000_000).Draw(t, "in")
		c.Budget.MaxOutputTokens = rapid.Int64Range(0, 1000).Draw(t, "out") * 1000
		c.Budget.MaxWallClockSeconds = rapid.Int64Range(1, 28_000).Draw(t, "time")
		c.Budget.MaxToolInvocations = rapid.Int64Range(0, 100_000).Draw(t, "calls")
		c.Verification.MaxRetries = rapid.Int64Range(0, 10).Draw(t, "retries")
		c.Verification.RequireUsageReceipt = rapid.Bool().Draw(t, "receipt")
		c.Budget.CostBearer = rapid.SampledFrom([]string{"worker_byok", "bilateral_quota", "external_settlement_plugin"}).Draw(t, "bearer")
		c.Deadline = signing.TimeOf(m.Deadline.Time().Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "later")) * time.Second))
		c.HITLPolicy.RequiredGates = rapid.SampledFrom([][]manifest.Gate{{}, {manifest.ContractGate}, {manifest.DeliveryGate, manifest.BudgetGate}}).Draw(t, "gates")
		var set []manifest.Setting
		for _, d := range manifest.Differences(m, c) {
			set = append(set, manifest.Setting{Key: d.Key, Value: d.To})
		}
		if len(set) == 0 {
			return
		}
		got, err := m.Counter(set, noon)
		if err != nil || encoded(got) != encoded(c) {
			t.Fatalf("%+v: %v\n%s\n%s", set, err, encoded(got), encoded(c))
		}
	})
}
