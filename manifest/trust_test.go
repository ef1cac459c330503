package manifest_test

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

func opened(d manifest.Document, by signing.Signer, at time.Time) manifest.Signed {
	return must(manifest.Open(must(manifest.Sign(d, by, at)).Wire().Bytes(), nil))
}

// step admits and applies; the word is that of whichever refused.
func step(t manifest.Trust, s manifest.Signed, at time.Time) (manifest.Trust, spec.Reason) {
	v, err := t.Admit(s, at)
	if err == nil {
		t, err = t.Apply(v)
	}
	return t, spec.ReasonOf(err)
}

func mustStep(t *testing.T, trust manifest.Trust, s manifest.Signed) manifest.Trust {
	t.Helper()
	out, word := step(trust, s, noon)
	if word != "" {
		t.Fatalf("%T: %s", s.Document(), word)
	}
	return out
}

// both is Ann's trust with Ben pinned, certified and with a box-key, and Ann's own agent too.
func both(t *testing.T) (manifest.Trust, signing.Digest) {
	t.Helper()
	trust := must(manifest.NewTrust(annOwner.DID()).Pin(benOwner.DID(), "Ben", noon))
	mine := opened(certificate(annOwner, annAgent, 1), annOwner, noon)
	his := opened(certificate(benOwner, benAgent, 1), benOwner, noon)
	for _, s := range []manifest.Signed{mine, opened(boxKey(annOwner, annAgent, mine.Digest(), 1, "a"), annAgent, noon),
		his, opened(boxKey(benOwner, benAgent, his.Digest(), 1, "b"), benAgent, noon)} {
		trust = mustStep(t, trust, s)
	}
	return trust, his.Digest()
}

func word(t manifest.Trust, s manifest.Signed, at time.Time) spec.Reason {
	_, err := t.Admit(s, at)
	return spec.ReasonOf(err)
}

func eventBy(agent signing.Signer, at time.Time) manifest.Signed {
	e, _ := event(manifest.Started{})
	e.Author = agent.DID()
	return opened(e, agent, at)
}

func TestCertificateCountsOnlyWithABoxKey(t *testing.T) { // I4
	trust := must(manifest.NewTrust(annOwner.DID()).Pin(benOwner.DID(), "Ben", noon))
	cert := opened(certificate(benOwner, benAgent, 1), benOwner, noon)
	key := opened(boxKey(benOwner, benAgent, cert.Digest(), 1, "b"), benAgent, noon)
	if w := word(trust, key, noon); w != spec.UnknownKey {
		t.Errorf("a box-key before its certificate: %q", w)
	}
	trust = mustStep(t, trust, cert)
	if w := word(trust, eventBy(benAgent, noon), noon); w != spec.UnknownKey {
		t.Errorf("an event before the box-key: %q", w)
	}
	if _, w := step(trust, opened(boxKey(benOwner, benAgent, digestOf("other"), 1, "b"), benAgent, noon), noon); w != spec.UnknownKey {
		t.Errorf("a box-key for another certificate: %q", w)
	}
	if _, err := trust.BoxKeyFor(benAgent.DID(), noon); err == nil {
		t.Error("mail without a box-key")
	}
	trust = mustStep(t, trust, key)
	v, err := trust.Admit(eventBy(benAgent, noon), noon)
	if err != nil || v.Owner() != benOwner.DID() {
		t.Error(v.Owner(), err)
	}
	if k, err := trust.BoxKeyFor(benAgent.DID(), noon); err != nil || k.Seq != 1 {
		t.Error(k, err)
	}
	if _, err := trust.BoxKeyFor(benAgent.DID(), noon.Add(14*day)); spec.ReasonOf(err) != spec.UnknownKey {
		t.Error("mail past notAfter:", err)
	}
}

