package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/spec"
)

func taskAmend(a *app) *cobra.Command {
	var set, withdraw []string
	c := &cobra.Command{Use: "amend TASK --set KEY=VALUE…", Short: "ask the other owner for another budget or deadline",
		Long: "Ask the other owner for another budget, deadline or number of retries. Nothing changes\nbefore both owners have said yes; the contract first signed stays as it is.\n\n" +
			"Keys: budget.input_tokens budget.output_tokens budget.tool_calls budget.time deadline verify.retries",
		Example: "  sealbridge task amend QW7F --set budget.time=30m --set budget.output_tokens=30k\n  sealbridge task amend QW7F --set deadline=3d",
		Args:    cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
			in := gateway.Change{Task: args[0]}
			in.Withdraw = withdraw
			if len(set)+len(withdraw) == 0 {
				return usage("nothing to change: name it with --set KEY=VALUE")
			}
			for _, text := range set {
				if err := setChange(&in, text, time.Now()); err != nil {
					return err
				}
			}
			return query(a, c, local.Amend, in, func(out gateway.Changed) error {
				if out.Sent {
					a.print("%s  asked; it is in force when the other owner says yes\n", short(out.Task))
					return nil
				}
				a.print("%s  waits for you first: sealbridge gate show %s\n", short(out.Task), short(out.Ask))
				return nil
			})
		}}
	c.Flags().StringArrayVar(&withdraw, "withdraw", nil, "a granted tool that is taken back, by an ending of the grant's id")
	c.Flags().StringArrayVar(&set, "set", nil, "what is to change, as KEY=VALUE")
	return c
}

// setChange reads one --set, with the units of a draft.
func setChange(in *gateway.Change, text string, now time.Time) error {
	key, value, _ := strings.Cut(text, "=")
	fields := map[string]**int64{"budget.input_tokens": &in.InputTokens, "budget.output_tokens": &in.OutputTokens,
		"budget.tool_calls": &in.ToolCalls, "verify.retries": &in.Retries}
	switch to := fields[key]; {
	case to != nil:
		n, err := manifest.ParseCount(value)
		if err != nil {
			return spec.At("--set "+key, err)
		}
		*to = &n
	case key == "budget.time":
		d, err := manifest.ParseSpan(value)
		if err != nil {
			return spec.At("--set "+key, err)
		}
		n := int64(d / time.Second)
		in.Seconds = &n
	case key == "deadline":
		at, err := manifest.ParseDeadline(value, now)
		if err != nil {
			return spec.At("--set "+key, err)
		}
		in.Deadline = &at
	default:
		known := []string{"budget.time", "deadline"}
		for k := range fields {
			known = append(known, k)
		}
		slices.Sort(known)
		return spec.Refuse(spec.Malformed, "--set "+key, "one of "+strings.Join(known, ", "))
	}
	return nil
}
