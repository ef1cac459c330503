package manifest

import (
	"maps"
	"strconv"
	"time"

	"sealbridge/signing"
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

	// Approvers by the digest of their certificate; one key may have several.
	Approvers map[signing.Digest]ApproverCertificate `json:"approvers,omitempty"`
}

// Contact is a pinned owner. The zero Contact is nobody.
type Contact struct {
	Name          string          `json:"name"` // chosen by us (M8)
	Confirmed     bool            `json:"confirmed"`
	Blocked       bool            `json:"blocked"`
	Agent         signing.DID     `json:"agent"` // the agent that last spoke for this owner
	Relay         RelayRef        `json:"relay"` // where it collects, as pinned: another one waits for our owner's yes (R3)
	Invite        InviteID        `json:"invite"`
	Revocations   int64           `json:"revocations"` // newest seq seen
	Revoked       map[string]bool `json:"revoked"`     // target digests taken back
	RotationFroze bool            `json:"frozen"`      // two box-keys with one seq (R2): no mail until a person looks
	Since         time.Time       `json:"since"`

	// For are the tasks for which somebody else introduced this owner (C7); an
	// owner who is here for nothing else is no contact: it has no words to
	// compare and asks nothing of us.
	For []string `json:"for,omitempty"`
}

// Moved says whether the agent's certificate names another relay than the pinned one (R3).
func (c Contact) Moved(a Agent) bool { return a.Certificate.Relay != c.Relay }

// Agent is what we know of an agent key.
type Agent struct {
	Owner       signing.DID      `json:"owner"`
	Certificate AgentCertificate `json:"certificate"`
	Digest      signing.Digest   `json:"digest"` // of the certificate document
	Key         BoxKey           `json:"key"`
	HasKey      bool             `json:"hasKey"`
	Revoked     bool             `json:"revoked"`
	Next        *Renewal         `json:"next,omitempty"`
}

// Renewal is a newer certificate of an agent that no box-key names yet: it
// waits beside the one in force, because both keys agree or it is nothing (I4).
type Renewal struct {
	Certificate AgentCertificate `json:"certificate"`
	Digest      signing.Digest   `json:"digest"`
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
	t.Contacts, t.Agents, t.Approvers = maps.Clone(t.Contacts), maps.Clone(t.Agents), maps.Clone(t.Approvers)
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
	maps.DeleteFunc(t.Approvers, func(_ signing.Digest, c ApproverCertificate) bool { return c.OwnerDid == owner })
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
	if !ok {
		return Agent{}, spec.Refuse(spec.UnknownKey, "", "I4: no certificate yet")
	}
	return a, t.reachable(a, at)
}

// reachable says why mail for an agent cannot be sealed at an instant; nil if it can.
func (t Trust) reachable(a Agent, at time.Time) error {
	c := t.Contacts[a.Owner]
	switch {
	case c.Blocked || a.Revoked:
		return spec.Refuse(spec.Revoked, "", "I7")
	case c.RotationFroze:
		return spec.Refuse(spec.Conflict, "", "R2: two box-keys with one number; pin the contact again")
	case !a.HasKey:
		return spec.Refuse(spec.UnknownKey, "", "R2: no box-key yet")
	case !at.Before(a.Key.NotAfter.Time()):
		return spec.Refuse(spec.UnknownKey, "", "R2: box-key past notAfter")
	case !at.Before(a.Certificate.ExpiresAt.Time()):
		return spec.Refuse(spec.CertificateExpired, "", "I4")
	}
	return nil
}

// CertificateOf is the certificate in force of an agent, good or not; ok is false for an unknown agent.
func (t Trust) CertificateOf(agent signing.DID) (c AgentCertificate, digest signing.Digest, ok bool) {
	a, ok := t.Agents[agent]
	return a.Certificate, a.Digest, ok
}

// BoxKeyFor is the key that mail for an agent is sealed to at an instant (R2).
func (t Trust) BoxKeyFor(agent signing.DID, at time.Time) (BoxKey, error) {
	a, ok := t.Agents[agent]
	if !ok {
		return BoxKey{}, spec.Refuse(spec.UnknownKey, "", "I6: no certificate from a contact")
	}
	err := t.reachable(a, at)
	return a.Key, err
}

// IsRevoked says whether an owner took back the document with this digest (I7).
func (t Trust) IsRevoked(owner signing.DID, digest signing.Digest) bool {
	return t.Contacts[owner].Revoked[digest.String()]
}

// Pin makes owner a contact, unconfirmed, under a name of ours. Pinning a
// contact again is how a person ends a freeze (R2, I8).
func (t Trust) Pin(owner signing.DID, name string, at time.Time) (Trust, error) {
	if _, agent := t.Agents[owner]; agent {
		return t, spec.Refuse(spec.Conflict, "/ownerDid", "I5: an agent's key")
	}
	if t.isApprover(owner) {
		return t, spec.Refuse(spec.Conflict, "/ownerDid", "I5: an approver's key")
	}
	c, known := t.Contacts[owner]
	if !known {
		c.Since = at
	}
	c.RotationFroze = false
	return t.Put(owner, c).Rename(owner, name)
}

// Rename gives a contact another name; one that looks like another contact's is refused (M8).
func (t Trust) Rename(owner signing.DID, name string) (Trust, error) {
	if n := len([]rune(name)); n == 0 || n > maxContactName || Skeleton(name) == "" || Display(name, maxContactName) != name {
		return t, refuse("/name", "M8: 1 to "+strconv.Itoa(maxContactName)+" visible characters")
	}
	if other, _, taken := t.Named(name); taken && other != owner {
		return t, spec.Refuse(spec.Conflict, "/name", "M8: looks like another contact's name")
	}
	return t.change(owner, func(c *Contact) { c.Name = name })
}

// Confirm records that a person compared the six words (K2).
func (t Trust) Confirm(owner signing.DID) (Trust, error) {
	return t.change(owner, func(c *Contact) { c.Confirmed = true })
}

// Block refuses everything of a contact from now on (K3).
func (t Trust) Block(owner signing.DID) (Trust, error) {
	return t.change(owner, func(c *Contact) { c.Blocked, c.Confirmed = true, false })
}

func (t Trust) change(owner signing.DID, f func(*Contact)) (Trust, error) {
	c, ok := t.Contacts[owner]
	if !ok {
		return t, spec.Refuse(spec.NotFound, "", "contact")
	}
	f(&c)
	return t.Put(owner, c), nil
}
