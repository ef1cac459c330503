package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/examples"
	"sealbridge/manifest"
	"sealbridge/relay/server"
	"sealbridge/signing"
	"sealbridge/spec"
)

// relayAdminCommands speak to the relay that runs over a store on this machine.
func relayAdminCommands(a *app, f *relayFlags) []*cobra.Command {
	return []*cobra.Command{
		relayAdmit(a, f), relayMembers(a, f), relayBan(a, f), relayForget(a, f), relayTrace(a, f), relayInfo(a, f), relayDrain(a, f),
		relayBackup(a, f), relayRestore(a, f), relayAlerts(a), relayAttach(a, f),
	}
}

func (a *app) admin(f *relayFlags) (*server.Admin, error) {
	r, err := a.readRelay(*f)
	if err != nil {
		return nil, err
	}
	ad, err := server.DialAdmin(r.Store.Dir)
	if err != nil {
		return nil, hint(spec.At(r.Store.Dir, err), "start it with `sealbridge relay`, or name its folder with --store or --config")
	}
	return ad, nil
}

// adminDo is the body of a command that asks the relay one thing.
func adminDo(a *app, f *relayFlags, do func(context.Context, *server.Admin, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ad, err := a.admin(f)
		if err != nil {
			return err
		}
		return do(c.Context(), ad, args)
	}
}

func relayAdmit(a *app, f *relayFlags) *cobra.Command {
	var uses int
	var valid string
	c := &cobra.Command{
		Use:     "admit",
		Short:   "make a ticket that lets owners in",
		Example: "  sealbridge relay admit --uses 1 --for 7d",
		Args:    cobra.NoArgs,
		RunE: adminDo(a, f, func(ctx context.Context, ad *server.Admin, _ []string) error {
			span, err := manifest.ParseSpan(valid)
			if err != nil {
				return spec.At("--for ", err)
			}
			ticket, err := ad.Admit(ctx, uses, span)
			if err != nil {
				return err
			}
			if a.json {
				return a.emit(map[string]any{"ticket": ticket, "uses": uses, "expiresAt": signing.TimeOf(a.now().Add(span))})
			}
			a.print("%s\n", ticket)
			return nil
		}),
	}
	c.Flags().IntVar(&uses, "uses", 1, "how many keys it lets in")
	c.Flags().StringVar(&valid, "for", "7d", "how long it is good")
	return c
}

func relayMembers(a *app, f *relayFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "members",
		Short:   "list the keys with a mailbox",
		Example: "  sealbridge relay members",
		Args:    cobra.NoArgs,
		RunE: adminDo(a, f, func(ctx context.Context, ad *server.Admin, _ []string) error {
			ms, err := ad.Members(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.emit(append([]server.Member{}, ms...))
			}
			if len(ms) == 0 {
				a.print("no members\n")
			}
			for _, m := range ms {
				banned := ""
				if m.Banned != "" {
					banned = "   banned: " + manifest.Display(m.Banned, 100)
				}
				a.print("%s   since %s   last login %s   %d waiting, %s%s\n", m.Key, lastSeen(m.Since), lastSeen(m.LastLogin), m.Waiting, bytesOf(m.Bytes), banned)
			}
			return nil
		}),
	}
}

func lastSeen(t time.Time) string {
	if t.IsZero() {
		return "none since the start"
	}
	return t.Local().Format("2 Jan 15:04 MST")
}

func relayBan(a *app, f *relayFlags) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "ban KEY",
		Short:   "end a key's connections and refuse its logins",
		Example: `  sealbridge relay ban did:key:z6Mk… --reason "floods"`,
		Args:    cobra.ExactArgs(1),
		RunE: adminDo(a, f, func(ctx context.Context, ad *server.Admin, args []string) error {
			return a.onKey(args[0], "banned", func(key signing.DID) error { return ad.Ban(ctx, key, reason) })
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the operators")
	c.MarkFlagRequired("reason") //nolint:errcheck // the flag is there
	return c
}

func relayForget(a *app, f *relayFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "forget KEY",
		Short:   "take back everything that is stored of a key",
		Example: "  sealbridge relay forget did:key:z6Mk…",
		Args:    cobra.ExactArgs(1),
		RunE: adminDo(a, f, func(ctx context.Context, ad *server.Admin, args []string) error {
			return a.onKey(args[0], "forgotten", func(key signing.DID) error { return ad.Forget(ctx, key) })
		}),
	}
}

