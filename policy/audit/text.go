package audit

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// Headline is the three answers in the words that always stand there.
func (r Report) Headline() string {
	word := func(ok bool, text string) string {
		if ok {
			return text
		}
		return "NOT " + text
	}
	signers := map[string]string{"all": "SIGNERS KNOWN", "some": "SOME SIGNERS KNOWN"}[r.Known]
	return word(r.Verified, "VERIFIED") + " · " + word(r.Binding, "BINDING") + " · " + orText(signers, "SIGNERS NOT KNOWN")
}

// Text writes the report for people.
func Text(r Report, w io.Writer) error { return r.Page().Text(w) }

// Page is the report for people. Good and bad use the same words in the same
// places; times are UTC; every text of others is escaped (M8).
func (r Report) Page() *Page {
	p := &Page{}
	head := r.Headline()
	counts := fmt.Sprintf("%s, %s", plural(r.Documents, "document"), plural(r.Signatures, "signature"))
	p.apart(head, counts)
	if t := r.Task; t != nil {
		p.apart(fmt.Sprintf("%s  “%s”", t.TaskID, t.Title), manifest.Display(r.File, 60))
	} else {
		p.apart(r.Kind, manifest.Display(r.File, 60))
	}
	if !r.Verified {
		p.brk(r)
	}
	p.gap()
	p.who(r)
	if r.Task != nil {
		p.contract(r)
		p.work(r)
	}
	p.gap()
	p.entries("Proven", r.Proven)
	p.entries("Claimed", r.Claimed)
	if len(r.Missing) == 0 {
		p.Row("Missing", "nothing the contract needs. Not shown: policy files (digests only)")
	}
	p.entries("Missing", r.Missing)
	p.ask(r)
	p.notes(r)
	for i, l := range r.Limits {
		p.Row(first(i, "Limits"), l.ID+" "+l.Text)
	}
	if r.Known != "all" && len(r.Parties) > 0 {
		p.gap()
		p.line("names above were chosen by the signers where no line says known; --who lists keys to confirm")
	}
	return p
}

func first(i int, label string) string {
	if i == 0 {
		return label
	}
	return ""
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return count(int64(n)) + " " + word + "s"
}

func (p *Page) who(r Report) {
	for i, x := range r.Parties {
		known := "not known"
		if x.Known {
			known = "known" + map[bool]string{true: ": " + x.Learned}[x.Learned != ""]
		}
		p.Row(first(i, "Who"), fmt.Sprintf("%-10s %s  %s  %s", x.Role, x.Name, x.OwnerDid, known))
	}
}

// proven is the word behind a presence (G10).
func proven(a Approval) string {
	if a.Proven {
		return "proven"
	}
	return "claimed"
}

// nameOf is what the report calls a side.
func (r Report) nameOf(role manifest.Role) string {
	for _, x := range r.Parties {
		if x.Role == role {
			return x.Name
		}
	}
	return string(role)
}

func (p *Page) contract(r Report) {
	f := r.Facts
	signed := "nobody signed"
	switch {
	case len(f.Signed) == 2:
		signed = "both signed"
	case len(f.Signed) == 1:
		signed = "only " + r.nameOf(f.Signed[0]) + " signed"
	}
	p.Row("Agreed", "manifest "+r.Task.ManifestDigest.Short()+", "+signed)
	for i, a := range f.Amendments {
		p.Row("", fmt.Sprintf("amendment %d: %s; both signed", i+1, a.Text))
	}
	for i, a := range f.Approvals {
		shown := ""
		if a.Shown {
			shown = "   text shown: in the bundle"
		}
		if s := a.Standing; s != nil {
			shown = fmt.Sprintf("   standing yes, use %d of %d, until %s", s.Use, s.Uses, s.Until) + shown
		}
		p.Row(first(i, "Approved"), fmt.Sprintf("%-10s %s  %s, %s  %s%s", gateWord(a.Gate), r.nameOf(a.By), manifest.Display(a.Presence, 64), proven(a), clock(a.At), shown))
	}
}