func TestWhoMaySayWhat(t *testing.T) { // S6, I6
	trust, _ := both(t)
	forBen := *decision()
	forBen.OwnerDid = benOwner.DID()
	e, by := event(bodies()[0])
	stolen := contract()
	stolen.Requester.OwnerDid = eveOwner.DID()
	block, payload, err := manifest.SignManifest(stolen, manifest.Requester, annAgent, noon)
	if err != nil {
		t.Fatal(err)
	}
	lie := *e
	lie.ManifestDigest, lie.Body = signing.DigestOf(payload.Bytes()), manifest.Body{Fact: manifest.Proposed{Manifest: payload, Signature: block}}
	for _, c := range []struct {
		what string
		s    manifest.Signed
		want spec.Reason
	}{
		{"event of an agent", eventBy(benAgent, noon), ""},
		{"event of an owner", eventBy(benOwner, noon), spec.WrongSigner},
		{"event of a stranger", eventBy(eveAgent, noon), spec.UnknownKey},
		{"decision of an owner", opened(&forBen, benOwner, noon), ""},
		{"decision of an approver", opened(approved(approver(annPhone, annPasskey), annPhone, annPasskey), annPhone, noon), ""},
		{"decision of an agent", opened(approved(approver(benAgent, nil), benAgent, nil), benAgent, noon), spec.WrongSigner},
		{"certificate of a stranger", opened(certificate(eveOwner, eveAgent, 1), eveOwner, noon), spec.UnknownKey},
		{"box-key for another owner", opened(boxKey(annOwner, benAgent, digestOf("c"), 1, "b"), benAgent, noon), spec.Conflict},
		{"proposal of the owner's agent", opened(e, by, noon), ""},
		{"proposal in another owner's name", opened(&lie, annAgent, noon), spec.WrongSigner},
		{"receipt of an agent", opened(receipt(), benAgent, noon), ""},
		{"contract of both", must(manifest.Open(signedContract().Bytes(), nil)), ""},
	} {
		if w := word(trust, c.s, noon); w != c.want {
			t.Errorf("%s: %q, want %q", c.what, w, c.want)
		}
	}
	alone, err := manifest.NewTrust(annOwner.DID()).Pin(eveOwner.DID(), "Eve", noon)
	if err != nil {
		t.Fatal(err)
	}
	if w := word(alone, must(manifest.Open(signedContract().Bytes(), nil)), noon); w != spec.UnknownKey {
		t.Errorf("a contract whose worker is nobody's contact: %q", w)
	}
}

func TestTimesOfASpeaker(t *testing.T) { // T1, H11
	trust, _ := both(t)
	for _, c := range []struct {
		said, now time.Duration
		want      spec.Reason
	}{
		{0, 0, ""}, {60 * time.Second, 0, ""}, {61 * time.Second, 0, spec.Malformed},
		{0, 30*day - time.Second, ""}, {0, 30 * day, spec.CertificateExpired},
	} {
		if w := word(trust, eventBy(benAgent, noon.Add(c.said)), noon.Add(c.now)); w != c.want {
			t.Errorf("said at %s, read at %s: %q, want %q", c.said, c.now, w, c.want)
		}
	}
}

func TestRenewalKeepsTheOldCertificateUntilTheKeyAgrees(t *testing.T) { // I4
	trust, _ := both(t)
	renewed := certificate(benOwner, benAgent, 2)
	renewed.ExpiresAt = later(60 * day)
	cert := opened(renewed, benOwner, noon)
	trust = mustStep(t, trust, cert)
	if w := word(trust, eventBy(benAgent, noon), noon); w != "" {
		t.Errorf("between certificate and key: %q", w)
	}
	if w := word(trust, eventBy(benAgent, noon), noon.Add(31*day)); w != spec.CertificateExpired {
		t.Errorf("the renewal counts before its key: %q", w)
	}
	if _, w := step(trust, opened(boxKey(benOwner, benAgent, cert.Digest(), 0+1, "c"), benAgent, noon), noon); w != "" {
		t.Errorf("same seq with another key freezes, it does not fail: %q", w)
	}
	trust = mustStep(t, trust, opened(boxKey(benOwner, benAgent, cert.Digest(), 2, "c"), benAgent, noon))
	if w := word(trust, eventBy(benAgent, noon), noon.Add(31*day)); w != "" {
		t.Errorf("a renewed certificate of the same key will do: %q", w)
	}
	if _, w := step(trust, opened(certificate(benOwner, benAgent, 1), benOwner, noon), noon); w != spec.Stale {
		t.Errorf("a lower serial: %q", w)
	}
	if _, w := step(trust, opened(boxKey(benOwner, benAgent, cert.Digest(), 1, "b"), benAgent, noon), noon); w != spec.Stale {
		t.Errorf("a lower seq: %q", w)
	}
	if got := mustStep(t, trust, cert); !reflect.DeepEqual(got, trust) {
		t.Error("the same certificate again changes something")
	}
}

