package main

import (
	"fmt"

	"sealbridge/manifest"
	"sealbridge/policy/audit"
)

// show prints the reports: one value, or a list of several.
func (a *app) show(all []verdict, q asked) error {
	if a.json {
		if len(all) == 1 {
			return a.emit(all[0])
		}
		return a.emit(all)
	}
	for i, v := range all {
		if i > 0 {
			a.print("\n")
		}
		if err := v.page(q).Text(a.out); err != nil {
			return err
		}
	}
	return nil
}

// page is the report for people, and what only a file has: its signature
// blocks, the files of its folder, the keys to ask for.
func (v verdict) page(q asked) *audit.Page {
	var p *audit.Page
	if v.Kind == unreadableKind {
		p = audit.NewPage(v.Headline())
		p.Row("Unreadable", manifest.Display(v.File, 200)+": "+v.Findings[0].Message)
	} else {
		p = v.Report.Page()
	}
	for i, s := range v.Signers {
		p.Row(label(i, "Signed"), fmt.Sprintf("%-10s %s  %s", s.Role, s.DID, s.Word))
	}
	for i, f := range v.Files {
		p.Row(label(i, "Files"), fmt.Sprintf("%s  %s, %s  %s", f.Path, f.Digest.Short(), bytesOf(f.Bytes), f.Is))
	}
	if q.who {
		v.who(p)
	}
	return p
}

// who adds the owners' keys, to be read back to them.
func (v verdict) who(p *audit.Page) {
	for i, x := range v.Parties {
		p.Row(label(i, "Keys"), fmt.Sprintf("%-10s %s  %s", x.Role, x.Name, x.OwnerDid))
		p.Row("", fmt.Sprintf("%-10s %s", "", x.Fingerprint))
	}
}

func label(i int, text string) string {
	if i == 0 {
		return text
	}
	return ""
}

// comparison is what `verify --compare --json` prints.
type comparison struct {
	Verified   bool             `json:"verified"` // both are
	Binding    bool             `json:"binding"`  // both are
	Known      string           `json:"known"`    // of both
	Comparison audit.Comparison `json:"comparison"`
	Reports    []verdict        `json:"reports"`
}

// compare holds two files against each other. Two that differ are a no, even
// if each holds alone.
func (a *app) compare(all []verdict, q asked) error {
	x, y := all[0], all[1]
	c := audit.Compare(x.Report, y.Report)
	if a.json {
		out := comparison{x.Verified && y.Verified, x.Binding && y.Binding, x.Known, c, all}
		if y.Known != x.Known {
			out.Known = "some"
		}
		if err := a.emit(out); err != nil {
			return err
		}
	} else if err := comparePage(x, y, q).Text(a.out); err != nil {
		return err
	}
	if !c.Agree || !x.passes(q.require) || !y.passes(q.require) {
		return errNo
	}
	return nil
}

func comparePage(x, y verdict, q asked) *audit.Page {
	p := audit.ComparePage(x.Report, y.Report, audit.Compare(x.Report, y.Report))
	if q.who {
		x.who(p)
	}
	return p
}
