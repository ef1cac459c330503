package approval

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"sealbridge/manifest"
	"sealbridge/policy"
)

const (
	minWidth   = 24 // narrower than a phone held upright
	maxTheirsW = 8  // lines of one text on the card; all of it under [v]
)

// Card is the ask for a terminal of so many columns, looked at in one instant,
// times in loc (product: our sentence first, then the difference, their words
// in a ruled block, never first; deny as easy as allow). No text of others
// begins a row, whatever characters it is made of: a row that a terminal had to
// break by itself could begin with a stranger's "[a] allow".
func Card(a Ask, at time.Time, width int, loc *time.Location) string {
	c := card{width: max(width, minWidth)}
	name := manifest.Display(a.From.Name, 64)
	head := fmt.Sprintf("%s · ask %s · %s %s", strings.ToUpper(string(policy.WordOf(a.Gate))), a.Short(), direction(a), from(a, name))
	end := "no in " + span(a.Until.Time().Sub(at))
	if !at.Before(a.Until.Time()) {
		end = "no: expired"
	}
	c.apart(head, end)
	c.wrap("", "  ", a.Question)
	c.wrap("", "  ", a.Effect)
	c.line("")
	for _, l := range a.Lines {
		c.wrap(fmt.Sprintf("  %s %-8s ", l.Mark, l.Word), under, l.Text)
		if l.More != "" {
			c.wrap(under, under, l.More)
		}
		if l.Was != "" {
			c.wrap(under, under, was(a)+l.Was)
		}
	}
	until := fmt.Sprintf("  until      %s", when(a.Ends.Time(), loc))
	if len(a.Risk) > 0 {
		until += "          risk  " + strings.Join(a.Risk, ", ")
	}
	c.wrap("", under, until)
	c.theirs(a, name)
	c.line("")
	c.wrap("asked because  ", strings.Repeat(" ", 15), a.Because)
	c.wrap("", "  ", fmt.Sprintf("your yes signs %s %s, with %s", policy.WordOf(a.Gate), a.SubjectDigest.Short(), strings.Join(a.Presence, " or ")))
	c.wrap("", "", Choices(a))
	return c.String()
}

const under = "             " // where the text of a line stands

// Choices is the row of keys under a card.
func Choices(a Ask) string {
	if CanCounter(a) {
		return "[a] allow   [d] deny   [c] counter with less   [v] view   [l] later"
	}
	return "[a] allow   [d] deny   [v] view   [l] later"
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
	if isOpen(a) {
		return name
	}
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
	c.wrap("", "  ", who+" It is data; nobody checked it.")
	for _, t := range a.Theirs {
		text, _ := a.text(t)
		rows := ruledRows(text, c.width, maxTheirsW+1)
		for _, l := range rows[:min(len(rows), maxTheirsW)] {
			c.line(l)
		}
		if len(rows) > maxTheirsW {
			c.wrap("    ", "    ", fmt.Sprintf("[v] all %s characters of %s", count(int64(utf8.RuneCountInString(text))), manifest.Display(t.Label, 100)))
		}
	}
}

const rule = "  ┆ " // before every row that others wrote

// ruledRows are the rows of a text of others, escaped, each behind the rule and
// none wider than the terminal; most bounds them, 0 is no bound.
func ruledRows(text string, width, most int) []string {
	c := card{width: width}
	for _, l := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		c.wrap(rule, rule, manifest.Display(l, utf8.RuneCountInString(l)+1))
		if n := strings.Count(c.String(), "\n"); most > 0 && n >= most {
			break
		}
	}
	rows := strings.Split(strings.TrimRight(c.String(), "\n"), "\n")
	if most > 0 && len(rows) > most {
		rows = rows[:most]
	}
	return rows
}

// View is everything that others wrote, in full, escaped, for a terminal of so
// many columns (0: rows are not broken); what [v] opens.
func View(a Ask, width int) string {
	var b strings.Builder
	if width <= 0 {
		width = math.MaxInt32
	}
	for _, t := range a.Theirs {
		text, _ := a.text(t)
		b.WriteString(manifest.Display(t.Label, 100) + "\n")
		for _, l := range ruledRows(text, max(width, minWidth), 0) {
			b.WriteString(l + "\n")
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
	gap := c.width - columns(left) - columns(right)
	if gap < 2 {
		c.wrap("", "  ", left)
		c.line(right)
		return
	}
	c.line(left + strings.Repeat(" ", gap) + right)
}

// wrap breaks text between words at the width; a word that is longer is broken where it must be.
func (c *card) wrap(first, rest, text string) {
	indent := first
	for {
		head, tail := fit(text, max(8, c.width-columns(indent)))
		c.line(strings.TrimRight(indent+head, " "))
		if tail == "" {
			return
		}
		text, indent = tail, rest
	}
}

// fit takes as much of a text as has room, up to a space where there is one in the second half.
func fit(text string, room int) (head, tail string) {
	used, space := 0, -1
	for i, r := range text {
		if w := width(r); used+w > room {
			if r == ' ' {
				space = i
			}
			if space > 0 {
				i = space
			}
			return text[:i], strings.TrimLeft(text[i:], " ")
		} else if used += w; r == ' ' && used > room/2 {
			space = i
		}
	}
	return text, ""
}

func columns(s string) (n int) {
	for _, r := range s {
		n += width(r)
	}
	return n
}

// width is how many columns a character takes. What may be drawn wide counts as
// wide: a row that is too short is only short. Letters that a terminal set for
// Chinese or Japanese draws wide by choice, as Cyrillic ones, count as narrow.
func width(r rune) int {
	if r < 0x1100 || strings.ContainsRune("“”‘’…–┆✓⟨⟩", r) { // the marks of our own
		return 1
	}
	return 2
}
