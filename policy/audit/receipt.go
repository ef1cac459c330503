package audit

import (
	"fmt"
	"io"
	"strings"
	"time"

	"sealbridge/manifest"
)

// ReceiptText writes the receipt of a task for people.
func ReceiptText(r Report, w io.Writer) error { return r.Receipt().Text(w) }

// ReceiptHTML writes the same page as a printable document without scripts.
func ReceiptHTML(r Report, w io.Writer) error {
	return printed("Sealbridge receipt", []*Page{r.Receipt()}, w)
}

// Receipt is the receipt of a task for people, from the same facts. It claims
// no more than the report does, and is the same whenever it is made from the
// same events: when the evidence was exported is not in it.
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
	p.line(ann + " asked " + ben + r.when())
	p.Row("Asked", r.asked(ann))
	p.Row("Got", r.got(ann))
	p.used(f, ben)
	p.Row("Paid by", map[string]string{"worker_byok": ben + ", with its own keys", "bilateral_quota": "each side its share",
		"external_settlement_plugin": "a settlement outside"}[f.CostBearer]+". No money moved through Sealbridge.")
	p.Row("Said yes", r.yeses())
	p.Row("Checked", checks(f))
	if len(f.Criteria) > 0 {
		p.Row("Evidence", f.criteria())
	}
	if f.Attested != nil {
		p.Row("Ran", f.ran()+"   claimed by "+ben+"'s gateway")
	}
	p.Row("Shows not", "that the figures are right; what the model was told elsewhere; whose clock was right")
	p.Row("Check it", "sealbridge export TASK -o FILE, then sealbridge verify FILE   manifest "+r.Task.ManifestDigest.Short())
	return p
}

// when is from the first event that counts to the last, by the signers' clocks.
func (r Report) when() string {
	if len(r.Timeline) == 0 {
		return ""
	}
	from, to := r.Timeline[0].At, r.Timeline[0].At
	for _, m := range r.Timeline {
		if m.At.Before(from) {
			from = m.At
		}
		if m.At.After(to) {
			to = m.At
		}
	}
	last := "15:04 UTC"
	if from.Time().Format(time.DateOnly) != to.Time().Format(time.DateOnly) {
		last = "Mon 2 Jan 2006, 15:04 UTC"
	}
	return " · " + from.Time().Format("Mon 2 Jan 2006, 15:04") + "–" + to.Time().Format(last)
}

// at is when an event of a kind was said, " 09:15", or "" where it was not.
func (r Report) at(kind manifest.Kind) string {
	for _, m := range r.Timeline {
		if m.Kind == kind {
			return " " + m.At.Time().Format("15:04")
		}
	}
	return ""
}

// asked says what left the requester: files never before the contract is accepted (R5).
func (r Report) asked(ann string) string {
	words := fileWords(r.Facts.Asked)
	switch at := r.at(manifest.KindAccepted); {
	case len(r.Facts.Asked) == 0:
		return words
	case at == "":
		return words + ", and none left " + ann
	default:
		return words + ", left " + ann + at
	}
}

func (r Report) got(ann string) string {
	words := got(r.Facts)
	if at := r.at(manifest.KindCompleted); at != "" {
		return words + ", accepted and released to " + ann + at
	} else if len(r.Facts.Deliveries) > 0 {
		return words + ", not accepted"
	}
	return words
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
	row := func(label, what string, show func(int64) string, have, of, first int64, source string) {
		text := fmt.Sprintf("%-14s %12s of %10s   %s by %s's gateway", what, show(have), show(of), source, ben)
		if of != first {
			text += fmt.Sprintf(" (%s from %s)", map[bool]string{true: "raised", false: "lowered"}[of > first], show(first))
		}
		p.Row(label, text)
	}
	row("Used", "input tokens", count, u.InputTokens, l.InputTokens, f.First.InputTokens, s.InputTokens)
	row("", "output tokens", count, u.OutputTokens, l.OutputTokens, f.First.OutputTokens, s.OutputTokens)
	row("", "tool calls", count, u.ToolInvocations, l.ToolInvocations, f.First.ToolInvocations, s.ToolInvocations)
	row("", "time", seconds, u.WallClockSeconds, l.WallClockSeconds, f.First.WallClockSeconds, s.WallClockSeconds)
	p.Row("", "handed on      "+f.Receipt.handedOn())
}

// yeses are the gates that each side's people decided, by how present they said they were.
func (r Report) yeses() string {
	var out []string
	for _, x := range r.Parties {
		var kinds []string
		gates := map[string][]string{}
		for _, a := range r.Facts.Approvals {
			kind := manifest.Display(a.Presence, 64)
			if a.Standing != nil {
				kind += ", standing"
			}
			if a.By == x.Role {
				if gates[kind] == nil {
					kinds = append(kinds, kind)
				}
				gates[kind] = append(gates[kind], gateWord(a.Gate))
			}
		}
		var words []string
		for _, k := range kinds {
			words = append(words, strings.Join(gates[k], ", ")+" ("+k+")")
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
		out = append(out, f.checked(c))
	}
	return orText(strings.Join(out, " · "), "nothing")
}
