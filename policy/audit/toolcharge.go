package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/spec"
)

// charge replays one use: the law must let it be at the time of the call or of
// its answer, whichever of the two clocks was ahead.
func (a *audit) charge(c *toolCall, x *toolAnswer, chain policy.Chain, then *past, l policy.Ledger) policy.Ledger {
	end := c.call.ExpiresAt.Time().Add(-time.Second)
	late := x.r.At.Time()
	if late.After(end) {
		late = end // a gate has its own time: the call was there before its term ended
	}
	var d policy.CallDecision
	for i, at := range []time.Time{late, c.call.At.Time()} {
		k := a.callCase(c, x, chain, then, at, l)
		for n, t := range then.during(at) {
			k.Task = t
			next := policy.Calls(k)
			if i+n == 0 || next.Outcome == policy.Allow {
				d = next
			}
			if d.Outcome == policy.Allow {
				break
			}
		}
		if d.Outcome == policy.Allow {
			break
		}
	}
	if d.Outcome != policy.Allow {
		a.find(Wrong, d.Reason, c.doc, d.Path, orText(d.Rule, "C5"), fmt.Sprintf("the call was answered, and link %d does not allow it: %s", d.Link, orText(d.Limit, string(d.Reason))))
		return l
	}
	a.effect(c, d, x)
	next, err := l.Apply(d.Moves...)
	if err == nil {
		next, err = next.Apply(policy.CallEnds(next, a.task.Key(), chain, c.doc.whole, true)...)
	}
	if err != nil {
		a.find(Wrong, spec.ReasonOf(err), c.doc, "", "C5", "more uses than the grant has")
		return l
	}
	return next
}

// callCase is what the enforcing gateway looked at, as far as documents say it.
func (a *audit) callCase(c *toolCall, x *toolAnswer, chain policy.Chain, then *past, at time.Time, l policy.Ledger) policy.CallCase {
	t := then.task(at)
	k := policy.CallCase{Call: c.doc.by, Chain: chain, Self: a.m.Requester.AgentDid, Task: t, Table: policy.ToolTable{c.call.Tool: stated(c, x)},
		Children: map[signing.Digest]manifest.TaskManifest{}, Trust: then.trust(at), Heard: map[signing.DID]time.Time{}, Ledger: l, At: at}
	for owner := range k.Trust.Contacts {
		k.Heard[owner] = at
	}
	for _, child := range t.Children() {
		for _, ask := range t.Asks() {
			if ask.Part == nil || ask.Child != child.Manifest {
				continue
			}
			if m, err := ask.Part.Contract(); err == nil {
				k.Children[child.Manifest] = m
			}
		}
	}
	return k
}

// effect notes the person's yes to a call, where one is here; that none was
// needed is the enforcing owner's word.
func (a *audit) effect(c *toolCall, d policy.CallDecision, x *toolAnswer) {
	subject := policy.EffectSubject(d.Effect)
	var yes []consent
	for _, k := range a.consents {
		if k.Gate == manifest.EffectGate && k.Subject == subject && k.Owner == a.m.Requester.OwnerDid {
			yes = append(yes, k)
		}
	}
	if len(yes) > 0 { // several are one: the report does not depend on which came first
		k := slices.MinFunc(yes, func(a, b consent) int { return strings.Compare(a.Decision.String(), b.Decision.String()) })
		if k.decision.DecidedAt.Time().After(x.r.At.Time().Add(policy.MaxAhead)) {
			a.find(Wrong, spec.Malformed, c.doc, "", "T1", "decided after what it allows")
		}
		a.rep.Proven = append(a.rep.Proven, Entry{What: "effect of " + manifest.Display(c.call.Tool, 64) + " decided by the owner", By: a.name(manifest.Requester), Rule: "G1", Path: k.doc.path})
		return
	}
	if a.m.HITLPolicy.Names(manifest.EffectGate) {
		a.claim(Entry{What: "that " + manifest.Display(c.call.Tool, 64) + " has no effect outside: no decision about its call is here", By: a.name(manifest.Requester), Rule: "G1"})
	}
}

func (a *audit) claim(e Entry) {
	if !slices.Contains(a.rep.Claimed, e) {
		a.rep.Claimed = append(a.rep.Claimed, e)
	}
}

// strayAnswers are answers whose call is not here: somebody has it and did not show it.
func (a *audit) strayAnswers(calls map[signing.Digest]*toolCall) {
	for d := range a.evidence() {
		if r, ok := d.signed.Document().(*manifest.ToolResult); ok && !d.by.IsZero() && calls[r.Call] == nil {
			a.find(Absent, spec.NotFound, d, "/call", "C5", "an answer to a call that is not here")
		}
	}
}

// counts holds the uses that answers say are left against the uses that were
// answered before: a gateway knows its own count (B7).
func (a *audit) counts(used map[manifest.CapabilityID]*ToolUse, order []*toolCall) {
	type count struct {
		earlier, at int64 // uses answered before a second, and up to its end
		second      time.Time
	}
	counts := map[manifest.CapabilityID]*count{}
	for _, c := range order {
		x := c.charged()
		if x == nil || c.link != 1 {
			continue // what is left of a third owner's root is more than this task shows
		}
		n := counts[c.of]
		if n == nil {
			n = &count{}
			counts[c.of] = n
		}
		if t := x.r.At.Time().Truncate(time.Second); t.After(n.second) {
			n.earlier, n.second = n.at, t
		}
		n.at++
		if u := used[c.of]; u != nil && u.Of > 0 && x.r.UsesLeft > u.Of-n.earlier-1 {
			a.find(Note, spec.VerificationFailed, x.doc, "/usesLeft", "B7", fmt.Sprintf("says that %d uses are left; of %d, %d were answered", x.r.UsesLeft, u.Of, n.earlier+1))
		}
	}
	for _, id := range sortedIDs(used) {
		u := used[id]
		if u.Of > 0 && u.Used > u.Of {
			a.find(Wrong, spec.CapabilityExhausted, nil, "", "C5", fmt.Sprintf("%s was used %d of %d times", id, u.Used, u.Of))
		}
		a.rep.Proven = append(a.rep.Proven, Entry{What: fmt.Sprintf("%s: %d of %d uses answered", id, u.Used, u.Of), By: a.name(manifest.Requester), Rule: "C5"})
		a.claim(Entry{What: "what its tools reach and what they answered", By: a.name(manifest.Requester), Rule: "C1a"})
	}
}

func (a *audit) granted(id manifest.CapabilityID) int64 {
	for _, g := range a.m.Permissions.GrantedCapabilities {
		if g.CapabilityID == id {
			return g.MaxInvocations
		}
	}
	return 0
}

func sortedIDs(m map[manifest.CapabilityID]*ToolUse) []manifest.CapabilityID {
	var out []manifest.CapabilityID
	for id := range m {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b manifest.CapabilityID) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	return out
}
