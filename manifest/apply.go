package manifest

import (
	"maps"
	"strconv"
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Apply folds a verified identity document. What is no identity document changes nothing.
func (t Trust) Apply(v Verified) (Trust, error) {
	var owner signing.DID
	switch d := v.doc.(type) {
	case *AgentCertificate:
		owner = d.OwnerDid
	case *ApproverCertificate:
		owner = d.OwnerDid
	case *BoxKey:
		owner = d.OwnerDid
	case *Revocation:
		owner = d.OwnerDid
	default:
		return t, nil
	}
	if _, ok := t.Contacts[owner]; !ok {
		return t, spec.Refuse(spec.UnknownKey, "/ownerDid", "I6: not a contact")
	}
	switch d := v.doc.(type) {
	case *AgentCertificate:
		return t.applyCertificate(*d, v.digest)
	case *ApproverCertificate:
		return t.applyApprover(*d, v.digest)
	case *BoxKey:
		return t.applyKey(*d)
	case *Revocation:
		return t.applyRevocation(*d)
	}
	return t, nil
}

func (t Trust) applyCertificate(d AgentCertificate, digest signing.Digest) (Trust, error) {
	have, known := t.Agents[d.AgentDid]
	_, owner := t.Contacts[d.AgentDid]
	switch {
	case owner:
		return t, spec.Refuse(spec.Conflict, "/agentDid", "I5: an owner's key")
	case known && have.Owner != d.OwnerDid:
		return t, spec.Refuse(spec.Conflict, "/ownerDid", "I4: another owner for a known agent")
	case t.isApprover(d.AgentDid):
		return t, spec.Refuse(spec.Conflict, "/agentDid", "I5: an approver's key")
	case t.isRelay(d.AgentDid) || t.isRelay(d.OwnerDid):
		return t, spec.Refuse(spec.Conflict, "/agentDid", "I5: a relay's key")
	case known && (have.Digest == digest || have.Next != nil && have.Next.Digest == digest):
		return t, nil
	case known && d.Serial <= have.serial():
		return t, spec.Refuse(spec.Stale, "/serial", "I4: a higher serial replaces a lower")
	}
	t = t.clone()
	if have.HasKey {
		have.Next = &Renewal{d, digest}
	} else {
		have = Agent{Owner: d.OwnerDid, Certificate: d, Digest: digest}
	}
	t.Agents[d.AgentDid] = have
	c := t.Contacts[d.OwnerDid]
	c.Agent = d.AgentDid
	t.Contacts[d.OwnerDid] = c
	return t, nil
}

// serial is the highest that was seen.
func (a Agent) serial() int64 {
	if a.Next != nil {
		return a.Next.Certificate.Serial
	}
	return a.Certificate.Serial
}

func (t Trust) isRelay(did signing.DID) bool {
	for _, a := range t.Agents {
		if a.Certificate.Relay.Did == did {
			return true
		}
	}
	return false
}

func (t Trust) applyKey(d BoxKey) (Trust, error) {
	a := t.Agents[d.AgentDid]
	renews := a.Next != nil && a.Next.Digest == d.CertificateDigest
	switch {
	case a.Owner != d.OwnerDid || a.Digest != d.CertificateDigest && !renews:
		return t, spec.Refuse(spec.UnknownKey, "/certificateDigest", "I4: names no certificate that is known")
	case a.HasKey && d.Seq < a.Key.Seq:
		return t, spec.Refuse(spec.Stale, "/seq", "R2: never a lower one")
	}
	t = t.clone()
	if a.HasKey && d.Seq == a.Key.Seq {
		if d.Kid != a.Key.Kid {
			c := t.Contacts[d.OwnerDid]
			c.RotationFroze = true
			t.Contacts[d.OwnerDid] = c
		}
		return t, nil
	}
	a.Key, a.HasKey = d, true
	if renews {
		a.Certificate, a.Digest, a.Next = a.Next.Certificate, a.Next.Digest, nil
		a.Revoked = t.IsRevoked(a.Owner, a.Digest)
	}
	t.Agents[d.AgentDid] = a
	return t, nil
}

// applyRevocation takes back a target, whichever order the revocations come in.
func (t Trust) applyRevocation(d Revocation) (Trust, error) {
	c := t.Contacts[d.OwnerDid]
	target := d.TargetDigest.String()
	if !c.Revoked[target] && len(c.Revoked) >= maxRevoked {
		return t, spec.Refuse(spec.Quota, "", "I7: "+strconv.Itoa(maxRevoked)+" of one owner at most")
	}
	t = t.clone()
	c.Revocations, c.Revoked = max(c.Revocations, d.Seq), maps.Clone(c.Revoked)
	if c.Revoked == nil {
		c.Revoked = map[string]bool{}
	}
	c.Revoked[target] = true
	t.Contacts[d.OwnerDid] = c
	if t.Approvers[d.TargetDigest].OwnerDid == d.OwnerDid {
		delete(t.Approvers, d.TargetDigest)
	}
	for did, a := range t.Agents {
		if a.Owner == d.OwnerDid && a.Digest == d.TargetDigest {
			a.Revoked = true
			t.Agents[did] = a
		}
	}
	return t, nil
}

// AdmitRequest is the one door for an owner that we do not know yet: the
// redeemer of an invite of ours (K1). It returns the request and the trust in
// which the redeemer is pinned, unconfirmed, under the name of its certificate.
func (t Trust) AdmitRequest(s Signed, inv Invite, at time.Time) (Trust, *ContactRequest, error) {
	r, ok := s.doc.(*ContactRequest)
	switch {
	case !ok:
		return t, nil, spec.Refuse(spec.UnknownType, "/type", "K1: a contact-request")
	case r.InviteID != inv.InviteID || r.To != inv.OwnerDid:
		return t, nil, spec.Refuse(spec.NotFound, "/inviteId", "K1")
	case s.marks[0].At.Time().After(at.Add(maxClockAhead)):
		return t, nil, refuse("/signature/signedAt", "T1: 60 s ahead at most")
	case !at.Before(inv.ExpiresAt.Time()):
		return t, nil, spec.Refuse(spec.Expired, "/inviteId", "K1")
	case !ProofHolds(inv.Secret, r.InviteID, r.To, r.OwnerDid, r.Proof):
		return t, nil, spec.Refuse(spec.BadSignature, "/proof", "K1")
	}
	out, err := t.Introduce(r.OwnerDid, r.InviteID, r.Certificate, r.BoxKey, at)
	return out, r, err
}

// Introduce pins an owner, unconfirmed, with a certificate and a box-key of its agent.
func (t Trust) Introduce(owner signing.DID, invite InviteID, certificate, boxKey jcs.Value, at time.Time) (Trust, error) {
	c, known := t.Contacts[owner]
	if known && !c.Introduced() {
		return t, spec.Refuse(spec.Conflict, "/ownerDid", "K1: a contact already")
	}
	if _, agent := t.Agents[owner]; agent {
		return t, spec.Refuse(spec.Conflict, "/ownerDid", "I5: an agent's key")
	}
	out := t.Put(owner, Contact{Invite: invite, Since: at, For: c.For, Revocations: c.Revocations, Revoked: c.Revoked})
	for _, doc := range []jcs.Value{certificate, boxKey} {
		s, err := OpenValue(doc, nil)
		if err != nil {
			return t, err
		}
		v, err := out.Admit(s, at)
		if err != nil {
			return t, err
		}
		if v.Owner() != owner {
			return t, spec.Refuse(spec.WrongSigner, "/certificate", "I4")
		}
		if out, err = out.Apply(v); err != nil {
			return t, err
		}
	}
	c = out.Contacts[owner]
	agent, err := out.AgentFor(owner, at)
	if err != nil {
		return t, err
	}
	c.Name, c.Relay = out.freeName(agent.Certificate.DisplayName), agent.Certificate.Relay
	return out.Put(owner, c), nil
}

// freeName is name, or name with a number where a contact of ours has a name that looks the same (M8).
func (t Trust) freeName(wish string) string {
	wish = Display(wish, maxContactName-4)
	if Skeleton(wish) == "" {
		wish = "contact"
	}
	name := wish
	for n := 2; ; n++ {
		if _, _, taken := t.Named(name); !taken {
			return name
		}
		name = wish + "-" + strconv.Itoa(n)
	}
}
