package policy

import (
	"fmt"
	"slices"

	"sealbridge/manifest"
	"sealbridge/signing"
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
	if err1 != nil || err2 != nil {
		return &axis{"C2e", "/resource", "within " + parent.Resource}
	}
	return extent{p, parent.AllowedTools, parent.MaxInvocations, parent.ExpiresAt}.wider(extent{c, child.AllowedTools, child.MaxInvocations, child.ExpiresAt})
}

// extent is what a grant and a token give, on the axes that both have.
type extent struct {
	resource manifest.Resource
	tools    []string
	uses     int64
	until    signing.Time
}

func extentOf(t *manifest.CapabilityToken) extent {
	return extent{t.Resource, t.AllowedTools, t.MaxInvocations, t.ExpiresAt}
}

// wider is the first axis on which c goes beyond p.
func (p extent) wider(c extent) *axis {
	if !p.resource.Covers(c.resource) {
		return &axis{"C2e", "/resource", "within " + p.resource.String()}
	}
	if len(c.tools) == 0 {
		return &axis{"C2f", "/allowedTools", "at least one tool"}
	}
	for i, tool := range c.tools {
		if !slices.Contains(p.tools, tool) {
			return &axis{"C2f", fmt.Sprintf("/allowedTools/%d", i), "a tool of the one above"}
		}
	}
	if c.uses > p.uses || c.uses < 1 {
		return &axis{"C2g", "/maxInvocations", fmt.Sprint(p.uses)}
	}
	if c.until != p.until && c.until.After(p.until) {
		return &axis{"C2h", "/expiresAt", p.until.String()}
	}
	return nil
}

// widerToken is the same for two tokens, which have one axis more.
func widerToken(parent, child *manifest.CapabilityToken) *axis {
	if w := extentOf(parent).wider(extentOf(child)); w != nil {
		return w
	}
	if child.MaxStaleness > parent.MaxStaleness {
		return &axis{"C2h", "/maxStaleness", fmt.Sprint(parent.MaxStaleness)}
	}
	return nil
}
