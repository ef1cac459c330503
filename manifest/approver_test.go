package manifest_test

import (
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/signing/passkey/passkeytest"
	"sealbridge/spec"
)

// signAnyway signs a document without asking whether anybody would read it.
func signAnyway(d any, name string, by signing.Signer) jcs.Value {
	payload := must(jcs.Encode(d))
	c, _ := signing.ContextFor("sealbridge/" + name)
	return payload.With("signature", must(jcs.Encode(must(signing.Sign(payload, c, by, noon)))))
}

func TestAnApproversYesIsReadAlone(t *testing.T) { // I5, G10
	for what, pass := range map[string]*passkeytest.Authenticator{"passkey": annPasskey, "device": nil} {
		d := approved(approver(annPhone, pass), annPhone, pass)
		s, err := manifest.Open(signAnyway(d, "gate-decision", annPhone).Bytes(), nil)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		c, ok := s.Approver()
		v, err := manifest.NewTrust(annOwner.DID()).Admit(s, noon)
		if !ok || c.Person != "usr_1" || err != nil || v.Owner() != annOwner.DID() {
			t.Errorf("%s: by %q for %s, %v", what, c.Person, v.Owner(), err)
		}
	}
	if _, ok := opened(decision(), annOwner, noon).Approver(); ok {
		t.Error("the owner's own decision has an approver")
	}
}

