package gateway_test

import (
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/relay/relaytest"
	"sealbridge/signing"
	"sealbridge/spec"
)

func (s *side) renewal(change func(*manifest.AgentCertificate), by signing.Signer) gateway.Document {
	s.t.Helper()
	c := s.home.Certified()
	c.Serial++
	c.ExpiresAt = signing.TimeOf(c.ExpiresAt.Time().Add(time.Second))
	if change != nil {
		change(&c)
	}
	v, err := manifest.Sign(&c, by, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return gateway.Document{Wire: v.Wire().String()}
}

func TestARenewedCertificateReachesEveryContact(t *testing.T) { // I4
	ann, ben := pair(t)
	p := ann.propose() // a task that is open meanwhile
	ann.allow(manifest.ContractGate)
	before := ben.contact("Ann").Certified
	out, err := ann.g.Renew(t.Context(), gateway.Owner, ann.renewal(nil, ann.owner()))
	if err != nil || out.Serial != 2 {
		t.Fatalf("%+v, %v", out, err)
	}
	ben.until("the new certificate", func() bool { return ben.contact("Ann").Certified.After(before) })
	ann.restart()
	if got := ann.home.Certified().Serial; got != 2 {
		t.Errorf("serial %d after a restart", got)
	}
	ben.allow(manifest.ContractGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	ben.until("completed", func() bool { return ben.state(p.Task).Outcome == "completed" })
	ann.verifies(p.Task)
	ben.verifies(p.Task)
}

func (s *side) contact(name string) gateway.ContactView {
	s.t.Helper()
	cs, err := s.g.Contacts(s.t.Context(), gateway.Owner, gateway.None{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range cs {
		if c.Name == name {
			return c
		}
	}
	return gateway.ContactView{}
}

func TestWhatIsNoRenewalIsRefused(t *testing.T) { // I4, G9
	ann, ben := pair(t)
	for what, c := range map[string]struct {
		in   gateway.Document
		by   gateway.Caller
		want spec.Reason
	}{
		"by an agent":       {ann.renewal(nil, ann.owner()), gateway.Caller{Agent: "claude"}, spec.NotPermitted},
		"of another owner":  {ben.renewal(nil, ben.owner()), gateway.Owner, spec.WrongSigner},
		"for another agent": {ann.renewal(func(c *manifest.AgentCertificate) { c.AgentDid = relaytest.Agent("x").DID() }, ann.owner()), gateway.Owner, spec.WrongSigner},
		"the same serial":   {ann.renewal(func(c *manifest.AgentCertificate) { c.Serial = 1 }, ann.owner()), gateway.Owner, spec.Stale},
		"another relay":     {ann.renewal(func(c *manifest.AgentCertificate) { c.Relay.Endpoint = "wss://x.example" }, ann.owner()), gateway.Owner, spec.Conflict},
		"another document":  {gateway.Document{Wire: "{}"}, gateway.Owner, spec.Malformed},
	} {
		if _, err := ann.g.Renew(t.Context(), c.by, c.in); spec.ReasonOf(err) != c.want {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
	if got := ann.home.Certified().Serial; got != 1 {
		t.Errorf("serial %d", got)
	}
}

func TestAContactsNewRelayWaitsForTheOwnersYes(t *testing.T) { // R3
	ann, ben := pair(t)
	to := "wss://elsewhere.example"
	doc := ann.renewal(func(c *manifest.AgentCertificate) { c.Relay.Endpoint = to }, ann.owner())
	s, err := manifest.Open([]byte(doc.Wire), nil)
	if err != nil {
		t.Fatal(err)
	}
	ann.stop()
	if err := ann.home.Install(s, time.Now()); err != nil {
		t.Fatal(err)
	}
	ann.start()
	ben.until("told", func() bool { return ben.contact("Ann").Moved != "" })
	moved := ben.contact("Ann")
	if !strings.HasPrefix(moved.Moved, to+"/") || strings.HasPrefix(moved.Relay, to) {
		t.Fatalf("%+v", moved)
	}
	if _, err := ben.g.Propose(t.Context(), gateway.Owner, gateway.Proposal{To: "Ann", DryRun: true, Draft: manifest.Draft{Title: "x", Goal: "y"}}); err != nil && spec.ReasonOf(err) != spec.PolicyDenied {
		t.Errorf("a draft: %v", err)
	}
	if _, err := ben.g.ChangeContact(t.Context(), gateway.Owner, gateway.ContactChange{Name: "Ann", Do: "follow", To: "wss://third.example/" + strings.TrimPrefix(ann.home.Certified().Relay.Did.String(), "did:key:")}); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("yes to another relay than the certificate's: %v", err)
	}
	got, err := ben.g.ChangeContact(t.Context(), gateway.Owner, gateway.ContactChange{Name: "Ann", Do: "follow", To: moved.Moved})
	if err != nil || got.Moved != "" || got.Relay != moved.Moved {
		t.Errorf("%+v, %v", got, err)
	}
}
