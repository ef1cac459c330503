package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// above are bounds with room on every axis; below is a child that lies within them.
func above() manifest.Bounds {
	return manifest.Bounds{Depth: 2, Deadline: signing.TimeOf(deadline), Limits: manifest.Meters{InputTokens: 1000, OutputTokens: 500, ToolInvocations: 10, WallClockSeconds: 600},
		Isolation: "subprocess_restricted", Network: "allowlist_only", Hosts: []string{"a.example", "b.example"}, Files: "read_only_inputs",
		Gates: []manifest.Gate{manifest.ContractGate, manifest.SubGate}, Mode: "automated_checks", Receipt: true, Attestation: true}
}

func below() manifest.Bounds {
	c := above()
	c.Depth, c.Deadline = 1, signing.TimeOf(deadline.Add(-time.Hour))
	c.Limits = manifest.Meters{InputTokens: 400, OutputTokens: 500, ToolInvocations: 0, WallClockSeconds: 60}
	c.Hosts, c.Gates, c.Mode, c.Isolation = []string{"b.example"}, append(c.Gates, manifest.DeliveryGate), "hybrid", "wasm"
	return c
}

// Each axis of P1, one step too wide: refused by that axis, which names both values (B010).
func TestAChildIsWithinItsParentOnEveryAxis(t *testing.T) {
	if err := Attenuates(above(), below()); err != nil {
		t.Fatalf("the control: %v", err)
	}
	for _, c := range []struct {
		name   string
		wide   func(p, c *manifest.Bounds)
		word   spec.Reason
		path   string
		values []string
	}{
		{"as deep", func(_, c *manifest.Bounds) { c.Depth = 2 }, spec.DepthExceeded, "/permissions/maxDelegationDepth", []string{"at most 1", "2"}},
		{"below nothing", func(p, c *manifest.Bounds) { p.Depth, c.Depth = 0, 0 }, spec.DepthExceeded, "/permissions/maxDelegationDepth", []string{"nobody"}},
		{"an hour longer", func(_, c *manifest.Bounds) { c.Deadline = signing.TimeOf(deadline.Add(time.Hour)) }, spec.NotAttenuated, "/deadline", []string{"2026-12-02T09:00:00Z", "2026-12-02T10:00:00Z"}},
		{"one token more", func(_, c *manifest.Bounds) { c.Limits.InputTokens = 1001 }, spec.NotAttenuated, "/budget/maxInputTokens", []string{"1000", "1001"}},
		{"one token out more", func(_, c *manifest.Bounds) { c.Limits.OutputTokens = 501 }, spec.NotAttenuated, "/budget/maxOutputTokens", []string{"500", "501"}},
		{"a call more", func(_, c *manifest.Bounds) { c.Limits.ToolInvocations = 11 }, spec.NotAttenuated, "/budget/maxToolInvocations", []string{"10", "11"}},
		{"a second more", func(_, c *manifest.Bounds) { c.Limits.WallClockSeconds = 601 }, spec.NotAttenuated, "/budget/maxWallClockSeconds", []string{"600", "601"}},
		{"a weaker box", func(p, c *manifest.Bounds) { p.Isolation, c.Isolation = "oci_container", "subprocess_restricted" }, spec.NotAttenuated, "/sandboxPolicy/isolationLevel", []string{"oci_container", "subprocess_restricted"}},
		{"a box that does not compare", func(p, c *manifest.Bounds) { p.Isolation, c.Isolation = "oci_container", "wasm" }, spec.NotAttenuated, "/sandboxPolicy/isolationLevel", []string{"oci_container", "wasm"}},
		{"fallback turned on", func(_, c *manifest.Bounds) { c.Fallback = true }, spec.NotAttenuated, "/sandboxPolicy/allowSubprocessFallback", []string{"off", "on"}},
		{"a network", func(p, _ *manifest.Bounds) { p.Network, p.Hosts = "none", nil }, spec.NotAttenuated, "/sandboxPolicy/networkAccess", []string{"none", "allowlist_only"}},
		{"another host", func(_, c *manifest.Bounds) { c.Hosts = append(c.Hosts, "c.example") }, spec.NotAttenuated, "/sandboxPolicy/allowedHosts/1", []string{"a.example b.example", "c.example"}},
		{"other files", func(_, c *manifest.Bounds) { c.Files = "ephemeral_workspace_only" }, spec.NotAttenuated, "/sandboxPolicy/filesystemScope", []string{"read_only_inputs", "ephemeral_workspace_only"}},
		{"a gate less", func(_, c *manifest.Bounds) { c.Gates = c.Gates[1:] }, spec.NotAttenuated, "/hitlPolicy/requiredGates", []string{"GATE_CONTRACT_ACCEPT"}},
		{"no gates", func(_, c *manifest.Bounds) { c.Gates = nil }, spec.NotAttenuated, "/hitlPolicy/requiredGates", nil},
		{"fewer checks", func(_, c *manifest.Bounds) { c.Mode = "schema_only" }, spec.NotAttenuated, "/verification/mode", []string{"automated_checks", "schema_only"}},
		{"checks that do not compare", func(_, c *manifest.Bounds) { c.Mode = "human_in_the_loop" }, spec.NotAttenuated, "/verification/mode", nil},
		{"no receipt", func(_, c *manifest.Bounds) { c.Receipt = false }, spec.NotAttenuated, "/verification/requireUsageReceipt", nil},
		{"no attestation", func(_, c *manifest.Bounds) { c.Attestation = false }, spec.NotAttenuated, "/verification/requireExecutionAttestation", nil},
	} {
		p, child := above(), below()
		c.wide(&p, &child)
		err := Attenuates(p, child)
		if spec.ReasonOf(err) != c.word || pathOf(err) != c.path {
			t.Errorf("%s: %v, want %s at %s", c.name, err, c.word, c.path)
		}
		for _, v := range c.values {
			if !strings.Contains(limitOf(err), v) {
				t.Errorf("%s: %q does not name %q", c.name, limitOf(err), v)
			}
		}
	}
}

