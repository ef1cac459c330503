package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
)

// several says how `propose` asks more than one contact (P4).
type several struct {
	race   bool
	quorum int64
	open   bool // an open proposal, which binds nobody (M10)
}

func (x *several) flags(c *cobra.Command) {
	c.Flags().BoolVar(&x.open, "open", false, "ask each --to whether it would do this; nothing binds, and you pick with task pick")
	c.Flags().BoolVar(&x.race, "race", false, "ask each --to; the first good delivery is taken, the others are cancelled")
	c.Flags().Int64Var(&x.quorum, "quorum", 0, "ask each --to; one is taken once so many deliver the same (a majority)")
}

// of reads the flags beside the contacts; "" is a task for one.
func (x several) of(to []string) (manifest.GroupKind, error) {
	switch {
	case len(to) == 0:
		return "", usage("--to CONTACT")
	case x.race && x.quorum != 0:
		return "", usage("--race or --quorum K, not both")
	case len(to) == 1 && (x.race || x.quorum != 0):
		return "", usage("--race and --quorum ask several: --to A --to B")
	case len(to) == 1:
		return "", nil
	case x.race:
		return manifest.Race, nil
	case x.quorum != 0:
		return manifest.Quorum, nil
	}
	return "", usage("several contacts: --race takes the first good delivery, --quorum K what K of them deliver alike")
}

// proposeSeveral makes a task for each contact, and asks about each on a terminal.
func (a *app) proposeSeveral(ctx context.Context, h *home.Home, cl *local.Client, in gateway.Several, o *wait) error {
	out, err := local.ProposeSeveral.Call(ctx, cl, in)
	if err != nil {
		return err
	}
	if in.DryRun {
		for _, p := range out.Tasks {
			a.print("%s\n", p.Manifest)
		}
		return nil
	}
	if a.json {
		if err := a.emit(out); err != nil {
			return err
		}
	} else {
		a.print("%s\n", out.Group)
		for i, p := range out.Tasks {
			a.print("  %s  %s\n", p.Task, in.To[i])
		}
	}
	for _, p := range out.Tasks {
		switch {
		case p.Ask == "":
		case !a.terminal():
			a.note("waiting for you: sealbridge gate show %s", short(p.Ask))
		default:
			if err := a.decideHere(ctx, h, cl, p.Ask); err != nil && !quietNo(err) {
				return err // a no to one of them lets the others go on
			}
		}
	}
	if o == nil {
		return nil
	}
	if a.terminal() && a.live() {
		o.decide = func(ask string) error {
			if err := a.decideHere(ctx, h, cl, ask); !quietNo(err) {
				return err
			}
			return nil
		}
	}
	return a.waitForOne(ctx, cl, out, *o)
}

// quietNo says that a person said no, which was shown already.
func quietNo(err error) bool {
	p := (*problem)(nil)
	return errors.As(err, &p) && p.exit == exitNo && p.Error() == ""
}

// waitForOne follows a group until one of its tasks is completed, or none can be.
func (a *app) waitForOne(ctx context.Context, cl *local.Client, j gateway.Joint, o wait) error {
	waited := ctx
	if o.most > 0 {
		var cancel context.CancelFunc
		waited, cancel = context.WithTimeout(ctx, o.most)
		defer cancel()
	}
	in, w, said := gateway.Since{Task: j.Tasks[0].Task}, watcher{app: a}, ""
	for {
		ch, err := local.Watch.Call(waited, cl, in)
		switch {
		case err != nil && waited.Err() != nil:
			a.note("not yet: %s", strings.ReplaceAll(strings.TrimSpace(said), "\n", "; "))
			return ended(exitNotYet)
		case err != nil:
			return err
		}
		in.After = ch.Seq
		g := ch.Task.Group
		if text := groupText(g); text != said && !a.json {
			a.print("%s", text)
			said = text
		}
		switch g.State {
		case policy.GroupTaken:
			return a.waitFor(ctx, cl, taken(g), o)
		case policy.GroupOver:
			return ended(exitNo)
		case policy.GroupDisagreed:
			a.note("they do not agree: sealbridge task show %s; end it with sealbridge task cancel %s", short(g.Tasks[0].TaskID), short(g.ID))
			return ended(exitNo)
		}
		if o.decide == nil {
			continue
		}
		for _, p := range g.Tasks {
			t, err := local.Task.Call(ctx, cl, gateway.Ref{Task: p.TaskID})
			if err != nil {
				return err
			}
			if err := w.decideOnce(t, o.decide); err != nil {
				return err
			}
		}
	}
}

func taken(g *gateway.GroupView) string {
	for _, t := range g.Tasks {
		if t.Taken {
			return t.TaskID
		}
	}
	return ""
}

// groupText is a group as people read it: what it is, where it stands, who is how far.
func groupText(g *gateway.GroupView) string {
	if g == nil {
		return ""
	}
	var b strings.Builder
	what := "race"
	if g.Kind == manifest.Quorum {
		what = fmt.Sprintf("quorum, %d of %d the same", g.Need, len(g.Tasks))
	}
	fmt.Fprintf(&b, "  %s   %s   %s   together up to %s tokens in, %s out\n", what, g.ID, strings.ToUpper(string(g.State)), approval.Figure(g.Total.InputTokens), approval.Figure(g.Total.OutputTokens))
	for _, t := range g.Tasks {
		line := fmt.Sprintf("    %s  %-12s %s", short(t.TaskID), t.With, t.State)
		switch {
		case t.Taken:
			line += "   taken"
		case t.Same != "" && g.Kind == manifest.Quorum:
			line += fmt.Sprintf("   answer %s, %d the same", answerName(g, t.Same), t.Agree)
		case t.Same != "":
			line += "   a good delivery waits"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// answerName calls different answers A, B, … in the order in which they stand.
func answerName(g *gateway.GroupView, same string) string {
	var seen []string
	for _, t := range g.Tasks {
		if t.Same == "" {
			continue
		}
		at := -1
		for i, s := range seen {
			if s == t.Same {
				at = i
			}
		}
		if at < 0 {
			at, seen = len(seen), append(seen, t.Same)
		}
		if t.Same == same {
			return string(rune('A' + at))
		}
	}
	return "?"
}
