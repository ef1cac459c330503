package manifest

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/signing/passkey"
	"sealbridge/spec"
)

// ApproverCertificate says that a key decides gates for an owner (I5). With a
// credential the key alone decides nothing: each yes needs the passkey's
// assertion (G10), so that a gateway may hold the key for its console. Without
// one it is the key of a device elsewhere.
type ApproverCertificate struct {
	Type            string              `json:"type" rule:"const=sealbridge/approver-certificate"`
	ProtocolVersion string              `json:"protocolVersion" rule:"const=0.2.0"`
	OwnerDid        signing.DID         `json:"ownerDid"`
	ApproverDid     signing.DID         `json:"approverDid"`
	Person          string              `json:"person" rule:"len=1..64"` // opaque; several keys of one person have one vote (G5)
	Gates           []Gate              `json:"gates" rule:"items=1..5,unique,each.enum=GATE_CONTRACT_ACCEPT|GATE_EXTERNAL_SIDE_EFFECT|GATE_BUDGET_OVERRUN|GATE_SUB_DELEGATION|GATE_DELIVERY_ACCEPT"`
	Credential      *passkey.Credential `json:"credential"` // the passkey that each yes needs, or null
	IssuedAt        signing.Time        `json:"issuedAt"`
	ExpiresAt       signing.Time        `json:"expiresAt"` // ≤ 90 days after issuedAt
}

// OwnerPerson is the person whose key is the owner's: a certificate for it is
// the owner's own passkey or device, and one vote with the owner key (G5).
const OwnerPerson = "owner"

// Words of G10 that say more than they claim.
const (
	PresencePasskey = "passkey" // with an assertion, and only with one
	PresenceDevice  = "device"  // an approver key elsewhere
)

// Challenge is what a passkey signs for a decision: the digest of all that it
// says but the assertion itself (G10).
func Challenge(d GateDecision) ([32]byte, error) {
	d.Assertion = nil
	payload, err := jcs.Encode(d)
	if err != nil {
		return [32]byte{}, err
	}
	return sha256.Sum256(payload.Bytes()), nil
}

// openApproval holds a decision against the certificate beside it, and the
// assertion against the certified passkey. It needs no state, so that the other
// owner and an auditor come to the same answer (I5, G10).
func (s *Signed) openApproval(d *GateDecision, k *signing.Keys) error {
	if d.CertificateDigest == nil {
		switch {
		case !d.Certificate.IsZero() || d.Assertion != nil:
			return refuse("/certificateDigest", "I5: of the certificate that is there")
		case d.Presence == PresencePasskey || d.Presence == PresenceDevice:
			return refuse("/presence", "G10: "+d.Presence+" needs an approver's certificate")
		}
		return nil
	}
	if !isSigned(d.Certificate, "approver-certificate") {
		return refuse("/certificate", "I5: a signed approver-certificate")
	}
	inner, err := OpenValue(d.Certificate, k)
	if err != nil {
		return inCertificate(err)
	}
	c, ok := inner.doc.(*ApproverCertificate)
	switch {
	case !ok:
		return refuse("/certificate", "I5: a signed approver-certificate")
	case inner.digest != *d.CertificateDigest:
		return spec.Refuse(spec.BadDigest, "/certificateDigest", "I5: of the certificate that is there")
	case c.OwnerDid != d.OwnerDid:
		return spec.Refuse(spec.WrongSigner, "/ownerDid", "I5: certified by another owner")
	case c.ApproverDid != s.By():
		return spec.Refuse(spec.WrongSigner, "/signature/signerDid", "I5: certified is another key")
	case !slices.Contains(c.Gates, d.Gate):
		return spec.Refuse(spec.WrongSigner, "/gate", "I5: certified for other gates")
	case d.DecidedAt.Time().Add(maxClockAhead).Before(c.IssuedAt.Time()):
		return spec.Refuse(spec.CertificateExpired, "/decidedAt", "I5: not yet")
	case !d.DecidedAt.Before(c.ExpiresAt):
		return spec.Refuse(spec.CertificateExpired, "/decidedAt", "I5")
	}
	if err := c.presence(d, s.wire); err != nil {
		return err
	}
	s.approver = c
	return nil
}

