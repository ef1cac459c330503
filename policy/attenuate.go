package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/spec"
)

// Attenuates says why a child is not within its parent (P1); nil if it is on
// every axis that a contract and a pass state alike. What does not compare is
// not within. The error is not-attenuated, or depth-exceeded for the depth; its
// path is that of the child manifest and its limit names both values.
func Attenuates(parent, child manifest.Bounds) error {
	for _, axis := range axes {
		if err := axis(parent, child); err != nil {
			return err
		}
	}
	return nil
}

// axes are the orders of P1, one a row, in the order of the manifest.
var axes = []func(p, c manifest.Bounds) error{
	func(p, c manifest.Bounds) error {
		switch {
		case p.Depth < 1:
			return spec.Refuse(spec.DepthExceeded, "/permissions/maxDelegationDepth", "P1: the contract above is handed on to nobody")
		case c.Depth >= p.Depth || c.Depth < 0:
			return spec.Refuse(spec.DepthExceeded, "/permissions/maxDelegationDepth", outside("at most "+count(p.Depth-1), count(c.Depth)))
		}
		return nil
	},
	func(p, c manifest.Bounds) error {
		return within("/deadline", !c.Deadline.After(p.Deadline), "not after "+p.Deadline.String(), c.Deadline.String())
	},
	func(p, c manifest.Bounds) error {
		for _, m := range Meters() {
			have, most := m.Of(c.Limits), m.Of(p.Limits)
			if err := within(meterPaths[m], 0 <= have && have <= most, "at most "+count(most), count(have)); err != nil {
				return err
			}
		}
		return nil
	},
	func(p, c manifest.Bounds) error {
		return within("/sandboxPolicy/isolationLevel", isolates(c.Isolation, p.Isolation), "at least "+p.Isolation, c.Isolation)
	},
	func(p, c manifest.Bounds) error {
		return within("/sandboxPolicy/allowSubprocessFallback", p.Fallback || !c.Fallback, "off", "on")
	},
	func(p, c manifest.Bounds) error {
		narrower := c.Network == "none" || c.Network == p.Network
		return within("/sandboxPolicy/networkAccess", narrower, p.Network, c.Network)
	},
	func(p, c manifest.Bounds) error {
		for i, h := range c.Hosts {
			if err := within("/sandboxPolicy/allowedHosts/"+strconv.Itoa(i), slices.Contains(p.Hosts, h), "one of "+list(p.Hosts), h); err != nil {
				return err
			}
		}
		return nil
	},
	func(p, c manifest.Bounds) error {
		return within("/sandboxPolicy/filesystemScope", c.Files == p.Files, p.Files, c.Files)
	},
	func(p, c manifest.Bounds) error {
		for _, g := range p.Gates {
			if err := within("/hitlPolicy/requiredGates", slices.Contains(c.Gates, g), "with "+string(g), "without"); err != nil {
				return err
			}
		}
		return nil
	},
	func(p, c manifest.Bounds) error {
		return within("/verification/mode", checksAs(c.Mode, p.Mode), "at least "+p.Mode, c.Mode)
	},
	func(p, c manifest.Bounds) error {
		return within("/verification/requireUsageReceipt", c.Receipt || !p.Receipt, "required", "not required")
	},
	func(p, c manifest.Bounds) error {
		return within("/verification/requireExecutionAttestation", c.Attestation || !p.Attestation, "required", "not required")
	},
}

var meterPaths = map[Meter]string{InputTokens: "/budget/maxInputTokens", OutputTokens: "/budget/maxOutputTokens",
	ToolInvocations: "/budget/maxToolInvocations", WallClockSeconds: "/budget/maxWallClockSeconds"}

func within(path string, held bool, parent, child string) error {
	if held {
		return nil
	}
	return spec.Refuse(spec.NotAttenuated, path, outside(parent, child))
}

// outside names both values, cut: they may be a stranger's.
func outside(parent, child string) string {
	return "P1: " + manifest.Display(parent, 120) + ", not " + manifest.Display(child, 60)
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " ")
}

// checksAs is the order of verification modes of P1.
func checksAs(have, want string) bool {
	over := map[string][]string{
		"schema_only":       {"schema_only"},
		"automated_checks":  {"schema_only", "automated_checks"},
		"human_in_the_loop": {"human_in_the_loop"},
		"hybrid":            {"schema_only", "automated_checks", "human_in_the_loop", "hybrid"},
	}
	return slices.Contains(over[have], want)
}

// begins: a child is not made before what it is a part of (T1, with the skew that T1 allows).
func begins(child manifest.TaskManifest, parent time.Time) error {
	if child.CreatedAt.Time().Before(parent.Add(-MaxAhead)) {
		return spec.Refuse(spec.NotAttenuated, "/createdAt", outside("not before "+parent.UTC().Format(time.RFC3339), child.CreatedAt.String()))
	}
	return nil
}

// AttenuatesContract says why a child manifest is not within a contract in
// force: its bounds, its beginning, and its grants (P1).
func AttenuatesContract(parent, child manifest.TaskManifest) error {
	if err := Attenuates(manifest.BoundsOf(parent), manifest.BoundsOf(child)); err != nil {
		return err
	}
	if err := begins(child, parent.CreatedAt.Time()); err != nil {
		return err
	}
	return grantsCovered(parent, child)
}

// grantsCovered: each grant of a child lies within one of its parent's (C2); the
// constraints of both are held at the call (C3).
func grantsCovered(parent, child manifest.TaskManifest) error {
	for i, g := range child.Permissions.GrantedCapabilities {
		err := error(nil)
		covered := slices.ContainsFunc(parent.Permissions.GrantedCapabilities, func(above manifest.Grant) bool {
			e := Covers(above, g)
			if e != nil && err == nil {
				err = e
			}
			return e == nil
		})
		if !covered {
			at := "/permissions/grantedCapabilities/" + strconv.Itoa(i)
			if err == nil {
				return spec.Refuse(spec.NotAttenuated, at, "P1: a grant of the contract above")
			}
			return spec.Refuse(spec.NotAttenuated, at+pathOf(err), "P1: "+limitOf(err))
		}
	}
	return nil
}
