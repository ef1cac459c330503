package policy

import (
	"slices"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// required is the gate that the contract puts before the event; nil for none (G1).
func (l *law) required() *Gate {
	switch f := l.fact.(type) {
	case manifest.Proposed, manifest.Accepted:
		return l.named(manifest.ContractGate, ContractSubject(l.payload, l.passes...))
	case manifest.Asked:
		if f.Amendment != nil {
			return l.named(AmendmentGate(*f.Amendment), AmendmentSubject(f.Contract, *f.Amendment, nil))
		}
	case manifest.Answered:
		if a, ok := l.view.Ask(f.Ask); ok && f.Yes && a.Amendment != nil {
			return l.named(AmendmentGate(*a.Amendment), AmendmentSubject(a.Base, *a.Amendment, orNil(a.Decision)))
		}
		return l.named(manifest.SubGate, l.childSubject())
	case manifest.Delegated:
		return l.named(manifest.SubGate, l.childSubject())
	case manifest.Progressed:
		if f.Opens != nil {
			return l.named(manifest.EffectGate, digest(l.hostSubject(f.Opens.Host)))
		}
	case manifest.Completed:
		g := l.gate(manifest.DeliveryGate, deliverySubject(f.Delivery, f.Report))
		mode := l.m.Verification.Mode
		if mode == "human_in_the_loop" || mode == "hybrid" || l.m.HITLPolicy.Names(manifest.DeliveryGate) || l.reviewed() {
			return &g // V3: even where the manifest does not list it
		}
	}
	return nil
}

// Gated says whether a gate can stand before the fact at all: only for these is
// there a yes to look for.
func Gated(f manifest.Fact) bool {
	switch f := f.(type) {
	case manifest.Proposed, manifest.Accepted, manifest.Asked, manifest.Answered, manifest.Delegated, manifest.Completed:
		return true
	case manifest.Progressed:
		return f.Opens != nil
	}
	return false
}

// reviewed says whether a check of the contract is a person's.
func (l *law) reviewed() bool {
	for _, c := range l.m.Verification.Checks {
		if c.Kind == humanReview {
			return true
		}
	}
	return false
}

func (l *law) gate(g manifest.Gate, subject signing.Digest) Gate {
	owner := l.m.Requester.OwnerDid
	if l.author == manifest.Worker && l.m.Worker != nil {
		owner = l.m.Worker.OwnerDid
	}
	return Gate{Gate: g, Side: l.author, Owner: owner, Contract: l.contract.Digest, Subject: subject}
}

// named is a gate before the event if the contract names it; the zero subject
// is that of an event which hands nothing on.
func (l *law) named(g manifest.Gate, subject signing.Digest) *Gate {
	if !l.m.HITLPolicy.Names(g) || g == manifest.SubGate && subject.IsZero() {
		return nil
	}
	out := l.gate(g, subject)
	return &out
}

func orNil(d signing.Digest) *signing.Digest {
	if d.IsZero() {
		return nil
	}
	return &d
}

// gates answers for a gate that must be there: allowed with its consent, held
// where our owner can still give it, refused where another did not.
func (l *law) gates(g *Gate) Decision {
	allow := Decision{Outcome: Allow, Index: -1, Moves: l.moves()}
	if _, err := l.Ledger.Apply(allow.Moves...); err != nil {
		return deny("B2", spec.ReasonOf(err), "", limitOf(err))
	}
	if g == nil {
		return allow
	}
	inside := manifest.DecisionIn(l.fact)
	for i := range l.Consents {
		k := l.Consents[i]
		stands := l.stands(k, *g)
		if !stands && !k.satisfies(*g, l.At) || inside != nil && signing.DigestOf(inside.Bytes()) != k.Decision {
			continue
		}
		if inside == nil && !l.own {
			break // G11: whoever acts on a gate has the decision in its chain
		}
		if stands {
			moves := append(slices.Clone(allow.Moves), l.spend(k)...)
			if _, err := l.Ledger.Apply(moves...); err != nil {
				continue // used up: the question is asked again
			}
			allow.Moves = moves
		}
		allow.Consent = &k
		return allow
	}
	if l.own && inside == nil {
		return Decision{Outcome: Hold, Rule: "G1", Index: -1, Reason: spec.GateOpen, Gate: g}
	}
	return deny("G1", spec.GateOpen, "/body/decision", string(g.Gate))
}
