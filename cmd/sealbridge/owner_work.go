package main

import (
	"context"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/policy/audit"
)

var (
	_ = register(proposeCommand)
	_ = register(taskCommand)
	_ = register(receiptCommand)
	_ = register(exportCommand)
)

const draftTemplate = `# title and goal are enough; every other line has a default.
title: Revenue per region, November
goal: |
  Read sales.csv and add up amount_eur per region.
done_when:
  - revenue.csv has one row per region
inputs: [sales.csv]           # files that leave this machine
output: {type: object}        # JSON Schema of the result
check: [schema, person]
budget: {input_tokens: 200k, output_tokens: 20k, tool_calls: 40, time: 15m, over: stop}
deadline: 2d
sandbox: {isolation: subprocess, network: none, files: inputs}
gates: [contract, effect, delivery]
`

func proposeCommand(a *app) *cobra.Command {
	var goal, dir, title, counter, limit string
	var to, inputs, handOn []string
	var parent string
	var more several
	var dry, follow, template bool
	c := &cobra.Command{
		Use: "propose [FILE]", GroupID: "work", Short: "ask a contact's agent for work", Args: cobra.MaximumNArgs(1),
		Example: "  sealbridge propose --to ben -m \"Total sales.csv per region\" --input sales.csv --wait -o out/\n  sealbridge propose task.yaml --to ben --dry-run\n  sealbridge propose task.yaml --to ben --to cleo --to dan --quorum 2\n  sealbridge propose --parent QW7F --to cleo -m \"Check the north\" --hand-on sales.csv",
		RunE: func(c *cobra.Command, args []string) error {
			if template {
				a.print("%s", draftTemplate)
				return nil
			}
			most, err := spanOf("--timeout", limit)
			if err != nil {
				return err
			}
			if !follow && (dir != "" || limit != "") {
				return usage("-o and --timeout go with --wait")
			}
			var send func(*local.Client) (gateway.Proposed, error)
			if counter != "" {
				if len(args)+len(inputs)+len(to)+len(handOn) > 0 || parent != "" || more != (several{}) || goal != "" || title != "" {
					return usage("--counter TASK takes its terms from the counter-proposal: no draft, no --to, -m, --title or --input")
				}
				send = func(cl *local.Client) (gateway.Proposed, error) { return a.takeUp(c.Context(), cl, counter, dry) }
			} else {
				d, err := draftOf(args, title, goal, inputs)
				if err != nil {
					return err
				}
				if more.open {
					if len(to) == 0 || more.race || more.quorum != 0 || follow {
						return usage("--open --to A…: without --race, --quorum and --wait")
					}
					return a.openUp(c.Context(), gateway.Opening{Draft: d, To: to, DryRun: dry})
				}
				kind, err := more.of(to)
				if err != nil {
					return err
				}
				if parent == "" && len(handOn) > 0 {
					return usage("--hand-on NAME goes with --parent TASK")
				}
				if parent != "" && kind != "" {
					return usage("--parent hands a part on to one contact, without --race or --quorum")
				}
				if kind != "" {
					h, cl, err := a.client()
					if err != nil {
						return err
					}
					var o *wait
					if follow {
						o = &wait{dir: dir, most: most}
					}
					return a.proposeSeveral(c.Context(), h, cl, gateway.Several{Draft: d, To: to, Kind: kind, Need: more.quorum, DryRun: dry}, o)
				}
				send = func(cl *local.Client) (gateway.Proposed, error) {
					return local.Propose.Call(c.Context(), cl, gateway.Proposal{Draft: d, To: to[0], DryRun: dry, Parent: parent, HandOn: handOn})
				}
			}
			h, cl, err := a.client()
			if err != nil {
				return err
			}
			done := a.working("reading the files that go along")
			out, err := send(cl)
			done()
			if err != nil {
				return err
			}
			if dry {
				a.print("%s\n", out.Manifest)
				return nil
			}
			if out.Ask != "" && a.terminal() { // asking on a terminal is already the place to say yes, once
				if err := a.decideHere(c.Context(), h, cl, out.Ask); err != nil {
					return err
				}
			}
			if a.json {
				if err := a.emit(out); err != nil {
					return err
				}
			} else {
				a.print("%s\n", out.Task)
				if out.Above != "" {
					a.note("waiting for %s, who decides first: sealbridge task show %s", out.Above, short(out.Task))
				}
				if out.Ask != "" && !a.terminal() {
					a.note("waiting for you: sealbridge gate show %s", short(out.Ask))
				}
			}
			if !follow {
				return nil
			}
			o := wait{dir: dir, most: most}
			if a.terminal() && a.live() {
				o.decide = func(ask string) error {
					if ask == out.Ask { // said yes or later to it above
						return nil
					}
					err := a.decideHere(c.Context(), h, cl, ask)
					if quietNo(err) {
						return nil // a no to a delivery can mean another try: the task says how it goes on
					}
					return err
				}
			}
			return a.waitFor(c.Context(), cl, out.Task, o)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&to, "to", nil, "the contact; several with --race or --quorum")
	more.flags(c)
	f.StringVar(&parent, "parent", "", "hand a part of this task, which an agent of yours works on, on to the contact")
	f.StringArrayVar(&handOn, "hand-on", nil, "with --parent: an input file of that task that goes along, by its name there")
	f.StringVar(&counter, "counter", "", "take up the counter-proposal with which this task was declined")
	f.StringVarP(&goal, "message", "m", "", "the goal, instead of a draft file")
	f.StringVar(&title, "title", "", "a title; the goal's first line where absent")
	f.StringArrayVar(&inputs, "input", nil, "a file that goes along; may be repeated")
	f.BoolVar(&dry, "dry-run", false, "show the contract, send nothing")
	f.BoolVar(&follow, "wait", false, "wait for the end; exit 0 completed, 1 another end, 5 not yet")
	f.StringVar(&limit, "timeout", "", "with --wait: stop waiting after this; exit 5, and the task goes on")
	f.StringVarP(&dir, "out", "o", "", "with --wait: a new folder for the result")
	f.BoolVar(&template, "template", false, "print a draft to start from")
	return c
}

func draftOf(args []string, title, goal string, inputs []string) (d manifest.Draft, err error) {
	if len(args) == 1 {
		if d, err = home.ReadDraft(args[0]); err != nil {
			return d, err
		}
	}
	if goal != "" {
		d.Goal = goal
	}
	if title != "" {
		d.Title = title
	}
	if d.Title == "" {
		line, _, _ := strings.Cut(d.Goal, "\n")
		if r := []rune(line); len(r) > 100 {
			line = string(r[:100])
		}
		d.Title = line
	}
	if d.Goal == "" {
		return d, usage("a draft FILE, or a goal with -m")
	}
	for _, in := range inputs {
		abs, err := filepath.Abs(in)
		if err != nil {
			return d, err
		}
		d.Inputs = append(d.Inputs, manifest.DraftInput{File: abs, As: filepath.Base(in)})
	}
	for i, in := range d.Inputs {
		if d.Inputs[i].File, err = filepath.Abs(in.File); err != nil {
			return d, err
		}
	}
	return d, nil
}

func taskCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "task", GroupID: "work", Short: "list, show, watch, cancel tasks; fetch results", Example: "  sealbridge task watch QW7F"}
	c.AddCommand(taskList(a), taskShow(a), taskWatch(a), taskAmend(a), taskCancel(a), taskResult(a), taskOffers(a), taskClaim(a), taskPick(a))
	return c
}

