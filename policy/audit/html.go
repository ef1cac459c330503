package audit

import (
	"html"
	"io"
	"strings"

	"sealbridge/signing"
)

// Origin says how a report came about, so that another can make the same one:
// nothing in it names a clock, a machine or a folder.
type Origin struct {
	Tool    string  // name, version, revision
	Command string  // with its options; paths by their last part
	Inputs  []Input // evidence and lists of known keys, as given
}

// Input is one thing that was read.
type Input struct {
	Name   string // last part of its path
	What   string // file, folder of 3 files, …
	Digest signing.Digest
}

// policyOfPage lets a browser load nothing and run nothing.
const policyOfPage = "default-src 'none'; style-src 'unsafe-inline'"

const styleOfPage = `body{max-width:60em;margin:2em auto;padding:0 1em;font:14px/1.45 ui-monospace,Menlo,Consolas,monospace;color:#111;background:#fff}
h1,h2{font-size:1.1em;margin:1.6em 0 .2em}
p{margin:.2em 0;white-space:pre-wrap;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;margin:.6em 0}
th{width:9em;text-align:left;vertical-align:top;font-weight:normal;color:#555}
td{white-space:pre-wrap;overflow-wrap:anywhere}
th,td{padding:.1em .4em .1em 0}
.right{float:right;color:#555;margin-left:2em}
section{border-top:1px solid #bbb}
@media print{body{margin:0;max-width:none;font-size:10px}tr{break-inside:avoid}}
`

// HTML writes pages as one printable document without scripts. The same pages
// and origin give the same bytes.
func HTML(o Origin, pages []*Page, w io.Writer) error {
	return printed("Sealbridge report", append(pages[:len(pages):len(pages)], o.page()), w)
}

func printed(title string, pages []*Page, w io.Writer) error {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	b.WriteString("<meta http-equiv=\"Content-Security-Policy\" content=\"" + policyOfPage + "\">\n")
	b.WriteString("<meta name=\"viewport\" content=\"width=device-width\">\n<title>" + title + "</title>\n<style>\n" + styleOfPage + "</style>\n</head>\n<body>\n<h1>" + title + "</h1>\n")
	for _, p := range pages {
		b.WriteString("<section>\n")
		p.html(&b)
		b.WriteString("</section>\n")
	}
	b.WriteString("</body>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (o Origin) page() *Page {
	p := &Page{}
	p.line("How this report was made")
	for i, in := range o.Inputs {
		p.Row(first(i, "Input"), in.Name+"  "+in.What+"  "+in.Digest.String())
	}
	p.Row("Command", o.Command)
	p.Row("Tool", o.Tool)
	p.Row("Same again", "the same inputs, options and version give this report, byte for byte")
	return p
}

// html writes rows that have labels as tables, the first row as a head.
func (p *Page) html(b *strings.Builder) {
	table := false
	for i, r := range p.rows {
		if in := r.col > 0; in != table {
			b.WriteString(map[bool]string{true: "<table>\n", false: "</table>\n"}[in])
			table = in
		}
		right := ""
		if r.right != "" {
			right = "<span class=\"right\">" + escape(r.right) + "</span>"
		}
		switch text := right + escape(r.text); {
		case table:
			b.WriteString("<tr><th scope=\"row\">" + escape(r.label) + "</th><td>" + text + "</td></tr>\n")
		case text == "":
		case i == 0:
			b.WriteString("<h2>" + text + "</h2>\n")
		default:
			b.WriteString("<p>" + text + "</p>\n")
		}
	}
	if table {
		b.WriteString("</table>\n")
	}
}

func escape(s string) string { return html.EscapeString(strings.ToValidUTF8(s, "\ufffd")) }