// Each row is one way to have somebody else's yes, and the word that it meets.
func TestNobodyElseApproves(t *testing.T) {
	eve := passkeytest.New(9, "localhost", "http://localhost:7811")
	challenge := func(d *manifest.GateDecision) [32]byte { return must(manifest.Challenge(*d)) }
	type yes = manifest.GateDecision
	passkeyYes := func() *yes { return approved(approver(annPhone, annPasskey), annPhone, annPasskey) }
	recertified := func(f func(*manifest.ApproverCertificate), by signing.Signer) *yes {
		c := approver(annPhone, annPasskey)
		f(c)
		d := decision()
		wire := signAnyway(c, "approver-certificate", by)
		digest := signing.DigestOf(wire.Bytes())
		d.CertificateDigest, d.Certificate, d.Presence = &digest, wire, "passkey"
		a := annPasskey.Assert(challenge(d))
		d.Assertion = &a
		return d
	}
	for _, c := range []struct {
		kind string
		make func() *yes
		by   signing.Signer
		want spec.Reason
	}{
		{"forged: no signature", func() *yes { d := passkeyYes(); d.Assertion.Signature = passkeytest.Base64(make([]byte, 64)); return d }, annPhone, spec.BadSignature},
		{"forged: by another passkey", func() *yes { d := passkeyYes(); *d.Assertion = eve.Assert(challenge(d)); return d }, annPhone, spec.BadSignature},
		{"another challenge", func() *yes { d := passkeyYes(); *d.Assertion = annPasskey.Assert([32]byte{1}); return d }, annPhone, spec.BadDigest},
		{"another port", func() *yes {
			d := passkeyYes()
			*d.Assertion = annPasskey.AssertAs(challenge(d), passkeytest.Ceremony{Origin: "http://localhost:7812"})
			return d
		}, annPhone, spec.WrongContext},
		{"person not verified", func() *yes {
			d := passkeyYes()
			*d.Assertion = annPasskey.AssertAs(challenge(d), passkeytest.Ceremony{Flags: 1})
			return d
		}, annPhone, spec.VerificationFailed},
		{"moved to another subject", func() *yes { d := passkeyYes(); d.SubjectDigest = digestOf("another"); return d }, annPhone, spec.BadDigest},
		{"moved to another task", func() *yes {
			d := passkeyYes()
			d.TaskID = must(manifest.ParseTaskID("task_another_0001"))
			return d
		}, annPhone, spec.BadDigest},
		{"moved to another ask", func() *yes { d := passkeyYes(); d.AskDigest = digestOf("another"); return d }, annPhone, spec.BadDigest},
		{"a no made a yes", func() *yes {
			d := passkeyYes()
			d.Verdict = "deny"
			*d.Assertion = annPasskey.Assert(challenge(d))
			d.Verdict = "allow"
			return d
		}, annPhone, spec.BadDigest},
		{"once made standing", func() *yes { d := passkeyYes(); d.Lasts = "standing"; return d }, annPhone, spec.BadDigest},
		{"without assertion", func() *yes { d := passkeyYes(); d.Assertion = nil; return d }, annPhone, spec.Malformed},
		{"without assertion, as none", func() *yes { d := passkeyYes(); d.Assertion, d.Presence = nil, "none"; return d }, annPhone, spec.VerificationFailed},
		{"without assertion, as a device", func() *yes { d := passkeyYes(); d.Assertion, d.Presence = nil, "device"; return d }, annPhone, spec.Malformed},
		{"without assertion, by channel", func() *yes { d := passkeyYes(); d.Assertion, d.Presence = nil, "channel:x"; return d }, annPhone, spec.VerificationFailed},
		{"as passphrase", func() *yes { d := passkeyYes(); d.Assertion, d.Presence = nil, "passphrase"; return d }, annPhone, spec.Malformed},
		{"a device with an assertion", func() *yes {
			d := approved(approver(annPhone, nil), annPhone, nil)
			d.Presence = "passkey"
			a := annPasskey.Assert(challenge(d))
			d.Assertion = &a
			return d
		}, annPhone, spec.Malformed},
		{"the agent signs in the approver's name", passkeyYes, annAgent, spec.WrongSigner},
		{"the owner signs in the approver's name", passkeyYes, annOwner, spec.WrongSigner},
		{"self-certified", func() *yes {
			return recertified(func(c *manifest.ApproverCertificate) { c.OwnerDid = annPhone.DID() }, annPhone)
		}, annPhone, spec.Malformed},
		{"certified by itself in the owner's name", func() *yes { return recertified(func(*manifest.ApproverCertificate) {}, annPhone) }, annPhone, spec.WrongSigner},
		{"certified by the agent", func() *yes {
			return recertified(func(c *manifest.ApproverCertificate) { c.OwnerDid = annAgent.DID() }, annAgent)
		}, annPhone, spec.WrongSigner},
		{"certified by another owner", func() *yes {
			return recertified(func(c *manifest.ApproverCertificate) { c.OwnerDid = benOwner.DID() }, benOwner)
		}, annPhone, spec.WrongSigner},
		{"certified for another gate", func() *yes {
			return recertified(func(c *manifest.ApproverCertificate) { c.Gates = []manifest.Gate{manifest.DeliveryGate} }, annOwner)
		}, annPhone, spec.WrongSigner},
		{"certified for longer than a quarter", func() *yes {
			return recertified(func(c *manifest.ApproverCertificate) { c.ExpiresAt = later(91 * day) }, annOwner)
		}, annPhone, spec.Malformed},
		{"decided before it was certified", func() *yes {
			return recertified(func(c *manifest.ApproverCertificate) { c.IssuedAt = later(2 * time.Minute) }, annOwner)
		}, annPhone, spec.CertificateExpired},
		{"decided after it ran out", func() *yes {
			return recertified(func(c *manifest.ApproverCertificate) { c.IssuedAt, c.ExpiresAt = later(-day), later(0) }, annOwner)
		}, annPhone, spec.CertificateExpired},
		{"another certificate beside the digest", func() *yes {
			d, other := passkeyYes(), must(manifest.Sign(approver(annPhone, nil), annOwner, noon))
			d.Certificate = other.Wire()
			return d
		}, annPhone, spec.BadDigest},
		{"an agent's certificate", func() *yes {
			d, cert := decision(), must(manifest.Sign(certificate(annOwner, annAgent, 1), annOwner, noon))
			digest := cert.Digest()
			d.CertificateDigest, d.Certificate, d.Presence = &digest, cert.Wire(), "device"
			return d
		}, annAgent, spec.Malformed},
		{"a digest and no certificate", func() *yes { d := passkeyYes(); d.Certificate = jcs.Value{}; return d }, annPhone, spec.Malformed},
		{"a certificate and no digest", func() *yes { d := passkeyYes(); d.CertificateDigest = nil; return d }, annOwner, spec.Malformed},
		{"the owner says passkey", func() *yes { d := decision(); d.Presence = "passkey"; return d }, annOwner, spec.Malformed},
		{"the owner says device", func() *yes { d := decision(); d.Presence = "device"; return d }, annOwner, spec.Malformed},
	} {
		if _, err := manifest.Open(signAnyway(c.make(), "gate-decision", c.by).Bytes(), nil); spec.ReasonOf(err) != c.want {
			t.Errorf("%s: %v, want %q", c.kind, err, c.want)
		}
	}
}

