package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Decide is Contract, then the owner's rules, which only narrow: they refuse,
// they add a gate, they add a cost. Of what the other side said it is Contract.
func (p Policy) Decide(c Case) Decision {
	l, bad := read(c)
	if bad != nil {
		return *bad
	}
	if l.own {
		l.Consents = p.usable(c)
	}
	d := l.decide()
	if d.Outcome == Deny || !l.own {
		return d
	}
	if bad := l.grouped(); bad != nil {
		return *bad
	}
	r := p.rule(l)
	if r.refused != nil {
		return *r.refused
	}
	if d.Outcome == Allow && d.Consent == nil && r.gate != nil {
		d = l.gates(r.gate)
	}
	switch d.Outcome {
	case Hold:
		d = p.ask(l, d)
		if d.Outcome == Hold {
			d.Day = r.moves
		}
	case Allow:
		d.Moves = append(d.Moves, r.moves...)
		if _, err := l.Ledger.Apply(d.Moves...); err != nil {
			d = deny("B8", spec.ReasonOf(err), "", limitOf(err))
		}
	}
	if d.Section == "" && r.section != "" {
		d.Section, d.Index = r.section, r.index
		if d.Rule == "" || d.Outcome == Hold && d.Gate.Added {
			d.Rule = r.name
		}
	}
	return d
}

// ruling is what the owner's rules say of a case that the law lets pass.
type ruling struct {
	name, section string
	index         int
	refused       *Decision
	gate          *Gate // where the law asks for none
	moves         []Move

	have, most string // what a refusal compared
}

func (r *ruling) refuse(reason spec.Reason, path, limit string) ruling {
	d := deny(r.name, reason, path, limit)
	d.Section, d.Index = r.section, r.index
	if r.section == "" {
		d.Index = -1
	}
	d.Have, d.Most = r.have, r.most
	r.refused = &d
	return *r
}

// compared names the two values of the refusal that follows.
func (r *ruling) compared(have, most string) { r.have, r.most = have, most }

// rule finds the rule for what our own side would say. What ends or refuses
// work needs none: nobody is held in a task by a policy.
func (p Policy) rule(l *law) ruling {
	switch f := l.fact.(type) {
	case manifest.Proposed:
		return p.outgoing(l)
	case manifest.Accepted:
		return p.incoming(l, f)
	case manifest.Asked:
		return p.amendment(l)
	case manifest.Answered:
		if !l.childSubject().IsZero() {
			return p.delegation(l)
		}
		return p.amendment(l)
	case manifest.Delegated:
		return p.delegation(l)
	case manifest.Progressed:
		if f.Opens != nil {
			return p.reaching(l, f.Opens.Host)
		}
	}
	return ruling{index: -1}
}

// stranger refuses a contact that no person has confirmed (K2).
func (r *ruling) stranger(l *law, section string) bool {
	if l.Contact.Blocked || !l.Contact.Confirmed || l.Contact.Owner != l.other() {
		r.name, r.section = "K2", ""
		r.refuse(spec.PolicyDenied, "", "a contact that is confirmed and not blocked")
		return true
	}
	r.section = section
	return false
}

func (p Policy) outgoing(l *law) (r ruling) {
	if r.stranger(l, "outgoing") {
		return r
	}
	for i, o := range p.Outgoing {
		if !o.fits(l.Contact.Name, l.Caller) {
			continue
		}
		r.name, r.index = o.Name, i
		if o.Then != ThenAsk {
			return r.refuse(spec.PolicyDenied, "", "")
		}
		for k, file := range l.Files {
			if !slices.Contains(l.NamedFiles, file) && !maySend(o.MaySend, file) {
				r.compared(file, strings.Join(o.MaySend, " "))
				return r.refuse(spec.PolicyDenied, fmt.Sprintf("/inputs/%d", k), "may_send")
			}
		}
		for k, check := range l.m.Verification.Checks {
			if check.Kind != manifest.CommandCheck {
				continue
			}
			r.name, r.section = "M6", "checks"
			if !p.MayRun(check.Target) {
				r.compared(check.Target, strings.Join(p.Checks, "; "))
				return r.refuse(spec.PolicyDenied, fmt.Sprintf("/verification/checks/%d/target", k), "a command in checks")
			}
			if !slices.Contains(l.Isolation, "subprocess_restricted") {
				return r.refuse(spec.UnsupportedIsolation, fmt.Sprintf("/verification/checks/%d/target", k), "a machine with a box to run it in")
			}
			r.name, r.section = o.Name, "outgoing"
		}
		if l.m.ParentTaskID == nil {
			if err := p.Grants(l.m.Permissions.GrantedCapabilities); err != nil {
				r.name, r.section = "C1a", "tools"
				return r.refuse(spec.ReasonOf(err), pathOf(err), limitOf(err))
			}
		}
		return r.taken(l, o.AtMost, o.PerDay, o.AtOnce)
	}
	return r.none("outgoing")
}

