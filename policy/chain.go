package policy

import (
	"fmt"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Chain is a line of links, each narrower than the one before, that holds by
// its documents alone (C2a to C2c, C2e to C2i): the same at every owner and at
// an auditor, for ever. Whether it may be used at an instant is another
// question ([CallCase]). The zero Chain gives nothing.
type Chain struct{ links []manifest.Signed }

// Len is how many links there are, the root with them.
func (c Chain) Len() int { return len(c.links) }

// Link is a link; the root is 1.
func (c Chain) Link(n int) manifest.Signed { return c.links[n-1] }

// Digest is that of the last link, which commits to all above it; zero for no chain.
func (c Chain) Digest() signing.Digest {
	if len(c.links) == 0 {
		return signing.Digest{}
	}
	return c.links[len(c.links)-1].Digest()
}

// Token is a link of a chain of tokens; the root is 1. Nil for another kind.
func (c Chain) Token(n int) *manifest.CapabilityToken {
	if n < 1 || n > len(c.links) {
		return nil
	}
	t, _ := c.links[n-1].Document().(*manifest.CapabilityToken)
	return t
}

// LinkError says which link breaks which rule, and for which value.
type LinkError struct {
	Link   int // the root is 1; 0: none of them
	Rule   string
	Reason spec.Reason
	Path   string // in the link, or in the call
	Limit  string
}

func (e *LinkError) Error() string { return fmt.Sprintf("link %d: %v", e.Link, e.Unwrap()) }

// Unwrap is the one error that may leave the gateway.
func (e *LinkError) Unwrap() error {
	limit := e.Rule
	if e.Limit != "" {
		limit += ": " + e.Limit
	}
	return spec.Refuse(e.Reason, e.Path, limit)
}

// NewChain holds links, the root first, against each other. Their signatures
// hold, because they were opened. The error is a *LinkError.
func NewChain(links ...manifest.Signed) (Chain, error) {
	if len(links) == 0 || len(links) > manifest.MaxLinks {
		return Chain{}, &LinkError{0, "C2a", spec.CapabilityDenied, "", fmt.Sprintf("1 to %d links", manifest.MaxLinks)}
	}
	for i := range links {
		if err := joins(links[:i], links[i]); err != nil {
			err.Link = i + 1
			return Chain{}, err
		}
	}
	return Chain{links}, nil
}

// joins holds one link against those above it, in the order of the rules.
func joins(above []manifest.Signed, s manifest.Signed) *LinkError {
	d, ok := s.Document().(manifest.Linked)
	if !ok {
		return &LinkError{Rule: "C2", Reason: spec.CapabilityDenied, Path: "/type", Limit: "a link of a chain"}
	}
	l := d.Link()
	if s.By() != l.Issuer {
		return &LinkError{Rule: "C2b", Reason: spec.CapabilityDenied, Path: "/issuer", Limit: "who signed it"}
	}
	if len(above) == 0 {
		if l.Parent != nil {
			return &LinkError{Rule: "C2a", Reason: spec.CapabilityDenied, Path: "/parent", Limit: "null for a root"}
		}
		return nil
	}
	before := above[len(above)-1]
	parent := before.Document().(manifest.Linked)
	p := parent.Link()
	switch {
	case l.Parent == nil || *l.Parent != before.Digest():
		return &LinkError{Rule: "C2a", Reason: spec.CapabilityDenied, Path: "/parent", Limit: "the link before it"}
	case l.Issuer != p.Audience:
		return &LinkError{Rule: "C2b", Reason: spec.CapabilityDenied, Path: "/issuer", Limit: "the audience of the link before it"}
	}
	for _, a := range above {
		if e := circle(a.Document().(manifest.Linked).Link(), l); e != nil {
			return e
		}
	}
	if w := narrows(parent, d); w != nil {
		return &LinkError{Rule: w.Rule, Reason: spec.NotAttenuated, Path: w.Path, Limit: w.Limit}
	}
	if l.Depth > p.Depth-1 {
		return &LinkError{Rule: "C2i", Reason: spec.DepthExceeded, Path: "/depth", Limit: fmt.Sprint(p.Depth - 1)}
	}
	return nil
}

// circle is C2c: one link for each contract and for each agent.
func circle(above, l manifest.Link) *LinkError {
	path := ""
	switch {
	case above.Manifest == l.Manifest:
		path = "/manifestDigest"
	case above.Task == l.Task:
		path = "/taskId"
	case above.Audience == l.Audience, above.Issuer == l.Audience:
		path = "/audience"
	}
	if path == "" {
		return nil
	}
	return &LinkError{Rule: "C2c", Reason: spec.CapabilityDenied, Path: path, Limit: "once in a chain"}
}

// narrows says on which axis of its kind a link is wider than the one before
// it. Every kind of document that stands in chains has its case here; what has
// none, and what follows a link of another kind, is wider.
func narrows(parent, child manifest.Linked) *axis {
	switch c := child.(type) {
	case *manifest.CapabilityToken:
		if p, ok := parent.(*manifest.CapabilityToken); ok {
			return widerToken(p, c)
		}
	case *manifest.DelegationPass:
		if p, ok := parent.(*manifest.DelegationPass); ok {
			return widerPass(p, c)
		}
	}
	return &axis{"C2", "/type", "a link of the same kind"}
}
