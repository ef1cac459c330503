package gateway_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/relay/relaytest"
	"sealbridge/signing"
	"sealbridge/signing/passkey/passkeytest"
	"sealbridge/spec"
)

const origin = "http://localhost:7811"

// approver is a key that a side's owner certified: a device's, or the gateway's for a passkey.
type approver struct {
	key  signing.Signer // of a device
	cert manifest.Verified
}

func (s *side) certify(did signing.DID, person string, mend func(*manifest.ApproverCertificate)) manifest.Verified {
	s.t.Helper()
	c := &manifest.ApproverCertificate{Type: "sealbridge/approver-certificate", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: s.home.Owner, ApproverDid: did, Person: person,
		Gates: []manifest.Gate{manifest.ContractGate, manifest.DeliveryGate}, IssuedAt: signing.TimeOf(time.Now()), ExpiresAt: signing.TimeOf(time.Now().Add(time.Hour))}
	if mend != nil {
		mend(c)
	}
	v, err := manifest.Sign(c, s.owner(), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// device certifies a device's key and tells the gateway.
func (s *side) device(seed byte, person string) approver {
	s.t.Helper()
	k := approver{key: signing.NewKey([32]byte{seed, 77})}
	k.cert = s.certify(k.key.DID(), person, nil)
	if _, err := s.g.AddApprover(context.Background(), gateway.Owner, gateway.Document{Wire: k.cert.Wire().String()}); err != nil {
		s.t.Fatal(err)
	}
	return k
}

// passkey registers a passkey as the console and the command do it.
func (s *side) passkey(seed byte) (*passkeytest.Authenticator, approver) {
	s.t.Helper()
	a := passkeytest.New(seed, "localhost", origin)
	ctx := context.Background()
	offer, err := s.g.OfferPasskey(ctx, gateway.Owner, a.Credential)
	if err != nil {
		s.t.Fatal(err)
	}
	again, err := s.g.Offered(ctx, gateway.Owner, gateway.OfferRef{Code: offer.Code})
	if err != nil || again.Approver != offer.Approver || again.Credential.Code(again.Approver) != offer.Code {
		s.t.Fatalf("%+v, %v", again, err)
	}
	cert := s.certify(offer.Approver, manifest.OwnerPerson, func(c *manifest.ApproverCertificate) { c.Credential = &again.Credential })
	v, err := s.g.AddApprover(ctx, gateway.Owner, gateway.Document{Wire: cert.Wire().String()})
	if err != nil || !v.Here || v.Passkey != origin {
		s.t.Fatalf("%+v, %v", v, err)
	}
	if _, err := s.g.Offered(ctx, gateway.Owner, gateway.OfferRef{Code: offer.Code}); spec.ReasonOf(err) != spec.NotFound {
		s.t.Errorf("an offer that was taken: %v", err)
	}
	return a, approver{cert: cert}
}

func (s *side) yes(a gateway.AskView, k approver) (gateway.Decided, error) {
	d := approval.By(approval.Decide(a.Ask, approval.Allow, manifest.PresenceDevice, time.Now()), k.cert.Signed)
	v, err := manifest.Sign(&d, k.key, time.Now())
	if err != nil {
		return gateway.Decided{}, err
	}
	return s.g.DecideGate(context.Background(), gateway.Owner, gateway.Answer{Decision: v.Wire().String()})
}

func (s *side) revoke(k approver) {
	s.t.Helper()
	ctx := context.Background()
	l, err := s.g.ListApprovers(ctx, gateway.Owner, gateway.None{})
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := manifest.Sign(&manifest.Revocation{Type: "sealbridge/revocation", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: s.home.Owner, Target: "approver-certificate",
		TargetDigest: k.cert.Digest(), Seq: l.Revocations + 1, Reason: "lost", Stands: []manifest.Stand{}, At: signing.TimeOf(time.Now())}, s.owner(), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.g.RevokeApprover(ctx, gateway.Owner, gateway.Document{Wire: r.Wire().String()}); err != nil {
		s.t.Fatal(err)
	}
}

// asks sets who is asked about contracts, and how many of them it needs.
func (s *side) asks(need int, who map[string]signing.DID) {
	p := s.rules.Policy
	p.People, p.Ask.Contract.Who, p.Ask.Contract.Need = map[string]policy.Person{"me": {Owner: true}}, nil, need
	for name, key := range who {
		if key.IsZero() {
			p.Ask.Contract.Who = append(p.Ask.Contract.Who, "me")
			continue
		}
		p.People[name] = policy.Person{Key: key, Gates: []policy.GateWord{policy.ContractWord}}
		p.Ask.Contract.Who = append(p.Ask.Contract.Who, name)
	}
	if err := p.Validate(); err != nil {
		s.t.Fatal(err)
	}
	s.rules.Policy = p
	s.adopt()
}

func TestAPasskeysYesIsTakenAndProven(t *testing.T) { // G10
	ann, ben := pair(t)
	pass, _ := ben.passkey(5)
	other := ann.propose()
	ann.allow(manifest.ContractGate)
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ctx := context.Background()
	yes := func(task string) gateway.PasskeyYes {
		t.Helper()
		ys, err := ben.g.PasskeyYeses(ctx, gateway.Owner, gateway.PasskeyAsk{Ask: ben.askOf(task).Ask.AskID.String(), Origin: origin})
		if err != nil || len(ys) != 1 || ys[0].Person != manifest.OwnerPerson {
			t.Fatalf("%+v, %v", ys, err)
		}
		return ys[0]
	}
	answer := func(y gateway.PasskeyYes) gateway.PasskeyAnswer {
		return gateway.PasskeyAnswer{Ask: y.Ask, Certificate: y.Certificate, DecidedAt: y.DecidedAt, Assertion: pass.Assert(y.Challenge)}
	}
	mine, theirs := yes(p.Task), yes(other.Task)
	moved, elsewhere, later, thief := answer(mine), answer(mine), answer(mine), answer(mine)
	moved.Assertion = pass.Assert(theirs.Challenge)
	elsewhere.Assertion = pass.AssertAs(mine.Challenge, passkeytest.Ceremony{Origin: "http://localhost:8000"})
	later.DecidedAt = signing.TimeOf(mine.DecidedAt.Time().Add(time.Second))
	thief.Assertion = passkeytest.New(6, "localhost", origin).Assert(mine.Challenge)
	for what, c := range map[string]struct {
		in   gateway.PasskeyAnswer
		want spec.Reason
	}{"moved from another ask": {moved, spec.BadDigest}, "from another port": {elsewhere, spec.WrongContext}, "of another instant": {later, spec.BadDigest}, "by another passkey": {thief, spec.BadSignature}} {
		if _, err := ben.g.AllowByPasskey(ctx, gateway.Owner, c.in); spec.ReasonOf(err) != c.want {
			t.Errorf("an assertion %s: %v, want %s", what, err, c.want)
		}
	}
	if ys, err := ben.g.PasskeyYeses(ctx, gateway.Owner, gateway.PasskeyAsk{Ask: mine.Ask, Origin: "http://localhost:8000"}); err != nil || len(ys) != 0 {
		t.Errorf("at another port: %+v, %v", ys, err)
	}
	if out, err := ben.g.AllowByPasskey(ctx, gateway.Owner, answer(mine)); err != nil || out.Outcome != "accepted" {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := ben.g.AllowByPasskey(ctx, gateway.Owner, answer(mine)); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("the same again: %v", err)
	}
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	if h := ann.state(p.Task).History; strings.Contains(h[0].Note, "proven") || !strings.HasPrefix(h[1].Note, "passkey, proven;") {
		t.Errorf("the history says %+v", h[:2])
	}
	for _, s := range []*side{ann, ben} {
		s.until("acknowledged", func() bool {
			st, err := s.g.Status(ctx, gateway.Owner, gateway.None{})
			return err == nil && st.Outgoing == 0
		})
		b, err := s.g.Export(ctx, gateway.Owner, gateway.Ref{Task: p.Task})
		if err != nil {
			t.Fatal(err)
		}
		rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{})
		if err != nil || !rep.Verified || !rep.Binding {
			t.Fatalf("%v, %+v", err, rep.Findings)
		}
		proven := 0
		for _, a := range rep.Facts.Approvals {
			if a.Proven && a.Presence == manifest.PresencePasskey && a.By == manifest.Worker {
				proven++
			}
		}
		if proven != 1 {
			t.Errorf("%s's bundle: %+v", s.home.Config.Name, rep.Facts.Approvals)
		}
	}
}

func TestTwoPeopleAreNeeded(t *testing.T) { // G5
	ann, _ := pair(t)
	eva, tablet, carl := ann.device(1, "eva"), ann.device(2, "eva"), ann.device(3, "carl")
	ann.asks(2, map[string]signing.DID{"eva": eva.key.DID(), "tablet": tablet.key.DID(), "carl": carl.key.DID()})
	p := ann.propose()
	a := ann.askOf(p.Task)
	if out, err := ann.yes(a, eva); err != nil || out.State != string(approval.Waiting) || out.Votes != 1 || out.Need != 2 {
		t.Fatalf("the first: %+v, %v", out, err)
	}
	ann.restart() // votes are durable
	ann.asks(2, map[string]signing.DID{"eva": eva.key.DID(), "tablet": tablet.key.DID(), "carl": carl.key.DID()})
	if v := ann.askOf(p.Task); v.Votes != 1 {
		t.Errorf("%d votes after a restart", v.Votes)
	}
	for what, k := range map[string]approver{"the same key": eva, "another key of the same person": tablet} {
		if _, err := ann.yes(a, k); spec.ReasonOf(err) != spec.Conflict {
			t.Errorf("%s votes again: %v", what, err)
		}
	}
	if _, err := ann.answer(a, approval.Allow); spec.ReasonOf(err) != spec.WrongSigner {
		t.Errorf("the owner, who is not asked: %v", err)
	}
	if out, err := ann.yes(a, carl); err != nil || out.State != string(approval.Allowed) || out.Outcome != "proposed" {
		t.Fatalf("the second: %+v, %v", out, err)
	}
	b, err := ann.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: p.Task})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{})
	if err != nil || !rep.Verified || len(rep.Facts.Approvals) != 1 || rep.Facts.Approvals[0].Votes != 2 {
		t.Errorf("%v, %+v, %+v", err, rep.Facts.Approvals, rep.Findings)
	}
}

