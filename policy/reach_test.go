package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/spec"
)

func opens(host string, decision *Consent) manifest.Progressed {
	f := manifest.Progressed{Usage: used(10), Waiting: "nobody", Opens: &manifest.Opens{Host: host}}
	if decision != nil {
		f.Opens.Decision = holdDecision()
	}
	return f
}

func withHosts(gates ...manifest.Gate) func(*manifest.TaskManifest) {
	return func(m *manifest.TaskManifest) {
		m.SandboxPolicy.NetworkAccess, m.SandboxPolicy.AllowedHosts = "allowlist_only", []string{"api.example.org", "10.0.0.7"}
		m.HITLPolicy.RequiredGates = append(m.HITLPolicy.RequiredGates, gates...)
	}
}

func reached(host string) *manifest.Attestation {
	return &manifest.Attestation{Runner: "exec", Isolation: manifest.Isolation{Level: "subprocess_restricted", Enforced: "gateway"}, Enforces: []string{},
		Reached: []manifest.Reached{{Host: host, Port: 443, Addresses: []string{"9.1.1.1"}, Connections: 1}}}
}

func TestOneDecisionOpensOneHostForOneTask(t *testing.T) { // X1
	s := newScene(t, withHosts(manifest.EffectGate)).working()
	d := Contract(s.draft(asW, asW, opens("api.example.org", nil)))
	if d.Outcome != Hold || d.Gate.Gate != manifest.EffectGate || d.Gate.Side != asW || d.Gate.Owner != ben.owner.DID() {
		t.Fatalf("opening a host = %+v, want held for the worker's owner", d)
	}
	if subject := Subject(s.draft(asW, asW, opens("api.example.org", nil))); digest(subject) != d.Gate.Subject {
		t.Errorf("the subject in full does not have the gate's digest")
	}
	yes := yes(d.Gate)
	said := func(host string, k ...Consent) Decision {
		c := s.draft(asW, asW, opens(host, nil))
		c.Consents = k
		return Contract(c)
	}
	if d := said("api.example.org", yes); d.Outcome != Allow || d.Consent == nil || d.Consent.Decision != yes.Decision {
		t.Errorf("with its yes = %+v, want allowed by it", d)
	}
	if d := said("10.0.0.7", yes); d.Outcome != Hold {
		t.Errorf("another host with that yes = %+v, want held", d)
	}
	other := newScene(t, func(m *manifest.TaskManifest) {
		withHosts(manifest.EffectGate)(m)
		m.Task.Title = "another"
	}).working()
	c := other.draft(asW, asW, opens("api.example.org", nil))
	c.Consents = []Consent{yes}
	if d := Contract(c); d.Outcome != Hold {
		t.Errorf("another task with that yes = %+v, want held", d)
	}
	// The other side and an auditor take it with its decision, and not without (G11).
	c = s.draft(asW, asR, opens("api.example.org", &yes))
	c.Consents = []Consent{yes}
	if d := Contract(c); d.Outcome != Allow {
		t.Errorf("at the requester = %+v, want allowed", d)
	}
	if d := Contract(s.draft(asW, asR, opens("api.example.org", nil))); d.Outcome != Deny || d.Rule != "G1" {
		t.Errorf("at the requester without a decision = %+v, want denied", d)
	}
}

func TestOnlyAHostOfTheContractIsOpened(t *testing.T) { // X1
	for _, gates := range [][]manifest.Gate{nil, {manifest.EffectGate}} {
		s := newScene(t, withHosts(gates...)).working()
		for _, host := range []string{"evil.example", "example.org", "x.api.example.org"} {
			if d := Contract(s.draft(asW, asW, opens(host, nil))); d.Outcome != Deny || d.Rule != "X1" || d.Reason != spec.NotPermitted {
				t.Errorf("%s = %+v, want denied", host, d)
			}
		}
	}
	s := newScene(t, nil).working()
	if d := Contract(s.draft(asW, asW, opens("api.example.org", nil))); d.Outcome != Deny || d.Rule != "X1" {
		t.Errorf("a contract without hosts = %+v, want denied", d)
	}
}

