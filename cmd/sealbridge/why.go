package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/spec"
)

var _ = register(whyCommand)

func whyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "why [TASK|CALL]", GroupID: "check", Short: "say why something was refused or waits: which rule, which value, who acts next", Args: cobra.MaximumNArgs(1),
		Example: "  sealbridge why QW7F\n  sealbridge why        (what was refused lately)",
		Long: "Names every no about a task: whose it was, by which rule and where that stands, the path, and the\n" +
			"values that were compared; then who acts next, until when, and what happens by itself. Without a\n" +
			"name it lists what was refused lately, also proposals that were never made.",
		RunE: func(c *cobra.Command, args []string) error {
			in := gateway.Ref{}
			if len(args) == 1 {
				in.Task = args[0]
			}
			return query(a, c, local.Why, in, a.showWhy)
		},
	}
}

func (a *app) showWhy(w gateway.Reasons) error {
	if t := w.Task; t != nil {
		a.print("%s\n%s   with %s   %s\n", t.Title, strings.ToUpper(t.State), t.With, t.TaskID)
	}
	if n := w.Next; n != nil {
		a.print("next: %s   %s\n", n.Who, n.What)
		for _, l := range nextLines(*n) {
			a.print("  %s\n", l)
		}
	}
	if len(w.Refused) == 0 {
		a.print("nothing was refused\n")
	}
	for _, r := range w.Refused {
		a.print("%s\n", refusalHead(r, w.Task == nil))
		for _, l := range refusalLines(r) {
			a.print("  %s\n", l)
		}
	}
	return nil
}

func nextLines(n gateway.Next) (out []string) {
	if n.Rule != "" {
		out = append(out, "asked because  "+manifest.Display(n.Rule, 300))
	}
	if n.Ask != "" {
		out = append(out, "see it         sealbridge gate show "+short(n.Ask))
	}
	if !n.Until.IsZero() {
		out = append(out, "until          "+inLocal(n.Until)+"; then "+n.Then)
	}
	if n.Tries > 0 {
		out = append(out, fmt.Sprintf("tried          %d times; again %s", n.Tries, inLocal(n.Again)))
	}
	if n.Quiet {
		out = append(out, "their gateway has not confirmed our newest word yet; it is sent again until it does")
	}
	return out
}

// whose says in a word whose no it was.
var whose = map[string]string{"law": "the protocol", "rules": "your rules", "person": "you said no", "time": "nobody answered", "check": "our checks", "you": "you"}

func refusalHead(r gateway.Refusal, names bool) string {
	who := whose[r.By]
	if r.By == "contact" {
		who = manifest.Display(r.Name, 64)
	}
	line := strings.TrimRight("- "+clockOf(r.At)+"  "+r.What, " ")
	if r.Word != "" {
		line += "   " + string(r.Word)
	}
	line += "   by " + who
	if r.By == "person" || r.By == "time" {
		line = strings.TrimSuffix(line, "by "+who) + who
	}
	if names && r.Task != "" {
		line += "   task " + short(r.Task)
	} else if r.Title != "" {
		line += "   “" + r.Title + "”"
	}
	if names && r.Name != "" && r.By != "contact" {
		line += "   with " + manifest.Display(r.Name, 64)
	}
	if r.Times > 1 {
		line += fmt.Sprintf("   %d times", r.Times)
	}
	return line
}

func clockOf(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return inLocal(at)
}

func refusalLines(r gateway.Refusal) (out []string) {
	add := func(word, text string) {
		if text != "" {
			out = append(out, fmt.Sprintf("%-9s %s", word, manifest.Display(text, 500)))
		}
	}
	if r.Link > 0 {
		add("link", fmt.Sprintf("%d of the chain of tokens, from the root", r.Link))
	}
	rule := r.Rule
	if r.Where != "" {
		rule += " (" + r.Where + ")"
	}
	if _, _, ok := spec.Explain(r.Rule); ok && r.Rule != "" {
		rule += "   sealbridge explain " + r.Rule
	}
	add("rule", rule)
	add("at", r.Path)
	add("limit", r.Limit)
	if r.Have != "" || r.Most != "" {
		add("values", orDash(r.Have)+", held against "+orDash(r.Most))
	}
	if r.Agent != "" {
		add("agent", r.Agent)
	}
	if r.Words != "" {
		out = append(out, "┆ "+manifest.Display(r.Words, 500))
	}
	return out
}

func orDash(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