func taskList(a *app) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "list tasks, newest first", Example: "  sealbridge task list", RunE: func(c *cobra.Command, _ []string) error {
		return query(a, c, local.Tasks, gateway.None{}, func(ts []gateway.TaskView) error {
			if len(ts) == 0 {
				a.print("no tasks yet: sealbridge propose --to CONTACT -m GOAL\n")
			}
			for _, t := range ts {
				a.print("%s  %-10s %-9s with %-12s %s%s\n", short(t.TaskID), t.State, t.Role, t.With, t.Title, partOf(t)+waits(t))
			}
			return nil
		})
	}}
}

// partOf says that a task is one of several.
func partOf(t gateway.TaskView) string {
	switch {
	case t.Group != nil:
		return "   " + string(t.Group.Kind) + " " + short(t.Group.ID)
	case t.Together != "":
		return "   " + string(t.Together)
	}
	return ""
}

// waits names who acts next.
func waits(t gateway.TaskView) string {
	switch {
	case t.Waiting != "":
		return "   next: " + t.Waiting
	case t.NextActor == "":
		return ""
	case t.Mine:
		return "   next: this gateway"
	}
	return "   next: " + t.With
}

func taskShow(a *app) *cobra.Command {
	return &cobra.Command{Use: "show TASK", Short: "show one task with both histories", Example: "  sealbridge task show QW7F --json", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		return query(a, c, local.Task, gateway.Ref{Task: args[0]}, a.showTask)
	}}
}

