package schema

import (
	"net/url"

	"sealbridge/spec"
)

// resolve turns references into edges; each names a schema that we walked.
func (p *parser) resolve() error {
	if len(p.refs) == 0 {
		return nil
	}
	byPath := make(map[string]*node, len(p.nodes))
	for _, n := range p.nodes {
		byPath[n.path] = n
	}
	for _, n := range p.refs {
		for _, ref := range n.refs {
			fragment, err := url.PathUnescape(ref[1:])
			if err != nil {
				return malformed(n.path, "a reference is #, #/pointer or #anchor")
			}
			to := p.anchors[fragment]
			if fragment == "" || fragment[0] == '/' {
				to = byPath[fragment]
			}
			if to == nil {
				return malformed(n.path, "a reference to no schema")
			}
			n.here = append(n.here, to)
			n.below = append(n.below, to)
		}
	}
	return nil
}

// measureChain finds the longest chain of schemas that apply to one value and
// refuses a chain that closes.
func (n *node) measureChain() error {
	if n.chain > 0 {
		return nil
	}
	n.chain = -1
	longest := 0
	for _, k := range n.here {
		if k.chain < 0 {
			return malformed(n.path, "a cycle that does not descend into the value")
		}
		if err := k.measureChain(); err != nil {
			return err
		}
		longest = max(longest, k.chain)
	}
	n.chain = longest + 1
	if n.chain > MaxChain {
		return spec.Refuse(spec.TooLarge, cut(n.path, maxPath), "64 schemas in a chain at one value")
	}
	return nil
}

// measure counts schemas with every reference written out, in the order of the
// document; one that leads back into what is being counted counts once.
func (n *node) measure() int {
	switch {
	case n.expanded < 0:
		return 1
	case n.expanded > 0:
		return n.expanded
	}
	n.expanded = -1
	total := 1
	for _, k := range n.below {
		total = min(total+k.measure(), MaxNodes+1)
	}
	n.expanded = total
	return total
}
