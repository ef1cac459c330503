package audit_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/signing/passkey/passkeytest"
	"sealbridge/spec"
)

// approver is a key that the owner of p certified, with a passkey or as a device.
type approver struct {
	key  signing.Signer
	pass *passkeytest.Authenticator
	cert manifest.Verified
}

func certified(p person, key signing.Signer, passkey bool) approver {
	out := approver{key: key}
	c := &manifest.ApproverCertificate{Type: "sealbridge/approver-certificate", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: p.owner.DID(),
		ApproverDid: key.DID(), Person: manifest.OwnerPerson, Gates: []manifest.Gate{manifest.ContractGate, manifest.BudgetGate, manifest.DeliveryGate},
		IssuedAt: signing.TimeOf(noon.Add(-time.Hour)), ExpiresAt: signing.TimeOf(noon.Add(30 * 24 * time.Hour))}
	if passkey {
		out.pass = passkeytest.New(77, "localhost", "http://localhost:7811")
		c.Credential = &out.pass.Credential
	}
	out.cert = must(manifest.Sign(c, p.owner, noon.Add(-time.Hour)))
	return out
}

func (k approver) yes(a approval.Ask, at time.Time) manifest.GateDecision {
	presence := manifest.PresenceDevice
	if k.pass != nil {
		presence = manifest.PresencePasskey
	}
	d := approval.By(approval.Decide(a, approval.Allow, presence, at), k.cert.Signed)
	if k.pass != nil {
		s := k.pass.Assert(must(manifest.Challenge(d)))
		d.Assertion = &s
	}
	return d
}

// story in which Ben says yes with a passkey and Ann's is a device.
func withApprovers(tb testing.TB, ben, phone approver) *story {
	s := newStory(tb)
	s.decide = func(p person, a approval.Ask) manifest.Verified {
		k := phone
		if p.role == manifest.Worker {
			k = ben
		}
		d := k.yes(a, s.at)
		return must(manifest.NewTrust(p.owner.DID()).Admit(must(manifest.Sign(&d, k.key, s.at)).Signed, s.at))
	}
	return s
}

func TestPresenceIsProvenOffline(t *testing.T) { // G10, V4
	pass, phone := certified(ben, signing.NewKey([32]byte{21}), true), certified(ann, signing.NewKey([32]byte{22}), false)
	s := withApprovers(t, pass, phone).propose().ack(ben).accept().ack(ann)
	s.say(ben, manifest.Started{}, nil)
	s.deliver().ack(ann).complete().ack(ben)
	r := verify(t, s.bundle(ann, append(s.documents(ann), pass.cert.Wire(), phone.cert.Wire()), s.heads(ann)))
	if !r.Verified || !r.Binding || len(r.Findings) > 0 {
		t.Fatalf("verified %v, binding %v, %+v", r.Verified, r.Binding, r.Findings)
	}
	have := map[string]bool{}
	for _, a := range r.Facts.Approvals {
		have[string(a.By)+" "+a.Presence] = a.Proven && a.Person == manifest.OwnerPerson
	}
	if !have["worker passkey"] || !have["requester device"] || len(have) != 2 {
		t.Errorf("approvals %+v", r.Facts.Approvals)
	}
	if i := slices.IndexFunc(r.Proven, func(e audit.Entry) bool { return e.What == "contract presence: passkey" }); i < 0 {
		t.Errorf("proven: %+v", r.Proven)
	}
	if i := slices.IndexFunc(r.Claimed, func(e audit.Entry) bool { return e.Rule == "G10" }); i >= 0 {
		t.Errorf("still claimed: %+v", r.Claimed[i])
	}
	var text strings.Builder
	if err := audit.Text(r, &text); err != nil || !strings.Contains(text.String(), "passkey, proven") || !strings.Contains(text.String(), "device, proven") {
		t.Errorf("%v\n%s", err, text.String())
	}
	if text := must(textOf(verify(t, finished(t).export(ann)))); !strings.Contains(text, "passphrase, claimed") || strings.Contains(text, "proven  ") {
		t.Errorf("a passphrase is somebody's word:\n%s", text)
	}
}

func textOf(r audit.Report) (string, error) {
	var b strings.Builder
	err := audit.Text(r, &b)
	return b.String(), err
}

// acceptWith lets Ben's gateway accept with a decision that nobody judged.
func (s *story) acceptWith(yes func(approval.Ask, time.Time) jcs.Value) {
	f := manifest.Accepted{Signature: s.block[manifest.Worker], Isolation: manifest.Isolation{Level: "subprocess_restricted", Enforced: "gateway"}, Model: "none", Providers: []string{}}
	e := s.task.Next(ben.agent.DID(), manifest.Body{Fact: f}, s.tick())
	c := policy.Case{Event: e, Role: ben.role, By: ben.agent.DID(), Task: s.task, At: s.at, Caller: "coder", Isolation: []string{"subprocess_restricted"},
		Contact: policy.Contact{Name: ann.name, Owner: ann.owner.DID(), Confirmed: true}}
	a, _ := s.ask(ben, c, rules(ann).Decide(c))
	d := yes(a, s.at)
	f.Decision = &d
	e.Body.Fact = f
	s.force(ben, e)
}