func (a *app) showTask(t gateway.TaskView) error {
	a.print("%s\n%s   with %s   %s\n", t.Title, strings.ToUpper(t.State)+waits(t), t.With, t.TaskID)
	if !t.Deadline.IsZero() {
		a.print("due %s   manifest %s\n", inLocal(t.Deadline), t.ManifestDigest)
	}
	a.print("%s%s", groupText(t.Group), treeText(t))
	if t.Together != "" && t.Group == nil {
		a.print("  %s: %s says that others were asked for the same\n", t.Together, t.With)
	}
	for _, m := range t.History {
		a.print("%s\n", moment(t, m))
	}
	if k := t.Counter; k != nil {
		a.print("  counter-proposal: %s would accept it with\n", t.With)
		for _, d := range k.Terms {
			a.print("    ~ %-20s %s   yours: %s\n", d.Key, d.To, d.From)
		}
		if k.Answered != "" {
			a.print("    taken up in %s\n", k.Answered)
		} else {
			a.print("    take it up: sealbridge propose --counter %s\n", short(t.TaskID))
		}
	}
	for _, g := range t.Gates {
		a.print("  gate %-10s ask %s  %s\n", g.Gate, short(g.AskID), manifest.Display(strings.TrimSuffix(g.State+": "+g.Why, ": "), 200))
	}
	var meters []string
	for m := range t.Budget {
		meters = append(meters, m)
	}
	sort.Strings(meters)
	for _, m := range meters {
		b := t.Budget[m]
		a.print("  %-14s %d of %d   %s\n", strings.ReplaceAll(m, "_", " "), b.Committed+b.Reserved, b.Limit, b.Source)
	}
	for _, k := range t.Checks {
		name := k.Kind
		if k.Command != "" {
			name = k.Command
		}
		a.print("  check %s: %s\n", manifest.Display(name, 120), manifest.Display(strings.TrimSuffix(strings.ReplaceAll(k.Result, "_", " ")+", "+k.Text, ", "), 300))
		for _, l := range strings.Split(strings.TrimSpace(k.Printed), "\n") {
			if l != "" {
				a.print("    ┆ %s\n", manifest.Display(l, 200))
			}
		}
	}
	for _, f := range t.Transfers {
		a.print("%s\n", transferLine(t, f))
	}
	for _, c := range t.Calls[max(0, len(t.Calls)-mostCalls):] {
		a.print("  call %s  %s  %s on %s%s\n", short(c.ID), c.State, c.Tool, manifest.Display(strings.Join(c.Resources, ", "), 200), refusedBy(c))
	}
	for _, f := range t.Artifacts {
		a.print("  %s   %d bytes   %s\n", manifest.Display(f.Name, 100), f.Size, f.Digest)
	}
	if t.Breach != "" {
		a.print("  against the contract: rule %s (sealbridge explain %s)\n", t.Breach, t.Breach)
	}
	if t.Recovery != "" {
		a.print("  in recovery: %s\n", t.Recovery)
	}
	return nil
}

func taskCancel(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{Use: "cancel TASK", Short: "end a task that you asked for", Example: "  sealbridge task cancel QW7F --reason \"found it myself\"", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		return query(a, c, local.Cancel, gateway.Cancellation{Task: args[0], Reason: reason}, func(t gateway.TaskView) error {
			a.print("%s  %s\n", short(t.TaskID), t.State)
			return nil
		})
	}}
	c.Flags().StringVar(&reason, "reason", "", "what the other side is told")
	return c
}

func taskResult(a *app) *cobra.Command {
	var dir string
	c := &cobra.Command{Use: "result TASK", Short: "hand over an accepted result", Example: "  sealbridge task result QW7F -o out/", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		_, cl, err := a.client()
		if err != nil {
			return err
		}
		return a.fetchResult(c.Context(), cl, args[0], dir)
	}}
	c.Flags().StringVarP(&dir, "out", "o", "", "a new folder for the files")
	return c
}