func TestWhatWasReachedWasOpened(t *testing.T) { // X1, G11
	deliver := func(s *scene, host string) manifest.Delivered {
		f := s.delivery()
		f.Delivery.Attestation = reached(host)
		return f
	}
	s := newScene(t, withHosts(manifest.EffectGate)).working()
	if d := Contract(s.draft(asW, asR, deliver(s, "api.example.org"))); d.Outcome != Deny || d.Rule != "X1" {
		t.Errorf("reached and not opened = %+v, want denied", d)
	}
	s.say(asW, opens("api.example.org", nil))
	if d := Contract(s.draft(asW, asR, deliver(s, "api.example.org"))); d.Outcome != Allow {
		t.Errorf("opened and reached = %+v, want allowed", d)
	}
	if d := Contract(s.draft(asW, asR, deliver(s, "10.0.0.7"))); d.Outcome != Deny || d.Rule != "X1" {
		t.Errorf("another than the opened one = %+v, want denied", d)
	}
	s = newScene(t, withHosts()).working() // no gate is named
	if d := Contract(s.draft(asW, asR, deliver(s, "api.example.org"))); d.Outcome != Allow {
		t.Errorf("where no gate is named = %+v, want allowed", d)
	}
	if d := Contract(s.draft(asW, asR, deliver(s, "evil.example"))); d.Outcome != Deny || d.Rule != "X1" {
		t.Errorf("a host of no contract = %+v, want denied", d)
	}
}

func TestTheOwnersRulesAddTheGateAndRefuse(t *testing.T) { // G1: they never remove it
	for _, test := range []struct {
		rules []Reach
		gates []manifest.Gate
		want  Outcome
		added bool
	}{
		{nil, nil, Hold, true},
		{nil, []manifest.Gate{manifest.EffectGate}, Hold, false},
		{[]Reach{{Host: "api.example.org", Then: ThenAllow}}, nil, Allow, false},
		{[]Reach{{Host: "api.example.org", Then: ThenAllow}}, []manifest.Gate{manifest.EffectGate}, Hold, false},
		{[]Reach{{Host: "*", Then: ThenAllow}}, []manifest.Gate{manifest.EffectGate}, Hold, false},
		{[]Reach{{Host: "10.0.0.7", Then: ThenAllow}, {Host: "*", Then: ThenRefuse}}, nil, Deny, false},
		{[]Reach{{Host: "api.example.org", Then: ThenAsk}, {Host: "*", Then: ThenRefuse}}, nil, Hold, true},
		{[]Reach{{Host: "*", Then: ThenRefuse}}, []manifest.Gate{manifest.EffectGate}, Deny, false},
	} {
		p := Default()
		p.Reach = test.rules
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		s := newScene(t, withHosts(test.gates...)).working()
		d := p.Decide(s.draft(asW, asW, opens("api.example.org", nil)))
		if d.Outcome != test.want || d.Outcome == Hold && d.Gate.Added != test.added {
			t.Errorf("%+v with gates %v = %+v, want %v, added %v", test.rules, test.gates, d, test.want, test.added)
		}
		if d.Outcome == Hold && (len(d.Gate.Who) == 0 || d.Gate.Until.After(t0.Add(WaitEffect))) {
			t.Errorf("asked of %v until %v", d.Gate.Who, d.Gate.Until)
		}
	}
}

func TestAContractWithARefusedHostIsNotTaken(t *testing.T) {
	p := Default()
	p.Reach = []Reach{{Host: "10.0.0.7", Then: ThenRefuse}}
	s := newScene(t, withHosts()).say(asR, newScene(t, withHosts()).proposal())
	c := s.draft(asW, asW, s.acceptance())
	c.Filters = true
	l, _ := read(c)
	if r := p.incoming(l, s.acceptance()); r.refused == nil || r.refused.Path != "/sandboxPolicy/allowedHosts/1" || r.refused.Section != "reach" {
		t.Errorf("a refused host = %+v", r.refused)
	}
	p.Reach = nil
	if r := p.incoming(l, s.acceptance()); r.refused != nil {
		t.Errorf("hosts nobody refuses = %+v", r.refused)
	}
	l.Filters = false
	if r := p.incoming(l, s.acceptance()); r.refused == nil || r.refused.Reason != spec.UnsupportedIsolation {
		t.Errorf("a gateway that cannot filter = %+v", r.refused)
	}
}