// Each row is a bundle with a yes that is nobody's; the report says so where it stands.
func TestNoBundleHoldsWithAForgedYes(t *testing.T) {
	pass, phone := certified(ben, signing.NewKey([32]byte{21}), true), certified(ann, signing.NewKey([32]byte{22}), false)
	thief := passkeytest.New(9, "localhost", "http://localhost:7811")
	// lie signs what no library of ours would sign.
	lie := func(d manifest.GateDecision, by signing.Signer) jcs.Value {
		payload := must(jcs.Encode(d))
		c, _ := signing.ContextFor("sealbridge/gate-decision")
		return payload.With("signature", must(jcs.Encode(must(signing.Sign(payload, c, by, d.DecidedAt.Time())))))
	}
	for _, c := range []struct {
		kind string
		yes  func(approval.Ask, time.Time) jcs.Value
		want spec.Reason
	}{
		{"another passkey's assertion", func(a approval.Ask, at time.Time) jcs.Value {
			d := pass.yes(a, at)
			*d.Assertion = thief.Assert(must(manifest.Challenge(d)))
			return lie(d, pass.key)
		}, spec.BadSignature},
		{"an assertion of another decision", func(a approval.Ask, at time.Time) jcs.Value {
			d, other := pass.yes(a, at), a
			other.SubjectDigest = signing.DigestOf([]byte("another"))
			*d.Assertion = *pass.yes(other, at).Assertion
			return lie(d, pass.key)
		}, spec.BadDigest},
		{"another port", func(a approval.Ask, at time.Time) jcs.Value {
			d := pass.yes(a, at)
			*d.Assertion = pass.pass.AssertAs(must(manifest.Challenge(d)), passkeytest.Ceremony{Origin: "http://localhost:8000"})
			return lie(d, pass.key)
		}, spec.WrongContext},
		{"no assertion", func(a approval.Ask, at time.Time) jcs.Value {
			d := pass.yes(a, at)
			d.Assertion, d.Presence = nil, "none"
			return lie(d, pass.key)
		}, spec.VerificationFailed},
		{"an agent's key certified", func(a approval.Ask, at time.Time) jcs.Value {
			return lie(certified(ben, ben.agent, false).yes(a, at), ben.agent)
		}, spec.WrongSigner},
		{"the other owner's approver", func(a approval.Ask, at time.Time) jcs.Value { return lie(phone.yes(a, at), phone.key) }, spec.WrongSigner},
		{"a stranger's approver", func(a approval.Ask, at time.Time) jcs.Value {
			k := certified(eve, signing.NewKey([32]byte{23}), false)
			d := k.yes(a, at)
			d.OwnerDid = eve.owner.DID()
			return lie(d, k.key)
		}, spec.UnknownKey},
	} {
		s := withApprovers(t, pass, phone).propose().ack(ben)
		s.acceptWith(c.yes)
		r := verify(t, s.export(ben))
		if r.Verified || r.Binding || !slices.ContainsFunc(r.Findings, func(f audit.Finding) bool {
			return f.Severity == audit.Wrong && f.Code == string(c.want) && strings.Contains(f.Path, "decision")
		}) {
			t.Errorf("%s: verified %v, %+v", c.kind, r.Verified, r.Findings)
		}
	}
}

func TestARevokedApproverSaysNothingAfterwards(t *testing.T) { // I7, G5
	pass, phone := certified(ben, signing.NewKey([32]byte{21}), true), certified(ann, signing.NewKey([32]byte{22}), false)
	s := withApprovers(t, pass, phone).propose().ack(ben).accept().ack(ann)
	back := func(at time.Time) jcs.Value {
		return must(manifest.Sign(&manifest.Revocation{Type: "sealbridge/revocation", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: ben.owner.DID(),
			Target: "approver-certificate", TargetDigest: pass.cert.Digest(), Seq: 1, Reason: "phone lost", Stands: []manifest.Stand{}, At: signing.TimeOf(at)}, ben.owner, at)).Wire()
	}
	for what, c := range map[string]struct {
		at   time.Time
		want bool
	}{"before the yes": {noon.Add(-time.Minute), false}, "after what it allowed": {s.at.Add(time.Minute), true}} {
		r := verify(t, s.bundle(ben, append(s.documents(ben), back(c.at)), s.heads(ben)))
		if r.Verified != c.want {
			t.Errorf("taken back %s: verified %v, %+v", what, r.Verified, r.Findings)
		}
	}
}

func TestVotesAreCountedOffline(t *testing.T) { // G5
	s := newStory(t)
	phone := certified(ben, signing.NewKey([32]byte{21}), true)
	carl := certified(ben, signing.NewKey([32]byte{22}), false)
	c := *carl.cert.Document().(*manifest.ApproverCertificate)
	c.Person = "carl"
	carl.cert = must(manifest.Sign(&c, ben.owner, noon.Add(-time.Hour)))
	var first jcs.Value
	s.propose().ack(ben)
	s.acceptWith(func(a approval.Ask, at time.Time) jcs.Value {
		a.Approvers, a.ApproverKeys, a.Need = []string{"me", "carl"}, map[string]signing.DID{"carl": carl.key.DID()}, 2
		s.asks[manifest.Worker] = []jcs.Value{must(a.Value())}
		one, two := carl.yes(a, at), phone.yes(a, at)
		first = must(manifest.Sign(&one, carl.key, at)).Wire()
		return must(manifest.Sign(&two, phone.key, at)).Wire()
	})
	for want, docs := range map[int64][]jcs.Value{1: s.documents(ben), 2: append(s.documents(ben), first)} {
		r := verify(t, s.bundle(ben, docs, s.heads(ben)))
		i := slices.IndexFunc(r.Facts.Approvals, func(a audit.Approval) bool { return a.Need == 2 })
		if !r.Verified || i < 0 || r.Facts.Approvals[i].Votes != want {
			t.Errorf("%d votes: verified %v, %+v, %+v", want, r.Verified, r.Facts.Approvals, r.Findings)
		}
	}
}
