package approval

import (
	"slices"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Outcome is what became of an ask: one of five, and once it is not Waiting it stays (G3).
type Outcome string

const (
	Waiting   Outcome = "open"      // nobody's answer counts yet
	Allowed   Outcome = "allowed"   // as many as were needed said yes
	Denied    Outcome = "denied"    // somebody said no
	Expired   Outcome = "expired"   // nobody answered in time: no (G4)
	Withdrawn Outcome = "withdrawn" // an ending or an amendment took the question away
)

// The two verdicts of a decision.
const (
	Allow = "allow"
	Deny  = "deny"
)

// Settle says what the decisions come to, looked at in one instant of the
// enforcing gateway. They stand in the order in which it took them: the first
// that decides wins, and any no before enough yeses is no. A yes counts only
// with a presence that the ask names; a no needs nothing (G10). At and after
// until nothing counts any more, whatever it claims (B015). The Consent is good
// only with Allowed.
func Settle(a Ask, said []manifest.Verified, at time.Time) (Outcome, policy.Consent) {
	if !at.Before(a.Until.Time()) {
		return Expired, policy.Consent{}
	}
	digest := a.Digest()
	yes := map[string]bool{} // one vote a person (G5)
	for _, v := range said {
		d, err := counts(a, digest, v, at)
		if err != nil {
			continue
		}
		if d.Verdict != Allow {
			return Denied, policy.Consent{}
		}
		if yes[person(v)] = true; int64(len(yes)) >= max(1, a.Need) {
			return Allowed, policy.Consent{Gate: a.Gate, AskDigest: digest, Contract: a.ContractDigest, Subject: a.SubjectDigest,
				Owner: a.OwnerDid, Decision: v.Digest(), Lasts: policy.LastsOnce, Until: a.Until.Time()}
		}
	}
	return Waiting, policy.Consent{}
}

// Counts says why a decision is no answer to this ask at an instant; nil if it
// is one. The word is the one that whoever sent it is told.
func Counts(a Ask, v manifest.Verified, at time.Time) error {
	if !at.Before(a.Until.Time()) {
		return spec.Refuse(spec.GateExpired, "/decidedAt", "G4")
	}
	_, err := counts(a, a.Digest(), v, at)
	return err
}

func counts(a Ask, digest signing.Digest, v manifest.Verified, at time.Time) (*manifest.GateDecision, error) {
	return countsAs(a, digest, v, at, a.SubjectDigest, policy.LastsOnce)
}

// countsAs is counts for a decision that names another subject than the ask's: the grant of a standing yes.
func countsAs(a Ask, digest signing.Digest, v manifest.Verified, at time.Time, subject signing.Digest, lasts string) (*manifest.GateDecision, error) {
	d, ok := v.Document().(*manifest.GateDecision)
	if !ok {
		return nil, spec.Refuse(spec.UnknownType, "/type", "sealbridge/gate-decision")
	}
	if err := answersAs(a, digest, *d, subject); err != nil {
		return d, err
	}
	made := d.DecidedAt.Time()
	switch {
	case !a.asks(v, d.Verdict):
		return d, spec.Refuse(spec.WrongSigner, "/ownerDid", "G1: somebody who is asked")
	case !certifiedAt(v, at):
		return d, spec.Refuse(spec.CertificateExpired, "/certificateDigest", "G5")
	case made.After(at.Add(policy.MaxAhead)):
		return d, spec.Refuse(spec.Malformed, "/decidedAt", "T1: 60 s ahead at most")
	case d.Lasts != lasts:
		return d, spec.Refuse(spec.PolicyDenied, "/lasts", "G6: "+lasts)
	case d.Verdict != Deny && !slices.Contains(a.Presence, d.Presence):
		return d, spec.Refuse(spec.PolicyDenied, "/presence", "G10: your policy takes a yes by "+strings.Join(a.Presence, ", "))
	}
	return d, nil
}

// Answers says whether a decision is about this ask and nothing else, and was
// made while it was open; digest is the ask's. It looks at no signature.
func Answers(a Ask, digest signing.Digest, d manifest.GateDecision) error {
	return answersAs(a, digest, d, a.SubjectDigest)
}

func answersAs(a Ask, digest signing.Digest, d manifest.GateDecision, subject signing.Digest) error {
	for _, m := range []struct {
		same bool
		path string
	}{
		{d.AskDigest == digest && !digest.IsZero(), "/askDigest"}, {d.AskID == a.AskID, "/askId"}, {d.Gate == a.Gate, "/gate"},
		{d.TaskID == a.TaskID, "/taskId"}, {d.ContractDigest == a.ContractDigest, "/contractDigest"},
		{d.SubjectDigest == subject && !subject.IsZero(), "/subjectDigest"}, {d.OwnerDid == a.OwnerDid, "/ownerDid"},
	} {
		if !m.same {
			return spec.Refuse(spec.Conflict, m.path, "G2: another question")
		}
	}
	switch made := d.DecidedAt; {
	case made.Before(a.At):
		return spec.Refuse(spec.Malformed, "/decidedAt", "T1: not before the ask")
	case !made.Before(a.Until):
		return spec.Refuse(spec.GateExpired, "/decidedAt", "G4")
	}
	return nil
}

// Withdraws says why the task has moved away under an open ask; "" if it has
// not: it ended, broke, another contract is in force, or what the ask is about
// was replaced or decided already. The gateway settles such an ask as Withdrawn
// in the same step (G3).
func Withdraws(a Ask, t task.Task) string {
	switch {
	case t.IsZero(): // the requester's own proposal: nothing is there yet
		return ""
	case t.Broken():
		return "the other side's history broke"
	case t.Ended():
		return "the task ended"
	case t.InForce().Digest != a.ContractDigest:
		return "another contract is in force"
	case isAmendment(a):
		return ""
	case a.Gate == manifest.SubGate && handedOn(a, t):
		return "the part was handed on already"
	case a.Gate == manifest.ContractGate && a.Side == manifest.Worker && t.State() != task.Proposed:
		return "the contract was accepted already"
	case a.Gate == manifest.EffectGate && a.Side == manifest.Worker && t.State() != task.Working:
		return "nothing works on the task"
	case a.Gate == manifest.DeliveryGate && !delivered(a, t):
		return "the delivery was replaced"
	}
	return ""
}

// delivered says whether the delivery that the ask is about still waits for an answer.
func delivered(a Ask, t task.Task) bool {
	d := t.Delivery()
	named, _ := a.Subject.At("/delivery")
	text, _ := named.Text()
	return d != nil && t.State() == task.Delivered && d.Digest.String() == text
}
