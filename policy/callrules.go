package policy

import (
	"fmt"
	"slices"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/spec"
)

// The rules of a call in their order (C5); each answers the first value that
// breaks it, from the root down.

// names holds the call against the chain that it names (C4).
func (k *calling) names() *LinkError {
	no := func(path, limit string) *LinkError {
		return &LinkError{0, "C4", spec.CapabilityDenied, path, limit}
	}
	call, ok := k.Call.Document().(*manifest.ToolCall)
	if !ok || k.Chain.Token(k.Chain.Len()) == nil || k.At.IsZero() || k.Self.IsZero() {
		return no("", "a call and its chain")
	}
	k.call, k.root = call, k.Chain.Token(1)
	last := k.Chain.Token(k.Chain.Len())
	switch {
	case call.To != k.Self:
		return no("/to", "the enforcing agent")
	case call.Root != k.Chain.Link(1).Digest() || len(call.Links) != k.Chain.Len()-1:
		return no("/root", "the chain that is there")
	case call.TaskID != last.TaskID:
		return no("/taskId", "that of the last link")
	case k.Call.By() != last.Audience:
		return &LinkError{k.Chain.Len(), "C4", spec.CapabilityDenied, "/signature/signerDid", "the audience of the last link"}
	case call.At.Time().After(k.At.Add(MaxAhead)):
		return &LinkError{0, "T1", spec.Unavailable, "/at", "60 s ahead of this clock"}
	case !k.came().Before(call.ExpiresAt.Time()):
		return &LinkError{0, "C4", spec.Expired, "/expiresAt", call.ExpiresAt.String()}
	}
	for i, l := range call.Links {
		if signing.DigestOf(l.Bytes()) != k.Chain.Link(i+2).Digest() {
			return no(fmt.Sprintf("/links/%d", i), "the chain that is there")
		}
	}
	return nil
}

func (k *calling) came() time.Time {
	if k.Came.IsZero() {
		return k.At
	}
	return k.Came
}

// contract holds the root against the manifest in force (C2).
func (k *calling) contract() *LinkError {
	no := func(reason spec.Reason, path, limit string) *LinkError {
		return &LinkError{1, "C2", reason, path, limit}
	}
	m, digest := k.Task.Contract()
	k.m = m
	switch {
	case k.root.Issuer != k.Self:
		return no(spec.CapabilityDenied, "/issuer", "the gateway that is asked")
	case k.Task.IsZero() || k.root.TaskID != k.Task.Key().ID || k.root.ManifestDigest != k.Task.ManifestDigest() || k.Task.Agent(manifest.Requester) != k.Self:
		return no(spec.CapabilityDenied, "/manifestDigest", "a task of which we are the requester")
	case k.Task.Agent(manifest.Worker) != k.root.Audience:
		return no(spec.CapabilityDenied, "/audience", "the worker of the task")
	case !slices.Contains(k.Task.Granted(), k.Chain.Link(1).Digest()):
		return no(spec.CapabilityDenied, "", "a token that was granted")
	case len(k.Task.Endings()) > 0 || k.Task.Broken() || !slices.Contains(underWay, k.Task.State()):
		return no(spec.CapabilityDenied, "/taskId", "a contract in force")
	case !k.At.Before(k.Task.Deadline()):
		return no(spec.Expired, "/taskId", "the task's deadline")
	}
	if e := granted(m, k.root); e != nil {
		e.Link = 1
		return e
	}
	if k.Chain.Len() == 1 && k.call.Contract != digest {
		return &LinkError{0, "H10", spec.Stale, "/contract", "the contract in force"}
	}
	return nil
}

var underWay = []task.State{task.Accepted, task.Working, task.Delivered}

// granted says why a root is wider than the grant in the manifest that it is made of (C2).
func granted(m manifest.TaskManifest, root *manifest.CapabilityToken) *LinkError {
	i := slices.IndexFunc(m.Permissions.GrantedCapabilities, func(g manifest.Grant) bool { return g.CapabilityID == root.CapabilityID })
	if i < 0 {
		return &LinkError{Rule: "C2", Reason: spec.CapabilityDenied, Path: "/capabilityId", Limit: "a grant of the manifest in force"}
	}
	g := m.Permissions.GrantedCapabilities[i]
	if w := widerGrant(g, root.Grant()); w != nil {
		return &LinkError{Rule: w.Rule, Reason: spec.NotAttenuated, Path: w.Path, Limit: w.Limit}
	}
	switch {
	case g.ArgConstraints.String() != root.ArgConstraints.String():
		return &LinkError{Rule: "C2", Reason: spec.NotAttenuated, Path: "/argConstraints", Limit: "those of the grant"}
	case root.Depth > m.Permissions.MaxDelegationDepth:
		return &LinkError{Rule: "C2i", Reason: spec.DepthExceeded, Path: "/depth", Limit: fmt.Sprint(m.Permissions.MaxDelegationDepth)}
	}
	return nil
}

// known holds each link below the root against the child manifest that it is
// for: we know it from a delegated event, its requester issued the link to its
// worker, and it has a grant that the link is made of (C2d).
func (k *calling) known() *LinkError {
	for n := 2; n <= k.Chain.Len(); n++ {
		t := k.Chain.Token(n)
		m, ok := k.Children[t.ManifestDigest]
		if !ok || m.Worker == nil || m.Worker.AgentDid != t.Audience || m.Requester.AgentDid != t.Issuer || m.TaskID != t.TaskID {
			return &LinkError{n, "C2d", spec.CapabilityDenied, "/manifestDigest", "a child that was delegated, its requester and its worker"}
		}
		if e := granted(m, t); e != nil {
			e.Link = n
			return e
		}
	}
	return nil
}