// MayRun says whether a contract may have a command run over a delivery: the
// whole line as it stands in checks, and no other (M6).
func (p Policy) MayRun(line string) bool { return slices.Contains(p.Checks, line) }

func (p Policy) incoming(l *law, f manifest.Accepted) (r ruling) {
	if r.stranger(l, "incoming") {
		return r
	}
	for i, in := range p.Incoming {
		if !in.fits(l.Contact.Name, l.m.Task.TaskType) {
			continue
		}
		r.name, r.index = in.Name, i
		switch {
		case in.Then != ThenAsk:
			return r.refuse(spec.PolicyDenied, "", "")
		case in.Agent != "" && in.Agent != l.Caller:
			r.compared(l.Caller, in.Agent)
			return r.refuse(spec.PolicyDenied, "", "agent")
		case f.Isolation.Enforced == enforcedByGateway && !slices.Contains(l.Isolation, f.Isolation.Level):
			r.compared(f.Isolation.Level, strings.Join(l.Isolation, " "))
			return r.refuse(spec.UnsupportedIsolation, "/body/isolation/level", "what this gateway enforces")
		case f.Isolation.Enforced == enforcedByGateway && len(l.m.SandboxPolicy.AllowedHosts) > 0 && !l.Filters:
			return r.refuse(spec.UnsupportedIsolation, "/sandboxPolicy/networkAccess", "X3: a box whose hosts this gateway can filter")
		case !p.reachable(&r, l.m):
			return r
		}
		return r.taken(l, in.AtMost, in.PerDay, in.AtOnce)
	}
	return r.none("incoming")
}

// none: what no rule fits is refused.
func (r *ruling) none(section string) ruling {
	r.name, r.section, r.index = "no rule of "+section+" fits", section, -1
	return r.refuse(spec.PolicyDenied, "", "")
}

// taken holds a contract against the bounds of its rule and asks (B8).
func (r *ruling) taken(l *law, most AtMost, day PerDay, once *int64) ruling {
	if r.over(most, l.m) {
		return *r
	}
	key, contact, on := l.parties()
	hold := TaskHold(key)
	within := func(k AccountKind, day string, limit *int64, amount int64) bool {
		if limit == nil {
			return true
		}
		a := ContactAccount(k, contact, l.Role, day)
		b := l.Ledger.Of(a)
		if b.Committed+b.Reserved()+amount > *limit {
			r.compared(count(b.Committed+b.Reserved())+" and "+count(amount)+" more", count(*limit))
			return false
		}
		r.moves = append(r.moves, Move{Op: SetLimit, Account: a, Amount: *limit}, Move{Op: Reserve, Account: a, Hold: hold, Amount: amount})
		return true
	}
	lim := l.m.Budget.Limits()
	switch {
	case !within(OpenTasks, "", once, 1):
		return r.refuse(spec.Quota, "", "at_once")
	case !within(DayTasks, on, figure(day.Tasks), 1):
		return r.refuse(spec.Quota, "", "per_day/tasks")
	case !within(DayInput, on, figure(day.InputTokens), lim.InputTokens):
		return r.refuse(spec.Quota, "", "per_day/input_tokens")
	case !within(DayOutput, on, figure(day.OutputTokens), lim.OutputTokens):
		return r.refuse(spec.Quota, "", "per_day/output_tokens")
	case !within(DayCalls, on, figure(day.ToolCalls), lim.ToolInvocations):
		return r.refuse(spec.Quota, "", "per_day/tool_calls")
	}
	g := l.gate(manifest.ContractGate, ContractSubject(l.payload, l.passes...))
	g.Added = true
	r.gate = &g
	return *r
}

