package main

import (
	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/relay"
	"sealbridge/spec"
)

var _ = register(renewCommand)

func renewCommand(a *app) *cobra.Command {
	var to string
	c := &cobra.Command{
		Use: "renew", GroupID: "start", Short: "certify this gateway's agent for 90 more days",
		Long: "Sign a new certificate for this gateway's agent with your owner key. It is good for 90 days;\n" +
			"every contact is sent it. With --relay the gateway moves to another relay: stop `serve` first,\nand your contacts have to say yes to the new relay before they write there.",
		Example: "  sealbridge renew\n  sealbridge renew --relay wss://relay.example.org/z6Mk…", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, _, err := a.client()
			if err != nil {
				return err
			}
			ref := h.Certified().Relay
			if to != "" {
				at, err := relay.ParseAddress(to)
				if err != nil {
					return spec.At("--relay", err)
				}
				ref = manifest.RelayRef{Endpoint: at.URL, Did: at.DID}
			}
			owner, _, err := a.owner(h)
			if err != nil {
				return err
			}
			v, err := h.Renewal(owner, ref, a.now())
			if err != nil {
				return err
			}
			if to != "" {
				return a.move(h, v)
			}
			return query(a, c, local.Renew, gateway.Document{Wire: v.Wire().String()}, func(out gateway.Renewed) error {
				a.print("certified until %s; contacts are sent the new certificate\n", inLocal(out.Expires))
				return nil
			})
		},
	}
	c.Flags().StringVar(&to, "relay", "", "move to this relay (its address with its identity)")
	return c
}

// move installs a certificate for another relay in a home where no gateway runs; the next start tells the contacts.
func (a *app) move(read *home.Home, v manifest.Verified) error {
	h, err := home.Open(read.Dir)
	if err != nil {
		return hint(err, "stop `sealbridge serve`: mail would go where nobody collects")
	}
	defer h.Close()
	if err := h.Install(v.Signed, a.now()); err != nil {
		return err
	}
	c := h.Certified()
	if err := home.SetRelay(h.Dir, c.Relay); err != nil {
		return err
	}
	if a.json {
		return a.emit(gateway.Renewed{Serial: c.Serial, Expires: c.ExpiresAt.Time()})
	}
	a.print("certified until %s, at %s\nstart the gateway again; your contacts have to say yes to the new relay before they write there\n", inLocal(c.ExpiresAt.Time()), c.Relay)
	return nil
}