func TestSecondBoxKeyOfOneSeqFreezes(t *testing.T) { // R2
	trust, cert := both(t)
	trust = mustStep(t, trust, opened(boxKey(benOwner, benAgent, cert, 1, "another"), benAgent, noon))
	if _, err := trust.BoxKeyFor(benAgent.DID(), noon); spec.ReasonOf(err) != spec.Conflict {
		t.Fatal("mail to a frozen contact:", err)
	}
	trust = must(trust.Pin(benOwner.DID(), "Ben", noon))
	if _, err := trust.BoxKeyFor(benAgent.DID(), noon); err != nil {
		t.Fatal("pinned again:", err)
	}
}

func TestSecondOwnerForAnAgentIsRefused(t *testing.T) { // I4, I5
	trust, _ := both(t)
	trust = must(trust.Pin(eveOwner.DID(), "Eve", noon))
	if _, w := step(trust, opened(certificate(eveOwner, benAgent, 9), eveOwner, noon), noon); w != spec.Conflict {
		t.Errorf("a second owner: %q", w)
	}
	if _, w := step(trust, opened(certificate(eveOwner, annOwner, 1), eveOwner, noon), noon); w != spec.Conflict {
		t.Errorf("an owner as agent: %q", w)
	}
	if _, err := trust.Pin(benAgent.DID(), "Agent", noon); spec.ReasonOf(err) != spec.Conflict {
		t.Error("an agent as owner:", err)
	}
}

func revocation(owner signing.Signer, target signing.Digest, seq int64) manifest.Signed {
	return opened(&manifest.Revocation{Type: "sealbridge/revocation", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: owner.DID(),
		Target: "agent-certificate", TargetDigest: target, Seq: seq, Reason: "lost", Stands: []manifest.Stand{}, At: later(0)}, owner, noon)
}

func TestRevocationsCountInAnyOrder(t *testing.T) { // I7
	trust, cert := both(t)
	trust = mustStep(t, trust, revocation(benOwner, digestOf("a token"), 7))
	trust = mustStep(t, trust, revocation(benOwner, cert, 3))
	if w := word(trust, eventBy(benAgent, noon), noon); w != spec.Revoked {
		t.Errorf("after the revocation: %q", w)
	}
	if w := word(trust, opened(certificate(benOwner, benAgent, 1), benOwner, noon), noon); w != spec.Revoked {
		t.Errorf("the revoked certificate again: %q", w)
	}
	if got := trust.Contacts[benOwner.DID()].Revocations; got != 7 {
		t.Errorf("newest seq %d", got)
	}
	mine, _ := both(t)
	mine = mustStep(t, mine, revocation(annOwner, cert, 1))
	if w := word(mine, eventBy(benAgent, noon), noon); w != "" {
		t.Errorf("somebody else's revocation counts: %q", w)
	}
	renewed := certificate(benOwner, benAgent, 2)
	c := opened(renewed, benOwner, noon)
	trust = mustStep(t, trust, c)
	trust = mustStep(t, trust, opened(boxKey(benOwner, benAgent, c.Digest(), 2, "c"), benAgent, noon))
	if w := word(trust, eventBy(benAgent, noon), noon); w != "" {
		t.Errorf("a new certificate after the revocation: %q", w)
	}
}

func TestBlockedContactSaysNothing(t *testing.T) { // K3
	trust, _ := both(t)
	blocked := must(trust.Block(benOwner.DID()))
	if w := word(blocked, eventBy(benAgent, noon), noon); w != spec.NotPermitted {
		t.Errorf("%q", w)
	}
	if w := word(trust, eventBy(benAgent, noon), noon); w != "" {
		t.Errorf("the trust before is changed: %q", w)
	}
	if _, err := trust.Block(eveOwner.DID()); spec.ReasonOf(err) != spec.NotFound {
		t.Error(err)
	}
}

