package policy

import (
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// A subject digest is the SHA-256 of the canonical JSON of {gate, …parts}: what
// a person said yes to (G2). Each part that a version does not know yet is
// there and empty, so that it cannot be slipped in later. What cannot be
// written canonically has the zero digest, which nothing satisfies.

func subject(parts any) signing.Digest { return digest(full(parts)) }

func full(parts any) jcs.Value {
	v, err := jcs.Encode(parts)
	if err != nil {
		return jcs.Value{}
	}
	return v
}

func digest(v jcs.Value) signing.Digest {
	if v.IsZero() {
		return signing.Digest{}
	}
	return signing.DigestOf(v.Bytes())
}

// Subject is what a person is asked about before the event of c may be said, in
// full: the text that [Gate.Subject] is the digest of. It is the zero Value
// where no gate can stand before the event.
func Subject(c Case) jcs.Value {
	if f, ok := c.Event.Body.Fact.(manifest.Proposed); ok && c.Opens {
		return contractSubject(f.Manifest, nil)
	}
	l, bad := read(c)
	if bad != nil {
		return jcs.Value{}
	}
	switch f := l.fact.(type) {
	case manifest.Proposed, manifest.Accepted:
		return contractSubject(l.payload, l.passes)
	case manifest.Asked, manifest.Answered, manifest.Delegated:
		if a, b, _ := l.change(); a != nil {
			return amendmentSubject(b.of, *a, b.first)
		}
		return l.childText()
	case manifest.Progressed:
		if f.Opens != nil {
			return l.hostSubject(f.Opens.Host)
		}
	case manifest.Completed:
		return deliveryAndReport(f.Delivery, f.Report)
	}
	return jcs.Value{}
}

// ContractSubject is the manifest's payload, with the passes and standing grants in play.
func ContractSubject(payload jcs.Value, passes ...jcs.Value) signing.Digest {
	return digest(contractSubject(payload, passes))
}

func contractSubject(payload jcs.Value, passes []jcs.Value) jcs.Value {
	named := []signing.Digest{}
	for _, p := range passes {
		named = append(named, signing.DigestOf(p.Bytes()))
	}
	return full(struct {
		Gate     string           `json:"gate"`
		Manifest jcs.Value        `json:"manifest"`
		Passes   []signing.Digest `json:"passes"`
		Standing []signing.Digest `json:"standing"`
	}{string(manifest.ContractGate), payload, named, []signing.Digest{}})
}

// DeliverySubject is the delivery, by the digest of its canonical JSON, and the
// report on it, in full.
func DeliverySubject(d manifest.Delivery, r manifest.Report) signing.Digest {
	v, err := jcs.Encode(d)
	if err != nil {
		return signing.Digest{}
	}
	return deliverySubject(signing.DigestOf(v.Bytes()), r)
}

// deliverySubject serves those who hold only the delivery's digest.
func deliverySubject(d signing.Digest, r manifest.Report) signing.Digest {
	return digest(deliveryAndReport(d, r))
}

func deliveryAndReport(d signing.Digest, r manifest.Report) jcs.Value {
	return full(struct {
		Gate     string          `json:"gate"`
		Delivery signing.Digest  `json:"delivery"`
		Report   manifest.Report `json:"report"`
	}{string(manifest.DeliveryGate), d, r})
}

// AmendmentSubject is an amendment on its base contract. first is the digest of
// the asker's gate-decision, which the second decision names; nil for the asker
// itself and where the asker needed none (H10).
func AmendmentSubject(base signing.Digest, a manifest.Amendment, first *signing.Digest) signing.Digest {
	return digest(amendmentSubject(base, a, first))
}

func amendmentSubject(base signing.Digest, a manifest.Amendment, first *signing.Digest) jcs.Value {
	return full(struct {
		Gate      string             `json:"gate"`
		Contract  signing.Digest     `json:"contract"`
		Amendment manifest.Amendment `json:"amendment"`
		First     *signing.Digest    `json:"first"`
	}{string(AmendmentGate(a)), base, a, first})
}

// AmendmentGate is the gate of an amendment: overrun for one that changes the
// budget only, contract for the rest (H10).
func AmendmentGate(a manifest.Amendment) manifest.Gate {
	if a.Budget != nil && a.Deadline == nil && a.MaxRetries == nil && len(a.Withdraw) == 0 {
		return manifest.BudgetGate
	}
	return manifest.ContractGate
}

// Effect is one call that reaches outside (G2, X1).
type Effect struct {
	Agent     string    `json:"agent"`
	Tool      string    `json:"tool"`
	Resources []string  `json:"resources"`
	Arguments jcs.Value `json:"arguments"`
	CallID    string    `json:"callId"`
}

// EffectSubject is agent, tool, computed resources, canonical arguments and call id.
func EffectSubject(e Effect) signing.Digest { return digest(EffectInFull(e)) }

// EffectInFull is the text that EffectSubject is the digest of.
func EffectInFull(e Effect) jcs.Value {
	if e.Resources == nil {
		e.Resources = []string{}
	}
	return full(struct {
		Gate   string `json:"gate"`
		Effect Effect `json:"effect"`
	}{string(manifest.EffectGate), e})
}