func figure(a *Amount) *int64 { return (*int64)(a) }

// over refuses a contract that passes a figure of the rule.
func (r *ruling) over(m AtMost, c manifest.TaskManifest) bool {
	b := c.Budget
	refuse := func(path, name, have, most string) bool {
		r.compared(have, most)
		r.refuse(spec.PolicyDenied, path, "at_most/"+name+" "+most)
		return true
	}
	for _, x := range []struct {
		have  int64
		bound *Amount
		name  string
		path  string
	}{
		{b.MaxInputTokens, m.InputTokens, "input_tokens", "/budget/maxInputTokens"},
		{b.MaxOutputTokens, m.OutputTokens, "output_tokens", "/budget/maxOutputTokens"},
		{b.MaxToolInvocations, m.ToolCalls, "tool_calls", "/budget/maxToolInvocations"},
	} {
		if x.bound != nil && x.have > int64(*x.bound) {
			return refuse(x.path, x.name, count(x.have), count(int64(*x.bound)))
		}
	}
	if work := time.Duration(b.MaxWallClockSeconds) * time.Second; m.Time != nil && work > time.Duration(*m.Time) {
		return refuse("/budget/maxWallClockSeconds", "time", Duration(work).String(), m.Time.String())
	}
	if depth := c.Permissions.MaxDelegationDepth; m.DelegationDepth != nil && depth > *m.DelegationDepth {
		return refuse("/permissions/maxDelegationDepth", "delegation_depth", count(depth), count(*m.DelegationDepth))
	}
	return false
}

// amendment holds a changed contract against the bounds of the contact's rule.
// A yes always needs a person, whether or not the manifest names the gate, and so
// does a question that no person of ours asked.
func (p Policy) amendment(l *law) (r ruling) {
	r.index = -1
	change, base, yes := l.change()
	if change == nil {
		return r
	}
	if r.stranger(l, "") {
		return r
	}
	m := l.m
	if b := change.Budget; b != nil {
		m.Budget.MaxInputTokens, m.Budget.MaxOutputTokens = b.InputTokens, b.OutputTokens
		m.Budget.MaxToolInvocations, m.Budget.MaxWallClockSeconds = b.ToolInvocations, b.WallClockSeconds
	}
	most, ok := p.boundsFor(l, &r)
	if !ok {
		return r.none(sectionOf(l.Role))
	}
	if r.over(most, m) {
		return r
	}
	if yes || l.Wished {
		g := l.gate(AmendmentGate(*change), AmendmentSubject(base.of, *change, base.first))
		g.Added = true
		r.gate = &g
	}
	return r
}

func sectionOf(r manifest.Role) string {
	if r == manifest.Requester {
		return "outgoing"
	}
	return "incoming"
}

// boundsFor finds the bounds of the first rule that fits the contact.
func (p Policy) boundsFor(l *law, r *ruling) (AtMost, bool) {
	r.section = sectionOf(l.Role)
	if l.Role == manifest.Requester {
		for i, o := range p.Outgoing {
			if o.fits(l.Contact.Name, l.Caller) {
				r.name, r.index = o.Name, i
				return o.AtMost, o.Then == ThenAsk
			}
		}
		return AtMost{}, false
	}
	for i, in := range p.Incoming {
		if in.fits(l.Contact.Name, l.m.Task.TaskType) {
			r.name, r.index = in.Name, i
			return in.AtMost, in.Then == ThenAsk
		}
	}
	return AtMost{}, false
}

// proposal is the manifest of a proposal; empty if it cannot be read.
func proposal(p manifest.Proposed) (m manifest.TaskManifest) {
	_ = jcs.Decode(p.Manifest, &m)
	return m
}