func TestRulesAboutHostsAreWellFormed(t *testing.T) {
	for _, test := range []struct {
		r    Reach
		path string
	}{
		{Reach{Host: "wiki.corp", At: []string{"10.0.0.0/8", "::1", "fd00::/8"}, Ports: []uint16{8080}, Then: ThenAsk}, ""},
		{Reach{Host: "127.0.0.1", At: []string{"127.0.0.1"}, Then: ThenAllow}, ""},
		{Reach{Host: "*", Then: ThenRefuse}, ""},
		{Reach{Host: "*.corp", Then: ThenAsk}, "/reach/0/host"},
		{Reach{Host: "WIKI.corp", Then: ThenAsk}, "/reach/0/host"},
		{Reach{Host: "wiki.corp:80", Then: ThenAsk}, "/reach/0/host"},
		{Reach{Host: "0x7f.1", Then: ThenAsk}, "/reach/0/host"},
		{Reach{Host: "wiki.corp"}, "/reach/0/then"},
		{Reach{Host: "*", At: []string{"10.0.0.0/8"}, Then: ThenAsk}, "/reach/0/at"},
		{Reach{Host: "wiki.corp", At: []string{"10.0.0.0/8"}, Then: ThenRefuse}, "/reach/0/at"},
		{Reach{Host: "wiki.corp", At: []string{"10.0.0.1/8"}, Then: ThenAsk}, "/reach/0/at/0"},
		{Reach{Host: "wiki.corp", At: []string{"::ffff:10.0.0.1"}, Then: ThenAsk}, "/reach/0/at/0"},
		{Reach{Host: "wiki.corp", At: []string{"::ffff:10.0.0.0/104"}, Then: ThenAsk}, "/reach/0/at/0"},
		{Reach{Host: "wiki.corp", At: []string{"fe80::1%eth0"}, Then: ThenAsk}, "/reach/0/at/0"},
		{Reach{Host: "wiki.corp", At: []string{"wiki"}, Then: ThenAsk}, "/reach/0/at/0"},
		{Reach{Host: "wiki.corp", Ports: []uint16{0}, Then: ThenAsk}, "/reach/0/ports/0"},
	} {
		p := Default()
		p.Reach = []Reach{test.r}
		err := p.Validate()
		if (err == nil) != (test.path == "") || err != nil && pathOf(err) != test.path {
			t.Errorf("%+v: %v, want %s", test.r, err, test.path)
		}
	}
}

// TestBothRulesReachNoMoreThanEither is G12 for a change that waits.
func TestBothRulesReachNoMoreThanEither(t *testing.T) {
	met := 0
	rapid.Check(t, func(t *rapid.T) {
		d := draw{t}
		a, b := d.reach(), d.reach()
		both := ReachBoth(a, b)
		contains := func(r Reach, addr netip.Addr) bool {
			return slices.ContainsFunc(r.Networks(), func(p netip.Prefix) bool { return p.Contains(addr) })
		}
		for _, text := range []string{"10.0.0.7", "10.0.0.8", "10.0.1.1", "10.9.9.9", "11.0.0.1", "fd00::1", "fe00::1"} {
			addr := netip.MustParseAddr(text)
			if got, want := contains(both, addr), contains(a, addr) && contains(b, addr); got != want {
				t.Fatalf("%s: %v of %v and %v = %v, want %v", text, both.At, a.At, b.At, got, want)
			} else if got {
				met++
			}
		}
		if reachRank[both.Then] != min(reachRank[a.Then], reachRank[b.Then]) || len(both.Ports) > min(len(a.Ports), len(b.Ports)) {
			t.Fatal(fmt.Sprint(both, a, b))
		}
	})
	if met == 0 {
		t.Error("no address was in both")
	}
}
