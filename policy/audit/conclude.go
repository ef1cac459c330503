package audit

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func contractSubject(payload jcs.Value) signing.Digest { return policy.ContractSubject(payload) }

// carried looks at what others signed beside the task: relays and revocations.
func (a *audit) carried() {
	relays := map[signing.DID]bool{}
	for d := range a.evidence() {
		if c, ok := d.signed.Document().(*manifest.AgentCertificate); ok {
			relays[c.Relay.Did] = true
		}
	}
	by := map[signing.DID]*Custody{}
	for _, d := range a.sorted {
		if d.err != nil || d.bad() || len(d.words) == 0 {
			continue
		}
		switch d.typ {
		case "custody-receipt":
			if !relays[d.receipt.RelayDid] {
				a.find(Note, spec.UnknownKey, d, "/relayDid", "R7", "by a relay that no certificate names: left out of account")
				continue
			}
			c := by[d.receipt.RelayDid]
			if c == nil {
				c = &Custody{RelayDid: d.receipt.RelayDid, From: d.receipt.At, To: d.receipt.At}
				by[d.receipt.RelayDid] = c
			}
			c.add(d.receipt.At)
		case "relay-hello", "checkpoint":
			if signer, err := signing.ParseDID(d.words[0].Signer); err != nil || !relays[signer] {
				a.find(Note, spec.UnknownKey, d, "/relayDid", "R7", "by a relay that no certificate names: left out of account")
			}
		}
		if r, ok := d.signed.Document().(*manifest.Revocation); ok && !d.by.IsZero() {
			a.revoked(d, r)
		}
	}
	for _, c := range by {
		a.rep.Facts.Custody = append(a.rep.Facts.Custody, *c)
	}
	sort.Slice(a.rep.Facts.Custody, func(i, j int) bool {
		return a.rep.Facts.Custody[i].RelayDid.String() < a.rep.Facts.Custody[j].RelayDid.String()
	})
}

func (c *Custody) add(at signing.Time) {
	c.Receipts++
	if at.Before(c.From) {
		c.From = at
	}
	if at.After(c.To) {
		c.To = at
	}
}

// revoked: of an agent that was taken back, only the events stand that the
// revocation names, and what the other side had seen before (H11).
func (a *audit) revoked(d *document, r *manifest.Revocation) {
	if r.Target != "agent-certificate" {
		if c, ok := a.consents[r.TargetDigest]; ok && r.Target == "gate-decision" && c.Owner == r.OwnerDid {
			a.find(Note, spec.Revoked, c.doc, c.path, "I7", "this decision was taken back later: "+d.path)
		}
		return
	}
	agent := signing.DID{}
	for x := range a.evidence() {
		if c, ok := x.signed.Document().(*manifest.AgentCertificate); ok && x.whole == r.TargetDigest && c.OwnerDid == r.OwnerDid {
			agent = c.AgentDid
		}
	}
	stands := int64(-1)
	for _, s := range r.Stands {
		if s.TaskID == a.m.TaskID && s.ManifestDigest == a.digest {
			stands = s.Seq
		}
	}
	for _, ev := range a.events {
		late := stands < 0 && ev.e.At.After(r.At) || stands >= 0 && ev.e.Seq > stands
		if ev.e.Author == agent && late {
			a.find(Wrong, spec.Revoked, ev.doc, "", "H11", fmt.Sprintf("%s's event %d comes after its agent was taken back", a.name(ev.role), ev.e.Seq))
		}
	}
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
			Learned: manifest.Display(k.Learned, 200)})
	}
	t := &Task{TaskID: a.m.TaskID, Title: manifest.Display(a.m.Task.Title, 200), ManifestDigest: a.digest}
	if !a.task.IsZero() {
		t.Outcome, t.State = a.task.Outcome(a.clock()), string(a.task.State())
		t.Heads = Heads{a.task.Head(manifest.Requester), a.task.Head(manifest.Worker)}
	}
	a.rep.Task = t
}

func (a *audit) facts() {
	f := &a.rep.Facts
	if a.m.TaskID.IsZero() {
		return
	}
	f.Asked, f.Limits, f.CostBearer = a.m.IO.InputArtifacts, a.m.Budget.Limits(), a.m.Budget.CostBearer
	if a.task.IsZero() {
		return
	}
	f.Limits, f.Used = a.task.Limits(), a.task.Usage()
	if t := a.task.Accepted(); t != nil {
		f.Isolation, f.Model = &t.Isolation, t.Model
	}
	for _, c := range a.task.Asks() {
		if c.Status == task.AskYes && c.Amendment != nil {
			f.Amendments = append(f.Amendments, Amendment{c.Base, c.By.Other(), amendmentText(*c.Amendment)})
		}
	}
	f.Events = [2]int64{seqOf(a.task.Head(manifest.Requester)), seqOf(a.task.Head(manifest.Worker))}
	for _, ev := range a.events {
		a.fact(f, ev)
	}
	for d := range a.evidence() {
		for _, m := range d.signed.Marks() {
			if d.typ == "agent-certificate" || d.typ == "box-key" {
				continue
			}
			if f.From.IsZero() || m.At.Before(f.From) {
				f.From = m.At
			}
			if f.To.IsZero() || m.At.After(f.To) {
				f.To = m.At
			}
		}
	}
}

func seqOf(h *manifest.Head) int64 {
	if h == nil {
		return 0
	}
	return h.Seq
}

