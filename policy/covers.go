package policy

import (
	"fmt"
	"slices"

	"sealbridge/manifest"
	"sealbridge/spec"
)

// Covers says why child is wider than parent: resource, tools, uses or expiry
// (C2e to C2h). Constraints of arguments need no test, because a call satisfies
// those of every link (C3).
func Covers(parent, child manifest.Grant) error {
	if w := widerGrant(parent, child); w != nil {
		return spec.Refuse(spec.NotAttenuated, w.Path, w.Rule+": "+w.Limit)
	}
	return nil
}

// axis is one axis on which a link is wider than the one before it, which rule
// forbids that, and how far it might have gone.
type axis struct{ Rule, Path, Limit string }

func widerGrant(parent, child manifest.Grant) *axis {
	p, err1 := manifest.ParseResource(parent.Resource)
	c, err2 := manifest.ParseResource(child.Resource)
	if err1 != nil || err2 != nil || !p.Covers(c) {
		return &axis{"C2e", "/resource", "within " + parent.Resource}
	}
	if len(child.AllowedTools) == 0 {
		return &axis{"C2f", "/allowedTools", "at least one tool"}
	}
	for i, tool := range child.AllowedTools {
		if !slices.Contains(parent.AllowedTools, tool) {
			return &axis{"C2f", fmt.Sprintf("/allowedTools/%d", i), "a tool of the one above"}
		}
	}
	if child.MaxInvocations > parent.MaxInvocations || child.MaxInvocations < 1 {
		return &axis{"C2g", "/maxInvocations", fmt.Sprint(parent.MaxInvocations)}
	}
	if child.ExpiresAt.After(parent.ExpiresAt) {
		return &axis{"C2h", "/expiresAt", parent.ExpiresAt.String()}
	}
	return nil
}

// widerToken is widerGrant for two tokens, which have one axis more.
func widerToken(parent, child *manifest.CapabilityToken) *axis {
	if w := widerGrant(parent.Grant(), child.Grant()); w != nil {
		return w
	}
	if child.MaxStaleness > parent.MaxStaleness {
		return &axis{"C2h", "/maxStaleness", fmt.Sprint(parent.MaxStaleness)}
	}
	return nil
}
