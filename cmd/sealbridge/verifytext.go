package main

import (
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
		if v.Kind == unreadableKind {
			a.print("%s\n%-13s %s: %s\n", v.Headline(), "Unreadable", manifest.Display(v.File, 200), v.Findings[0].Message)
			continue
		}
		if err := audit.Text(v.Report, a.out); err != nil {
			return err
		}
		a.showFile(v)
		if q.who {
			a.showWho(v)
		}
	}
	return nil
}

// showFile prints what only a file has: its signature blocks, the files beside it.
func (a *app) showFile(v verdict) {
	for i, s := range v.Signers {
		a.print("%-13s %-10s %s  %s\n", label(i, "Signed"), s.Role, s.DID, s.Word)
	}
	for i, f := range v.Files {
		a.print("%-13s %s  %s, %s: %s\n", label(i, "Beside it"), f.Name, f.Digest.Short(), bytesOf(f.Bytes), f.Is)
	}
}

func (a *app) showWho(v verdict) {
	for i, p := range v.Parties {
		a.print("%-13s %-10s %s  %s\n%-13s %-10s %s\n", label(i, "Keys"), p.Role, p.Name, p.OwnerDid, "", "", manifest.Fingerprint(p.OwnerDid))
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
	if len(all) != 2 {
		return usage("--compare takes two paths with one bundle each")
	}
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
	} else {
		if err := audit.CompareText(x.Report, y.Report, c, a.out); err != nil {
			return err
		}
		if q.who {
			a.showWho(x)
		}
	}
	if !c.Agree || !x.passes(q.require) || !y.passes(q.require) {
		return errNo
	}
	return nil
}
