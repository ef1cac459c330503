package approval

import (
	"time"

	"sealbridge/manifest"
)

// person is whose vote a decision is: several keys of one person have one (G5).
func person(v manifest.Verified) string {
	if c, ok := v.Approver(); ok {
		return c.Person
	}
	return manifest.OwnerPerson
}

// asks says whether whoever signed v is asked (G1, G5). The owner is, where a
// name of the ask has no key of its own, and so is a key that the owner certified
// as its own; an approver is, where its key stands beside a name. The owner can
// always say no. Which gates a certificate is for, manifest.Open held.
func (a Ask) asks(v manifest.Verified, verdict string) bool {
	if person(v) == manifest.OwnerPerson {
		mine := len(a.ApproverKeys) < len(a.Approvers) || verdict == Deny
		return mine && a.speaks(v)
	}
	for _, key := range a.ApproverKeys {
		if key == v.By() {
			return a.speaks(v)
		}
	}
	return false
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

// Yeses is how many people have said yes so far, each counted once. It looks at
// every vote again: a certificate that ran out since does not count (G5).
func Yeses(a Ask, said []manifest.Verified, at time.Time) int64 {
	digest, yes := a.Digest(), map[string]bool{}
	for _, v := range said {
		if d, err := counts(a, digest, v, at); err == nil && d.Verdict == Allow {
			yes[person(v)] = true
		}
	}
	return int64(len(yes))
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