func drawBounds(t *rapid.T) manifest.Bounds {
	pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	sub := func(name string, of ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, len(of), func(s string) string { return s }).Draw(t, name)
	}
	n := func(name string) int64 { return rapid.Int64Range(0, 4).Draw(t, name) }
	b := manifest.Bounds{Depth: rapid.Int64Range(0, 5).Draw(t, "depth"), Deadline: signing.TimeOf(deadline.Add(time.Duration(n("end")) * time.Hour)),
		Limits:    manifest.Meters{InputTokens: n("in"), OutputTokens: n("out"), ToolInvocations: n("calls"), WallClockSeconds: n("time")},
		Isolation: pick("box", "subprocess_restricted", "oci_container", "wasm", "microvm"), Fallback: rapid.Bool().Draw(t, "fallback"),
		Network: pick("network", "none", "allowlist_only"), Files: pick("files", "ephemeral_workspace_only", "read_only_inputs"),
		Mode:    pick("mode", "schema_only", "automated_checks", "human_in_the_loop", "hybrid"),
		Receipt: rapid.Bool().Draw(t, "receipt"), Attestation: rapid.Bool().Draw(t, "attestation")}
	if b.Network != "none" {
		b.Hosts = sub("hosts", "a.example", "b.example", "c.example")
	}
	for _, g := range sub("gates", string(manifest.ContractGate), string(manifest.SubGate), string(manifest.DeliveryGate)) {
		b.Gates = append(b.Gates, manifest.Gate(g))
	}
	return b
}

// ranks write the orders of P1 a second time, as sets of what each value includes.
func notWider(p, c manifest.Bounds) bool {
	boxes := map[string][]string{"subprocess_restricted": {"subprocess_restricted", "oci_container", "microvm", "wasm"}, "oci_container": {"oci_container", "microvm"}, "microvm": {"microvm"}, "wasm": {"wasm"}}
	modes := map[string][]string{"schema_only": {"schema_only", "automated_checks", "hybrid"}, "automated_checks": {"automated_checks", "hybrid"}, "human_in_the_loop": {"human_in_the_loop", "hybrid"}, "hybrid": {"hybrid"}}
	ok := c.Depth < p.Depth && !c.Deadline.Time().After(p.Deadline.Time()) &&
		c.Limits.InputTokens <= p.Limits.InputTokens && c.Limits.OutputTokens <= p.Limits.OutputTokens &&
		c.Limits.ToolInvocations <= p.Limits.ToolInvocations && c.Limits.WallClockSeconds <= p.Limits.WallClockSeconds &&
		slices.Contains(boxes[p.Isolation], c.Isolation) && slices.Contains(modes[p.Mode], c.Mode) && p.Files == c.Files
	ok = ok && (p.Fallback || !c.Fallback) && (c.Receipt || !p.Receipt) && (c.Attestation || !p.Attestation) && (p.Network != "none" || c.Network == "none")
	for _, h := range c.Hosts {
		ok = ok && slices.Contains(p.Hosts, h)
	}
	for _, g := range p.Gates {
		ok = ok && slices.Contains(c.Gates, g)
	}
	return ok
}

// Whatever is taken is no wider on any axis, whatever is wider on one is not
// taken, and what is handed on twice is narrower than the first.
func TestWhatIsTakenIsNarrower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, c, d := drawBounds(t), drawBounds(t), drawBounds(t)
		if err := Attenuates(p, c); (err == nil) != notWider(p, c) {
			t.Fatalf("Attenuates(%+v, %+v) = %v", p, c, err)
		}
		if Attenuates(p, c) == nil && Attenuates(c, d) == nil && !notWider(p, d) {
			t.Fatalf("two steps are wider than one: %+v, %+v, %+v", p, c, d)
		}
		// a good child, and one axis of it at a time as the other draw has it
		good, axis := below(), rapid.IntRange(0, 12).Draw(t, "axis")
		for i, change := range []func(){
			func() { good.Depth = c.Depth }, func() { good.Deadline = c.Deadline }, func() { good.Limits.InputTokens += 600 * c.Limits.InputTokens },
			func() { good.Limits.OutputTokens += c.Limits.OutputTokens }, func() { good.Limits.ToolInvocations += 5 * c.Limits.ToolInvocations },
			func() { good.Limits.WallClockSeconds += 300 * c.Limits.WallClockSeconds }, func() { good.Isolation = c.Isolation }, func() { good.Fallback = c.Fallback },
			func() { good.Network, good.Hosts = c.Network, c.Hosts }, func() { good.Files = c.Files }, func() { good.Gates = c.Gates }, func() { good.Mode = c.Mode },
			func() { good.Receipt, good.Attestation = c.Receipt, c.Attestation },
		} {
			if i == axis {
				change()
			}
		}
		if err := Attenuates(above(), good); (err == nil) != notWider(above(), good) {
			t.Fatalf("axis %d: Attenuates = %v of %+v", axis, err, good)
		}
	})
}
