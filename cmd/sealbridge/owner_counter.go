package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

func gateCounter(a *app) *cobra.Command {
	var set []string
	var reason string
	var dry bool
	c := &cobra.Command{Use: "counter ASK --set KEY=VALUE", Short: "say no, and under which terms it would be a yes", Args: cobra.ExactArgs(1),
		Example: "  sealbridge gate counter 7K2Q --set budget.time=10m --set budget.output_tokens=10k",
		Long:    "A counter-proposal is a no that carries the contract with other terms; the other side sees the\ndifference and can take it up with one command. Terms: " + strings.Join(manifest.TermKeys(), ", ") + ".",
		RunE: func(c *cobra.Command, args []string) error {
			terms, err := settings(set)
			if err != nil {
				return err
			}
			_, cl, err := a.client()
			if err != nil {
				return err
			}
			v, err := findAsk(c.Context(), cl, args[0])
			if err != nil {
				return err
			}
			_, changed, err := approval.Counter(v.Ask, terms, a.now())
			if err != nil {
				return err
			}
			if dry {
				if a.json {
					return a.emit(changed)
				}
				a.showTerms(changed)
				return nil
			}
			out, err := local.Deny.Call(c.Context(), cl, gateway.Denial{Ask: v.Ask.AskID.String(), Reason: reason, Set: terms})
			if err != nil {
				return err
			}
			if !a.json {
				a.showTerms(changed)
			}
			return a.decided(v.Ask, out)
		}}
	f := c.Flags()
	f.StringArrayVar(&set, "set", nil, "a term, as a draft spells it; may be repeated")
	f.StringVar(&reason, "reason", "", "what the other side is told")
	f.BoolVar(&dry, "dry-run", false, "show the difference, decide nothing")
	return c
}

func settings(set []string) ([]manifest.Setting, error) {
	if len(set) == 0 {
		return nil, usage("--set KEY=VALUE, as in --set budget.time=10m")
	}
	out := make([]manifest.Setting, len(set))
	for i, s := range set {
		var err error
		if out[i], err = manifest.ParseSetting(s); err != nil {
			return nil, spec.At("--set", err)
		}
	}
	return out, nil
}

func (a *app) showTerms(changed []manifest.Difference) {
	for _, d := range changed {
		a.print("  ~ %-20s %s   theirs: %s\n", d.Key, d.To, d.From)
	}
}

// differences are the terms of a counter-proposal in one line.
func differences(terms []manifest.Difference) string {
	out := make([]string, len(terms))
	for i, d := range terms {
		out[i] = fmt.Sprintf("%s %s (yours: %s)", d.Key, d.To, d.From)
	}
	return strings.Join(out, ", ")
}

// takeUp shows what a counter-proposal changes before anything else, and makes the new task.
func (a *app) takeUp(ctx context.Context, cl *local.Client, ref string, dry bool) (gateway.Proposed, error) {
	t, err := local.Task.Call(ctx, cl, gateway.Ref{Task: ref})
	if err != nil {
		return gateway.Proposed{}, err
	}
	if t.Counter != nil {
		a.note("%s would do it differently: %s", t.With, differences(t.Counter.Terms))
	}
	return local.Counter.Call(ctx, cl, gateway.TakeUp{Task: t.TaskID, DryRun: dry})
}

// counterHere asks for the terms in line; no term is no counter-proposal.
func (a *app) counterHere(ctx context.Context, cl *local.Client, ask approval.Ask) (done bool, err error) {
	line, err := a.askLine("terms, as in budget.time=10m budget.output_tokens=10k (nothing: back): ")
	if err != nil || strings.TrimSpace(line) == "" {
		return false, err
	}
	terms, err := settings(strings.Fields(line))
	if err == nil {
		var changed []manifest.Difference
		if _, changed, err = approval.Counter(ask, terms, a.now()); err == nil {
			a.showTerms(changed)
		}
	}
	if err != nil { // a slip of the pen: ask again
		a.note("%s", manifest.Display(err.Error(), 300))
		return false, nil
	}
	k, err := a.choose("say no with these terms? y or n: ", "yn")
	if err != nil || k == 'n' {
		return false, err
	}
	out, err := local.Deny.Call(ctx, cl, gateway.Denial{Ask: ask.AskID.String(), Set: terms})
	if err != nil {
		return true, err
	}
	a.note("%s: %s%s", ask.Short(), out.State, followed(out))
	return true, ended(exitNo)
}

// askLine reads a line from a person at a terminal.
func (a *app) askLine(prompt string) (string, error) {
	if !a.terminal() {
		return "", spec.Refuse(spec.NotPermitted, "", "a person has to answer, and there is no terminal")
	}
	fmt.Fprint(a.err, prompt)
	line, err := a.lines.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}
