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

// MaxOpenTo is to how many contacts one open proposal goes: as many as a person can choose among.
const MaxOpenTo = 20

// MaxOffers of one contact that are kept at once: as many as of its proposals (B9).
const MaxOffers = MaxOpenProposals

// Open decides whether an open proposal of ours may leave (M10): c.Event has it
// as a proposal without a worker. It is no contract and costs nothing of a day;
// each contact must be one that a rule lets us ask for such a contract, and a
// person says yes to what they read.
func (p Policy) Open(c Case, to []Contact) Decision {
	f, ok := c.Event.Body.Fact.(manifest.Proposed)
	l := &law{Case: c, fact: c.Event.Body.Fact, author: manifest.Requester, own: true}
	if !ok || c.Role != manifest.Requester || c.At.IsZero() {
		return deny("M10", spec.Internal, "", "an open proposal of ours")
	}
	l.m, l.payload = proposal(f), f.Manifest
	switch n := len(to); {
	case l.m.Worker != nil:
		return deny("M10", spec.Malformed, "/worker", "M10: an open proposal has none")
	case n < 1 || n > MaxOpenTo:
		return deny("M10", spec.Malformed, "/to", "M10: 1 to 20 contacts")
	}
	if err := l.m.ValidAt(c.At); err != nil {
		return deny("M1", spec.ReasonOf(err), pathOf(err), limitOf(err))
	}
	if bad := unsupported(l.m); bad != nil {
		return *bad
	}
	l.contract = task.Contract{Digest: ContractOf(l.payload), Deadline: l.m.Deadline, MaxRetries: l.m.Verification.MaxRetries, Limits: l.m.Budget.Limits()}
	first := ruling{index: -1}
	for i, k := range to {
		r := p.opens(l, k)
		if r.refused != nil {
			r.refused.Path = fmt.Sprintf("/to/%d%s", i, r.refused.Path)
			return *r.refused
		}
		if i == 0 {
			first = r
		}
	}
	g := l.gate(manifest.ContractGate, ContractSubject(l.payload))
	g.Added = true
	d := Decision{Outcome: Hold, Rule: first.name, Section: first.section, Index: first.index, Reason: spec.GateOpen, Gate: &g}
	for _, k := range c.Consents {
		if k.satisfies(g, c.At) {
			return Decision{Outcome: Allow, Index: -1, Consent: &k}
		}
	}
	return p.ask(l, d)
}

// opens finds the rule by which one contact may read an open proposal.
func (p Policy) opens(l *law, to Contact) (r ruling) {
	r.index = -1
	if to.Blocked || !to.Confirmed {
		r.name = "K2"
		return r.refuse(spec.PolicyDenied, "", "a contact that is confirmed and not blocked")
	}
	for i, o := range p.Outgoing {
		if !o.fits(to.Name, l.Caller) {
			continue
		}
		r.name, r.section, r.index = o.Name, "outgoing", i
		if o.Then != ThenAsk {
			return r.refuse(spec.PolicyDenied, "", "")
		}
		for k, file := range l.Files {
			if !slices.Contains(l.NamedFiles, file) && !maySend(o.MaySend, file) {
				return r.refuse(spec.PolicyDenied, fmt.Sprintf("/inputs/%d", k), "may_send")
			}
		}
		r.over(o.AtMost, l.m)
		return r
	}
	return r.none("outgoing")
}

// ContractOf is the contract digest of a manifest without amendments (H10).
func ContractOf(payload jcs.Value) signing.Digest {
	return digest(full([]signing.Digest{signing.DigestOf(payload.Bytes())}))
}