func TestNamesThatLookAlikeAreRefused(t *testing.T) { // M8
	trust, _ := both(t)
	for _, name := range []string{"Ben", "BEN", "Веn", "B\u200ben", "", "\u2800", "a\u202eb", "Ｂｅｎ"} {
		if _, err := trust.Pin(eveOwner.DID(), name, noon); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
	if _, err := trust.Rename(benOwner.DID(), "BEN"); err != nil {
		t.Error("its own name:", err)
	}
	out := must(trust.Pin(eveOwner.DID(), "Benno", noon))
	if did, c, ok := out.Named("benno"); !ok || did != eveOwner.DID() || c.Confirmed {
		t.Error(did, c, ok)
	}
}

func TestRequestNeedsProofAndKeysThatAgree(t *testing.T) { // K1
	secret := base64.RawURLEncoding.EncodeToString([]byte("sixteen bytes ok"))
	id := must(manifest.ParseInviteID("inv_01JDZ8M4"))
	inv := manifest.Invite{InviteID: id, OwnerDid: annOwner.DID(), Secret: secret, ExpiresAt: later(7 * day)}
	ask := func(change func(*manifest.ContactRequest)) manifest.Signed {
		r := contactRequest(benOwner, benAgent, secret, id)
		if change != nil {
			change(r)
		}
		return opened(r, benOwner, noon)
	}
	other := contactRequest(eveOwner, eveAgent, secret, id)
	for _, c := range []struct {
		what string
		s    manifest.Signed
		at   time.Time
		want spec.Reason
	}{
		{"good", ask(nil), noon, ""},
		{"late", ask(nil), noon.Add(7 * day), spec.Expired},
		{"another invite", ask(func(r *manifest.ContactRequest) { r.InviteID = must(manifest.ParseInviteID("inv_00000000")) }), noon, spec.NotFound},
		{"another inviter", ask(func(r *manifest.ContactRequest) { r.To = eveOwner.DID() }), noon, spec.NotFound},
		{"proof of another secret", ask(func(r *manifest.ContactRequest) {
			r.Proof = manifest.ContactProof("no", id, annOwner.DID(), benOwner.DID())
		}), noon, spec.BadSignature},
		{"proof of another redeemer", ask(func(r *manifest.ContactRequest) { r.Proof = other.Proof }), noon, spec.BadSignature},
		{"certificate of a stranger", ask(func(r *manifest.ContactRequest) { r.Certificate = other.Certificate }), noon, spec.UnknownKey},
		{"box-key of a stranger", ask(func(r *manifest.ContactRequest) { r.BoxKey = other.BoxKey }), noon, spec.UnknownKey},
		{"from the future", opened(contactRequest(benOwner, benAgent, secret, id), benOwner, noon.Add(2*time.Minute)), noon, spec.Malformed},
		{"not a request", eventBy(benAgent, noon), noon, spec.UnknownType},
	} {
		before := manifest.NewTrust(annOwner.DID())
		out, r, err := before.AdmitRequest(c.s, inv, c.at)
		if spec.ReasonOf(err) != c.want {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
			continue
		}
		if err != nil {
			if len(out.Contacts) != 1 {
				t.Errorf("%s: refused and pinned", c.what)
			}
			continue
		}
		contact := out.Contacts[r.OwnerDid]
		if contact.Confirmed || contact.Name != "Kite Studio" || contact.Invite != id {
			t.Errorf("contact %+v", contact)
		}
		if _, _, err := out.AdmitRequest(c.s, inv, c.at); spec.ReasonOf(err) != spec.Conflict {
			t.Errorf("redeemed twice: %v", err)
		}
	}
	if w := word(manifest.NewTrust(annOwner.DID()), ask(nil), noon); w != spec.UnknownKey {
		t.Errorf("a stranger's request by the common door: %q", w)
	}
}

func TestTrustGoesThroughStorage(t *testing.T) {
	trust, cert := both(t)
	trust = mustStep(t, trust, revocation(benOwner, digestOf("x"), 1))
	renewed := certificate(benOwner, benAgent, 2)
	trust = mustStep(t, trust, opened(renewed, benOwner, noon))
	raw, err := json.Marshal(trust)
	if err != nil {
		t.Fatal(err)
	}
	var back manifest.Trust
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(raw) {
		t.Fatalf("%s\n%s\n%v", raw, again, err)
	}
	if back.IsRevoked(benOwner.DID(), cert) || !back.IsRevoked(benOwner.DID(), digestOf("x")) {
		t.Error("revocations differ after storage")
	}
	if _, d, ok := back.CertificateOf(benAgent.DID()); !ok || d != cert {
		t.Error("another certificate after storage")
	}
	if w := word(back, eventBy(benAgent, noon), noon); w != "" {
		t.Error(w)
	}
}