func (a *app) fetchResult(ctx context.Context, cl *local.Client, task, dir string) error {
	abs := ""
	if dir != "" {
		var err error
		if abs, err = filepath.Abs(dir); err != nil {
			return err
		}
	}
	done := a.working("writing the files to " + dir)
	out, err := local.Result.Call(ctx, cl, gateway.Fetch{Task: task, Dir: abs})
	done()
	if err != nil {
		return err
	}
	if !out.Ready {
		switch {
		case out.Task.Outcome == "" || out.Task.Outcome == "completed":
			a.note("not yet: %s%s", out.Task.State, waits(out.Task))
			return ended(exitNotYet)
		default:
			a.note("there is no result: the task is %s", out.Task.Outcome)
			return ended(exitNo)
		}
	}
	if a.json {
		return a.emit(out)
	}
	if dir == "" {
		a.print("%s\n", out.Output)
		return nil
	}
	for _, f := range out.Files {
		a.print("%s\n", filepath.Join(dir, manifest.Display(f, 255)))
	}
	return nil
}

func receiptCommand(a *app) *cobra.Command {
	var file string
	var page bool
	c := &cobra.Command{Use: "receipt TASK", GroupID: "work", Short: "print what was asked, got, used and decided", Args: cobra.ExactArgs(1),
		Example: "  sealbridge receipt QW7F\n  sealbridge receipt QW7F -o receipt.html",
		RunE: func(c *cobra.Command, args []string) error {
			h, cl, err := a.client()
			if err != nil {
				return err
			}
			b, err := local.Export.Call(c.Context(), cl, gateway.Ref{Task: args[0]})
			if err != nil {
				return err
			}
			trust, err := a.knownTo(c.Context(), h, cl)
			if err != nil {
				return err
			}
			rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{Trust: trust})
			if err != nil {
				return err
			}
			write := audit.ReceiptText
			if page || strings.EqualFold(filepath.Ext(file), ".html") {
				write = audit.ReceiptHTML
			}
			switch {
			case file != "" && file != "-":
				var text strings.Builder
				if err := write(rep, &text); err != nil {
					return err
				}
				return a.written(text.String(), file)
			case a.json:
				return a.emit(rep)
			}
			return write(rep, a.out)
		}}
	c.Flags().StringVarP(&file, "out", "o", "", "a file; one that ends in .html is a page to print")
	c.Flags().BoolVar(&page, "html", false, "a page to print, without scripts")
	return c
}

func exportCommand(a *app) *cobra.Command {
	var file, as string
	var files bool
	c := &cobra.Command{Use: "export TASK -o FILE", GroupID: "check", Short: "write the evidence of a task, or the task in another system's words", Example: "  sealbridge export QW7F -o bundle.json\n  sealbridge export QW7F -o case.zip --files\n  sealbridge export QW7F --as chips-task", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		switch as {
		case "":
		case "chips-task", "chips-approval", "prickle-packet":
			return a.exportAs(c, as, args[0], file)
		default:
			return usage("--as chips-task, chips-approval (of an ask) or prickle-packet")
		}
		_, cl, err := a.client()
		if err != nil {
			return err
		}
		b, err := local.Export.Call(c.Context(), cl, gateway.Ref{Task: args[0]})
		if err != nil {
			return err
		}
		zipped := strings.HasSuffix(strings.ToLower(file), ".zip")
		switch {
		case files && !zipped:
			return usage("--files goes with -o FILE.zip")
		case file == "" || file == "-":
			a.print("%s", b.Text)
			return nil
		case zipped:
			err = a.exportZip(c.Context(), cl, args[0], file, b.Text, files)
		default:
			err = os.WriteFile(file, []byte(b.Text), 0o600)
		}
		if err != nil {
			return err
		}
		if a.json {
			return a.emit(map[string]any{"taskId": b.Task, "file": file, "bytes": len(b.Text)})
		}
		a.print("%s   check it: sealbridge verify %s\n", file, file)
		return nil
	}}
	c.Flags().StringVarP(&file, "out", "o", "", "the file, a zip if it ends in .zip; - for stdout")
	c.Flags().BoolVar(&files, "files", false, "put the files that the evidence names beside it in the zip")
	c.Flags().StringVar(&as, "as", "", "chips-task, chips-approval (of an ask) or prickle-packet")
	return c
}
