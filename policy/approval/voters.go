package approval

import (
	"slices"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// person is whose vote a decision is: several keys of one person have one (G5).
func person(v manifest.Verified) string {
	if c, ok := v.Approver(); ok {
		return c.Person
	}
	return manifest.OwnerPerson
}

// asks says whether whoever signed v is asked (G1, G5), and may have said this:
// the owner can always say no.
func (a Ask) asks(v manifest.Verified, verdict string) bool {
	if person(v) == manifest.OwnerPerson {
		return a.speaks(v) && (a.asksOwner() || verdict == Deny)
	}
	return a.speaks(v) && a.asksKey(v.By())
}

// asksOwner: a name of the ask has no key of its own.
func (a Ask) asksOwner() bool { return len(a.ApproverKeys) < len(a.Approvers) }

func (a Ask) asksKey(by signing.DID) bool {
	for _, key := range a.ApproverKeys {
		if key == by {
			return true
		}
	}
	return false
}

// Asked says whether a certified approver can answer an ask: its key stands
// beside a name, or it is the owner's own and the owner is asked; and it is certified for the gate.
func Asked(a Ask, c manifest.ApproverCertificate) bool {
	if c.OwnerDid != a.OwnerDid || !slices.Contains(c.Gates, a.Gate) {
		return false
	}
	if c.Person == manifest.OwnerPerson {
		return a.asksOwner()
	}
	return a.asksKey(c.ApproverDid)
}

// speaks says whether the signer decides for the owner who is asked: by the
// owner key, which we may have signed with ourselves, or by a certificate that Admit let in.
func (a Ask) speaks(v manifest.Verified) bool {
	if _, certified := v.Approver(); certified {
		return v.Owner() == a.OwnerDid && !v.Owner().IsZero()
	}
	return v.By() == a.OwnerDid && (v.Owner().IsZero() || v.Owner() == a.OwnerDid)
}

// certifiedAt says whether the certificate behind a decision has not run out at an instant (G5).
func certifiedAt(v manifest.Verified, at time.Time) bool {
	c, ok := v.Approver()
	return !ok || at.Before(c.ExpiresAt.Time())
}

// Voters are the people who have said yes so far. It looks at every vote again:
// a certificate that ran out since does not count (G5).
func Voters(a Ask, said []manifest.Verified, at time.Time) map[string]bool {
	digest, yes := a.Digest(), map[string]bool{}
	for _, v := range said {
		if d, err := counts(a, digest, v, at); err == nil && d.Verdict == Allow {
			yes[person(v)] = true
		}
	}
	return yes
}

// Yeses is how many people have said yes so far, each counted once.
func Yeses(a Ask, said []manifest.Verified, at time.Time) int64 {
	return int64(len(Voters(a, said, at)))
}

// Proven says whether others need not take a decision's presence on trust: a
// passkey's assertion or a device's certificate stands in it (G10).
func Proven(v manifest.Signed) bool {
	d, ok := v.Document().(*manifest.GateDecision)
	_, certified := v.Approver()
	return ok && certified && (d.Presence == manifest.PresencePasskey || d.Presence == manifest.PresenceDevice)
}

// By makes a decision the one of a certified approver, who signs it with its own
// key; a certified passkey signs it before that ([manifest.Challenge]).
func By(d manifest.GateDecision, certificate manifest.Signed) manifest.GateDecision {
	digest := certificate.Digest()
	d.CertificateDigest, d.Certificate = &digest, certificate.Wire()
	return d
}
