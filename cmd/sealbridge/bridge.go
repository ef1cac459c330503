package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/manifest/bridge"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

var _ = register(importCommand)

func importCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "import", GroupID: "hand", Short: "take work and answers from other systems", Example: "  sealbridge import chips-task lane.json --files ~/Downloads/lane"}
	c.AddCommand(importTask(a), importDecision(a), importQuestion(a), importWork(a), importResult(a))
	return c
}

func importTask(a *app) *cobra.Command {
	var to, dir string
	var dry bool
	c := &cobra.Command{Use: "chips-task FILE", Short: "propose a Chips task to the contact that it is for", Args: cobra.ExactArgs(1),
		Example: "  sealbridge import chips-task lane.json --files ~/Downloads/lane\n  sealbridge import chips-task lane.json --to ben --draft",
		RunE: func(c *cobra.Command, args []string) error {
			in, err := a.readLane(args[0], to)
			if err != nil {
				return err
			}
			if dry {
				return a.emit(drafted(in))
			}
			if err := in.Place(lyingIn(dir)); err != nil {
				return hint(err, "--files DIR, where each file has the name, the attachment id or the SHA-256 that the event gives")
			}
			return a.bring(c, "chips/", in)
		}}
	c.Flags().StringVar(&to, "to", "", "the contact behind the task's `to`, where chips: in config.yaml does not name it")
	c.Flags().StringVar(&dir, "files", "", "the folder with the bytes of its attachments")
	c.Flags().BoolVar(&dry, "draft", false, "print what it becomes as JSON; needs no gateway and sends nothing")
	return c
}

// readLane reads a Chips task and says what it becomes, by the table of this home and the contact that a person named.
func (a *app) readLane(file, to string) (in bridge.Imported, err error) {
	raw, err := readFile(a, file, bridge.MaxEvent)
	if err != nil {
		return in, err
	}
	t, err := bridge.ReadTask(raw, bridge.Sent|bridge.Stored)
	if err != nil {
		return in, err
	}
	h, err := home.Read(a.home)
	if err != nil && (to == "" || spec.ReasonOf(err) != spec.NotFound) {
		return in, err
	}
	var x bridge.Terms
	w := t.Named(to)
	if h != nil && h.Config.Chips != nil {
		s := h.Config.Chips
		x = bridge.Terms{Deadline: s.Deadline, Budget: s.Budget, Isolation: s.Sandbox.Isolation, ClaimedOK: s.Sandbox.ClaimedOK}
		w = workspaceOf(*s)
		if to != "" {
			w.Contacts = maps.Clone(w.Contacts)
			if w.Contacts == nil {
				w.Contacts = map[string]string{}
			}
			w.Contacts[t.To] = to
		}
	} else if to == "" {
		return in, hint(spec.Refuse(spec.NotFound, "/to", "this home has no table of a Chips workspace"), "name the contact with --to, or write chips: into config.yaml (sealbridge explain J1)")
	}
	if err := w.Check(); err != nil {
		return in, spec.At("/chips", err)
	}
	return w.Import(t, x, a.now())
}

func workspaceOf(c home.Chips) bridge.Workspace {
	return bridge.Workspace{ID: c.Workspace, Lead: c.Lead, Owner: c.Owner, Contacts: c.Contacts, Locals: c.Locals, Autonomy: c.Autonomy, Worker: c.Worker}
}

// workspace is the table of this home.
func (a *app) workspace(h *home.Home) (bridge.Workspace, error) {
	if h.Config.Chips == nil {
		return bridge.Workspace{}, hint(spec.Refuse(spec.NotFound, "/chips", "this home has no table of a Chips workspace"), "write chips: into config.yaml (sealbridge explain J1)")
	}
	w := workspaceOf(*h.Config.Chips)
	return w, spec.At("/chips", w.Check())
}

// lyingIn finds the bytes of an attachment in a folder. The name that somebody
// gave it is looked up as one name and is never a path.
func lyingIn(dir string) func(bridge.File) (string, bool) {
	return func(f bridge.File) (string, bool) {
		names := []string{f.ID, strings.TrimPrefix(f.Digest.String(), "sha256:"), f.As}
		if filepath.IsLocal(f.Name) && filepath.Base(f.Name) == f.Name {
			names = append(names, f.Name)
		}
		for _, name := range names {
			path, err := filepath.Abs(filepath.Join(dir, name))
			if err != nil || dir == "" {
				continue
			}
			if i, err := os.Lstat(path); err == nil && i.Mode().IsRegular() {
				return path, true
			}
		}
		return "", false
	}
}

func importDecision(a *app) *cobra.Command {
	return &cobra.Command{Use: "chips-decision FILE", Short: "sign, with presence channel:chips, for what you answered in Chips", Args: cobra.ExactArgs(1),
		Example: "  sealbridge import chips-decision answered.json",
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := readFile(a, args[0], bridge.MaxEvent)
			if err != nil {
				return err
			}
			d, err := bridge.ReadDecision(raw)
			if err != nil {
				return err
			}
			h, cl, err := a.client()
			if err != nil {
				return err
			}
			w, err := a.workspace(h)
			if err != nil {
				return err
			}
			as, err := local.Asks.Call(c.Context(), cl, true)
			if err != nil {
				return err
			}
			for _, v := range as {
				event := approval.Chips(v.Ask, approval.Outcome(v.State))
				if id, _ := event.Member("approval_id"); id.String() != `"`+d.ApprovalID+`"` {
					continue
				}
				verdict, err := w.Answer(d, event, v.Ask.Until.Time())
				if err != nil {
					return err
				}
				return a.signFor(c, h, cl, v.Ask, verdict, d)
			}
			return spec.Refuse(spec.NotFound, "/approval_id", "no question of this home")
		}}
}

