package policy

import (
	"fmt"
	"slices"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Grantable says why a grant of a manifest can be no token: a resource that is
// none (C1), a tool twice, or constraints outside the closed dialect (C3).
func Grantable(m manifest.TaskManifest) error {
	for i, g := range m.Permissions.GrantedCapabilities {
		at := fmt.Sprintf("/permissions/grantedCapabilities/%d", i)
		if _, err := manifest.ParseResource(g.Resource); err != nil {
			return spec.Refuse(spec.CapabilityDenied, at+"/resource", limitOf(err))
		}
		for k, tool := range g.AllowedTools {
			if slices.Contains(g.AllowedTools[:k], tool) {
				return spec.Refuse(spec.CapabilityDenied, fmt.Sprintf("%s/allowedTools/%d", at, k), "C2: each tool once")
			}
		}
		t := manifest.CapabilityToken{ArgConstraints: g.ArgConstraints}
		if _, err := t.Constraints(); err != nil {
			return spec.Refuse(spec.CapabilityDenied, at+pathOf(err), limitOf(err))
		}
	}
	return nil
}

// grantable is [Grantable] as a ruling about a contract.
func grantable(m manifest.TaskManifest) *Decision {
	if err := Grantable(m); err != nil {
		return denied("C2", spec.ReasonOf(err), pathOf(err), limitOf(err))
	}
	return nil
}

// judgeGranted holds tokens against the manifest in force: each is issued by
// the requester's agent to the worker's, for a grant of this contract and no
// wider, and stands below nothing or below a chain that is here too (C2).
func (l *law) judgeGranted(f manifest.Granted) *Decision {
	above, bad := openAbove(f.Above)
	if bad != nil {
		return bad
	}
	seen := map[manifest.CapabilityID]bool{}
	var roots []signing.DID
	for i, doc := range f.Tokens {
		at := fmt.Sprintf("/body/tokens/%d", i)
		s, t, err := openToken(doc)
		if err != nil {
			return denied("C2", spec.ReasonOf(err), at+pathOf(err), limitOf(err))
		}
		switch {
		case t.Issuer != l.Event.Author:
			return denied("C2b", spec.CapabilityDenied, at+"/issuer", "the requester's agent")
		case t.TaskID != l.Event.TaskID || t.ManifestDigest != l.Event.ManifestDigest:
			return denied("C2", spec.CapabilityDenied, at+"/manifestDigest", "this contract")
		case l.m.Worker == nil || t.Audience != l.m.Worker.AgentDid:
			return denied("C2", spec.CapabilityDenied, at+"/audience", "the worker's agent")
		case seen[t.CapabilityID]:
			return denied("C2c", spec.CapabilityDenied, at+"/capabilityId", "one token for each grant")
		}
		seen[t.CapabilityID] = true
		if e := granted(l.m, t); e != nil {
			return denied(e.Rule, e.Reason, at+e.Path, e.Limit)
		}
		c, e := above.chain(s)
		if e != nil {
			return denied(e.Rule, e.Reason, at+e.Path, e.Limit)
		}
		if c.Len() > 1 {
			roots = append(roots, c.Token(1).Issuer)
		}
	}
	return issuerOf(f, roots)
}

// issuerOf: whoever holds links needs to know whose tools they are: one owner's (C7).
func issuerOf(f manifest.Granted, roots []signing.DID) *Decision {
	if f.Issuer == nil || len(roots) == 0 {
		if len(roots) > 0 || f.Issuer != nil {
			return denied("C7", spec.CapabilityDenied, "/body/issuer", "exactly with tokens that are no roots")
		}
		return nil
	}
	c, err := f.Issuer.Agent()
	if err != nil || slices.ContainsFunc(roots, func(d signing.DID) bool { return d != c.AgentDid }) {
		return denied("C7", spec.WrongSigner, "/body/issuer", "whoever issued the roots")
	}
	return nil
}

// openToken reads a token inside an event: arithmetic, shape and signer.
func openToken(doc jcs.Value) (manifest.Signed, *manifest.CapabilityToken, error) {
	s, err := manifest.OpenValue(doc, nil)
	if err != nil {
		return s, nil, err
	}
	t, ok := s.Document().(*manifest.CapabilityToken)
	if !ok {
		return s, nil, spec.Refuse(spec.UnknownType, "/type", "C2: a capability-token")
	}
	return s, t, nil
}

// tokensAbove are the tokens that came along, by their digests.
type tokensAbove map[signing.Digest]manifest.Signed

func openAbove(docs []jcs.Value) (tokensAbove, *Decision) {
	out := tokensAbove{}
	for i, doc := range docs {
		s, _, err := openToken(doc)
		at := fmt.Sprintf("/body/above/%d", i)
		if err != nil {
			return nil, denied("C2", spec.ReasonOf(err), at+pathOf(err), limitOf(err))
		}
		if _, twice := out[s.Digest()]; twice {
			return nil, denied("C2", spec.CapabilityDenied, at, "each once")
		}
		out[s.Digest()] = s
	}
	return out, nil
}

// chain is the chain that ends in last, with what stands above it.
func (a tokensAbove) chain(last manifest.Signed) (Chain, *LinkError) {
	links := []manifest.Signed{last}
	for parent := last.Document().(manifest.Linked).Link().Parent; parent != nil; {
		s, ok := a[*parent]
		if !ok || len(links) == manifest.MaxLinks {
			return Chain{}, &LinkError{Rule: "C2a", Reason: spec.CapabilityDenied, Path: "/parent", Limit: "a token that is here too"}
		}
		links = append(links, s)
		parent = s.Document().(manifest.Linked).Link().Parent
	}
	slices.Reverse(links)
	for i := range links {
		if e := joins(links[:i], links[i]); e != nil {
			e.Link = i + 1
			return Chain{}, e
		}
	}
	return Chain{links}, nil
}

// Holding is a token that a worker holds, with its chain: what it may call
// with, and below which it may grant.
type Holding struct {
	Token *manifest.CapabilityToken
	Chain Chain
}

// Holdings are the tokens of a granted event as the law let them pass.
func Holdings(f manifest.Granted) []Holding {
	above, bad := openAbove(f.Above)
	if bad != nil {
		return nil
	}
	var out []Holding
	for _, doc := range f.Tokens {
		if s, t, err := openToken(doc); err == nil {
			if c, e := above.chain(s); e == nil {
				out = append(out, Holding{t, c})
			}
		}
	}
	return out
}

// Mint is the token for a grant of a contract in force, unsigned: a root, or
// with parent a link below it (C2). What the parent does not give is cut to
// what it gives only in expiry, staleness and depth; on every other axis it is
// an error, because the worker was promised more. nonce is of chance.
func Mint(t task.Task, id manifest.CapabilityID, parent *Chain, nonce string) (*manifest.CapabilityToken, error) {
	m, _ := t.Contract()
	i := slices.IndexFunc(m.Permissions.GrantedCapabilities, func(g manifest.Grant) bool { return g.CapabilityID == id })
	if i < 0 || m.Worker == nil {
		return nil, spec.Refuse(spec.CapabilityDenied, "/capabilityId", "C2: a grant of the manifest in force")
	}
	g := m.Permissions.GrantedCapabilities[i]
	r, err := manifest.ParseResource(g.Resource)
	if err != nil {
		return nil, err
	}
	out := &manifest.CapabilityToken{Type: "sealbridge/capability-token", ProtocolVersion: manifest.ProtocolVersion, CapabilityID: id,
		TaskID: m.TaskID, ManifestDigest: t.ManifestDigest(), Issuer: m.Requester.AgentDid, Audience: m.Worker.AgentDid,
		Resource: r, AllowedTools: g.AllowedTools, ArgConstraints: g.ArgConstraints, MaxInvocations: g.MaxInvocations, ExpiresAt: g.ExpiresAt,
		Depth: m.Permissions.MaxDelegationDepth, MaxStaleness: int64(manifest.MaxStaleness.Seconds()), Nonce: nonce}
	if parent == nil {
		return out, nil
	}
	above := parent.Token(parent.Len())
	if above == nil || above.Depth < 1 {
		return nil, spec.Refuse(spec.DepthExceeded, "/depth", "C2i: a token that may be handed on")
	}
	digest := parent.Digest()
	out.Parent, out.Depth, out.MaxStaleness = &digest, min(out.Depth, above.Depth-1), min(out.MaxStaleness, above.MaxStaleness)
	if above.ExpiresAt.Before(out.ExpiresAt) {
		out.ExpiresAt = above.ExpiresAt
	}
	if w := widerToken(above, out); w != nil {
		return nil, spec.Refuse(spec.NotAttenuated, w.Path, w.Rule+": "+w.Limit)
	}
	return out, nil
}
