package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// standingFlags are of a yes that also serves the next ones.
type standingFlags struct {
	on   bool
	uses int64
	span string
}

func (s *standingFlags) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&s.on, "standing", false, "say yes also to the next ones like this, no wider")
	f.Int64Var(&s.uses, "uses", 5, "with --standing: how many in all, at most 100")
	f.StringVar(&s.span, "for", "7d", "with --standing: how long, at most 30d")
}

func (s *standingFlags) check(c *cobra.Command, d device) error {
	switch {
	case !s.on && (c.Flags().Changed("uses") || c.Flags().Changed("for")):
		return usage("--uses and --for belong to --standing")
	case s.on && d.key != "":
		return usage("--standing is said with the owner's key, not --as another")
	}
	return nil
}

// say prints what the yes will mean, and signs it with the owner's key (G6).
func (s *standingFlags) say(a *app) func(context.Context, *home.Home, *local.Client, approval.Ask) (gateway.Decided, error) {
	return func(ctx context.Context, h *home.Home, cl *local.Client, ask approval.Ask) (gateway.Decided, error) {
		return a.sayStanding(ctx, h, cl, ask, *s)
	}
}

func (a *app) sayStanding(ctx context.Context, h *home.Home, cl *local.Client, ask approval.Ask, s standingFlags) (out gateway.Decided, err error) {
	term, err := manifest.ParseSpan(s.span)
	if err != nil {
		return out, spec.At("--for", err)
	}
	now := a.now().UTC().Truncate(time.Second)
	grant, err := approval.StandingFor(ask, s.uses, now, now.Add(term))
	if err != nil {
		return out, err
	}
	for _, line := range approval.Sentence(grant, ask.From.Name, time.Local) {
		a.note("%s", line)
	}
	if a.terminal() {
		k, err := a.choose("sign this? y or n: ", "yn")
		if err != nil {
			return out, err
		}
		if k == 'n' {
			return out, ended(exitNo)
		}
	}
	owner, presence, err := a.owner(h)
	if err != nil {
		return out, err
	}
	d := approval.DecideStanding(ask, grant, presence, now)
	v, err := manifest.Sign(&d, owner, now)
	if err != nil {
		return out, err
	}
	return local.Decide.Call(ctx, cl, gateway.Answer{Decision: v.Wire().String(), Standing: &grant})
}

func gateStanding(a *app) *cobra.Command {
	return &cobra.Command{Use: "standing", Short: "list standing yeses, with every use", Example: "  sealbridge gate standing --json", RunE: func(c *cobra.Command, _ []string) error {
		_, cl, err := a.client()
		if err != nil {
			return err
		}
		list, err := local.Standing.Call(c.Context(), cl, gateway.None{})
		if err != nil {
			return err
		}
		if a.json {
			return a.emit(list)
		}
		if len(list) == 0 {
			a.print("no standing yes: sealbridge gate allow ASK --standing --uses 5 --for 7d\n")
		}
		for _, v := range list {
			a.showStanding(v)
		}
		return nil
	}}
}

func (a *app) showStanding(v gateway.StandingView) {
	a.print("%s  %s   %d of %d used   %s\n", short(v.ID), strings.ToUpper(v.State), len(v.Uses), v.Grant.Uses, orText(v.Why, "until "+inLocal(v.Grant.Until.Time())))
	for _, line := range approval.Sentence(v.Grant, orText(v.Contact, "a contact that is gone"), time.Local) {
		a.print("    %s\n", line)
	}
	for _, u := range v.Uses {
		a.print("  %3d  %s  task %s\n", u.Use, u.At.Local().Format("Mon 2 Jan 15:04"), short(u.Task))
	}
}

func gateRevoke(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{Use: "revoke ID", Short: "take a standing yes back; it needs no key", Example: "  sealbridge gate revoke 7K2Q --reason \"done with reports\"", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		_, cl, err := a.client()
		if err != nil {
			return err
		}
		v, err := local.Unstand.Call(c.Context(), cl, gateway.Revoking{ID: args[0], Reason: reason})
		if err != nil {
			return err
		}
		if a.json {
			return a.emit(v)
		}
		a.print("%s: %s, %d of %d used\n", short(v.ID), v.State, len(v.Uses), v.Grant.Uses)
		return nil
	}}
	c.Flags().StringVar(&reason, "reason", "", "for your own record")
	return c
}

func orText(text, def string) string {
	if text == "" {
		return def
	}
	return text
}
