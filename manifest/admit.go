package manifest

import (
	"time"

	"sealbridge/signing"
	"sealbridge/spec"
)

// Admit is the step from signed to verified: S6, I4–I7 and T1 at one instant.
func (t Trust) Admit(s Signed, at time.Time) (Verified, error) {
	for _, m := range s.marks {
		if m.At.Time().After(at.Add(maxClockAhead)) {
			return Verified{}, spec.Refuse(spec.Malformed, "/signature/signedAt", "T1: 60 s ahead at most")
		}
	}
	owner, err := t.speaker(s, at)
	if err != nil {
		return Verified{}, err
	}
	c, ok := t.Contacts[owner]
	switch {
	case !ok:
		return Verified{}, spec.Refuse(spec.UnknownKey, "", "I6: not a contact")
	case c.Blocked:
		return Verified{}, spec.Refuse(spec.NotPermitted, "", "K3")
	case c.Revoked[s.digest.String()]:
		return Verified{}, spec.Refuse(spec.Revoked, "", "I7")
	}
	return Verified{s, owner}, nil
}

// speaker is the owner for whom the signer of s speaks, by the table of S6.
func (t Trust) speaker(s Signed, at time.Time) (signing.DID, error) {
	by := s.By()
	switch d := s.doc.(type) {
	case *AgentCertificate, *ApproverCertificate, *Invite, *ContactRequest, *Revocation, *PolicyConsent:
		return t.asOwner(by)
	case *GateDecision:
		if c, ok := s.Approver(); ok {
			return t.asApprover(c, *d.CertificateDigest, at)
		}
		return t.asOwner(by)
	case *BoxKey:
		return t.asBox(d)
	case *Event:
		return t.asAuthor(d, by, at)
	case *TaskManifest:
		return t.asSides(d, s.marks, at)
	}
	return t.asAgent(by, at)
}

func (t Trust) asOwner(by signing.DID) (signing.DID, error) {
	if _, ok := t.Contacts[by]; ok {
		return by, nil
	}
	if _, ok := t.Agents[by]; ok {
		return signing.DID{}, spec.Refuse(spec.WrongSigner, "", "S6: an agent's key where an owner's is due")
	}
	return signing.DID{}, spec.Refuse(spec.UnknownKey, "", "I6: not a contact")
}

// asBox takes a box-key whose agent is certified by the owner that it names
// (I4); which certificate, Apply looks at.
func (t Trust) asBox(d *BoxKey) (signing.DID, error) {
	owner, ok := t.OwnerOf(d.AgentDid)
	switch {
	case !ok:
		return signing.DID{}, spec.Refuse(spec.UnknownKey, "/agentDid", "I4: no certificate from a contact")
	case owner != d.OwnerDid:
		return signing.DID{}, spec.Refuse(spec.Conflict, "/ownerDid", "I4: another owner for a known agent")
	}
	return owner, nil
}

// asAuthor takes an event of a task agent; whoever proposes does it for the owner that its contract names.
func (t Trust) asAuthor(e *Event, by signing.DID, at time.Time) (signing.DID, error) {
	owner, err := t.asAgent(by, at)
	if p, ok := e.Body.Fact.(Proposed); ok && err == nil {
		named, _ := p.Manifest.At("/requester/ownerDid")
		if text, _ := named.Text(); text != owner.String() {
			err = spec.Refuse(spec.WrongSigner, "/body/manifest/requester/ownerDid", "I4: not the owner of this agent")
		}
	}
	return owner, err
}

// asSides takes a contract of which every block is by its side's owner or by
// the agent that this owner certified. The first block's owner speaks.
func (t Trust) asSides(m *TaskManifest, marks []Mark, at time.Time) (first signing.DID, err error) {
	for i, mark := range marks {
		party := &m.Requester
		if mark.Role == Worker {
			party = m.Worker
		}
		var owner signing.DID
		if mark.By == party.AgentDid {
			owner, err = t.asAgent(mark.By, at)
		} else {
			owner, err = t.asOwner(mark.By)
		}
		switch {
		case err != nil:
			return first, spec.At("/signatures/"+string(mark.Role)+"Signature", err)
		case owner != party.OwnerDid:
			return first, spec.Refuse(spec.WrongSigner, "/"+string(mark.Role)+"/ownerDid", "I4: not the owner of this agent")
		case t.Contacts[owner].Blocked:
			return first, spec.Refuse(spec.NotPermitted, "", "K3")
		case i == 0:
			first = owner
		}
	}
	return first, nil
}

func (t Trust) asAgent(by signing.DID, at time.Time) (signing.DID, error) {
	a, ok := t.Agents[by]
	switch {
	case !ok:
		if _, owner := t.Contacts[by]; owner {
			return signing.DID{}, spec.Refuse(spec.WrongSigner, "", "S6: an owner's key where an agent's is due")
		}
		return signing.DID{}, spec.Refuse(spec.UnknownKey, "", "I6: no certificate from a contact")
	case a.Revoked:
		return signing.DID{}, spec.Refuse(spec.Revoked, "", "I7")
	case !a.HasKey:
		return signing.DID{}, spec.Refuse(spec.UnknownKey, "", "I4: no box-key names the certificate")
	case !at.Before(a.Certificate.ExpiresAt.Time()):
		return signing.DID{}, spec.Refuse(spec.CertificateExpired, "", "I4")
	case at.Add(maxClockAhead).Before(a.Certificate.IssuedAt.Time()):
		return signing.DID{}, spec.Refuse(spec.CertificateExpired, "", "I4: not yet")
	}
	return a.Owner, nil
}
