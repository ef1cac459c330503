package manifest

import (
	"maps"
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Trust is the fold of the identity documents, as a Task is the fold of events:
// whom we pinned, which agents work for them, which keys their mail is sealed
// to, and what was taken back. It is a value; every change returns another.
// Everything chains to a pinned owner DID, never to the key in a message (I6).
type Trust struct {
	Self     signing.DID             `json:"self"` // our own owner; zero for an auditor
	Contacts map[signing.DID]Contact `json:"contacts"`
	Agents   map[signing.DID]Agent   `json:"agents"`
}

// Contact is a pinned owner. The zero Contact is nobody.
type Contact struct {
	Name          string          `json:"name"` // chosen by us (M8)
	Confirmed     bool            `json:"confirmed"`
	Blocked       bool            `json:"blocked"`
	Agent         signing.DID     `json:"agent"` // the agent that last spoke for this owner
	Invite        InviteID        `json:"invite"`
	Revocations   int64           `json:"revocations"` // newest seq seen
	Revoked       map[string]bool `json:"revoked"`     // target digests taken back
	RotationFroze bool            `json:"frozen"`      // two box-keys with one seq (R2): no mail until a person looks
	Since         time.Time       `json:"since"`
}

// Agent is what we know of an agent key.
type Agent struct {
	Owner       signing.DID      `json:"owner"`
	Certificate AgentCertificate `json:"certificate"`
	Digest      signing.Digest   `json:"digest"` // of the certificate document
	Key         BoxKey           `json:"key"`
	HasKey      bool             `json:"hasKey"`
	Revoked     bool             `json:"revoked"`
}

// NewTrust is the trust of self, who is pinned from the start; an auditor has no self.
func NewTrust(self signing.DID) Trust {
	t := Trust{Self: self, Contacts: map[signing.DID]Contact{}, Agents: map[signing.DID]Agent{}}
	if !self.IsZero() {
		t.Contacts[self] = Contact{Confirmed: true}
	}
	return t
}

func (t Trust) clone() Trust {
	t.Contacts, t.Agents = maps.Clone(t.Contacts), maps.Clone(t.Agents)
	return t
}

// Put sets what we say about a contact; it pins the owner if it was unknown.
func (t Trust) Put(owner signing.DID, c Contact) Trust {
	t = t.clone()
	t.Contacts[owner] = c
	return t
}

// Remove forgets a contact and its agents. Records stay.
func (t Trust) Remove(owner signing.DID) Trust {
	t = t.clone()
	delete(t.Contacts, owner)
	for a, of := range t.Agents {
		if of.Owner == owner {
			delete(t.Agents, a)
		}
	}
	return t
}

// OwnerOf is the pinned owner that an agent works for.
func (t Trust) OwnerOf(agent signing.DID) (signing.DID, bool) {
	a, ok := t.Agents[agent]
	return a.Owner, ok
}

// Named is the contact that we call name.
func (t Trust) Named(name string) (signing.DID, Contact, bool) {
	for did, c := range t.Contacts {
		if did != t.Self && Skeleton(c.Name) == Skeleton(name) {
			return did, c, true
		}
	}
	return signing.DID{}, Contact{}, false
}

// AgentFor is the newest agent of a contact and the key its mail is sealed to at an instant (R2).
func (t Trust) AgentFor(owner signing.DID, at time.Time) (Agent, error) {
	c, ok := t.Contacts[owner]
	if !ok {
		return Agent{}, spec.Refuse(spec.NotFound, "", "contact")
	}
	a, ok := t.Agents[c.Agent]
	switch {
	case c.Blocked || a.Revoked:
		return Agent{}, spec.Refuse(spec.Revoked, "", "I7")
	case c.RotationFroze:
		return Agent{}, spec.Refuse(spec.Conflict, "", "R2: two box-keys with one number; confirm the contact again")
	case !ok || !a.HasKey:
		return Agent{}, spec.Refuse(spec.UnknownKey, "", "R2: no box-key yet")
	case !at.Before(a.Key.NotAfter.Time()):
		return Agent{}, spec.Refuse(spec.UnknownKey, "", "R2: box-key past notAfter")
	case !at.Before(a.Certificate.ExpiresAt.Time()):
		return Agent{}, spec.Refuse(spec.CertificateExpired, "", "I4")
	}
	return a, nil
}

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
	case *AgentCertificate, *Invite, *ContactRequest, *Revocation:
		return t.asOwner(by)
	case *GateDecision:
		if d.CertificateDigest != nil {
			return signing.DID{}, spec.Refuse(spec.WrongSigner, "/certificateDigest", "I5: no approver is certified")
		}
		return t.asOwner(by)
	case *BoxKey:
		if owner, ok := t.OwnerOf(by); ok && owner != d.OwnerDid {
			return signing.DID{}, spec.Refuse(spec.Conflict, "/ownerDid", "I4: another owner for a known agent")
		}
		return d.OwnerDid, nil // the certificate that it names is looked at in Apply
	case *TaskManifest:
		return t.asEither(by, at)
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

func (t Trust) asEither(by signing.DID, at time.Time) (signing.DID, error) {
	if _, ok := t.Contacts[by]; ok {
		return by, nil
	}
	return t.asAgent(by, at)
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

// Apply folds a verified identity document. What is no identity document changes nothing.
func (t Trust) Apply(v Verified) (Trust, error) {
	switch d := v.doc.(type) {
	case *AgentCertificate:
		return t.applyCertificate(*d, v.digest)
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
	case known && have.Digest == digest:
		return t, nil
	case known && d.Serial <= have.Certificate.Serial:
		return t, spec.Refuse(spec.Stale, "/serial", "I4: a higher serial replaces a lower")
	}
	t = t.clone()
	// The key stays out until one names this certificate: both keys agree or it is nothing.
	t.Agents[d.AgentDid] = Agent{Owner: d.OwnerDid, Certificate: d, Digest: digest, Revoked: have.Revoked}
	c := t.Contacts[d.OwnerDid]
	c.Agent = d.AgentDid
	t.Contacts[d.OwnerDid] = c
	return t, nil
}

func (t Trust) applyKey(d BoxKey) (Trust, error) {
	a, ok := t.Agents[d.AgentDid]
	switch {
	case !ok || a.Owner != d.OwnerDid || a.Digest != d.CertificateDigest:
		return t, spec.Refuse(spec.UnknownKey, "/certificateDigest", "I4: names no certificate that is known")
	case a.HasKey && d.Seq < a.Key.Seq:
		return t, spec.Refuse(spec.Stale, "/seq", "R2: never a lower one")
	case a.HasKey && d.Seq == a.Key.Seq && d.Kid == a.Key.Kid:
		return t, nil
	}
	t = t.clone()
	if a.HasKey && d.Seq == a.Key.Seq {
		c := t.Contacts[d.OwnerDid]
		c.RotationFroze = true
		t.Contacts[d.OwnerDid] = c
		return t, nil
	}
	a.Key, a.HasKey = d, true
	t.Agents[d.AgentDid] = a
	return t, nil
}

func (t Trust) applyRevocation(d Revocation) (Trust, error) {
	c, ok := t.Contacts[d.OwnerDid]
	if !ok || d.Seq <= c.Revocations {
		return t, nil
	}
	t = t.clone()
	c.Revocations, c.Revoked = d.Seq, maps.Clone(c.Revoked)
	if c.Revoked == nil {
		c.Revoked = map[string]bool{}
	}
	c.Revoked[d.TargetDigest.String()] = true
	t.Contacts[d.OwnerDid] = c
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
	if _, known := t.Contacts[owner]; known {
		return t, spec.Refuse(spec.Conflict, "/ownerDid", "K1: a contact already")
	}
	if _, agent := t.Agents[owner]; agent {
		return t, spec.Refuse(spec.Conflict, "/ownerDid", "I5: an agent's key")
	}
	out := t.Put(owner, Contact{Invite: invite, Since: at})
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
	c := out.Contacts[owner]
	agent, err := out.AgentFor(owner, at)
	if err != nil {
		return t, err
	}
	c.Name = out.freeName(agent.Certificate.DisplayName)
	return out.Put(owner, c), nil
}

// freeName is name, or name with a number where a contact of ours has a name that looks the same (M8).
func (t Trust) freeName(name string) string {
	name = Display(name, 40)
	for n := 2; ; n++ {
		if _, _, taken := t.Named(name); !taken {
			return name
		}
		name = Display(name, 40) + "-" + string(rune('0'+n%10))
	}
}
