package approval_test

import (
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/passkey/passkeytest"
	"sealbridge/spec"
)

// voter is a certified approver of Ben's.
type voter struct {
	key  signing.Signer
	pass *passkeytest.Authenticator
	cert manifest.Verified
}

func newVoter(seed byte, person string, pass bool, gates ...manifest.Gate) voter {
	v := voter{key: signing.NewKey([32]byte{seed})}
	c := &manifest.ApproverCertificate{Type: "sealbridge/approver-certificate", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: benOwner.DID(),
		ApproverDid: v.key.DID(), Person: person, Gates: gates, IssuedAt: signing.TimeOf(noon), ExpiresAt: signing.TimeOf(noon.Add(30 * 24 * time.Hour))}
	if pass {
		v.pass = passkeytest.New(seed, "localhost", "http://localhost:7811")
		c.Credential = &v.pass.Credential
	}
	v.cert = must(manifest.Sign(c, benOwner, noon))
	return v
}

// says is the approver's decision, admitted as Ben's gateway does it.
func (v voter) says(t *testing.T, a approval.Ask, verdict string, at time.Time) manifest.Verified {
	t.Helper()
	presence := manifest.PresenceDevice
	if v.pass != nil {
		presence = manifest.PresencePasskey
	}
	d := approval.By(approval.Decide(a, verdict, presence, at), v.cert.Signed)
	if v.pass != nil {
		s := v.pass.Assert(must(manifest.Challenge(d)))
		d.Assertion = &s
	}
	return must(manifest.NewTrust(benOwner.DID()).Admit(signed(d, v.key, at).Signed, at))
}

// asked is Ben's ask for a contract with these people asked, as many as need of them.
func asked(t *testing.T, need int64, owner bool, keys map[string]signing.DID) approval.Ask {
	a := gates(t)["accept"].ask(t)
	a.Approvers, a.ApproverKeys, a.Need = nil, keys, need
	if owner {
		a.Approvers = []string{"me"}
	}
	for name := range keys {
		a.Approvers = append(a.Approvers, name)
	}
	if _, err := a.Value(); err != nil {
		t.Fatal(err)
	}
	return a
}

// G5: who is asked votes, each person once, and any no is no.
func TestVotesOfPeople(t *testing.T) {
	const allow, deny = approval.Allow, approval.Deny
	contract := manifest.ContractGate
	phone, tablet := newVoter(11, "eva", true, contract), newVoter(12, "eva", false, contract)
	carl, mine, dora := newVoter(13, "carl", false, contract), newVoter(14, manifest.OwnerPerson, true, contract), newVoter(15, "dora", false, contract)
	all := map[string]signing.DID{"phone": phone.key.DID(), "tablet": tablet.key.DID(), "carl": carl.key.DID()}
	me, two, crew := asked(t, 1, true, nil), asked(t, 2, true, all), asked(t, 1, false, all)
	at := me.At.Time().Add(time.Minute)
	owner := func(a approval.Ask, verdict string) manifest.Verified {
		return signed(approval.Decide(a, verdict, "passphrase", at), benOwner, at)
	}
	for name, c := range map[string]struct {
		a    approval.Ask
		said []manifest.Verified
		want approval.Outcome
	}{
		"the owner's own passkey":               {me, []manifest.Verified{mine.says(t, me, allow, at)}, approval.Allowed},
		"a passkey of somebody who is asked":    {crew, []manifest.Verified{phone.says(t, crew, allow, at)}, approval.Allowed},
		"a device of somebody who is asked":     {crew, []manifest.Verified{tablet.says(t, crew, allow, at)}, approval.Allowed},
		"certified, and not asked":              {crew, []manifest.Verified{dora.says(t, crew, allow, at)}, approval.Waiting},
		"certified, and only the owner asked":   {me, []manifest.Verified{carl.says(t, me, allow, at)}, approval.Waiting},
		"not asked, and says no":                {me, []manifest.Verified{carl.says(t, me, deny, at)}, approval.Waiting},
		"the owner, who is not asked, says yes": {crew, []manifest.Verified{owner(crew, allow)}, approval.Waiting},
		"the owner can always say no":           {crew, []manifest.Verified{owner(crew, deny)}, approval.Denied},
		"so can its own passkey":                {crew, []manifest.Verified{mine.says(t, crew, deny, at)}, approval.Denied},
		"one of two":                            {two, []manifest.Verified{phone.says(t, two, allow, at)}, approval.Waiting},
		"one person with two keys":              {two, []manifest.Verified{phone.says(t, two, allow, at), tablet.says(t, two, allow, at)}, approval.Waiting},
		"the owner with key and passkey":        {two, []manifest.Verified{owner(two, allow), mine.says(t, two, allow, at)}, approval.Waiting},
		"two people":                            {two, []manifest.Verified{phone.says(t, two, allow, at), carl.says(t, two, allow, at)}, approval.Allowed},
		"an approver and the owner":             {two, []manifest.Verified{carl.says(t, two, allow, at), owner(two, allow)}, approval.Allowed},
		"one yes, one no":                       {two, []manifest.Verified{phone.says(t, two, allow, at), carl.says(t, two, deny, at)}, approval.Denied},
		"a change of mind":                      {two, []manifest.Verified{phone.says(t, two, allow, at), tablet.says(t, two, deny, at)}, approval.Denied},
		"yes to the other question":             {two, []manifest.Verified{phone.says(t, crew, allow, at), carl.says(t, two, allow, at)}, approval.Waiting},
	} {
		got, k := approval.Settle(c.a, c.said, at)
		if got != c.want || (got == approval.Allowed) != (k.Decision == c.said[len(c.said)-1].Digest()) {
			t.Errorf("%s: %s with %s, want %s", name, got, k.Decision.Short(), c.want)
		}
	}
	votes := []manifest.Verified{phone.says(t, two, allow, at), tablet.says(t, two, allow, at)}
	if n := approval.Yeses(two, votes, at); n != 1 {
		t.Errorf("%d people said yes, want 1", n)
	}
}

