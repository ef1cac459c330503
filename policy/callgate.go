package policy

import (
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// gates answers for the person that the contract or the owner's rules put before the call (G1).
func (k *calling) gates(p *Policy, d Decision) Decision {
	named := k.row.outside() && k.m.HITLPolicy.Names(manifest.EffectGate)
	rule, index := Tool{Then: ThenAllow}, -1
	if p != nil {
		if rule, index = p.Tool(k.call.Tool); rule.Then == ThenRefuse {
			no := deny("tools", spec.PolicyDenied, "/tool", "")
			no.Section, no.Index = "tools", index
			return no
		}
		if k.Contact.Blocked || !k.Contact.Confirmed || k.Contact.Owner != k.worker() {
			return deny("K2", spec.PolicyDenied, "", "a contact that is confirmed and not blocked")
		}
	}
	if !named && rule.Then != ThenAsk {
		return d
	}
	g := Gate{Gate: manifest.EffectGate, Side: manifest.Requester, Owner: k.m.Requester.OwnerDid, Contract: k.Task.InForce().Digest, Subject: EffectSubject(k.effect()), Added: !named}
	for i := range k.Consents {
		if c := k.Consents[i]; c.satisfies(g, k.At) {
			d.Consent = &c
			return d
		}
	}
	held := Decision{Outcome: Hold, Rule: "G1", Index: -1, Reason: spec.GateOpen, Gate: &g}
	if p != nil {
		if g.Added {
			held.Section, held.Index, held.Rule = "tools", index, "tools"
		}
		return p.askCall(k, held)
	}
	return held
}

// worker is the owner of the root's audience.
func (k *calling) worker() signing.DID {
	if k.m.Worker == nil {
		return signing.DID{}
	}
	return k.m.Worker.OwnerDid
}

// effect is what a person is asked about: who calls what, on which resources, with what.
func (k *calling) effect() Effect {
	e := Effect{Agent: k.Call.By().String(), Tool: k.call.Tool, Arguments: k.args, CallID: k.call.CallID.String()}
	for _, r := range k.reach {
		e.Resources = append(e.Resources, r.String())
	}
	return e
}

// askCall says who is asked before a call, and until when: never longer than
// the task or any link lasts (G4).
func (p Policy) askCall(k *calling, d Decision) Decision {
	l := &law{Case: Case{At: k.At}, contract: k.Task.InForce(), m: k.m}
	d = p.ask(l, d)
	if d.Outcome != Hold {
		return d
	}
	for n := 1; n <= k.Chain.Len(); n++ {
		if t := k.Chain.Token(n).ExpiresAt.Time(); t.Before(d.Gate.Until) {
			d.Gate.Until = t
		}
	}
	return d
}
