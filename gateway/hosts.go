package gateway

import (
	"context"
	"slices"
	"strconv"

	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/spec"
)

// hosts is the proxy of a run whose contract names hosts; nil where there is
// nothing to be filtered: a module or container has no network at all, and a box
// that nobody enforces is left to the agent's owner (X3).
func (g *Gateway) hosts(row taskRow, a Agent) *runner.Hosts {
	allowed, box := row.Task.Manifest().SandboxPolicy.AllowedHosts, row.accepted().Isolation
	if len(allowed) == 0 || box.Enforced != "gateway" || a.level() != runner.Subprocess {
		return nil
	}
	key := row.Key.String()
	return &runner.Hosts{Allowed: allowed, Public: relay.Public,
		Way:  func(ctx context.Context, host string) (runner.Way, error) { return g.wayTo(ctx, host) },
		Open: func(ctx context.Context, b *runner.Box, host string) error { return g.openHost(ctx, b, key, host) },
	}
}

// wayTo is what the owner's rules say of a host now; both, while a change waits (G12).
func (g *Gateway) wayTo(ctx context.Context, host string) (way runner.Way, err error) {
	err = g.view(ctx, func(t *turn) error {
		r := t.reaches(host)
		if r.Then == policy.ThenRefuse {
			return spec.Refuse(spec.PolicyDenied, "", "reach")
		}
		way = runner.Way{Ports: r.Ports, Private: r.Networks()}
		return nil
	})
	return way, err
}

func (t *turn) reaches(host string) policy.Reach {
	r, _ := t.rules.Policy.Reaches(host)
	if w := t.law.Waiting; w != nil {
		other, _ := w.Policy.Reaches(host)
		r = policy.ReachBoth(r, other)
	}
	return r
}

// openHost finds a host open for a task, or opens it: the run stands still while
// a person is asked (X1, G8).
func (g *Gateway) openHost(ctx context.Context, b *runner.Box, key, host string) (err error) {
	waits := false
	look := func(ctx context.Context) {
		err = g.turn(ctx, func(t *turn) (err error) { waits, err = t.open(key, host); return err })
	}
	if look(ctx); err != nil || !waits {
		return err
	}
	g.standStill(ctx, key, b.Hold, func(ctx context.Context) {
		for head := g.Journal.Head(); ; head = g.Journal.Head() {
			if look(ctx); err != nil || !waits {
				return
			}
			if _, err = g.Journal.Wait(ctx, head); err != nil {
				return
			}
		}
	})
	return err
}

// open says whether somebody is still asked about a host of a task. Its error
// is a no: of the rules, of the person who was asked, or because the task is over.
func (t *turn) open(key, host string) (waits bool, err error) {
	row, err := t.row(key)
	if err != nil {
		return false, err
	}
	if row.Task.Ended() || row.Task.State() != task.Working || row.Recovery != "" {
		return false, spec.Refuse(spec.Unavailable, "", "nothing works on the task")
	}
	if slices.ContainsFunc(row.Task.Opened(), func(o task.Opened) bool { return o.Host == host }) {
		return false, nil
	}
	fact := t.opening(row, host)
	c, err := t.caseOf(row, fact)
	if err != nil {
		return false, err
	}
	switch d := t.may(c); {
	case d.Outcome == policy.Deny:
		return false, t.denied(d)
	case d.Outcome == policy.Allow && d.Consent == nil: // nobody has to be asked
		return false, nil
	case d.Outcome == policy.Hold:
		if err := t.refusedHost(key, d.Gate.Subject); err != nil {
			return false, err
		}
	}
	said, err := t.say(&row, fact)
	return said.Outcome == policy.Hold, err
}

