package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
)

// openUp sends an open proposal: who would do this? (M10)
func (a *app) openUp(ctx context.Context, in gateway.Opening) error {
	h, cl, err := a.client()
	if err != nil {
		return err
	}
	out, err := local.Open.Call(ctx, cl, in)
	switch {
	case err != nil:
		return err
	case in.DryRun:
		a.print("%s\n", out.Manifest)
		return nil
	case a.json:
		err = a.emit(out)
	default:
		a.print("%s\n", out.Task)
	}
	if err != nil || out.Ask == "" {
		return err
	}
	if a.terminal() {
		return a.decideHere(ctx, h, cl, out.Ask)
	}
	a.note("waiting for you: sealbridge gate show %s", short(out.Ask))
	return nil
}

func taskOffers(a *app) *cobra.Command {
	return &cobra.Command{Use: "offers [ID]", Short: "list open proposals: yours with who claimed them, and those of contacts", Args: cobra.MaximumNArgs(1),
		Example: "  sealbridge task offers\n  sealbridge task offers QW7F",
		RunE: func(c *cobra.Command, args []string) error {
			in := gateway.Ref{}
			if len(args) == 1 {
				in.Task = args[0]
			}
			return query(a, c, local.Offers, in, func(os []gateway.OfferView) error { return a.showOffers(os, in.Task != "") })
		}}
}

func (a *app) showOffers(os []gateway.OfferView, whole bool) error {
	if len(os) == 0 {
		a.print("no open proposals: sealbridge propose --open --to CONTACT -m GOAL\n")
	}
	for _, o := range os {
		who := "from " + strings.Join(o.With, ", ")
		if o.Ours {
			who = "to " + strings.Join(o.With, ", ")
		}
		a.print("%s  %-8s %s   %s   until %s\n", short(o.ID), o.State, who, o.Title, inLocal(o.Until))
		for _, k := range o.Claims {
			a.print("    claimed by %s %s\n", k.By, inLocal(k.At))
			for _, d := range k.Terms {
				a.print("      ~ %-20s %s   asked: %s\n", d.Key, d.To, d.From)
			}
			if o.Ours && o.State == "sent" {
				a.print("      pick: sealbridge task pick %s %s\n", short(o.ID), k.By)
			}
		}
		switch {
		case o.Picked != "":
			a.print("    picked: task %s\n", short(o.Picked))
		case !o.Ours && o.State == "open":
			a.print("    offer to do it: sealbridge task claim %s\n", short(o.ID))
		}
		if !whole {
			continue
		}
		a.print("    never binding: an open proposal names nobody (M10)\n")
		for _, l := range manifest.DisplayLines(o.Text, 400, 2000) {
			a.print("    ┆ %s\n", l)
		}
		for _, s := range o.Terms {
			a.print("    %-22s %s\n", s.Key, s.Value)
		}
	}
	return nil
}

func taskClaim(a *app) *cobra.Command {
	var set []string
	c := &cobra.Command{Use: "claim ID", Short: "say that you would do what a contact proposed openly; it binds nobody", Args: cobra.ExactArgs(1),
		Example: "  sealbridge task claim QW7F\n  sealbridge task claim QW7F --set budget.time=10m",
		RunE: func(c *cobra.Command, args []string) error {
			in := gateway.Claiming{Offer: args[0]}
			for _, text := range set {
				s, err := manifest.ParseSetting(text)
				if err != nil {
					return err
				}
				in.Set = append(in.Set, s)
			}
			return query(a, c, local.Claim, in, func(o gateway.OfferView) error {
				a.print("claimed: %s decides, and you are asked before anything binds you\n", strings.Join(o.With, ", "))
				return nil
			})
		}}
	c.Flags().StringArrayVar(&set, "set", nil, "a term under which you would, as a draft spells it; may be repeated")
	return c
}

func taskPick(a *app) *cobra.Command {
	var dry bool
	c := &cobra.Command{Use: "pick ID CONTACT", Short: "send a contract to one who claimed your open proposal: a new task", Args: cobra.ExactArgs(2),
		Example: "  sealbridge task pick QW7F ben",
		RunE: func(c *cobra.Command, args []string) error {
			h, cl, err := a.client()
			if err != nil {
				return err
			}
			out, err := local.Pick.Call(c.Context(), cl, gateway.Choice{Open: args[0], To: args[1], DryRun: dry})
			switch {
			case err != nil:
				return err
			case dry:
				a.print("%s\n", out.Manifest)
				return nil
			case a.json:
				return a.emit(out)
			}
			a.print("%s\n", out.Task)
			if out.Ask == "" {
				return nil
			}
			if a.terminal() {
				return a.decideHere(c.Context(), h, cl, out.Ask)
			}
			a.note("waiting for you: sealbridge gate show %s", short(out.Ask))
			return nil
		}}
	c.Flags().BoolVar(&dry, "dry-run", false, "show the contract, ask and send nothing")
	return c
}