// presence holds how the person was there: passkey and its assertion come
// together, a certified passkey's yes needs them, a device is a key without one (G10).
func (c *ApproverCertificate) presence(d *GateDecision, wire jcs.Value) error {
	switch {
	case (d.Presence == PresencePasskey) != (d.Assertion != nil):
		return refuse("/assertion", "G10: exactly for passkey")
	case d.Assertion != nil && c.Credential == nil:
		return refuse("/assertion", "G10: no passkey is certified")
	case d.Presence == PresenceDevice && c.Credential != nil:
		return refuse("/presence", "G10: device is a key without a passkey")
	case d.Presence == "passphrase":
		return refuse("/presence", "G10: passphrase is the owner key's")
	case d.Assertion != nil:
		challenge := sha256.Sum256(wire.Without("signature").Without("assertion").Bytes())
		return spec.At("/assertion", c.Credential.Check(*d.Assertion, challenge))
	case d.Verdict == "allow" && c.Credential != nil:
		return spec.Refuse(spec.VerificationFailed, "/presence", "G10: this certificate's yes needs its passkey")
	}
	return nil
}

// inCertificate is an error of the certificate inside a decision, under the rule that puts it there.
func inCertificate(err error) error {
	e, ok := spec.At("/certificate", err).(*spec.Error)
	if !ok {
		return err
	}
	c := *e
	c.Limit = "I5: " + c.Limit
	return &c
}

// asApprover takes a decision whose certificate is by a pinned owner, not taken
// back, and good at this instant.
func (t Trust) asApprover(c ApproverCertificate, digest signing.Digest, at time.Time) (signing.DID, error) {
	switch {
	case t.IsRevoked(c.OwnerDid, digest):
		return signing.DID{}, spec.Refuse(spec.Revoked, "/certificateDigest", "I7")
	case !at.Before(c.ExpiresAt.Time()):
		return signing.DID{}, spec.Refuse(spec.CertificateExpired, "/certificateDigest", "I5")
	case at.Add(maxClockAhead).Before(c.IssuedAt.Time()):
		return signing.DID{}, spec.Refuse(spec.CertificateExpired, "/certificateDigest", "I5: not yet")
	}
	if _, ok := t.Contacts[c.OwnerDid]; !ok {
		return signing.DID{}, spec.Refuse(spec.UnknownKey, "/ownerDid", "I6: not a contact")
	}
	return c.OwnerDid, t.apart(c.ApproverDid)
}

// apart says whether a key may be an approver's: it is no owner's, agent's or relay's (I5).
func (t Trust) apart(did signing.DID) error {
	_, owner := t.Contacts[did]
	_, agent := t.Agents[did]
	switch {
	case owner:
		return spec.Refuse(spec.WrongSigner, "/approverDid", "I5: an owner's key")
	case agent:
		return spec.Refuse(spec.WrongSigner, "/approverDid", "I5: an agent's key")
	case t.isRelay(did):
		return spec.Refuse(spec.WrongSigner, "/approverDid", "I5: a relay's key")
	}
	return nil
}

func (t Trust) isApprover(did signing.DID) bool {
	for _, c := range t.Approvers {
		if c.ApproverDid == did {
			return true
		}
	}
	return false
}

// maxApprovers of one owner: ten people with two devices each, renewed four times a year.
const maxApprovers = 100

func (t Trust) applyApprover(d ApproverCertificate, digest signing.Digest) (Trust, error) {
	if err := t.apart(d.ApproverDid); err != nil {
		return t, err
	}
	n := 0
	for have, c := range t.Approvers {
		if have == digest {
			return t, nil
		}
		if c.OwnerDid == d.OwnerDid {
			n++
		}
	}
	if n >= maxApprovers {
		return t, spec.Refuse(spec.Quota, "", "I5: "+strconv.Itoa(maxApprovers)+" of one owner at most")
	}
	t = t.clone()
	if t.Approvers == nil {
		t.Approvers = map[signing.Digest]ApproverCertificate{}
	}
	t.Approvers[digest] = d
	return t, nil
}
