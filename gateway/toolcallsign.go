package gateway

import (
	"slices"
	"strings"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func toolMeter(key string, t *turn) policy.Account {
	row, err := t.row(key)
	if err != nil {
		return policy.Account{}
	}
	return policy.MeterOf(row.Key, policy.ToolInvocations)
}

// capabilityFor finds the token for a use. What its own terms refuse does not
// travel: the agent hears it at once.
func (t *turn) capabilityFor(row taskRow, in Use) (k *manifest.CapabilityToken, root signing.Digest, resources []manifest.Resource, err error) {
	rows, err := tokens.Group(t.Tx, row.Key.String())
	if err != nil {
		return nil, root, nil, err
	}
	why := error(spec.Refuse(spec.CapabilityDenied, "/tool", "C2: no grant of this task has this tool; list_capabilities has them"))
	for _, r := range rows {
		c, d, err := t.token(r.V)
		if err != nil {
			return nil, root, nil, err
		}
		if in.Capability != "" && c.CapabilityID.String() != in.Capability || !slices.Contains(c.AllowedTools, in.Tool) {
			continue
		}
		rs, err := resourcesFor(c, in)
		if err == nil {
			err = t.termsOf(c, in)
		}
		if err != nil {
			why = err
			continue
		}
		return c, d, rs, nil
	}
	return nil, root, nil, why
}

// termsOf holds a use against the token that the agent has (C2j, C3).
func (t *turn) termsOf(c *manifest.CapabilityToken, in Use) error {
	if !t.now.Before(c.ExpiresAt.Time()) {
		return spec.Refuse(spec.Expired, "/capability", "C2j: "+c.ExpiresAt.String())
	}
	return nil
}

// resourcesFor are what the agent says that its call reaches. Where it says
// nothing: the grant's own resource if it is one, else what its arguments name
// below the grant's, if that is one argument.
func resourcesFor(c *manifest.CapabilityToken, in Use) (out []manifest.Resource, err error) {
	if len(in.Resources) == 0 && !c.Resource.Open() {
		return []manifest.Resource{c.Resource}, nil
	}
	for i, s := range in.Resources {
		r, err := manifest.ParseResource(s)
		if err != nil || !c.Resource.Covers(r) || r.Open() {
			return nil, spec.Refuse(spec.CapabilityDenied, "/resources/"+itoa(i), "C1: one within "+c.Resource.String())
		}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	for _, v := range in.Arguments.Members() {
		if named := below(c.Resource, v); len(named) > 0 {
			if len(out) > 0 {
				return nil, spec.Refuse(spec.Malformed, "/resources", "C1a: more than one argument could name it: say which resources within "+c.Resource.String())
			}
			out = named
		}
	}
	if len(out) == 0 {
		return nil, spec.Refuse(spec.CapabilityDenied, "/resources", "C1: no argument names a resource within "+c.Resource.String())
	}
	return out, nil
}

// below are the resources that a value names under a grant's authority, if the
// grant covers each: a path as it is, or without its first slash.
func below(grant manifest.Resource, v jcs.Value) (out []manifest.Resource) {
	scheme, rest, _ := strings.Cut(grant.String(), "://")
	authority, _, _ := strings.Cut(rest, "/")
	items := []jcs.Value{v}
	if v.Kind() == '[' {
		items = slices.Collect(v.Items())
	}
	for _, item := range items {
		text, ok := item.Text()
		if !ok {
			return nil
		}
		r, err := manifest.ParseResource(scheme + "://" + authority + "/" + strings.TrimPrefix(text, "/"))
		if err != nil || r.Open() || !grant.Covers(r) {
			return nil
		}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

func subjectOf(by Caller, task string, root signing.Digest, tool string, rs []manifest.Resource, arguments jcs.Value) (signing.Digest, error) {
	v, err := jcs.Encode(struct {
		Agent     string              `json:"agent"`
		Task      string              `json:"task"`
		Root      signing.Digest      `json:"root"`
		Tool      string              `json:"tool"`
		Resources []manifest.Resource `json:"resources"`
		Arguments jcs.Value           `json:"arguments"`
	}{by.Agent, task, root, tool, rs, arguments})
	return signing.DigestOf(v.Bytes()), err
}

// signCall reserves the call's place in the budget, signs it and sends it until
// it is acknowledged (B1, C4).
func (t *turn) signCall(row taskRow, by Caller, k *manifest.CapabilityToken, root signing.Digest, rs []manifest.Resource, subject signing.Digest, in Use) (ownCall, error) {
	text, err := t.g.mint("call_", t.now)
	if err != nil {
		return ownCall{}, err
	}
	id, err := manifest.ParseCallID(text)
	if err != nil {
		return ownCall{}, err
	}
	chain, to, err := t.holding(root)
	if err != nil {
		return ownCall{}, err
	}
	v, err := manifest.Sign(&manifest.ToolCall{Type: "sealbridge/tool-call", ProtocolVersion: manifest.ProtocolVersion, CallID: id, To: chain.Token(1).Issuer, Root: chain.Link(1).Digest(),
		Links: below1(chain), TaskID: row.Key.ID, Contract: row.Task.InForce().Digest, Tool: in.Tool, Resources: rs, Arguments: in.Arguments,
		At: signing.TimeOf(t.now), ExpiresAt: signing.TimeOf(t.now.Add(callTerm))}, t.g.Agent, t.now)
	if err != nil {
		return ownCall{}, err
	}
	acc := policy.MeterOf(row.Key, policy.ToolInvocations)
	l, err := t.ledger([]policy.Account{acc})
	if err != nil {
		return ownCall{}, err
	}
	if err := t.move(l, []policy.Move{{Op: policy.Reserve, Account: acc, Hold: policy.CallHold(v.Digest()), Amount: 1}}); err != nil {
		return ownCall{}, err
	}
	key := row.Key.String()
	o := ownCall{Task: key, Agent: by.Agent, Call: v.Wire(), ID: text, Subject: subject, State: callSent, At: t.now}
	if err := t.append(recCall, key, v.Wire().Bytes()); err != nil {
		return o, err
	}
	if err := ownCalls.Put(t.Tx, v.Digest().String(), key, o); err != nil {
		return o, err
	}
	if err := openCalls.Put(t.Tx, subject.String(), key, v.Digest()); err != nil {
		return o, err
	}
	return o, t.send(to, v.Signed, "", key, 0)
}

// holding is the chain of a token that our agent may use, and the owner whose tool it is for.
func (t *turn) holding(token signing.Digest) (chain policy.Chain, owner signing.DID, err error) {
	r, ok, err := tokens.Get(t.Tx, token.String())
	if err == nil && !ok {
		err = spec.Refuse(spec.NotFound, "/capability", "token")
	}
	if err != nil {
		return chain, owner, err
	}
	if chain, err = t.g.chains.OpenValues(t.g.keys, append(slices.Clone(r.Above), r.Wire)...); err != nil {
		return chain, owner, err
	}
	if owner, ok = t.trust.OwnerOf(chain.Token(1).Issuer); !ok {
		err = spec.Refuse(spec.UnknownKey, "/capability", "C7: whose tool it is was never introduced")
	}
	return chain, owner, err
}

// below1 are the links below the root, as a call carries them (C4).
func below1(c policy.Chain) []manifest.SignedPart {
	out := []manifest.SignedPart{}
	for i := 2; i <= c.Len(); i++ {
		out = append(out, c.Link(i).Wire())
	}
	return out
}
