package approval

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"sealbridge/manifest"
	"sealbridge/policy"
)

const (
	minWidth   = 40 // narrower terminals wrap by themselves
	maxTheirsW = 8  // lines of one text on the card; all of it under [v]
)

// Card is the ask for a terminal of so many columns, looked at in one instant,
// times in loc (product: our sentence first, then the difference, their words
// in a ruled block, never first; deny as easy as allow).
func Card(a Ask, at time.Time, width int, loc *time.Location) string {
	c := card{width: max(width, minWidth)}
	name := manifest.Display(a.From.Name, 64)
	head := fmt.Sprintf("%s · ask %s · %s %s", strings.ToUpper(string(policy.WordOf(a.Gate))), a.Short(), direction(a), from(a, name))
	end := "no in " + span(a.Until.Time().Sub(at))
	if !at.Before(a.Until.Time()) {
		end = "no: expired"
	}
	c.apart(head, end)
	c.wrap("", "", a.Question)
	c.line("")
	for _, l := range a.Lines {
		c.wrap(fmt.Sprintf("  %s %-8s ", l.Mark, l.Word), strings.Repeat(" ", 13), l.Text)
		if l.More != "" {
			c.wrap(strings.Repeat(" ", 13), strings.Repeat(" ", 13), l.More)
		}
		if l.Was != "" {
			c.wrap(strings.Repeat(" ", 13), strings.Repeat(" ", 13), was(a)+l.Was)
		}
	}
	until := fmt.Sprintf("  until      %s", when(a.Ends.Time(), loc))
	if len(a.Risk) > 0 {
		until += "          risk  " + strings.Join(a.Risk, ", ")
	}
	c.wrap("", strings.Repeat(" ", 13), until)
	c.theirs(a, name)
	c.line("")
	c.wrap("asked because  ", strings.Repeat(" ", 15), a.Because)
	c.wrap("", "", fmt.Sprintf("your yes signs %s %s, with %s", policy.WordOf(a.Gate), a.SubjectDigest.Short(), strings.Join(a.Presence, " or ")))
	c.line("[a] allow   [d] deny   [v] view   [l] later")
	return c.String()
}

// direction says whether the other side asks, or is to be asked.
func direction(a Ask) string {
	if a.Side == manifest.Requester && a.Gate == manifest.ContractGate && !isAmendment(a) {
		return "to"
	}
	return "from"
}

func was(a Ask) string {
	if isAmendment(a) {
		return "in force: "
	}
	return "last time you said yes: "
}

func from(a Ask, name string) string {
	if !a.From.Confirmed {
		return name + ", NOT confirmed"
	}
	switch a.From.Finished {
	case 0:
		return name + ", confirmed contact, no task finished yet"
	case 1:
		return name + ", confirmed contact, 1 task finished"
	}
	return fmt.Sprintf("%s, confirmed contact, %d tasks finished", name, a.From.Finished)
}

// theirs shows the words of others in a ruled block, escaped, cut with a mark.
func (c *card) theirs(a Ask, name string) {
	if len(a.Theirs) == 0 {
		return
	}
	c.line("")
	who := name + " wrote this."
	if ours(a) {
		who = "Your agent wrote this."
	}
	c.wrap("", "", who+" It is data; nobody checked it.")
	for _, t := range a.Theirs {
		text, _ := a.text(t)
		lines := manifest.DisplayLines(text, maxTheirsW, c.width-8)
		for _, l := range lines {
			c.wrap("  ┆ ", "  ┆ ", l)
		}
		if n := utf8.RuneCountInString(text); len(lines) > maxTheirsW || n > maxTheirsW*c.width/2 {
			c.line(fmt.Sprintf("  ┆ [v] all %s characters of %s", count(int64(n)), manifest.Display(t.Label, 100)))
		}
	}
}

// View is everything that others wrote, in full, escaped; what [v] opens.
func View(a Ask) string {
	var b strings.Builder
	for _, t := range a.Theirs {
		text, _ := a.text(t)
		b.WriteString(manifest.Display(t.Label, 100) + "\n")
		for _, l := range strings.Split(text, "\n") {
			b.WriteString("  ┆ " + manifest.Display(l, utf8.RuneCountInString(l)+1) + "\n")
		}
	}
	b.WriteString("subject " + a.SubjectDigest.String() + "\n")
	return b.String()
}

type card struct {
	strings.Builder
	width int
}

func (c *card) line(s string) { c.WriteString(s + "\n") }

// apart puts right at the end of the line, or on a line of its own.
func (c *card) apart(left, right string) {
	gap := c.width - utf8.RuneCountInString(left) - utf8.RuneCountInString(right)
	if gap < 2 {
		c.wrap("", "", left)
		c.line(right)
		return
	}
	c.line(left + strings.Repeat(" ", gap) + right)
}

// wrap breaks text between words at the width; a word that is longer is broken where it must be.
func (c *card) wrap(first, rest, text string) {
	room := max(8, c.width-utf8.RuneCountInString(first))
	indent := first
	for {
		r := []rune(text)
		if len(r) <= room {
			c.line(indent + text)
			return
		}
		cut := room
		for i := room; i > room/2; i-- {
			if r[i] == ' ' {
				cut = i
				break
			}
		}
		c.line(strings.TrimRight(indent+string(r[:cut]), " "))
		text = strings.TrimLeft(string(r[cut:]), " ")
		indent, room = rest, max(8, c.width-utf8.RuneCountInString(rest))
	}
}
