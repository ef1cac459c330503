package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Reach is a rule about a host that a contract names and that work of ours for
// others would reach (X1, X2). Where no rule fits, a person is asked.
type Reach struct {
	Host  string   `yaml:"host" json:"host"`                       // as a contract spells it (M4), or *
	At    []string `yaml:"at,omitempty" json:"at,omitempty"`       // networks that are not the internet, in which the host may be all the same
	Ports []uint16 `yaml:"ports,omitempty" json:"ports,omitempty"` // beside 80 and 443
	Then  Then     `yaml:"then" json:"then"`                       // allow: not asked because of this policy
}

// Reaches is what the rules say of a host, and the rule's place; asked where none fits.
func (p Policy) Reaches(host string) (Reach, int) {
	for i, r := range p.Reach {
		if r.Host == host || r.Host == "*" {
			return r, i
		}
	}
	return Reach{Host: host, Then: ThenAsk}, -1
}

// Networks are those of At.
func (r Reach) Networks() (out []netip.Prefix) {
	for _, text := range r.At {
		if p, ok := network(text); ok {
			out = append(out, p)
		}
	}
	return out
}

// network reads an address, or a network in its one spelling.
func network(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), a.String() == text && a.Zone() == "" && !a.Is4In6()
	}
	p, err := netip.ParsePrefix(text)
	return p, err == nil && p.Masked() == p && p.String() == text && !p.Addr().Is4In6()
}

// ReachBoth is what two policies that both hold let be reached (G12).
func ReachBoth(a, b Reach) Reach {
	if reachRank[b.Then] < reachRank[a.Then] {
		a.Then = b.Then
	}
	at := common(a.At, b.At)
	for _, x := range [2][2][]string{{a.At, b.At}, {b.At, a.At}} {
		for _, text := range x[0] {
			if networkWithin(text, x[1]) && !slices.Contains(at, text) {
				at = append(at, text)
			}
		}
	}
	a.At = at
	a.Ports = slices.DeleteFunc(slices.Clone(a.Ports), func(n uint16) bool { return !slices.Contains(b.Ports, n) })
	return a
}

var reachRank = map[Then]int{ThenRefuse: 0, ThenAsk: 1, ThenAllow: 2}

// networkWithin says whether a network lies in one of others.
func networkWithin(text string, others []string) bool {
	p, ok := network(text)
	return ok && slices.ContainsFunc(others, func(o string) bool {
		q, ok := network(o)
		return ok && q.Bits() <= p.Bits() && q.Contains(p.Addr())
	})
}

// hosts holds the hosts of a contract against the law: as many as a person
// reads on a card, each once (X1).
func hosts(s manifest.SandboxPolicy) *Decision {
	if len(s.AllowedHosts) > MaxHosts {
		return denied("X1", spec.TooLarge, "/sandboxPolicy/allowedHosts", fmt.Sprintf("at most %d", MaxHosts))
	}
	for i, h := range s.AllowedHosts {
		if slices.Contains(s.AllowedHosts[:i], h) {
			return denied("X1", spec.Malformed, "/sandboxPolicy/allowedHosts/"+strconv.Itoa(i), "each once")
		}
	}
	return nil
}

// judgeOpens: only a host of the contract can be opened (X1).
func (l *law) judgeOpens(f manifest.Progressed) *Decision {
	if f.Opens != nil && !slices.Contains(l.m.SandboxPolicy.AllowedHosts, f.Opens.Host) {
		return denied("X1", spec.NotPermitted, "/body/opens/host", "a host of the contract")
	}
	return nil
}

// judgeReached: what was reached is of the contract, and where the contract
// asks for a person it was opened before (X1, G11).
func (l *law) judgeReached(rs []manifest.Reached) *Decision {
	for i, r := range rs {
		opened := !l.m.HITLPolicy.Names(manifest.EffectGate) || l.view.Opened(r.Host)
		if !opened || !slices.Contains(l.m.SandboxPolicy.AllowedHosts, r.Host) {
			return denied("X1", spec.VerificationFailed, "/body/delivery/attestation/reached/"+strconv.Itoa(i)+"/host", "a host of the contract that was opened")
		}
	}
	return nil
}

// hostSubject is what a person is asked about before a host is opened: an
// effect of the worker's agent. The same host in the same task is the same effect.
func (l *law) hostSubject(host string) jcs.Value {
	return hostSubject(l.Event.Author, l.Event.ManifestDigest, host)
}

// HostSubject is the digest of what a person is asked about before a worker's
// agent reaches a host in the task of a manifest.
func HostSubject(agent signing.DID, contract signing.Digest, host string) signing.Digest {
	return digest(hostSubject(agent, contract, host))
}

