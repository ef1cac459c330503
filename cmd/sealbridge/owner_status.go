package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/journal"
	"sealbridge/gateway/local"
	"sealbridge/gateway/notify"
	"sealbridge/gateway/runner"
)

var (
	_ = register(statusCommand)
	_ = register(doctorCommand)
	_ = register(configCommand)
	_ = register(backupCommand)
	_ = register(restoreCommand)
)

func statusCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "status", GroupID: "start", Short: "say what is going on", Example: "  sealbridge status", RunE: func(c *cobra.Command, _ []string) error {
		return query(a, c, local.Status, gateway.None{}, func(s gateway.Status) error {
			a.print("%s   running since %s\n  waiting for you   %d   sealbridge gate list\n  open tasks        %d   sealbridge task list\n  contacts          %d\n  unacknowledged    %d\n",
				s.Name, inLocal(s.Started), s.Waiting, s.Tasks, s.Contacts, s.Outgoing)
			if s.PolicyWaits != "" {
				a.print("  policy.yaml       permits more than what is in force: sealbridge policy diff\n")
			}
			return nil
		})
	}}
}

// finding is one line of doctor.
type finding struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Text string `json:"text"`
}

func doctorCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "doctor", GroupID: "start", Short: "look for what is wrong or weak in this home", Example: "  sealbridge doctor", RunE: func(c *cobra.Command, _ []string) error {
		h, err := home.Read(a.home)
		if err != nil {
			return err
		}
		fs := a.examine(c.Context(), h)
		if a.json {
			if err := a.emit(fs); err != nil {
				return err
			}
		}
		bad := false
		for _, f := range fs {
			mark := "ok  "
			if !f.OK {
				mark, bad = "look", true
			}
			if !a.json {
				a.print("%s  %-12s %s\n", mark, f.What, f.Text)
			}
		}
		if bad {
			return errNo
		}
		return nil
	}}
}

func (a *app) examine(ctx context.Context, h *home.Home) (fs []finding) {
	add := func(what string, ok bool, format string, args ...any) {
		fs = append(fs, finding{what, ok, fmt.Sprintf(format, args...)})
	}
	add("owner key", h.Sealed(), "%s", map[bool]string{true: "sealed: every yes needs the passphrase", false: "not sealed: any program of this user can say yes for you"}[h.Sealed()])
	if names := sessionAgents(h.Config.Agents); len(names) > 0 { // G10
		add("agents", h.Sealed(), "%s: in your session and as your user, so with a shell also this command; only a passkey's or a device's yes is out of reach", strings.Join(names, ", "))
	}
	if i, err := os.Stat(h.Dir); err == nil {
		add("folder", i.Mode().Perm()&0o077 == 0, "%s %04o", h.Dir, i.Mode().Perm())
	}
	left := h.Certified().ExpiresAt.Time().Sub(a.now())
	add("certificate", left > 14*24*time.Hour, "%d days left", int(left.Hours()/24))
	ok, text := a.policyStands(ctx)
	add("policy", ok, "%s", text)
	nerr := notify.CheckAll(waysOf(h))
	add("notify", nerr == nil, "%s", textOr(nerr, fmt.Sprintf("%s; try them: sealbridge notify test", plural(len(h.Config.Notify), "way"))))
	if len(h.Config.Agents) > 0 {
		dir, err := os.MkdirTemp("", "sealbridge-doctor-")
		if err == nil {
			defer os.RemoveAll(dir)
			x, err := runner.New(ctx, runner.Config{Dir: dir})
			if err == nil {
				fs = append(fs, a.boxes(ctx, x, h.Config.Agents)...)
			} else {
				add("box", false, "%v", err)
			}
		}
	}
	fs = append(fs, modelsStand(h)...)
	if ok, text := a.approversStand(ctx, h); text != "" {
		add("approvers", ok, "%s", text)
	}
	s, err := local.Status.Call(ctx, local.NewClient(h.Socket(), thisVersion()), gateway.None{})
	add("gateway", err == nil, "%s", textOr(err, fmt.Sprintf("runs; %d documents wait for an acknowledgement", s.Outgoing)))
	return fs
}

func textOr(err error, text string) string {
	if err != nil {
		return err.Error()
	}
	return text
}

func configCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "config", GroupID: "start", Short: "check the files of this home", Example: "  sealbridge config check"}
	c.AddCommand(&cobra.Command{Use: "check", Short: "read config.yaml and policy.yaml strictly", Example: "  sealbridge config check", RunE: func(*cobra.Command, []string) error {
		h, err := home.Read(a.home)
		if err != nil {
			return err
		}
		p, err := h.Policy()
		if err != nil {
			return err
		}
		if err := notify.CheckAll(waysOf(h)); err != nil {
			return err
		}
		if h.Config.Chips != nil {
			if _, err := a.workspace(h); err != nil {
				return err
			}
		}
		if a.json {
			return a.emit(map[string]any{"config": "ok", "policy": p.Digest().String(), "agents": len(h.Config.Agents)})
		}
		a.print("config.yaml reads, %s\npolicy.yaml reads, %s\n", plural(len(h.Config.Agents), "agent"), p.Digest())
		return nil
	}})
	return c
}

func backupCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "backup FILE", GroupID: "start", Short: "write keys, configuration and journal to a new file", Example: "  sealbridge backup sealbridge-2026-12-01.backup", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			h, err := home.Open(a.home)
			if err != nil {
				return hint(err, "stop `sealbridge serve` first: one process holds the journal")
			}
			defer h.Close()
			j, err := journal.Open(h.Journal())
			if err != nil {
				return journalError(err)
			}
			defer j.Close()
			if err := j.Verify(c.Context()); err != nil {
				return err
			}
			if err := h.Backup(args[0], func(to string) error { return j.Backup(c.Context(), to) }); err != nil {
				return err
			}
			a.print("%s: keep it as you keep the keys in it; a home put back from it signs nothing in open tasks for 14 days\n", args[0])
			return nil
		}}
}

func restoreCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "restore FILE", GroupID: "start", Short: "put a backup back into an empty home", Example: "  sealbridge --home /new/place restore sealbridge-2026-12-01.backup", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := home.Restore(a.home, args[0]); err != nil {
				return err
			}
			a.print("%s is back. `sealbridge serve` starts in recovery: open tasks are asked for at the other side first.\n", a.home)
			return nil
		}}
}
