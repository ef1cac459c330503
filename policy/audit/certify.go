package audit

import (
	"slices"
	"sort"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// owners are the parties' owner keys; where no contract is, the owner that a single document names.
func (a *audit) owners() []signing.DID {
	if a.m.TaskID.IsZero() {
		if len(a.docs) != 1 || !a.docs[0].good() {
			return nil
		}
		return ownerNamed(a.docs[0].signed)
	}
	out := []signing.DID{a.m.Requester.OwnerDid}
	if a.m.Worker != nil {
		out = append(out, a.m.Worker.OwnerDid)
	}
	return out
}

// pinned are the parties' owners, and those of agents that used a tool of this
// task or handed it on: their certificates say whose calls theirs are (C7).
func (a *audit) pinned() []signing.DID {
	out := a.owners()
	if len(a.holders) == 0 {
		return out
	}
	for _, d := range a.sorted {
		if c, ok := d.signed.Document().(*manifest.AgentCertificate); ok && d.good() && a.holders[c.AgentDid] && !slices.Contains(out, c.OwnerDid) {
			out = append(out, c.OwnerDid)
		}
	}
	return out
}

func ownerNamed(s manifest.Signed) []signing.DID {
	switch d := s.Document().(type) {
	case *manifest.AgentCertificate:
		return []signing.DID{d.OwnerDid}
	case *manifest.ApproverCertificate:
		return []signing.DID{d.OwnerDid}
	case *manifest.Revocation:
		return []signing.DID{d.OwnerDid}
	case *manifest.GateDecision:
		return []signing.DID{d.OwnerDid}
	case *manifest.Invite:
		return []signing.DID{d.OwnerDid}
	case *manifest.ContactRequest:
		return []signing.DID{d.OwnerDid}
	}
	return nil
}

// certify folds the certificates and box-keys of the owners that the contract
// names (I4, I6). A document counts if the keys it needs were good at the time
// that it claims; whether that time is true is claimed, not proven (T5).
func (a *audit) certify() {
	t := manifest.NewTrust(signing.DID{})
	for _, owner := range a.pinned() {
		t = t.Put(owner, manifest.Contact{Confirmed: true})
	}
	certs, keys := a.identities()
	a.trusts = append(a.trusts, t)
	for _, c := range certs {
		t = a.fold(t, c)
		for _, k := range keys[c.signed.Digest()] {
			t = a.fold(t, k)
		}
		a.trusts = append(a.trusts, t)
	}
}

// identities are the good certificates by serial, and the box-keys of each by seq.
func (a *audit) identities() (certs []*document, keys map[signing.Digest][]*document) {
	keys = map[signing.Digest][]*document{}
	ours := a.pinned()
	seen := map[signing.Digest]bool{}
	for _, d := range a.sorted {
		if !d.good() || seen[d.whole] {
			continue
		}
		seen[d.whole] = true
		switch doc := d.signed.Document().(type) {
		case *manifest.AgentCertificate:
			if slices.Contains(ours, doc.OwnerDid) {
				certs = append(certs, d)
			}
		case *manifest.BoxKey:
			keys[doc.CertificateDigest] = append(keys[doc.CertificateDigest], d)
		}
	}
	sort.Slice(certs, func(i, j int) bool {
		x, y := certs[i].signed.Document().(*manifest.AgentCertificate), certs[j].signed.Document().(*manifest.AgentCertificate)
		if x.Serial != y.Serial {
			return x.Serial < y.Serial
		}
		return certs[i].whole.String() < certs[j].whole.String()
	})
	for _, ks := range keys {
		sort.Slice(ks, func(i, j int) bool {
			x, y := ks[i].signed.Document().(*manifest.BoxKey), ks[j].signed.Document().(*manifest.BoxKey)
			if x.Seq != y.Seq {
				return x.Seq < y.Seq
			}
			return ks[i].whole.String() < ks[j].whole.String()
		})
	}
	return certs, keys
}

func (a *audit) fold(t manifest.Trust, d *document) manifest.Trust {
	v, err := t.Admit(d.signed, signedAt(d.signed))
	if err == nil {
		var next manifest.Trust
		if next, err = t.Apply(v); err == nil {
			d.by, d.used = v, true
			return next
		}
	}
	a.wrong(d, "", err)
	return t
}

// signedAt is the latest time that the signers claim.
func signedAt(s manifest.Signed) (at time.Time) {
	for _, m := range s.Marks() {
		if m.At.Time().After(at) {
			at = m.At.Time()
		}
	}
	return at
}

// admit is S6 for one document: the newest trust that lets it in, or the word of
// the newest. An approver is judged by the newest alone: no key of an agent
// decides, whenever it was certified (I5).
func (a *audit) admit(s manifest.Signed) (v manifest.Verified, err error) {
	if _, ok := s.Approver(); ok {
		return a.trusts[len(a.trusts)-1].Admit(s, signedAt(s))
	}
	for i := len(a.trusts) - 1; i >= 0; i-- {
		got, e := a.trusts[i].Admit(s, signedAt(s))
		if e == nil {
			return got, nil
		}
		if err == nil {
			err = e
		}
	}
	return v, err
}
