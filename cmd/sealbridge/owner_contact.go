package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

var (
	_ = register(inviteCommand)
	_ = register(contactCommand)
)

// thisVersion is what a command and a gateway compare: both ends of a socket are one version.
func thisVersion() string {
	b, err := thisBuild()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(b.Version + " " + b.Revision)
}

func inviteCommand(a *app) *cobra.Command {
	var span, file string
	c := &cobra.Command{
		Use: "invite", GroupID: "people", Short: "make an invite to send to one person", Example: "  sealbridge invite --for 7d",
		RunE: func(c *cobra.Command, _ []string) error {
			life, err := manifest.ParseSpan(span)
			if err != nil {
				return spec.At("--for", err)
			}
			h, cl, err := a.client()
			if err != nil {
				return err
			}
			out, err := a.invite(c.Context(), h, cl, life)
			if err != nil {
				return err
			}
			if file != "" {
				if err := os.WriteFile(file, []byte(out.Token+"\n"), 0o600); err != nil {
					return err
				}
			}
			if a.json {
				return a.emit(out)
			}
			if file == "" {
				a.print("%s\n", out.Token)
			}
			a.note("Send this line to one person. It works once, until %s. Whoever else uses it is found out: the six words differ.\nThey run   sealbridge init --name THEM --invite TOKEN", inLocal(out.Expires))
			return nil
		},
	}
	c.Flags().StringVar(&span, "for", "7d", "how long it can be redeemed: up to 30d")
	c.Flags().StringVarP(&file, "out", "o", "", "write the token to a file")
	return c
}

func (a *app) invite(ctx context.Context, h *home.Home, cl *local.Client, life time.Duration) (out gateway.Invited, err error) {
	secret, err := chance16()
	if err != nil {
		return out, err
	}
	ticket, err := chance16()
	if err != nil {
		return out, err
	}
	name, err := chance16()
	if err != nil {
		return out, err
	}
	id, err := manifest.ParseInviteID("inv_" + name)
	if err != nil {
		return out, err
	}
	owner, _, err := a.owner(h)
	if err != nil {
		return out, err
	}
	cert := h.Certified()
	v, err := manifest.Sign(&manifest.Invite{Type: "sealbridge/invite", ProtocolVersion: manifest.ProtocolVersion, InviteID: id, OwnerDid: h.Owner,
		Relay: cert.Relay, Secret: secret, Ticket: ticket, ExpiresAt: signing.TimeOf(a.now().Add(life)), NextKey: cert.NextKey}, owner, a.now())
	if err != nil {
		return out, err
	}
	return local.AddInvite.Call(ctx, cl, gateway.Document{Wire: v.Wire().String()})
}

func contactCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "contact", GroupID: "people", Short: "people whose gateways may reach yours", Example: "  sealbridge contact list"}
	c.AddCommand(contactAdd(a), contactConfirm(a), contactList(a), contactShow(a), contactWishes(a), contactChange(a, "block", "take no more from a contact"), contactChange(a, "unblock", "take from a contact again"),
		contactChange(a, "remove", "forget a contact"), contactRename(a), contactFollow(a))
	return c
}

func contactAdd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "add [TOKEN]", Short: "redeem an invite", Example: "  sealbridge contact add sealbridge-invite:…", Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			h, cl, err := a.client()
			if err != nil {
				return err
			}
			token := h.Invite()
			if len(args) == 1 {
				token = args[0]
			}
			if token == "" {
				return usage("an invite's token")
			}
			inv, _, err := manifest.ParseInviteToken(token)
			if err != nil {
				return err
			}
			key, _, err := h.BoxKey()
			if err != nil {
				return err
			}
			owner, _, err := a.owner(h)
			if err != nil {
				return err
			}
			v, err := manifest.Sign(&manifest.ContactRequest{Type: "sealbridge/contact-request", ProtocolVersion: manifest.ProtocolVersion, InviteID: inv.InviteID,
				OwnerDid: h.Owner, To: inv.OwnerDid, Proof: manifest.ContactProof(inv.Secret, inv.InviteID, inv.OwnerDid, h.Owner),
				Certificate: h.Certificate.Wire(), BoxKey: key, At: signing.TimeOf(a.now())}, owner, a.now())
			if err != nil {
				return err
			}
			out, err := local.AddContact.Call(c.Context(), cl, gateway.Redemption{Token: token, Request: v.Wire().String()})
			if err != nil {
				return err
			}
			h.DropInvite()
			if a.json {
				return a.emit(out)
			}
			a.print("%s: not confirmed yet. Ask for these six words; they must be the same on both screens:\n    %s\nThen  sealbridge contact confirm %s\n", out.Name, out.Words, out.Name)
			return nil
		},
	}
}

func contactConfirm(a *app) *cobra.Command {
	var words string
	c := &cobra.Command{
		Use: "confirm NAME", Short: "say that the six words were compared with a person", Args: cobra.ExactArgs(1),
		Example: "  sealbridge contact confirm ann\n  sealbridge contact confirm ann --words \"amber violin cargo ninety lemon orbit\"",
		RunE: func(c *cobra.Command, args []string) error {
			if words == "" {
				_, cl, err := a.client()
				if err != nil {
					return err
				}
				if words, err = a.compareWords(c.Context(), cl, args[0]); err != nil {
					return err
				}
			}
			return a.changed(c, gateway.ContactChange{Name: args[0], Do: "confirm", Words: strings.Join(strings.Fields(words), " ")}, "confirmed")
		},
	}
	c.Flags().StringVar(&words, "words", "", "the six words as the other person read them")
	return c
}

