package audit

import (
	"fmt"
	"sort"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// carried looks at what others signed beside the task: relays and revocations.
func (a *audit) carried() {
	relays := map[signing.DID]bool{}
	for d := range a.evidence() {
		if c, ok := d.signed.Document().(*manifest.AgentCertificate); ok {
			relays[c.Relay.Did] = true
		}
	}
	by := map[signing.DID]*Custody{}
	for _, d := range a.sorted {
		if d.err != nil || d.bad() || len(d.words) == 0 {
			continue
		}
		switch d.typ {
		case "custody-receipt":
			if !relays[d.receipt.RelayDid] {
				a.find(Note, spec.UnknownKey, d, "/relayDid", "R7", "by a relay that no certificate names: left out of account")
				continue
			}
			c := by[d.receipt.RelayDid]
			if c == nil {
				c = &Custody{RelayDid: d.receipt.RelayDid, From: d.receipt.At, To: d.receipt.At}
				by[d.receipt.RelayDid] = c
			}
			c.add(d.receipt.At)
		case "relay-hello", "checkpoint":
			if signer, err := signing.ParseDID(d.words[0].Signer); err != nil || !relays[signer] {
				a.find(Note, spec.UnknownKey, d, "/relayDid", "R7", "by a relay that no certificate names: left out of account")
			}
		}
		if r, ok := d.signed.Document().(*manifest.Revocation); ok && !d.by.IsZero() {
			a.revoked(d, r)
		}
	}
	for _, c := range by {
		a.rep.Facts.Custody = append(a.rep.Facts.Custody, *c)
	}
	sort.Slice(a.rep.Facts.Custody, func(i, j int) bool {
		return a.rep.Facts.Custody[i].RelayDid.String() < a.rep.Facts.Custody[j].RelayDid.String()
	})
}

func (c *Custody) add(at signing.Time) {
	c.Receipts++
	if at.Before(c.From) {
		c.From = at
	}
	if at.After(c.To) {
		c.To = at
	}
}

// revoked: of an agent that was taken back, only the events stand that the
// revocation names, and what the other side had seen before (H11).
func (a *audit) revoked(d *document, r *manifest.Revocation) {
	if r.Target == "approver-certificate" {
		a.approverRevoked(r)
		return
	}
	if r.Target != "agent-certificate" {
		if c, ok := a.consents[r.TargetDigest]; ok && r.Target == "gate-decision" && c.Owner == r.OwnerDid {
			a.find(Note, spec.Revoked, c.doc, c.path, "I7", "this decision was taken back later: "+d.path)
		}
		return
	}
	agent := signing.DID{}
	for x := range a.evidence() {
		if c, ok := x.signed.Document().(*manifest.AgentCertificate); ok && x.whole == r.TargetDigest && c.OwnerDid == r.OwnerDid {
			agent = c.AgentDid
		}
	}
	stands := int64(-1)
	for _, s := range r.Stands {
		if s.TaskID == a.m.TaskID && s.ManifestDigest == a.digest {
			stands = s.Seq
		}
	}
	for _, ev := range a.events {
		late := stands < 0 && ev.e.At.After(r.At) || stands >= 0 && ev.e.Seq > stands
		if ev.e.Author == agent && late {
			a.find(Wrong, spec.Revoked, ev.doc, "", "H11", fmt.Sprintf("%s's event %d comes after its agent was taken back", a.name(ev.role), ev.e.Seq))
		}
	}
}

// approverRevoked: what was said by a yes whose certificate was taken back
// before does not hold; what was said before stays good (I7, G5, T2).
func (a *audit) approverRevoked(r *manifest.Revocation) {
	for _, ev := range a.events {
		d := manifest.DecisionIn(ev.e.Body.Fact)
		if d == nil {
			continue
		}
		c, ok := a.consents[signing.DigestOf(d.Bytes())]
		if !ok || c.Owner != r.OwnerDid || c.decision.CertificateDigest == nil || *c.decision.CertificateDigest != r.TargetDigest {
			continue
		}
		if ev.e.At.After(r.At) {
			a.find(Wrong, spec.Revoked, ev.doc, "/body/decision/certificateDigest", "G5", fmt.Sprintf("%s's event %d was said by an approver who was taken back before", a.name(ev.role), ev.e.Seq))
		}
	}
}
