package audit

import (
	"io"
	"strings"
)

// Page is a report for people: rows of a label and a text, in order. [Page.Text]
// and [HTML] write the same words; every text of others in it is escaped (M8).
type Page struct{ rows []row }

// row is one row of a page. Without a column it stands alone: the page's first is
// its head, and an empty one is a gap.
type row struct {
	label string
	col   int // characters of the label's column; 0: no label
	text  string
	right string // at the right edge
}

const (
	textWidth = 78
	labelCol  = 14
)

// NewPage is a page under a head.
func NewPage(head string) *Page { return &Page{[]row{{text: head}}} }

// Row adds a text behind a label; "" continues the row above.
func (p *Page) Row(label, text string) { p.add(row{label: label, col: labelCol, text: text}) }

func (p *Page) add(r row) { p.rows = append(p.rows, r) }

func (p *Page) line(s string) { p.add(row{text: s}) }

func (p *Page) gap() { p.add(row{}) }

func (p *Page) apart(left, right string) { p.add(row{text: left, right: right}) }

// Text writes the page in lines, wrapped.
func (p *Page) Text(w io.Writer) error {
	var b strings.Builder
	for _, r := range p.rows {
		r.lines(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r row) lines(b *strings.Builder) {
	out := func(s string) { b.WriteString(strings.TrimRight(s, " ") + "\n") }
	if r.right != "" || r.col == 0 {
		left := pad(r.label, r.col) + r.text
		if r.right != "" {
			left += strings.Repeat(" ", max(2, textWidth-width(left)-width(r.right))) + r.right
		}
		out(left)
		return
	}
	room, label, rest := textWidth+20-r.col, r.label, []rune(r.text)
	for len(rest) > room {
		cut := room
		for i := room; i > room/2; i-- {
			if rest[i] == ' ' {
				cut = i
				break
			}
		}
		out(pad(label, r.col) + string(rest[:cut]))
		label, rest = "", []rune(strings.TrimLeft(string(rest[cut:]), " "))
	}
	out(pad(label, r.col) + string(rest))
}

func pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-width(s))) }