func (a *app) compareWords(ctx context.Context, cl *local.Client, name string) (string, error) {
	cs, err := local.Contacts.Call(ctx, cl, gateway.None{})
	if err != nil {
		return "", err
	}
	for _, v := range cs {
		if manifest.Skeleton(v.Name) != manifest.Skeleton(name) {
			continue
		}
		a.note("Ask %s, by voice or in person, for the six words on their screen:\n    %s", v.Name, v.Words)
		k, err := a.choose("the same? y/n ", "yn")
		if err != nil || k == 'n' {
			if err == nil {
				err = hint(spec.Refuse(spec.VerificationFailed, "", "the words differ: somebody else used the invite"), "sealbridge contact remove %s", v.Name)
			}
			return "", err
		}
		return v.Words, nil
	}
	return "", spec.Refuse(spec.NotFound, "", "no contact is called "+manifest.Display(name, 40))
}

func (a *app) changed(c *cobra.Command, in gateway.ContactChange, word string) error {
	return query(a, c, local.ChangeContact, in, func(out gateway.ContactView) error {
		a.print("%s: %s\n", out.Name, word)
		return nil
	})
}

func contactList(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list contacts", Example: "  sealbridge contact list --json",
		RunE: func(c *cobra.Command, _ []string) error {
			return query(a, c, local.Contacts, gateway.None{}, func(cs []gateway.ContactView) error {
				if len(cs) == 0 {
					a.print("nobody yet: sealbridge invite\n")
				}
				for _, v := range cs {
					a.print("%-16s %s   %s\n", v.Name, v.Fingerprint, standing(v))
				}
				return nil
			})
		},
	}
}

func standing(v gateway.ContactView) string {
	switch {
	case v.Blocked:
		return "blocked"
	case v.Alarm:
		return "ALARM: the invite was used twice; compare the words again"
	case !v.Confirmed:
		return "not confirmed: compare  " + v.Words
	}
	return "confirmed"
}

func contactChange(a *app, do, short string) *cobra.Command {
	return &cobra.Command{Use: do + " NAME", Short: short, Example: "  sealbridge contact " + do + " ben", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		return a.changed(c, gateway.ContactChange{Name: args[0], Do: do}, do+"ed")
	}}
}

func contactRename(a *app) *cobra.Command {
	return &cobra.Command{Use: "rename NAME NEW", Short: "call a contact by another name", Example: "  sealbridge contact rename ben-2 ben", Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.changed(c, gateway.ContactChange{Name: args[0], Do: "rename", To: args[1]}, "renamed")
		}}
}

func contactWishes(a *app) *cobra.Command {
	var done bool
	c := &cobra.Command{Use: "wishes", Short: "list contacts that your agents asked for", Example: "  sealbridge contact wishes --done", RunE: func(c *cobra.Command, _ []string) error {
		return query(a, c, local.Wishes, done, func(ws []gateway.Wish) error {
			if len(ws) == 0 {
				a.print("your agents ask for nobody\n")
			}
			for _, w := range ws {
				a.print("%-12s would like a contact with %s", w.Agent, manifest.Display(w.Who, 100))
				if w.Why != "" {
					a.print("   ┆ %s", manifest.Display(w.Why, 300))
				}
				a.print("\n")
			}
			return nil
		})
	}}
	c.Flags().BoolVar(&done, "done", false, "take them off the list")
	return c
}

func contactShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "what is known of a contact", Example: "  sealbridge contact show ann", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			_, cl, err := a.client()
			if err != nil {
				return err
			}
			cs, err := local.Contacts.Call(c.Context(), cl, gateway.None{})
			if err != nil {
				return err
			}
			i := slices.IndexFunc(cs, func(v gateway.ContactView) bool { return manifest.Skeleton(v.Name) == manifest.Skeleton(args[0]) })
			if i < 0 {
				return spec.Refuse(spec.NotFound, "", "no contact is called "+manifest.Display(args[0], 40))
			}
			v := cs[i]
			if a.json {
				return a.emit(v)
			}
			a.print("%s   %s   since %s\n  owner  %s   %s\n  words  %s\n  relay  %s\n  certified until %s\n", v.Name, standing(v), inLocal(v.Since), v.Fingerprint, v.Owner, v.Words, v.Relay, inLocal(v.Certified))
			if v.Moved != "" {
				a.print("  moved  %s\n         nothing is sent there before you say: sealbridge contact follow %s %s\n", v.Moved, v.Name, v.Moved)
			}
			return nil
		},
	}
}

func contactFollow(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "follow NAME RELAY", Short: "say yes to the relay that a contact moved to", Args: cobra.ExactArgs(2),
		Long:    "A contact's new certificate may name another relay. Nothing is sent there before you say so\n(`contact show NAME` prints both). RELAY is the new address in full.",
		Example: "  sealbridge contact follow ann wss://relay.example.org/z6Mk…",
		RunE: func(c *cobra.Command, args []string) error {
			return a.changed(c, gateway.ContactChange{Name: args[0], Do: "follow", To: args[1]}, "written to at its new relay")
		},
	}
}
