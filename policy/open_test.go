package policy

import (
	"testing"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// opening is an open proposal of Ann's, as the mend has it.
func opening(t *testing.T, mend func(*manifest.TaskManifest)) Case {
	t.Helper()
	m := contract(func(m *manifest.TaskManifest) {
		m.Worker = nil
		if mend != nil {
			mend(m)
		}
	})
	payload := must(jcs.Encode(m))
	return Case{Event: manifest.Event{TaskID: m.TaskID, ManifestDigest: signing.DigestOf(payload.Bytes()), Author: ann.agent.DID(), At: signing.TimeOf(t0),
		Body: manifest.Body{Fact: manifest.Proposed{Manifest: payload}}}, Role: manifest.Requester, By: ann.agent.DID(), At: t0, Opens: true}
}

func TestAnOpenProposalIsAskedAboutWhereverItGoes(t *testing.T) { // M10, K2
	ben, cleo := Contact{Name: "ben", Confirmed: true}, Contact{Name: "cleo", Confirmed: true}
	small := Amount(500)
	p := Default()
	p.Outgoing = []Outgoing{{Name: "ben, small", To: Names{"ben"}, AtMost: AtMost{InputTokens: &small}, Then: ThenAsk}, {Name: "others", To: Names{Anyone}, Then: ThenAsk}}
	for _, tt := range []struct {
		what string
		to   []Contact
		mend func(*manifest.TaskManifest)
		rule string // of a no; "" is a question
		word spec.Reason
	}{
		{"to one", []Contact{cleo}, nil, "", ""},
		{"to nobody", nil, nil, "M10", spec.Malformed},
		{"to 21", make([]Contact, 21), nil, "M10", spec.Malformed},
		{"to a contact that nobody confirmed", []Contact{cleo, {Name: "dan"}}, nil, "K2", spec.PolicyDenied},
		{"to one that is blocked", []Contact{{Name: "dan", Confirmed: true, Blocked: true}}, nil, "K2", spec.PolicyDenied},
		{"over the rule for one of them", []Contact{cleo, ben}, nil, "ben, small", spec.PolicyDenied},
		{"within it", []Contact{cleo, ben}, func(m *manifest.TaskManifest) { m.Budget.MaxInputTokens = 500 }, "", ""},
		{"with a worker", []Contact{cleo}, func(m *manifest.TaskManifest) { m.Worker = contract(nil).Worker }, "M10", spec.Malformed},
		{"past its deadline", []Contact{cleo}, func(m *manifest.TaskManifest) {
			m.CreatedAt, m.Deadline = signing.TimeOf(t0.Add(-2)), signing.TimeOf(t0)
		}, "M1", ""},
	} {
		c := opening(t, tt.mend)
		d := p.Open(c, tt.to)
		if (d.Outcome == Hold) != (tt.rule == "") || d.Outcome == Allow || tt.rule != "" && (d.Rule != tt.rule || tt.word != "" && d.Reason != tt.word) {
			t.Errorf("%s: %v %s %s %s", tt.what, d.Outcome, d.Rule, d.Reason, d.Path)
		}
		if d.Outcome != Hold {
			continue
		}
		if got := Subject(c); signing.DigestOf(got.Bytes()) != d.Gate.Subject || d.Gate.Owner != ann.owner.DID() || len(d.Moves)+len(d.Day) != 0 {
			t.Errorf("%s: the gate is %+v", tt.what, d.Gate)
		}
		c.Consents = []Consent{yes(d.Gate)}
		if d := p.Open(c, tt.to); d.Outcome != Allow || len(d.Moves) != 0 {
			t.Errorf("%s, with a yes: %v", tt.what, d.Outcome)
		}
		other := yes(d.Gate)
		other.Subject = signing.DigestOf([]byte("another"))
		c.Consents = []Consent{other}
		if d := p.Open(c, tt.to); d.Outcome != Hold {
			t.Errorf("%s, with a yes to something else: %v", tt.what, d.Outcome)
		}
	}
}

// A yes to an open proposal is none to the contract that follows from it (M10).
func TestAYesToAnOpenProposalBindsNobody(t *testing.T) {
	s := newScene(t, nil)
	open := opening(t, nil)
	k := yes(Default().Open(open, []Contact{{Name: "ben", Confirmed: true}}).Gate)
	c := s.draft(manifest.Requester, manifest.Requester, s.proposal())
	c.Consents = []Consent{k}
	if d := Default().Decide(c); d.Outcome != Hold {
		t.Errorf("the directed contract: %v", d.Outcome)
	}
	f := open.Event.Body.Fact
	c.Event.Body.Fact = f
	if d := Default().Decide(c); d.Outcome != Deny {
		t.Errorf("an event with an open proposal: %v", d.Outcome)
	}
}