// refusedHost is the no that was said about a host, by a person or by silence:
// it stands for the rest of the task, so that nobody is asked until the answer is yes.
func (t *turn) refusedHost(key string, subject signing.Digest) error {
	rows, err := asks.Group(t.Tx, key)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.V.Ask.SubjectDigest != subject {
			continue
		}
		switch r.V.stateAt(t.now) {
		case approval.Denied:
			return spec.Refuse(spec.GateDenied, "", "")
		case approval.Expired:
			return spec.Refuse(spec.GateExpired, "", "")
		}
	}
	return nil
}

// opening is the event that opens a host. What a run under way holds is not used yet.
func (t *turn) opening(row taskRow, host string) manifest.Progressed {
	return manifest.Progressed{Usage: t.usedSoFar(row), Waiting: "nobody", Opens: &manifest.Opens{Host: host}}
}

// usedSoFar is what was charged, without what is reserved.
func (t *turn) usedSoFar(row taskRow) manifest.Usage {
	u := t.usage(row)
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return u
	}
	of := func(m policy.Meter) int64 { return l.Of(policy.MeterOf(row.Key, m)).Committed }
	u.Meters = manifest.Meters{InputTokens: of(policy.InputTokens), OutputTokens: of(policy.OutputTokens),
		ToolInvocations: of(policy.ToolInvocations), WallClockSeconds: of(policy.WallClockSeconds)}
	return u
}

// openingOf makes again the opening that a person was asked about.
func (t *turn) openingOf(row taskRow, subject signing.Digest) (manifest.Fact, error) {
	for _, host := range row.Task.Manifest().SandboxPolicy.AllowedHosts {
		if policy.HostSubject(t.g.Agent.DID(), row.Task.ManifestDigest(), host) == subject {
			return t.opening(row, host), nil
		}
	}
	return nil, spec.Refuse(spec.Conflict, "", "the contract names no such host")
}

// reached keeps what a run had to do with hosts: in the journal, whatever becomes
// of the run, and for the attestation of what it delivers.
func (g *Gateway) reached(ctx context.Context, key string, h *runner.Hosts) error {
	if h == nil || len(h.Reached()) == 0 && h.Refused() == 0 {
		return nil
	}
	return g.turn(ctx, func(t *turn) error {
		row, err := t.row(key)
		if err != nil {
			return err
		}
		note := map[string]string{"run": itoa(row.Runs), "refused connections": itoa(h.Refused())}
		for _, r := range h.Reached() {
			said := manifest.Reached{Host: r.Host, Port: int64(r.Port), Connections: r.Connections, Sent: r.Sent, Received: r.Received}
			for _, a := range r.Addresses {
				said.Addresses = append(said.Addresses, a.String())
			}
			row.Reached = addReached(row.Reached, said)
			note[r.Host+" "+strconv.Itoa(int(r.Port))] = itoa(r.Connections) + " connections, " + itoa(r.Sent) + " bytes sent, " + itoa(r.Received) + " received"
		}
		if err := t.note(key, note); err != nil {
			return err
		}
		return t.putRow(row)
	})
}

// addReached sums the runs of a task.
func addReached(all []manifest.Reached, r manifest.Reached) []manifest.Reached {
	i := slices.IndexFunc(all, func(o manifest.Reached) bool { return o.Host == r.Host && o.Port == r.Port })
	if i < 0 {
		return append(slices.Clone(all), r)
	}
	all = slices.Clone(all)
	sum := &all[i]
	sum.Connections, sum.Sent, sum.Received = sum.Connections+r.Connections, sum.Sent+r.Sent, sum.Received+r.Received
	sum.Addresses = slices.Clone(sum.Addresses)
	for _, a := range r.Addresses {
		if !slices.Contains(sum.Addresses, a) && len(sum.Addresses) < 8 {
			sum.Addresses = append(sum.Addresses, a)
		}
	}
	return all
}

// filters says whether an agent would be held to the hosts of a contract (X3): by
// the proxy in its box, or because it has no network whatever the contract says.
func (t *turn) filters(a Agent) bool {
	return !a.Session && t.isolationOf(a).Enforced == "gateway"
}

// without is what a list has more than another.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
