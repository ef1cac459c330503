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

// Text writes the report for people. Good and bad use the same words in the
// same places; times are UTC; every text of others is escaped (M8).
func Text(r Report, w io.Writer) error {
	p := &page{}
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
		p.row("Missing", "nothing the contract needs. Not shown: policy files (digests only)")
	}
	p.entries("Missing", r.Missing)
	p.ask(r)
	p.notes(r)
	for i, l := range r.Limits {
		p.row(first(i, "Limits"), l.ID+" "+l.Text)
	}
	if r.Known != "all" && len(r.Parties) > 0 {
		p.gap()
		p.line("names above were chosen by the signers where no line says known; --who lists keys to confirm")
	}
	_, err := io.WriteString(w, p.String())
	return err
}

type page struct{ strings.Builder }

func (p *page) line(s string) { p.WriteString(strings.TrimRight(s, " ") + "\n") }

func (p *page) gap() { p.line("") }

const textWidth = 78

func (p *page) apart(left, right string) {
	n := textWidth - width(left) - width(right)
	p.line(left + strings.Repeat(" ", max(2, n)) + right)
}

// row is a label in a column of its own and a text beside it, wrapped.
func (p *page) row(label, text string) {
	const col = 14
	room := textWidth + 20 - col
	r := []rune(text)
	for len(r) > room {
		cut := room
		for i := room; i > room/2; i-- {
			if r[i] == ' ' {
				cut = i
				break
			}
		}
		p.line(pad(label, col) + string(r[:cut]))
		r, label = []rune(strings.TrimLeft(string(r[cut:]), " ")), ""
	}
	p.line(pad(label, col) + string(r))
}

func pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-width(s))) }

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

func (p *page) who(r Report) {
	for i, x := range r.Parties {
		known := "not known"
		if x.Known {
			known = "known" + map[bool]string{true: ": " + x.Learned}[x.Learned != ""]
		}
		p.row(first(i, "Who"), fmt.Sprintf("%-10s %s  %s  %s", x.Role, x.Name, x.OwnerDid, known))
	}
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

func (p *page) contract(r Report) {
	f := r.Facts
	signed := "nobody signed"
	switch {
	case len(f.Signed) == 2:
		signed = "both signed"
	case len(f.Signed) == 1:
		signed = "only " + r.nameOf(f.Signed[0]) + " signed"
	}
	p.row("Agreed", "manifest "+r.Task.ManifestDigest.Short()+", "+signed)
	for i, a := range f.Amendments {
		p.row("", fmt.Sprintf("amendment %d: %s; both signed", i+1, a.Text))
	}
	for i, a := range f.Approvals {
		shown := ""
		if a.Shown {
			shown = "   text shown: in the bundle"
		}
		p.row(first(i, "Approved"), fmt.Sprintf("%-10s %s  %s, claimed  %s%s", gateWord(a.Gate), r.nameOf(a.By), manifest.Display(a.Presence, 64), clock(a.At), shown))
	}
}

func (p *page) work(r Report) {
	f := r.Facts
	for i, d := range f.Deliveries {
		var names []string
		for _, x := range d.Artifacts {
			names = append(names, manifest.Display(x.Name, 100)+" "+x.Digest.Short())
		}
		p.row(first(i, "Delivered"), fmt.Sprintf("revision %d: result %s%s", d.Revision, d.Digest.Short(), join(names)))
	}
	if len(f.Checks) > 0 {
		var parts []string
		for _, c := range f.Checks {
			parts = append(parts, c.Kind+" "+c.Check+" "+c.Result)
		}
		p.row("Checked", strings.Join(parts, " · ")+" · verdict "+f.Verdict)
	}
	if f.Used != nil {
		u, l := f.Used.Meters, f.Limits
		p.row("Spent", fmt.Sprintf("in %s of %s · out %s of %s · calls %s of %s · %s of %s", count(u.InputTokens), count(l.InputTokens),
			count(u.OutputTokens), count(l.OutputTokens), count(u.ToolInvocations), count(l.ToolInvocations), seconds(u.WallClockSeconds), seconds(l.WallClockSeconds)))
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
	p.row("Outcome", outcome)
}

func join(names []string) string {
	if len(names) == 0 {
		return ", no files"
	}
	return ", " + strings.Join(names, ", ")
}

// brk is what stands first in a bad report: where it breaks and what is left.
func (p *page) brk(r Report) {
	wrong := r.wrong()
	if len(wrong) == 0 {
		return
	}
	p.apart("First break   "+manifest.Display(wrong[0].Path, 60), "rule "+wrong[0].Rule)
	for i, f := range wrong {
		if i == 20 {
			p.row("", fmt.Sprintf("and %d more; --json has them all", len(wrong)-i))
			break
		}
		p.row("", fmt.Sprintf("%-18s %s  (%s)", f.Code, manifest.Display(f.Message, 300), manifest.Display(f.Path, 80)))
	}
	var holds []string
	for _, e := range r.Proven {
		holds = append(holds, e.What)
	}
	if len(holds) == 0 {
		holds = []string{"nothing that was to be shown"}
	}
	slices.Sort(holds)
	p.row("Still holds", strings.Join(slices.Compact(holds), ", "))
	p.row("Can't say", "what was delivered after the break, whether in time, the outcome")
}

func (r Report) wrong() (out []Finding) {
	for _, f := range r.Findings {
		if f.Severity == Wrong {
			out = append(out, f)
		}
	}
	return out
}

func (p *page) entries(label string, es []Entry) {
	for i, e := range es {
		p.row(first(i, label), fmt.Sprintf("%s  · %s · %s", e.What, e.By, e.Rule))
	}
}

func (p *page) ask(r Report) {
	var asks []string
	for _, e := range r.Missing {
		if e.Ask != "" && !slices.Contains(asks, e.Ask) {
			asks = append(asks, e.Ask)
		}
	}
	for i, a := range asks {
		p.row(first(i, "Ask for"), a)
	}
}

func (p *page) notes(r Report) {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == Note {
			p.row(first(n, "Left out"), fmt.Sprintf("%s  %s (%s)", manifest.Display(f.Path, 80), manifest.Display(f.Message, 200), f.Code))
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