// signFor signs a yes that was given in Chips; a no needs no key (G10).
func (a *app) signFor(c *cobra.Command, h *home.Home, cl *local.Client, ask approval.Ask, verdict string, d bridge.Decision) error {
	if verdict == approval.Deny {
		out, err := local.Deny.Call(c.Context(), cl, gateway.Denial{Ask: ask.AskID.String()})
		if err != nil {
			return err
		}
		return a.decided(ask, out)
	}
	owner, _, err := a.owner(h)
	if err != nil {
		return err
	}
	said := approval.Decide(ask, verdict, bridge.Channel, a.now())
	v, err := manifest.Sign(&said, owner, a.now())
	if err != nil {
		return err
	}
	out, err := local.Decide.Call(c.Context(), cl, gateway.Answer{Decision: v.Wire().String(), Channel: string(d.Raw())})
	if spec.ReasonOf(err) == spec.PolicyDenied {
		return hint(err, "policy.yaml does not list %s in the presence of this gate: answer with `sealbridge gate allow %s`", bridge.Channel, ask.Short())
	}
	if err != nil {
		return err
	}
	return a.decided(ask, out)
}

func importQuestion(a *app) *cobra.Command {
	var deadline string
	c := &cobra.Command{Use: "chips-approval FILE", Short: "say before which gate a harness's own question stands; nothing is asked or decided", Args: cobra.ExactArgs(1),
		Example: "  sealbridge import chips-approval question.json --deadline 2d",
		RunE: func(_ *cobra.Command, args []string) error {
			raw, err := readFile(a, args[0], bridge.MaxEvent)
			if err != nil {
				return err
			}
			q, err := bridge.ReadQuestion(raw, bridge.Sent|bridge.Stored)
			if err != nil {
				return err
			}
			end, err := manifest.ParseDeadline(deadline, a.now())
			if err != nil {
				return spec.At("--deadline", err)
			}
			j, err := q.Judge(a.now(), end)
			if err != nil {
				return err
			}
			if a.json {
				return a.emit(map[string]any{"gate": j.Gate, "kind": q.Kind, "risk": q.Risk, "until": signing.TimeOf(j.Until), "fallback": "deny"})
			}
			a.print("%s   %s   no at %s\nrisk  %s\n", manifest.GateWord(j.Gate), manifest.Display(q.Kind, 120), inLocal(j.Until), strings.Join(q.Risk, ", "))
			return nil
		}}
	c.Flags().StringVar(&deadline, "deadline", "2d", "of the contract that the harness works under: a span, or an instant")
	return c
}

// exportAs prints a task or an ask in another system's words; what it has no place for is named on stderr.
func (a *app) exportAs(c *cobra.Command, as, ref, file string) error {
	h, cl, err := a.client()
	if err != nil {
		return err
	}
	if as == "chips-approval" {
		w, err := a.workspace(h)
		if err != nil {
			return err
		}
		v, err := findAsk(c.Context(), cl, ref)
		if err != nil {
			return err
		}
		event, err := w.Request(approval.Chips(v.Ask, approval.Outcome(v.State)), int64(v.Ask.Until.Time().Sub(a.now()).Seconds()))
		if err != nil {
			return err
		}
		return a.written(event.String(), file)
	}
	t, err := local.Contract.Call(c.Context(), cl, gateway.Ref{Task: ref})
	if err != nil {
		return err
	}
	if as == "chips-task" && !t.Sidecar.IsZero() && t.Task.Role == manifest.Requester {
		s, err := bridge.OpenSidecar(t.Sidecar)
		if err != nil {
			return err
		}
		if s.Kind == as {
			return a.written(s.Raw, file)
		}
	}
	event, lost, err := a.contractAs(h, as, t)
	if err != nil {
		return err
	}
	a.note("no place in it, and enforced by this gateway all the same: %s", strings.Join(lost, " "))
	return a.written(event.String(), file)
}

func (a *app) contractAs(h *home.Home, as string, t gateway.Contracted) (event jcs.Value, lost []string, err error) {
	switch {
	case t.Task.Role != manifest.Worker:
		return event, nil, spec.Refuse(spec.NotPermitted, "", "this task goes to another owner: it is exported where the work is done")
	case !t.Accepted:
		return event, nil, spec.Refuse(spec.GateOpen, "", "G13: not before this owner has accepted the contract")
	}
	var m manifest.TaskManifest
	if err := jcs.Decode(t.Manifest, &m); err != nil {
		return event, nil, err
	}
	if as == "prickle-packet" {
		return bridge.Packet(m, t.Digest)
	}
	w, err := a.workspace(h)
	if err != nil {
		return event, nil, err
	}
	return w.Lane(m, t.Digest, t.Task.With)
}

// written puts a text into a file, or on stdout.
func (a *app) written(text, file string) error {
	if file == "" || file == "-" {
		a.print("%s\n", strings.TrimRight(text, "\n"))
		return nil
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	if a.json {
		return a.emit(map[string]any{"file": file, "bytes": len(text)})
	}
	a.print("%s\n", file)
	return nil
}
