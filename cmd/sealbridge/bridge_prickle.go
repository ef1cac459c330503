package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/manifest/bridge"
	"sealbridge/signing"
	"sealbridge/spec"
)

func importWork(a *app) *cobra.Command {
	var draft bool
	c := &cobra.Command{Use: "prickle-task FILE", Short: "propose a Prickle task to the contact whose agent it is for", Args: cobra.ExactArgs(1),
		Example: "  sealbridge import prickle-task task.json",
		RunE: func(c *cobra.Command, args []string) error {
			w, err := a.readWork(args[0])
			if err != nil {
				return err
			}
			h, err := home.Read(a.home)
			if err != nil {
				return err
			}
			p := h.Config.Prickle
			if p == nil {
				return hint(spec.Refuse(spec.NotFound, "/prickle", "this home has no table of a Prickle server"), "write prickle: into config.yaml (sealbridge explain J1)")
			}
			in, err := bridge.Room{Server: p.Server, Owner: p.Owner, Contacts: p.Contacts}.Import(w,
				bridge.Terms{Deadline: p.Deadline, Budget: p.Budget, Isolation: p.Sandbox.Isolation, ClaimedOK: p.Sandbox.ClaimedOK})
			if err != nil {
				return err
			}
			if draft {
				return a.emit(drafted(in))
			}
			return a.bring(c, "prickle/", in)
		}}
	c.Flags().BoolVar(&draft, "draft", false, "print what it becomes as JSON; needs no gateway and sends nothing")
	return c
}

func importResult(a *app) *cobra.Command {
	var before string
	c := &cobra.Command{Use: "prickle-result FILE", Short: "reckon whether a Prickle task's result holds; exit 1 where it does not", Args: cobra.ExactArgs(1),
		Example: "  sealbridge import prickle-result task.json --before 2026-11-30T09:15:00Z",
		RunE: func(_ *cobra.Command, args []string) error {
			w, err := a.readWork(args[0])
			if err != nil {
				return err
			}
			var last time.Time
			if before != "" {
				t, err := signing.ParseTime(before)
				if err != nil {
					return spec.At("--before", err)
				}
				last = t.Time()
			}
			found, err := w.Judge(a.now(), last)
			if err != nil {
				return err
			}
			if a.json {
				err = a.emit(map[string]any{"complete": len(found) == 0, "findings": append([]bridge.Finding{}, found...)})
			}
			for _, f := range found {
				if !a.json {
					a.print("%s   %s\n", f.Path, f.Why)
				}
			}
			switch {
			case err != nil:
				return err
			case len(found) > 0:
				return errNo
			case !a.json:
				a.print("complete, as far as it says; a person decides\n")
			}
			return nil
		}}
	c.Flags().StringVar(&before, "before", "", "when the revision before this one came back: older evidence does not count")
	return c
}

func (a *app) readWork(file string) (bridge.Work, error) {
	raw, err := readFile(a, file, bridge.MaxEvent)
	if err != nil {
		return bridge.Work{}, err
	}
	return bridge.ReadWork(raw)
}

// drafted is an import as JSON.
func drafted(in bridge.Imported) map[string]any {
	return map[string]any{"taskId": in.TaskID, "to": in.Contact, "draft": in.Draft, "files": in.Files, "chosen": in.Invented, "left": in.Left, "sidecar": in.Sidecar}
}

// bring proposes what a bridge made; the same again is the same task (J2).
func (a *app) bring(c *cobra.Command, from string, in bridge.Imported) error {
	p := gateway.Proposal{To: in.Contact, Draft: in.Draft, ID: from + strings.TrimPrefix(in.TaskID.String(), "task_"),
		Bridged: &gateway.Bridged{Task: in.TaskID, Sidecar: in.Sidecar, Chosen: in.Invented}}
	return query(a, c, local.Propose, p, func(out gateway.Proposed) error {
		a.print("%s\n", out.Task)
		if out.Ask != "" {
			a.note("waiting for you: sealbridge gate show %s", short(out.Ask))
		}
		a.note("chosen here, because it was not said: %s", strings.Join(in.Invented, ", "))
		if len(in.Left) > 0 {
			a.note("kept here and sent to nobody: %s", manifest.Display(strings.Join(in.Left, " "), 500))
		}
		return nil
	})
}
