package audit

import (
	"fmt"
	"strings"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

func (a *audit) facts() {
	f := &a.rep.Facts
	if a.m.TaskID.IsZero() {
		return
	}
	f.Asked, f.Limits, f.CostBearer = a.m.IO.InputArtifacts, a.m.Budget.Limits(), a.m.Budget.CostBearer
	for _, c := range a.m.Verification.Checks {
		if c.Kind == manifest.CommandCheck {
			if f.Commands == nil {
				f.Commands = map[string]string{}
			}
			f.Commands[c.CheckID.String()] = c.Target
		}
	}
	if a.task.IsZero() {
		return
	}
	f.First, f.Limits, f.Used = f.Limits, a.task.Limits(), a.task.Usage()
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
			if d.typ == "agent-certificate" || d.typ == "approver-certificate" || d.typ == "box-key" {
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

// checked is one check as people read it: a command by its line, with how it ended.
func (f Facts) checked(c manifest.CheckResult) string {
	line, ok := f.Commands[c.Check]
	if !ok || c.Run == nil {
		return manifest.Display(c.Kind, 64) + " " + c.Result
	}
	how := fmt.Sprintf("exit %d", c.Run.Exit)
	if c.Run.TimedOut {
		how = "timed out"
	}
	return manifest.Display(line, 200) + " " + how + ", " + c.Result
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
		if o := b.Opens; o != nil {
			f.Opened = append(f.Opened, Opened{o.Host, ev.e.At, a.agreed(o.Decision)})
			m.Text = "opens " + o.Host
		}
	case manifest.Asked:
		if b.Amendment != nil {
			m.Text = amendmentText(*b.Amendment)
		}
	case manifest.Answered:
		m.Text = map[bool]string{true: "yes", false: "no"}[b.Yes]
	case manifest.Delivered:
		f.Deliveries = append(f.Deliveries, Delivery{b.Delivery.Revision, task.DigestOf(b.Delivery), signing.DigestOf(b.Delivery.Output.Bytes()), b.Delivery.Artifacts})
		m.Text = fmt.Sprintf("revision %d, %d files", b.Delivery.Revision, len(b.Delivery.Artifacts))
		a.shown(f, b.Delivery)
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

// shown notes what a delivery brings beside its result: evidence for each
// criterion, what ran, and the receipt for what it used.
func (a *audit) shown(f *Facts, d manifest.Delivery) {
	f.Criteria, f.Attested, f.Receipt, f.Reached = nil, d.Attestation, nil, nil
	for _, c := range a.m.Task.AcceptanceCriteria {
		n := 0
		for _, e := range d.Evidence {
			if e.Criterion == c.ID {
				n++
			}
		}
		f.Criteria = append(f.Criteria, Criterion{c.ID, c.Required, n})
	}
	if d.Attestation != nil {
		f.Reached = d.Attestation.Reached
	}
	if d.Receipt == nil {
		return
	}
	if s, err := manifest.OpenValue(*d.Receipt, nil); err == nil { // the law has held it against the delivery
		if r, ok := s.Document().(*manifest.UsageReceipt); ok {
			f.Receipt = &UsageReceipt{s.Digest(), r.Complete, r.Children, r.Missing}
		}
	}
}

// criteria says for each criterion what the delivery shows.
func (f Facts) criteria() string {
	var out []string
	for _, c := range f.Criteria {
		text := c.ID.String()
		switch {
		case c.Evidence > 0:
			text += " " + plural(c.Evidence, "item")
		case c.Required:
			text += " nothing"
		default:
			text += " nothing, optional"
		}
		out = append(out, text)
	}
	return strings.Join(out, " · ")
}

// ran is what the worker's gateway says that ran.
func (f Facts) ran() string {
	t := f.Attested
	text := fmt.Sprintf("%s in %s (%s), exit %d, %s", manifest.Display(t.Runner, 64), t.Isolation.Level, t.Isolation.Enforced, t.Exit, seconds(t.WallClockSeconds))
	if t.Image != nil {
		text += ", image " + t.Image.Short()
	}
	return text
}

// handedOn says whether the figures are all there are (B7).
func (r *UsageReceipt) handedOn() string {
	switch {
	case r == nil:
		return "no receipt"
	case len(r.Children)+len(r.Missing) == 0:
		return "nobody; this is complete"
	case r.Complete:
		return plural(len(r.Children), "part") + ", in these figures; this is complete"
	}
	return fmt.Sprintf("%s with a receipt; missing: %s", plural(len(r.Children), "part"), manifest.Display(strings.Join(r.Missing, "; "), 300))
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
		if ap.Person != "" && ap.Person != manifest.OwnerPerson {
			what = gateWord(ap.Gate) + " decided by an approver whom the owner certified"
		}
		a.rep.Proven = append(a.rep.Proven, Entry{What: what, By: a.name(ap.By), Rule: "G1"})
		presence := Entry{What: gateWord(ap.Gate) + " presence: " + manifest.Display(ap.Presence, 64), By: a.name(ap.By), Rule: "G10"}
		if ap.Proven {
			a.rep.Proven = append(a.rep.Proven, presence)
		} else {
			a.rep.Claimed = append(a.rep.Claimed, presence)
		}
		if quorum := (Entry{What: fmt.Sprintf("%s votes: %d of %d are here", gateWord(ap.Gate), ap.Votes, ap.Need), By: a.name(ap.By), Rule: "G5"}); ap.Votes < ap.Need {
			a.rep.Claimed = append(a.rep.Claimed, quorum)
		} else if ap.Need > 1 {
			a.rep.Proven = append(a.rep.Proven, quorum)
		}
		if ap.Standing != nil {
			a.rep.Claimed = append(a.rep.Claimed, Entry{What: fmt.Sprintf("that this was use %d of %d of a standing yes, and no other took its place", ap.Standing.Use, ap.Standing.Uses), By: a.name(ap.By), Rule: "G6"})
		} else if !ap.Shown && a.sealed && ap.By == a.sealer {
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
	for _, c := range a.rep.Facts.Checks {
		if c.Run != nil { // M6: nobody else saw it run
			a.rep.Claimed = append(a.rep.Claimed, Entry{What: a.rep.Facts.checked(c) + ", in its box " + c.Run.Box.Level, By: a.name(manifest.Requester), Rule: "M6"})
		}
	}
	a.rep.Claimed = append(a.rep.Claimed, Entry{What: "times: each signer's clock", By: "both sides", Rule: "T1"})
	for _, ev := range a.events {
		if f, ok := ev.e.Body.Fact.(manifest.Proposed); ok && f.Group != "" {
			a.rep.Claimed = append(a.rep.Claimed, Entry{What: "that others were asked for the same (" + string(f.Group) + ")", By: a.name(manifest.Requester), Rule: "P4"})
		}
	}
	if u := a.rep.Facts.Used; u != nil {
		a.rep.Claimed = append(a.rep.Claimed, Entry{What: "usage: " + u.Source.InputTokens + " by the worker's gateway, seen by nobody else", By: a.name(manifest.Worker), Rule: "B6"})
	}
	for _, r := range a.rep.Facts.Reached {
		a.rep.Claimed = append(a.rep.Claimed, Entry{What: "reached " + reachedText(r), By: a.name(manifest.Worker), Rule: "X1"})
	}
	if i := a.rep.Facts.Isolation; i != nil {
		a.rep.Claimed = append(a.rep.Claimed, Entry{What: "the box: " + i.Level + ", " + i.Enforced, By: a.name(manifest.Worker), Rule: "X6"})
	}
}

// agreed says whether a decision inside an event is one that holds.
func (a *audit) agreed(d *jcs.Value) bool {
	if d == nil {
		return false
	}
	_, ok := a.consents[signing.DigestOf(d.Bytes())]
	return ok
}

func reachedText(r manifest.Reached) string {
	return fmt.Sprintf("%s port %d: %s, %s bytes sent, %s received", r.Host, r.Port, plural(int(r.Connections), "connection"), count(r.Sent), count(r.Received))
}

func side(r manifest.Role) int {
	if r == manifest.Worker {
		return 1
	}
	return 0
}

func gateWord(g manifest.Gate) string { return string(policy.WordOf(g)) }