// living holds each link against clock, revocations and freshness (C2j to C2l).
func (k *calling) living() *LinkError {
	for n := 1; n <= k.Chain.Len(); n++ {
		if t := k.Chain.Token(n); !k.At.Before(t.ExpiresAt.Time()) {
			return &LinkError{n, "C2j", spec.Expired, "/expiresAt", t.ExpiresAt.String()}
		}
	}
	var owners []signing.DID
	for n := 1; n <= k.Chain.Len(); n++ {
		t := k.Chain.Token(n)
		owner, ok := k.Trust.OwnerOf(t.Issuer)
		switch {
		case t.Issuer == k.Self:
			owner, ok = k.m.Requester.OwnerDid, true
		case !ok:
			return &LinkError{n, "C2k", spec.UnknownKey, "/issuer", "an agent of a pinned owner"}
		case k.Trust.Agents[t.Issuer].Revoked || k.Trust.Contacts[owner].Blocked:
			return &LinkError{n, "C2k", spec.Revoked, "/issuer", "a key that was not taken back"}
		}
		owners = append(owners, owner)
		for _, o := range owners {
			if k.Trust.IsRevoked(o, k.Chain.Link(n).Digest()) {
				return &LinkError{n, "C2k", spec.Revoked, "", "taken back"}
			}
		}
	}
	for n, owner := range owners {
		t := k.Chain.Token(n + 1)
		if t.Issuer == k.Self {
			continue
		}
		heard, limit := k.Heard[owner], time.Duration(t.MaxStaleness)*time.Second
		if heard.IsZero() || k.At.Sub(heard) > limit {
			return &LinkError{n + 1, "C2l", spec.Stale, "/maxStaleness", fmt.Sprintf("%d s", t.MaxStaleness)}
		}
	}
	return nil
}

// tool holds that every link names the tool, and that our table has it.
func (k *calling) tool() *LinkError {
	for n := 1; n <= k.Chain.Len(); n++ {
		if !slices.Contains(k.Chain.Token(n).AllowedTools, k.call.Tool) {
			return &LinkError{n, "C2f", spec.CapabilityDenied, "/tool", "a tool of this link"}
		}
	}
	row, ok := k.Table[k.call.Tool]
	if !ok {
		return &LinkError{0, "C1a", spec.CapabilityDenied, "/tool", "a tool in the owner's table"}
	}
	k.row = row
	k.args, k.put = row.Complete(k.call.Arguments)
	return nil
}

// reaches computes the resources and holds them against the call and every link (C1a, C1).
func (k *calling) reaches() *LinkError {
	rs, err := k.row.Resources(k.call.Tool, k.args)
	if err != nil {
		return &LinkError{0, "C1a", spec.ReasonOf(err), pathOf(err), limitOf(err)}
	}
	k.reach = rs
	if !sameSet(rs, k.call.Resources) {
		return &LinkError{0, "C1a", spec.CapabilityDenied, "/resources", "those that the arguments reach"}
	}
	for n := 1; n <= k.Chain.Len(); n++ {
		t := k.Chain.Token(n)
		for i, r := range rs {
			if whole := len(k.row.Templates) == 0; !t.Resource.Covers(r) || whole && t.Resource != r {
				return &LinkError{n, "C1", spec.CapabilityDenied, fmt.Sprintf("/resources/%d", i), "within " + t.Resource.String()}
			}
		}
	}
	return nil
}

func sameSet(a, b []manifest.Resource) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(r manifest.Resource) bool { return !slices.Contains(b, r) })
}

// Within says why a call is not covered by its chain as far as the two documents
// say it: who calls, tool, resources as the row computes them, and arguments.
// An auditor who has no more asks it (C5).
func Within(c Chain, call manifest.Verified, row ToolRow) *LinkError {
	doc, ok := call.Document().(*manifest.ToolCall)
	if !ok || c.Len() == 0 {
		return &LinkError{0, "C4", spec.CapabilityDenied, "", "a call and its chain"}
	}
	k := &calling{CallCase: CallCase{Call: call, Chain: c, Self: c.Token(1).Issuer, Table: ToolTable{doc.Tool: row}, At: doc.At.Time()}}
	for _, rule := range []func() *LinkError{k.names, k.tool, k.reaches, k.arguments} {
		if e := rule(); e != nil {
			return e
		}
	}
	for n := 1; n <= c.Len(); n++ {
		if t := c.Token(n); !doc.At.Before(t.ExpiresAt) {
			return &LinkError{n, "C2j", spec.Expired, "/expiresAt", t.ExpiresAt.String()}
		}
	}
	return nil
}

// arguments holds the completed arguments against the constraints of every link (C3).
func (k *calling) arguments() *LinkError {
	for n := 1; n <= k.Chain.Len(); n++ {
		c, err := k.Chain.Token(n).Constraints()
		if err == nil {
			err = c.Check(k.args)
		}
		if err != nil {
			return &LinkError{n, "C3", spec.ReasonOf(err), "/arguments" + pathOf(err), limitOf(err)}
		}
	}
	return nil
}
