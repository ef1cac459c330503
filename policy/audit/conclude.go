package audit

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func contractSubject(payload jcs.Value, passes []jcs.Value) signing.Digest {
	return policy.ContractSubject(payload, passes...)
}

// name is what a side is called: by the auditor, else as its certificate or
// the contract says, escaped; "requester" where nobody said.
func (a *audit) name(r manifest.Role) string {
	p := a.party(r)
	if k, ok := a.o.Trust[p.OwnerDid]; ok && k.Name != "" && !p.OwnerDid.IsZero() {
		return manifest.Display(k.Name, 64)
	}
	name := p.DisplayName
	if t := len(a.trusts); t > 0 {
		if c, _, ok := a.trusts[t-1].CertificateOf(p.AgentDid); ok {
			name = c.DisplayName
		}
	}
	return orText(manifest.Display(name, 64), string(r))
}

// conclude makes the three answers and the lists.
func (a *audit) conclude() {
	ended := a.endings()
	a.orphans()
	a.parties()
	a.facts()
	a.evidenceLists()
	a.order()
	bad := slices.ContainsFunc(a.rep.Findings, func(f Finding) bool { return f.Severity == Wrong })
	if a.rep.Signatures == 0 {
		bad = true
		a.find(Wrong, spec.VerificationFailed, nil, "", "S7", "no signature was checked: nothing is verified")
		a.order()
	}
	absent := slices.ContainsFunc(a.rep.Findings, func(f Finding) bool { return f.Severity == Absent })
	a.rep.Verified = !bad
	a.rep.Binding = !bad && !absent && ended && !a.m.TaskID.IsZero() && len(a.rep.Facts.Signed) == 2 && !a.needs() && (!a.bundle || a.sealed)
	a.limits()
	a.fill()
}

// needs says whether something that a contract needs is in the missing list.
func (a *audit) needs() bool {
	return slices.ContainsFunc(a.rep.Missing, func(e Entry) bool { return e.Rule != "G2" })
}

// orphans are asks that no decision names: they prove nothing.
func (a *audit) orphans() {
	for _, d := range a.sorted {
		if d.ask != nil && d.err == nil && !d.used {
			a.find(Note, spec.NotFound, d, "", "G2", "no decision here names this ask: left out of account")
		}
	}
}

func (a *audit) parties() {
	known, owners := 0, a.owners()
	for _, o := range owners {
		if _, ok := a.o.Trust[o]; ok {
			known++
		}
	}
	switch {
	case known == 0:
		a.rep.Known = "none"
	case known == len(owners):
		a.rep.Known = "all"
	default:
		a.rep.Known = "some"
	}
	if a.m.TaskID.IsZero() {
		return
	}
	for _, r := range []manifest.Role{manifest.Requester, manifest.Worker} {
		p := a.party(r)
		if p.OwnerDid.IsZero() {
			continue
		}
		k, ok := a.o.Trust[p.OwnerDid]
		a.rep.Parties = append(a.rep.Parties, Party{Role: r, Name: a.name(r), OwnerDid: p.OwnerDid, AgentDid: p.AgentDid, Known: ok,
			Fingerprint: manifest.Fingerprint(p.OwnerDid), Learned: manifest.Display(k.Learned, 200)})
	}
	t := &Task{TaskID: a.m.TaskID, Title: manifest.Display(a.m.Task.Title, 200), ManifestDigest: a.digest}
	if !a.task.IsZero() {
		t.Outcome, t.State = a.task.Outcome(a.clock()), string(a.task.State())
		t.Heads = Heads{a.task.Head(manifest.Requester), a.task.Head(manifest.Worker)}
	}
	a.rep.Task = t
}

// limits are those of section 16 that apply.
func (a *audit) limits() {
	say := func(id, text string) { a.rep.Limits = append(a.rep.Limits, Limit{id, text}) }
	if len(a.rep.Facts.Custody) > 0 {
		say("L1", "the relay learned who put to whom, when, from where and how much; not what")
		say("L2", "a receipt without an acknowledgement shows that the relay took it, not who lost it")
	}
	if a.m.TaskID.IsZero() {
		return
	}
	if a.m.ParentTaskID != nil {
		say("L3", "a chain proves what its root allowed; not that a task has no parent")
	}
	for _, e := range a.rep.Facts.Endings {
		if e.Kind == manifest.KindCancelled {
			say("L4", "a cancel ends our own resources at once; a descendant behind a silent owner ends at its deadline")
		}
	}
	if len(a.rep.Facts.Deliveries) > 0 {
		say("L5", "whoever receives may copy; acceptance is a statement, not an exchange")
	}
	if a.rep.Facts.Isolation != nil || a.rep.Facts.Used != nil {
		say("L6", "attestation and wall clock of the other side are that gateway's word"+map[bool]string{true: "; what its agent's connections carried, and for which name, nobody saw"}[len(a.m.SandboxPolicy.AllowedHosts) > 0])
	}
	say("L7", "a key is not a person")
	say("L8", "two owners who agree can write any history about themselves")
}

// fill makes every list of the report a list, so that JSON has no null.
func (a *audit) fill() {
	r, f := &a.rep, &a.rep.Facts
	r.Parties, r.Findings = full(r.Parties), full(r.Findings)
	r.Proven, r.Claimed, r.Missing = full(r.Proven), full(r.Claimed), full(r.Missing)
	r.Limits, r.Timeline = full(r.Limits), full(r.Timeline)
	f.Asked, f.Signed, f.Amendments, f.Approvals = full(f.Asked), full(f.Signed), full(f.Amendments), full(f.Approvals)
	f.Deliveries, f.Checks, f.Endings, f.Custody, f.Tools = full(f.Deliveries), full(f.Checks), full(f.Endings), full(f.Custody), full(f.Tools)
	f.Criteria = full(f.Criteria)
	for i := range f.Checks {
		c := &f.Checks[i]
		c.Check, c.Kind, c.Text = manifest.Display(c.Check, 64), manifest.Display(c.Kind, 64), manifest.Display(c.Text, 200)
	}
}

func full[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// count is a figure with commas.
func count(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func width(s string) int { return utf8.RuneCountInString(s) }
