package audit

import (
	"fmt"
	"io"
	"strings"

	"sealbridge/manifest"
)

// ReceiptText writes the receipt of a task for people.
func ReceiptText(r Report, w io.Writer) error { return r.Receipt().Text(w) }

// Receipt is the receipt of a task for people, from the same facts. It claims
// no more than the report does.
func (r Report) Receipt() *Page {
	p := &Page{}
	if r.Task == nil {
		p.apart("RECEIPT", "no task")
		return p
	}
	f := r.Facts
	ann, ben := r.nameOf(manifest.Requester), r.nameOf(manifest.Worker)
	outcome := orText(r.Task.Outcome, "open")
	if !r.Verified {
		outcome = "NOT VERIFIED"
	}
	p.apart("RECEIPT", outcome)
	p.apart(r.Task.Title, r.Task.TaskID.String())
	p.line(fmt.Sprintf("%s asked %s · %s–%s", ann, ben, f.From.Time().Format("Mon 2 Jan 2006, 15:04"), f.To.Time().Format("15:04 UTC")))
	p.Row("Asked", fileWords(f.Asked)+" left "+ann)
	p.Row("Got", got(f))
	p.used(f, ben)
	p.Row("Paid by", map[string]string{"worker_byok": ben + ", with its own keys", "bilateral_quota": "each side its share",
		"external_settlement_plugin": "a settlement outside"}[f.CostBearer]+". No money moved through Sealbridge.")
	p.Row("Said yes", r.yeses())
	p.Row("Checked", checks(f))
	p.Row("Shows not", "that the figures are right; what the model was told elsewhere; whose clock was right")
	p.Row("Check it", "sealbridge verify FILE        manifest "+r.Task.ManifestDigest.Short())
	return p
}

func fileWords(refs []manifest.ArtifactRef) string {
	if len(refs) == 0 {
		return "no files"
	}
	total := int64(0)
	for _, x := range refs {
		total += x.SizeBytes
	}
	return plural(len(refs), "file") + ", " + count(total) + " bytes"
}

func got(f Facts) string {
	if len(f.Deliveries) == 0 {
		return "nothing"
	}
	d := f.Deliveries[len(f.Deliveries)-1]
	var names []string
	for _, x := range d.Artifacts {
		names = append(names, fmt.Sprintf("%s (%s bytes)", manifest.Display(x.Name, 100), count(x.SizeBytes)))
	}
	return strings.TrimPrefix(fmt.Sprintf("result, revision %d", d.Revision)+join(names), ", ")
}

func (p *Page) used(f Facts, ben string) {
	if f.Used == nil {
		p.Row("Used", "nothing was reported")
		return
	}
	u, l, s := f.Used.Meters, f.Limits, f.Used.Source
	row := func(label, what, have, of, source string) {
		p.Row(label, fmt.Sprintf("%-14s %12s of %10s   %s by %s's gateway", what, have, of, source, ben))
	}
	row("Used", "input tokens", count(u.InputTokens), count(l.InputTokens), s.InputTokens)
	row("", "output tokens", count(u.OutputTokens), count(l.OutputTokens), s.OutputTokens)
	row("", "tool calls", count(u.ToolInvocations), count(l.ToolInvocations), s.ToolInvocations)
	row("", "time", seconds(u.WallClockSeconds), seconds(l.WallClockSeconds), s.WallClockSeconds)
	p.Row("", "handed on      nobody")
}

func (r Report) yeses() string {
	var out []string
	for _, x := range r.Parties {
		var words []string
		for _, a := range r.Facts.Approvals {
			if a.By == x.Role {
				words = append(words, gateWord(a.Gate)+" ("+manifest.Display(a.Presence, 64)+")")
			}
		}
		if len(words) > 0 {
			out = append(out, x.Name+"  "+strings.Join(words, ", "))
		}
	}
	return orText(strings.Join(out, "      "), "nobody was asked")
}

func checks(f Facts) string {
	var out []string
	for _, c := range f.Checks {
		out = append(out, c.Kind+" "+c.Result)
	}
	return orText(strings.Join(out, " · "), "nothing")
}