func TestANoNeedsNoPasskey(t *testing.T) { // G10
	d := approved(approver(annPhone, annPasskey), annPhone, annPasskey)
	d.Verdict, d.Presence, d.Assertion = "deny", "none", nil
	if _, err := manifest.Open(signAnyway(d, "gate-decision", annPhone).Bytes(), nil); err != nil {
		t.Error(err)
	}
}

func TestAnApproverIsNobodyElse(t *testing.T) { // I5
	trust, _ := both(t)
	yes := func(key signing.Signer) manifest.Signed {
		return must(manifest.Open(signAnyway(approved(approver(key, nil), key, nil), "gate-decision", key).Bytes(), nil))
	}
	for what, c := range map[string]struct {
		key  signing.Signer
		want spec.Reason
	}{
		"an approver": {annPhone, ""}, "the owner's agent": {annAgent, spec.WrongSigner}, "another's agent": {benAgent, spec.WrongSigner},
		"another owner": {benOwner, spec.WrongSigner}, "the relay": {signing.NewKey([32]byte{7}), spec.WrongSigner},
	} {
		if w := word(trust, yes(c.key), noon); w != c.want {
			t.Errorf("%s decides: %q, want %q", what, w, c.want)
		}
		if _, w := step(trust, opened(approver(c.key, nil), annOwner, noon), noon); w != c.want {
			t.Errorf("%s is certified: %q, want %q", what, w, c.want)
		}
	}
	trust = mustStep(t, trust, opened(approver(annPhone, nil), annOwner, noon))
	if _, w := step(trust, opened(certificate(annOwner, annPhone, 1), annOwner, noon), noon); w != spec.Conflict {
		t.Errorf("an approver becomes an agent: %q", w)
	}
	if _, err := trust.Pin(annPhone.DID(), "Phone", noon); spec.ReasonOf(err) != spec.Conflict {
		t.Error("an approver becomes an owner:", err)
	}
	if got := trust.Remove(annOwner.DID()); len(got.Approvers) != 0 || len(trust.Approvers) != 1 {
		t.Errorf("%d approvers of a removed owner, %d before", len(got.Approvers), len(trust.Approvers))
	}
}

func TestAnApproverIsTakenBackAndRunsOut(t *testing.T) { // I7, T1
	trust, _ := both(t)
	cert := opened(approver(annPhone, nil), annOwner, noon)
	yes := opened(approved(approver(annPhone, nil), annPhone, nil), annPhone, noon)
	trust = mustStep(t, trust, cert)
	if w := word(trust, yes, noon.Add(30*day)); w != spec.CertificateExpired {
		t.Errorf("first seen after its end: %q", w)
	}
	if w := word(manifest.NewTrust(benOwner.DID()), yes, noon); w != spec.UnknownKey {
		t.Errorf("an approver of nobody we know: %q", w)
	}
	theirs := mustStep(t, trust, revocation(benOwner, cert.Digest(), 1))
	if w := word(theirs, yes, noon); w != "" {
		t.Errorf("somebody else takes it back: %q", w)
	}
	r := *revocation(annOwner, cert.Digest(), 1).Document().(*manifest.Revocation)
	r.Target = "approver-certificate"
	back := mustStep(t, trust, opened(&r, annOwner, noon))
	if w := word(back, yes, noon); w != spec.Revoked || len(back.Approvers) != 0 || len(trust.Approvers) != 1 {
		t.Errorf("taken back: %q, %d approvers are left of %d", w, len(back.Approvers), len(trust.Approvers))
	}
	if w := word(back, cert, noon); w != spec.Revoked {
		t.Errorf("the same certificate again: %q", w)
	}
}