// fact notes one event that counts.
func (a *audit) fact(f *Facts, ev *event) {
	if ev.e.Seq > seqOf(a.task.Head(ev.role)) {
		return
	}
	m := Moment{At: ev.e.At, By: ev.role, Seq: ev.e.Seq, Kind: ev.e.Body.Fact.Kind(), Digest: ev.doc.whole}
	switch b := ev.e.Body.Fact.(type) {
	case manifest.Accepted:
		m.Text = fmt.Sprintf("box %s (%s), model %s", b.Isolation.Level, b.Isolation.Enforced, b.Model)
	case manifest.Declined:
		m.Text, m.Theirs = "", manifest.Display(b.Reason+" "+b.Text, 200)
	case manifest.Progressed:
		m.Theirs = manifest.Display(b.Checkpoint, 200)
	case manifest.Asked:
		if b.Amendment != nil {
			m.Text = amendmentText(*b.Amendment)
		}
	case manifest.Answered:
		m.Text = map[bool]string{true: "yes", false: "no"}[b.Yes]
	case manifest.Delivered:
		f.Deliveries = append(f.Deliveries, Delivery{b.Delivery.Revision, task.DigestOf(b.Delivery), b.Delivery.Artifacts})
		m.Text = fmt.Sprintf("revision %d, %d files", b.Delivery.Revision, len(b.Delivery.Artifacts))
	case manifest.Rejected:
		f.Checks, f.Verdict = b.Report.Checks, b.Report.Verdict
		m.Text, m.Theirs = map[bool]string{true: "again", false: "final"}[b.Again], manifest.Display(b.Text, 200)
	case manifest.Completed:
		f.Checks, f.Verdict = b.Report.Checks, b.Report.Verdict
	case manifest.Failed:
		m.Theirs = manifest.Display(b.Reason+" "+b.Text, 200)
	case manifest.Cancelled:
		m.Theirs = manifest.Display(b.Reason, 200)
	case manifest.Disputed:
		m.Theirs = manifest.Display(b.Claim, 200)
	}
	a.rep.Timeline = append(a.rep.Timeline, m)
}

func amendmentText(m manifest.Amendment) string {
	var parts []string
	if b := m.Budget; b != nil {
		parts = append(parts, fmt.Sprintf("budget in %s, out %s, calls %s, time %d s", count(b.InputTokens), count(b.OutputTokens), count(b.ToolInvocations), b.WallClockSeconds))
	}
	if m.Deadline != nil {
		parts = append(parts, "deadline "+m.Deadline.String())
	}
	if m.MaxRetries != nil {
		parts = append(parts, fmt.Sprintf("retries %d", *m.MaxRetries))
	}
	if n := len(m.Withdraw); n > 0 {
		parts = append(parts, fmt.Sprintf("%d grants withdrawn", n))
	}
	return strings.Join(parts, "; ")
}

// evidenceLists says what is proven, by whose key, and what is only somebody's word.
func (a *audit) evidenceLists() {
	if a.m.TaskID.IsZero() {
		return
	}
	for _, r := range a.rep.Facts.Signed {
		a.rep.Proven = append(a.rep.Proven, Entry{What: "the contract, manifest " + a.digest.Short(), By: a.name(r), Rule: "S3"})
	}
	for _, ap := range a.rep.Facts.Approvals {
		what := gateWord(ap.Gate) + " decided by the owner"
		a.rep.Proven = append(a.rep.Proven, Entry{What: what, By: a.name(ap.By), Rule: "G1"})
		a.rep.Claimed = append(a.rep.Claimed, Entry{What: gateWord(ap.Gate) + " presence: " + manifest.Display(ap.Presence, 64), By: a.name(ap.By), Rule: "G10"})
		if !ap.Shown && a.sealed && ap.By == a.sealer {
			a.rep.Missing = append(a.rep.Missing, Entry{What: "the text that was shown for " + gateWord(ap.Gate), By: a.name(ap.By), Rule: "G2", Ask: a.name(ap.By) + ": the ask"})
		}
	}
	for _, r := range []manifest.Role{manifest.Requester, manifest.Worker} {
		if n := a.rep.Facts.Events[side(r)]; n > 0 {
			a.rep.Proven = append(a.rep.Proven, Entry{What: fmt.Sprintf("%s's events 1–%d, in order", a.name(r), n), By: a.name(r), Rule: "H1"})
		}
	}
	if a.task.IsZero() {
		return
	}
	a.rep.Claimed = append(a.rep.Claimed, Entry{What: "times: each signer's clock", By: "both sides", Rule: "T1"})
	if u := a.rep.Facts.Used; u != nil {
		a.rep.Claimed = append(a.rep.Claimed, Entry{What: "usage: " + u.Source.InputTokens + " by the worker's gateway, seen by nobody else", By: a.name(manifest.Worker), Rule: "B6"})
	}
	if i := a.rep.Facts.Isolation; i != nil {
		a.rep.Claimed = append(a.rep.Claimed, Entry{What: "the box: " + i.Level + ", " + i.Enforced, By: a.name(manifest.Worker), Rule: "X6"})
	}
}

func side(r manifest.Role) int {
	if r == manifest.Worker {
		return 1
	}
	return 0
}

func gateWord(g manifest.Gate) string { return string(policy.WordOf(g)) }

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
		say("L6", "attestation and wall clock of the other side are that gateway's word")
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
	f.Deliveries, f.Checks, f.Endings, f.Custody = full(f.Deliveries), full(f.Checks), full(f.Endings), full(f.Custody)
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