// G5: what counted when it was said must still count when the last vote comes.
func TestACertificateMustHoldAtTheTally(t *testing.T) {
	short := newVoter(21, "eva", false, manifest.ContractGate)
	c := *short.cert.Document().(*manifest.ApproverCertificate)
	c.ExpiresAt = signing.TimeOf(noon.Add(10 * time.Minute))
	short.cert = must(manifest.Sign(&c, benOwner, noon))
	carl := newVoter(22, "carl", false, manifest.ContractGate)
	a := asked(t, 2, false, map[string]signing.DID{"eva": short.key.DID(), "carl": carl.key.DID()})
	early, late := noon.Add(5*time.Minute), noon.Add(11*time.Minute)
	votes := []manifest.Verified{short.says(t, a, approval.Allow, early)}
	if n := approval.Yeses(a, votes, early); n != 1 {
		t.Fatalf("%d votes at first", n)
	}
	votes = append(votes, carl.says(t, a, approval.Allow, late))
	if got, _ := approval.Settle(a, votes, late); got != approval.Waiting {
		t.Errorf("with one that ran out in between: %s", got)
	}
	if w := spec.ReasonOf(approval.Counts(a, votes[0], late)); w != spec.CertificateExpired {
		t.Errorf("the one that ran out: %q", w)
	}
}

// G10: where the policy takes nothing but a passkey, the owner's passphrase is no yes, and the refusal says what is.
func TestAPolicyCanAskForAPasskeyOnly(t *testing.T) {
	mine, phone := newVoter(41, manifest.OwnerPerson, true, manifest.ContractGate), newVoter(42, manifest.OwnerPerson, false, manifest.ContractGate)
	a := asked(t, 1, true, nil)
	a.Presence = []string{manifest.PresencePasskey}
	at := a.At.Time().Add(time.Minute)
	for what, said := range map[string]manifest.Verified{"a passphrase": signed(approval.Decide(a, approval.Allow, "passphrase", at), benOwner, at), "a device": phone.says(t, a, approval.Allow, at)} {
		err := approval.Counts(a, said, at)
		if got, _ := approval.Settle(a, []manifest.Verified{said}, at); got != approval.Waiting || spec.ReasonOf(err) != spec.PolicyDenied || !strings.Contains(err.Error(), "passkey") {
			t.Errorf("%s: %s, %v", what, got, err)
		}
	}
	if got, _ := approval.Settle(a, []manifest.Verified{mine.says(t, a, approval.Allow, at)}, at); got != approval.Allowed {
		t.Errorf("a passkey: %s", got)
	}
}

// A decision of another owner's approver, or one that nobody admitted, is nobody's vote here.
func TestOnlyAnAdmittedApproverCounts(t *testing.T) {
	carl := newVoter(31, "carl", false, manifest.ContractGate)
	a := asked(t, 1, false, map[string]signing.DID{"carl": carl.key.DID()})
	at := a.At.Time().Add(time.Minute)
	d := approval.By(approval.Decide(a, approval.Allow, manifest.PresenceDevice, at), carl.cert.Signed)
	if got, _ := approval.Settle(a, []manifest.Verified{signed(d, carl.key, at)}, at); got != approval.Waiting {
		t.Errorf("not admitted: %s", got)
	}
	if got, _ := approval.Settle(a, []manifest.Verified{carl.says(t, a, approval.Allow, at)}, at); got != approval.Allowed {
		t.Errorf("admitted: %s", got)
	}
}