func hostSubject(agent signing.DID, contract signing.Digest, host string) jcs.Value {
	name, _ := jcs.Text(host)
	return EffectInFull(Effect{
		Agent: agent.String(), Tool: reachTool, Resources: []string{"host://" + host}, Arguments: jcs.EmptyObject.With("host", name),
		CallID: manifest.DerivedID("call_", reachTool, contract.String()+" "+host),
	})
}

// reachTool is the tool of an effect that opens a host.
const reachTool = "reach"

// reaching finds the owner's rule for a host that our own agent would reach.
func (p Policy) reaching(l *law, host string) (r ruling) {
	r.index = -1
	if r.stranger(l, "") {
		return r
	}
	rule, at := p.Reaches(host)
	r.name, r.index = "hosts are asked about", at
	if at >= 0 {
		r.name, r.section = "reach "+rule.Host, "reach"
	}
	switch rule.Then {
	case ThenAllow:
		return r
	case ThenAsk:
		g := l.gate(manifest.EffectGate, digest(l.hostSubject(host)))
		g.Added = true
		r.gate = &g
		return r
	}
	return r.refuse(spec.PolicyDenied, "/body/opens/host", "")
}

// reachable refuses a contract with a host that the owner's rules refuse.
func (p Policy) reachable(r *ruling, m manifest.TaskManifest) bool {
	for i, h := range m.SandboxPolicy.AllowedHosts {
		if rule, at := p.Reaches(h); rule.Then == ThenRefuse {
			r.name, r.section, r.index = "reach "+rule.Host, "reach", at
			r.refuse(spec.PolicyDenied, "/sandboxPolicy/allowedHosts/"+strconv.Itoa(i), "")
			return false
		}
	}
	return true
}

func (v *validator) reach() {
	v.count(len(v.p.Reach), "/reach")
	for i, r := range v.p.Reach {
		path := fmt.Sprintf("/reach/%d", i)
		v.must(r.Host == "*" || manifest.IsHost(r.Host), path+"/host", "a DNS name in lower case, an address, or *")
		v.must(r.Then == ThenAllow || r.Then == ThenAsk || r.Then == ThenRefuse, path+"/then", "allow, ask or refuse")
		// What a name is at is the word of whoever owns it: a stranger's contract could name one that leads inside.
		v.must(r.Host != "*" || len(r.At) == 0 && len(r.Ports) == 0, path+"/at", "not with *: each host by its name")
		v.must(r.Then != ThenRefuse || len(r.At) == 0 && len(r.Ports) == 0, path+"/at", "not with refuse")
		v.must(len(r.At) <= 20 && len(r.Ports) <= 8, path, "at most 20 networks and 8 ports")
		for k, text := range r.At {
			_, ok := network(text)
			v.must(ok, fmt.Sprintf("%s/at/%d", path, k), "an address, or a network like 10.0.0.0/8")
		}
		for k, n := range r.Ports {
			v.must(n > 0, fmt.Sprintf("%s/ports/%d", path, k), "1 to 65535")
		}
	}
}

// reach compares by the hosts that either policy mentions, and one that none does.
func (c *comparer) reach() {
	names := map[string]bool{other: true}
	for _, r := range slices.Concat(c.old.Reach, c.next.Reach) {
		if r.Host != "*" {
			names[r.Host] = true
		}
	}
	for _, host := range slices.Sorted(maps.Keys(names)) {
		was, _ := c.old.Reaches(host)
		is, at := c.next.Reaches(host)
		what, path := "host "+host, "/reach"
		if host == other {
			what = "any other host"
		}
		if at >= 0 {
			path = fmt.Sprintf("/reach/%d", at)
		}
		before, after := reachRank[was.Then], reachRank[is.Then]
		switch {
		case after > before && before == 0:
			c.add(Added, path+"/then", what+": "+reachText(is.Then), reachText(was.Then))
		case after > before:
			c.add(Wider, path+"/then", what+": "+reachText(is.Then), reachText(was.Then))
		case after < before:
			c.add(Narrower, path+"/then", what+": "+reachText(is.Then), reachText(was.Then))
		}
		for _, text := range is.At {
			if !networkWithin(text, was.At) {
				c.add(Wider, path+"/at", what+": also at "+text, orOnly(was.At, "addresses of the internet only"))
			}
		}
		for _, text := range was.At {
			if !networkWithin(text, is.At) {
				c.add(Narrower, path+"/at", what+": not any more at "+text, text)
			}
		}
		c.set(Wider, path+"/ports", ports(was.Ports), ports(is.Ports), func(s string) string { return what + ": port " + s })
	}
}

func reachText(t Then) string {
	return map[Then]string{ThenRefuse: "never reached", ThenAsk: "you are asked", ThenAllow: "your policy does not ask"}[t]
}

func ports(ns []uint16) (out []string) {
	for _, n := range ns {
		if s := strconv.Itoa(int(n)); n != 80 && n != 443 && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func orOnly(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ", ")
}