func (a *app) onKey(text, done string, do func(signing.DID) error) error {
	key, err := signing.ParseDID(text)
	if err != nil {
		return err
	}
	if err := do(key); err != nil {
		return err
	}
	if a.json {
		return a.emit(map[string]any{"key": key, "done": done})
	}
	a.print("%s %s\n", done, key)
	return nil
}

func relayTrace(a *app, f *relayFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "trace KEY|DIGEST",
		Short:   "say what waits of a key or an envelope: all that the relay may know",
		Example: "  sealbridge relay trace did:key:z6Mk…",
		Args:    cobra.ExactArgs(1),
		RunE: adminDo(a, f, func(ctx context.Context, ad *server.Admin, args []string) error {
			t, err := ad.Trace(ctx, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.emit(t)
			}
			if t.Member {
				a.print("a member, last login %s\n", lastSeen(t.LastLogin))
			}
			if len(t.Mail) == 0 {
				a.print("nothing waits\n")
			}
			for _, m := range t.Mail {
				how := "not collected"
				if m.Delivered {
					how = "handed over, not acknowledged"
				}
				a.print("%s   accepted %s, %s, %s → %s, %s\n", m.Digest.Short(), lastSeen(m.At), bytesOf(int64(m.Size)), m.From, m.To, how)
			}
			return nil
		}),
	}
}

func relayInfo(a *app, f *relayFlags) *cobra.Command {
	var human bool
	c := &cobra.Command{
		Use:     "info",
		Short:   "say what the relay is and holds; --human: what it knows, and for how long",
		Example: "  sealbridge relay info --human",
		Args:    cobra.NoArgs,
		RunE: adminDo(a, f, func(ctx context.Context, ad *server.Admin, _ []string) error {
			i, err := ad.Info(ctx)
			if err != nil {
				return err
			}
			switch {
			case a.json:
				return a.emit(i)
			case human:
				a.print("%s", i.Human)
				return nil
			}
			s := i.Stats
			a.print("address     %s\nadmission   %s\nsync        %s\n", i.Address, i.Admission, i.Sync)
			a.print("holds       %s, %s of them; files %s\n", counted(s.Waiting, "envelope"), bytesOf(s.WaitingBytes), bytesOf(s.FileBytes))
			a.print("members     %d, %s\nlog         %s\n", s.Members, counted(s.Connections, "connection"), counted(int(s.LogLeaves), "receipt"))
			a.print("disk        %s free; takes mail: %t\n", bytesOf(s.DiskFree), s.Taking)
			return nil
		}),
	}
	c.Flags().BoolVar(&human, "human", false, "the page to show to owners")
	return c
}

func relayDrain(a *app, f *relayFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "drain",
		Short:   "stop taking, finish what was taken, end with exit 0",
		Example: "  sealbridge relay drain",
		Args:    cobra.NoArgs,
		RunE: adminDo(a, f, func(ctx context.Context, ad *server.Admin, _ []string) error {
			if err := ad.Drain(ctx); err != nil {
				return err
			}
			if a.json {
				return a.emit(map[string]bool{"draining": true})
			}
			a.print("draining\n")
			return nil
		}),
	}
}

func relayAlerts(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "alerts",
		Short:   "print five alerts as Prometheus rules",
		Example: "  sealbridge relay alerts > /etc/prometheus/rules/sealbridge.yaml",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b, err := examples.Files.ReadFile("relay/alerts.yaml")
			if err == nil && a.json {
				return a.emit(map[string]string{"rules": string(b)})
			}
			a.print("%s", b)
			return err
		},
	}
}
