package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/spec"
)

// adopt puts the side's rules in force, with the owner's yes where they permit more.
func (s *side) adopt() {
	s.t.Helper()
	if err := s.g.Reload(s.rules); err != nil {
		s.t.Fatal(err)
	}
	if s.law().Waiting == nil {
		return
	}
	if _, err := s.g.ChangePolicy(context.Background(), gateway.Owner, gateway.PolicyChange{Policy: s.rules.Policy, Consent: s.consent(s.rules.Policy, nil, s.owner())}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *side) law() gateway.PolicyView {
	s.t.Helper()
	v, err := s.g.Policy(context.Background(), gateway.Owner, gateway.None{})
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// consent is the owner's signed yes to what changes if next comes in force, with one thing spoilt.
func (s *side) consent(next policy.Policy, spoil func(*manifest.PolicyConsent), by signing.Signer) string {
	s.t.Helper()
	d := policy.Compare(s.law().Policy, next)
	c := manifest.PolicyConsent{Type: "sealbridge/policy-consent", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: by.DID(), AgentDid: s.home.Agent.DID(),
		From: d.From, To: d.To, Difference: d.Digest(), Presence: "none", DecidedAt: signing.TimeOf(time.Now())}
	if spoil != nil {
		spoil(&c)
	}
	v, err := manifest.Sign(&c, by, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return v.Wire().String()
}

func (s *side) change(next policy.Policy, consent string) error {
	_, err := s.g.ChangePolicy(context.Background(), gateway.Owner, gateway.PolicyChange{Policy: next, Consent: consent})
	return err
}

// wider lets one more file leave, narrower asks for a shorter time.
func wider(p policy.Policy) policy.Policy {
	p.Outgoing = append([]policy.Outgoing(nil), p.Outgoing...)
	p.Outgoing[0].MaySend = append([]string{"/s/**"}, p.Outgoing[0].MaySend...)
	return p
}

func narrower(p policy.Policy) policy.Policy {
	p.Ask.Contract.Wait = policy.Duration(time.Hour)
	return p
}

func TestAPolicyThatNarrowsIsInForceAtOnce(t *testing.T) { // G12
	s, _ := pair(t)
	s.rules.Policy = narrower(s.rules.Policy)
	if err := s.g.Reload(s.rules); err != nil {
		t.Fatal(err)
	}
	if v := s.law(); v.InForce != s.rules.Policy.Digest() || v.Waiting != nil || v.Signed {
		t.Errorf("in force %v, waiting %+v", v.InForce, v.Waiting)
	}
}

// A policy that permits more is written into the file: the old one stays in
// force until the owner has signed a yes over just this difference.
func TestAPolicyThatWidensWaitsForTheOwner(t *testing.T) { // G12
	s, _ := pair(t)
	old, next := s.rules.Policy, wider(s.rules.Policy)
	s.rules.Policy = next
	if err := s.g.Reload(s.rules); err != nil {
		t.Fatal(err)
	}
	v := s.law()
	if v.InForce != old.Digest() || v.Waiting == nil || v.Waiting.Digest != next.Digest() || len(v.Waiting.Difference.Lines) != 1 {
		t.Fatalf("in force %v, waiting %+v", v.InForce, v.Waiting)
	}
	st, err := s.g.Status(context.Background(), gateway.Owner, gateway.None{})
	if err != nil || st.Policy != old.Digest().String() || st.PolicyWaits != next.Digest().String() {
		t.Errorf("status says %v, %v: %v", st.Policy, st.PolicyWaits, err)
	}
	if err := s.change(next, ""); spec.ReasonOf(err) != spec.GateOpen {
		t.Errorf("without a yes: %v, want gate-open", err)
	}
	if err := s.change(next, s.consent(next, nil, s.owner())); err != nil {
		t.Fatal(err)
	}
	if v := s.law(); v.InForce != next.Digest() || v.Waiting != nil || !v.Signed {
		t.Errorf("after the yes: in force %v, waiting %+v, signed %v", v.InForce, v.Waiting, v.Signed)
	}
	s.restart()
	if v := s.law(); v.InForce != next.Digest() || !v.Signed {
		t.Errorf("after a restart: %v", v.InForce)
	}
	s.rules.Policy = old // the file is put back: narrower, at once
	if err := s.g.Reload(s.rules); err != nil || s.law().InForce != old.Digest() {
		t.Errorf("put back: %v, %v", s.law().InForce, err)
	}
}

// TestAYesToAPolicyCountsForJustThatChange has one row for each way in which a yes is another one.
func TestAYesToAPolicyCountsForJustThatChange(t *testing.T) { // G12, S6, G10
	s, other := pair(t)
	next := wider(s.rules.Policy)
	for what, c := range map[string]struct {
		consent string
		want    spec.Reason
	}{
		"by our agent's key":     {s.consent(next, func(c *manifest.PolicyConsent) { c.AgentDid = other.home.Agent.DID() }, s.home.Agent), spec.WrongSigner},
		"by another owner":       {s.consent(next, nil, other.owner()), spec.WrongSigner},
		"for another gateway":    {s.consent(next, func(c *manifest.PolicyConsent) { c.AgentDid = other.home.Agent.DID() }, s.owner()), spec.WrongSigner},
		"from another policy":    {s.consent(next, func(c *manifest.PolicyConsent) { c.From = c.To }, s.owner()), spec.Conflict},
		"to another policy":      {s.consent(narrower(next), nil, s.owner()), spec.Conflict},
		"over another text":      {s.consent(next, func(c *manifest.PolicyConsent) { c.Difference = c.From }, s.owner()), spec.Conflict},
		"by a passkey untold":    {s.consent(next, func(c *manifest.PolicyConsent) { c.Presence = "passkey" }, s.owner()), spec.PolicyDenied},
		"by a channel":           {s.consent(next, func(c *manifest.PolicyConsent) { c.Presence = "channel:chat" }, s.owner()), spec.PolicyDenied},
		"from tomorrow":          {s.consent(next, func(c *manifest.PolicyConsent) { c.DecidedAt = signing.TimeOf(time.Now().Add(time.Hour)) }, s.owner()), spec.Malformed},
		"from before the policy": {s.consent(next, func(c *manifest.PolicyConsent) { c.DecidedAt = signing.TimeOf(time.Now().Add(-time.Hour)) }, s.owner()), spec.Malformed},
		"no document":            {"{}", spec.Malformed},
		"a gate-decision":        {s.gateDecision(), spec.UnknownType},
	} {
		if err := s.change(next, c.consent); spec.ReasonOf(err) != c.want {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
	if v := s.law(); v.InForce != s.rules.Policy.Digest() {
		t.Errorf("in force %v", v.InForce)
	}
}

func (s *side) gateDecision() string {
	s.t.Helper()
	s.propose()
	d := approval.Decide(s.ask(manifest.ContractGate).Ask, approval.Allow, "none", time.Now())
	v, err := manifest.Sign(&d, s.owner(), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return v.Wire().String()
}

// Whoever kept a yes cannot use it again after the owner has narrowed back, though every digest fits (G6).
func TestAYesToAPolicyIsUsedOnce(t *testing.T) {
	s, _ := pair(t)
	old, next := s.rules.Policy, wider(s.rules.Policy)
	kept := s.consent(next, nil, s.owner())
	won := make(chan error, 32)
	var wg sync.WaitGroup
	for range cap(won) {
		wg.Go(func() { won <- s.change(next, kept) })
	}
	wg.Wait()
	close(won)
	if v := s.law(); v.InForce != next.Digest() {
		t.Fatalf("in force %v", v.InForce)
	}
	if err := s.change(old, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.change(next, kept); spec.ReasonOf(err) != spec.Replayed {
		t.Errorf("the same yes again: %v, want replayed", err)
	}
}

func TestAnEditWhileTheGatewayIsDownDoesNotSneakIn(t *testing.T) { // G12
	s, _ := pair(t)
	old := s.rules.Policy
	s.stop()
	s.rules.Policy = wider(old)
	s.start()
	if v := s.law(); v.InForce != old.Digest() || v.Waiting == nil {
		t.Errorf("widened while down: in force %v, waiting %+v", v.InForce, v.Waiting)
	}
	s.stop()
	s.rules.Policy = narrower(old)
	s.start()
	if v := s.law(); v.InForce != s.rules.Policy.Digest() || v.Waiting != nil {
		t.Errorf("narrowed while down: in force %v, waiting %+v", v.InForce, v.Waiting)
	}
}

// A change that permits more here and less there: the less is in force at once, by the stricter of both.
func TestWhatAWaitingChangeForbidsIsForbiddenAtOnce(t *testing.T) { // G12
	s, _ := pair(t)
	s.rules.Policy = wider(s.rules.Policy)
	most := policy.Amount(10)
	s.rules.Policy.Outgoing[0].AtMost.OutputTokens = &most
	if err := s.g.Reload(s.rules); err != nil {
		t.Fatal(err)
	}
	if s.law().Waiting == nil {
		t.Fatal("nothing waits")
	}
	in := filepath.Join(t.TempDir(), "sales.csv")
	if err := os.WriteFile(in, []byte("a,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "t", Goal: "g", Inputs: []manifest.DraftInput{{File: in}}}})
	if spec.ReasonOf(err) != spec.PolicyDenied {
		t.Errorf("above the bound of the change that waits: %v, want policy-denied", err)
	}
}

// An open ask that takes less than the rules do now is withdrawn and asked anew; its old answer is too late.
func TestAnOpenAskIsMadeAgainUnderTheRulesInForce(t *testing.T) { // G12: the stricter counts before dispatch
	s, _ := pair(t)
	p := s.propose()
	before := s.askOf(p.Task)
	s.rules.Policy.Ask.Contract.Presence = []string{"passphrase"}
	if err := s.g.Reload(s.rules); err != nil {
		t.Fatal(err)
	}
	if _, err := s.answer(before, approval.Allow); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("an answer to the old ask: %v, want conflict", err)
	}
	after := s.askOf(p.Task)
	if after.Ask.AskID == before.Ask.AskID || len(after.Ask.Presence) != 1 || after.Ask.PolicyDigest != s.rules.Policy.Digest() {
		t.Errorf("asked anew: %+v", after.Ask)
	}
	s.rules.Policy.Outgoing[0].Then = policy.ThenRefuse
	if err := s.g.Reload(s.rules); err != nil {
		t.Fatal(err)
	}
	if v := s.state(p.Task); v.Outcome != string(spec.PolicyDenied) {
		t.Errorf("a held proposal that the rules refuse now: %q", v.Outcome)
	}
}

func TestNoAgentChangesOrReadsThePolicy(t *testing.T) { // G9
	s, _ := pair(t)
	agent := gateway.Caller{Agent: "claude"}
	next := wider(s.rules.Policy)
	for what, err := range map[string]error{
		"changes": second(s.g.ChangePolicy(context.Background(), agent, gateway.PolicyChange{Policy: next, Consent: s.consent(next, nil, s.owner())})),
		"reads":   second(s.g.Policy(context.Background(), agent, gateway.None{})),
	} {
		if spec.ReasonOf(err) != spec.NotPermitted {
			t.Errorf("an agent %s: %v, want not-permitted", what, err)
		}
	}
}
