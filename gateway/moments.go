package gateway

import (
	"fmt"

	"sealbridge/manifest"
	"sealbridge/policy/approval"
)

// noteOf is what our own gateway reads in an event, in our words: how present a
// person was (claimed, unless it says proven), how the work is boxed and on whose word, how many files.
func noteOf(f manifest.Fact, files int) string {
	note := presenceOf(f)
	add := func(format string, args ...any) {
		if note != "" {
			note += "; "
		}
		note += fmt.Sprintf(format, args...)
	}
	switch f := f.(type) {
	case manifest.Proposed:
		if files > 0 {
			add("%s", filesOf(files))
		}
	case manifest.Accepted:
		if f.Isolation.Enforced == "gateway" {
			add("boxed: %s, enforced by its gateway", f.Isolation.Level)
		} else {
			add("%s, only claimed", f.Isolation.Level)
		}
	case manifest.Delivered:
		add("revision %d", f.Delivery.Revision)
		if n := len(f.Delivery.Artifacts); n > 0 {
			add("%s", filesOf(n))
		}
	case manifest.Rejected:
		add("%s", map[bool]string{true: "another try", false: "final"}[f.Again])
	}
	return note
}

func filesOf(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// presenceOf is how present the person was whose decision an event carries (G10).
func presenceOf(f manifest.Fact) string {
	d := manifest.DecisionIn(f)
	if d == nil {
		return ""
	}
	m, _ := d.Member("presence")
	text, _ := m.Text()
	if text == "none" {
		return "unsealed key"
	}
	if s, err := manifest.OpenValue(*d, nil); err == nil && approval.Proven(s) {
		text += ", proven" // what is not said so is claimed
	}
	return manifest.Display(text, 64)
}