func (p *Page) work(r Report) {
	f := r.Facts
	for i, d := range f.Deliveries {
		var names []string
		for _, x := range d.Artifacts {
			names = append(names, manifest.Display(x.Name, 100)+" "+x.Digest.Short())
		}
		p.Row(first(i, "Delivered"), fmt.Sprintf("revision %d: result %s%s", d.Revision, d.Digest.Short(), join(names)))
	}
	if len(f.Checks) > 0 {
		var parts []string
		for _, c := range f.Checks {
			if text := c.Kind + " " + c.Check + " " + c.Result; c.Run == nil {
				parts = append(parts, text)
			} else {
				parts = append(parts, f.checked(c))
			}
		}
		p.Row("Checked", strings.Join(parts, " · ")+" · verdict "+f.Verdict)
	}
	if len(f.Criteria) > 0 {
		p.Row("Evidence", f.criteria())
	}
	if f.Attested != nil {
		p.Row("Ran", f.ran()+"  claimed")
	}
	for i, o := range f.Opened {
		how := "by " + r.nameOf(manifest.Worker) + "'s owner, for this task"
		if !o.Approved {
			how = "without a decision"
		}
		p.Row(first(i, "Opened"), fmt.Sprintf("%s  %s  %s", o.Host, how, clock(o.At)))
	}
	for i, h := range f.Reached {
		p.Row(first(i, "Reached"), reachedText(h)+"  claimed")
	}
	if f.Used != nil {
		u, l := f.Used.Meters, f.Limits
		p.Row("Spent", fmt.Sprintf("in %s of %s · out %s of %s · calls %s of %s · %s of %s", count(u.InputTokens), count(l.InputTokens),
			count(u.OutputTokens), count(l.OutputTokens), count(u.ToolInvocations), count(l.ToolInvocations), seconds(u.WallClockSeconds), seconds(l.WallClockSeconds)))
		if f.Receipt != nil {
			p.Row("Receipt", f.Receipt.Digest.Short()+", handed on: "+f.Receipt.handedOn())
		}
	}
	outcome := "open"
	switch {
	case !r.Verified && r.Kind == "bundle":
		outcome = "can't say"
	case r.Task.Outcome != "":
		outcome = r.Task.Outcome
	}
	if f.Events[0]+f.Events[1] > 0 {
		outcome += fmt.Sprintf("; %s's %s and %s's %s give the same state in any order", r.nameOf(manifest.Requester), plural(int(f.Events[0]), "event"),
			r.nameOf(manifest.Worker), plural(int(f.Events[1]), "event"))
	}
	p.Row("Outcome", outcome)
}

func join(names []string) string {
	if len(names) == 0 {
		return ", no files"
	}
	return ", " + strings.Join(names, ", ")
}

// brk is what stands first in a bad report: where it breaks and what is left.
func (p *Page) brk(r Report) {
	wrong := r.wrong()
	if len(wrong) == 0 {
		return
	}
	p.add(row{label: "First break", col: labelCol, text: manifest.Display(wrong[0].Path, 60), right: "rule " + wrong[0].Rule})
	for i, f := range wrong {
		if i == 20 {
			p.Row("", fmt.Sprintf("and %d more; --json has them all", len(wrong)-i))
			break
		}
		p.Row("", fmt.Sprintf("%-18s %s  (%s)", f.Code, manifest.Display(f.Message, 300), manifest.Display(f.Path, 80)))
	}
	var holds []string
	for _, e := range r.Proven {
		holds = append(holds, e.What)
	}
	if len(holds) == 0 {
		holds = []string{"nothing that was to be shown"}
	}
	slices.Sort(holds)
	p.Row("Still holds", strings.Join(slices.Compact(holds), ", "))
	p.Row("Can't say", "what was delivered after the break, whether in time, the outcome")
}

func (r Report) wrong() (out []Finding) {
	for _, f := range r.Findings {
		if f.Severity == Wrong {
			out = append(out, f)
		}
	}
	return out
}

func (p *Page) entries(label string, es []Entry) {
	for i, e := range es {
		p.Row(first(i, label), fmt.Sprintf("%s  · %s · %s", e.What, e.By, e.Rule))
	}
}

func (p *Page) ask(r Report) {
	var asks []string
	for _, e := range r.Missing {
		if e.Ask != "" && !slices.Contains(asks, e.Ask) {
			asks = append(asks, e.Ask)
		}
	}
	for i, a := range asks {
		p.Row(first(i, "Ask for"), a)
	}
}

func (p *Page) notes(r Report) {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == Note {
			p.Row(first(n, "Left out"), fmt.Sprintf("%s  %s (%s)", manifest.Display(f.Path, 80), manifest.Display(f.Message, 200), f.Code))
			if n++; n == 20 {
				return
			}
		}
	}
}

func clock(t signing.Time) string { return t.Time().Format("2 Jan 15:04:05 UTC") }

func seconds(n int64) string {
	if n < 60 {
		return fmt.Sprintf("%d s", n)
	}
	return fmt.Sprintf("%d m %02d s", n/60, n%60)
}