func TestARenewedPasskeyIsOneAndAVoterIsAskedOnce(t *testing.T) { // G5
	ann, _ := pair(t)
	pass, k := ann.passkey(5)
	carl := ann.device(3, "carl")
	ann.asks(2, map[string]signing.DID{"me": {}, "carl": carl.key.DID()})
	c := *k.cert.Document().(*manifest.ApproverCertificate)
	c.ExpiresAt = signing.TimeOf(time.Now().Add(2 * time.Hour))
	renewed, err := manifest.Sign(&c, ann.owner(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := ann.g.AddApprover(ctx, gateway.Owner, gateway.Document{Wire: renewed.Wire().String()}); err != nil {
		t.Fatal(err)
	}
	in := gateway.PasskeyAsk{Ask: ann.askOf(ann.propose().Task).Ask.AskID.String(), Origin: origin}
	ys, err := ann.g.PasskeyYeses(ctx, gateway.Owner, in)
	if err != nil || len(ys) != 1 || ys[0].Certificate != renewed.Digest() {
		t.Fatalf("%+v, %v", ys, err)
	}
	out, err := ann.g.AllowByPasskey(ctx, gateway.Owner, gateway.PasskeyAnswer{Ask: in.Ask, Certificate: ys[0].Certificate, DecidedAt: ys[0].DecidedAt, Assertion: pass.Assert(ys[0].Challenge)})
	if err != nil || out.State != string(approval.Waiting) || out.Votes != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if ys, err := ann.g.PasskeyYeses(ctx, gateway.Owner, in); err != nil || len(ys) != 0 {
		t.Errorf("asked again: %+v, %v", ys, err)
	}
}

func TestAnApproverTakenBackBeforeTheTallyDoesNotCount(t *testing.T) { // G5, I7
	ann, _ := pair(t)
	eva, carl, dora := ann.device(1, "eva"), ann.device(2, "carl"), ann.device(3, "dora")
	ann.asks(2, map[string]signing.DID{"eva": eva.key.DID(), "carl": carl.key.DID(), "dora": dora.key.DID()})
	a := ann.askOf(ann.propose().Task)
	if _, err := ann.yes(a, eva); err != nil {
		t.Fatal(err)
	}
	ann.revoke(eva)
	if out, err := ann.yes(a, carl); err != nil || out.State != string(approval.Waiting) || out.Votes != 1 {
		t.Fatalf("with one that was taken back: %+v, %v", out, err)
	}
	if _, err := ann.yes(a, eva); spec.ReasonOf(err) != spec.Revoked {
		t.Errorf("the one that was taken back: %v", err)
	}
	if _, err := ann.g.AddApprover(context.Background(), gateway.Owner, gateway.Document{Wire: eva.cert.Wire().String()}); spec.ReasonOf(err) != spec.Revoked {
		t.Errorf("its certificate again: %v", err)
	}
	if out, err := ann.yes(a, dora); err != nil || out.State != string(approval.Allowed) {
		t.Fatalf("two who stand: %+v, %v", out, err)
	}
}

func TestNobodyIsAnApproverByThemselves(t *testing.T) { // I5, G9
	ann, ben := pair(t)
	a := ann.askOf(ann.propose().Task)
	ctx := context.Background()
	mallory := approver{key: signing.NewKey([32]byte{66})}
	self := &manifest.ApproverCertificate{Type: "sealbridge/approver-certificate", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: ben.home.Owner, ApproverDid: mallory.key.DID(),
		Person: manifest.OwnerPerson, Gates: []manifest.Gate{manifest.ContractGate}, IssuedAt: signing.TimeOf(time.Now()), ExpiresAt: signing.TimeOf(time.Now().Add(time.Hour))}
	theirs, err := manifest.Sign(self, ben.owner(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	own := ann.certify(ann.home.Agent.DID(), manifest.OwnerPerson, nil)
	for what, doc := range map[string]manifest.Verified{"another owner's certificate": theirs, "our agent's key": own} {
		if _, err := ann.g.AddApprover(ctx, gateway.Owner, gateway.Document{Wire: doc.Wire().String()}); spec.ReasonOf(err) != spec.WrongSigner {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := ann.yes(a, approver{ann.home.Agent, own}); spec.ReasonOf(err) != spec.WrongSigner {
		t.Errorf("our agent approves: %v", err)
	}
	otherGate := ann.certify(mallory.key.DID(), manifest.OwnerPerson, func(c *manifest.ApproverCertificate) { c.Gates = []manifest.Gate{manifest.BudgetGate} })
	if _, err := ann.yes(a, approver{mallory.key, otherGate}); spec.ReasonOf(err) != spec.WrongSigner {
		t.Errorf("certified for another gate: %v", err)
	}
	notAsked := ann.device(9, "zoe")
	if _, err := ann.yes(a, notAsked); spec.ReasonOf(err) != spec.WrongSigner {
		t.Errorf("certified and not asked: %v", err)
	}
	agent := gateway.Caller{Agent: "claude"}
	for what, err := range map[string]error{
		"offers a passkey":   second(ann.g.OfferPasskey(ctx, agent, passkeytest.New(1, "localhost", origin).Credential)),
		"reads an offer":     second(ann.g.Offered(ctx, agent, gateway.OfferRef{})),
		"adds an approver":   second(ann.g.AddApprover(ctx, agent, gateway.Document{})),
		"lists approvers":    second(ann.g.ListApprovers(ctx, agent, gateway.None{})),
		"revokes one":        second(ann.g.RevokeApprover(ctx, agent, gateway.Document{})),
		"asks for challenge": second(ann.g.PasskeyYeses(ctx, agent, gateway.PasskeyAsk{})),
		"allows by passkey":  second(ann.g.AllowByPasskey(ctx, agent, gateway.PasskeyAnswer{})),
	} {
		if spec.ReasonOf(err) != spec.NotPermitted {
			t.Errorf("an agent %s: %v", what, err)
		}
	}
}

func TestARevocationGoesToEveryContact(t *testing.T) { // I7, R4
	mem := relaytest.NewMemory()
	var mu sync.Mutex
	got := map[signing.DID]int{}
	mem.SetFate(func(_, to signing.DID, _ []byte) relaytest.Fate {
		mu.Lock()
		defer mu.Unlock()
		got[to]++
		return relaytest.Deliver
	})
	ann, ben := pairOn(t, mem)
	carl := newSide(t, func(s side) gatewayConn { return mem.Conn(s.home.Agent) }, mem.Address(), "Carl")
	carl.redeem(ann.invite())
	quiet := func() bool {
		st, err := ann.g.Status(context.Background(), gateway.Owner, gateway.None{})
		return err == nil && st.Outgoing == 0 && st.Contacts == 2
	}
	ann.until("two contacts", quiet)
	k := ann.device(1, "eva")
	mu.Lock()
	clear(got)
	mu.Unlock()
	ann.revoke(k)
	ann.until("acknowledged", quiet)
	mu.Lock()
	defer mu.Unlock()
	if got[ben.home.Agent.DID()] == 0 || got[carl.home.Agent.DID()] == 0 {
		t.Errorf("sent to %v", got)
	}
}
