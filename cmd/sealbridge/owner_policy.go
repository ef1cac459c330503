package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/journal"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/spec"
)

var _ = register(policyCommand)

func policyCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "policy", GroupID: "gates", Short: "your rules: check a file, try a draft, see and agree to a change",
		Example: "  sealbridge policy check\n  sealbridge policy test task.yaml --to ben\n  sealbridge policy diff\n  sealbridge policy apply"}
	c.AddCommand(policyCheck(a), policyTest(a), policyDiff(a), policyApply(a))
	return c
}

// policyPath is the file that a command is about: the home's own where none is named.
func (a *app) policyPath(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return home.PolicyPath(a.home)
}

// notice is something in a policy that reads and is probably not meant.
type notice struct {
	Path string `json:"path"`
	Line string `json:"line"`
	Text string `json:"text"`
}

func policyCheck(a *app) *cobra.Command {
	return &cobra.Command{Use: "check [FILE]", Short: "read a policy strictly, and say what in it can mean nothing", Args: cobra.MaximumNArgs(1),
		Example: "  sealbridge policy check\n  sealbridge policy check new-policy.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			path := a.policyPath(args)
			p, err := readPolicyAt(path)
			if err != nil {
				return err
			}
			ns := a.notices(c.Context(), path, p)
			if a.json {
				return a.emit(map[string]any{"file": path, "digest": p.Digest(), "incoming": len(p.Incoming), "outgoing": len(p.Outgoing), "tools": len(p.Tools), "notices": ns})
			}
			a.print("%s reads: %d incoming, %d outgoing, %d tools\n%s\n", filepath.Base(path), len(p.Incoming), len(p.Outgoing), len(p.Tools), p.Digest())
			for _, n := range ns {
				a.print("  look  %s:%s  %s\n", filepath.Base(path), n.Line, n.Text)
			}
			return nil
		}}
}

// readPolicyAt reads a policy; an error of its text comes with what can be done.
func readPolicyAt(path string) (policy.Policy, error) {
	p, err := home.ReadPolicy(path)
	var e *spec.Error
	if !errors.As(err, &e) || e.Reason != spec.Malformed {
		return p, err
	}
	said := e.Path + " " + e.Limit
	for _, h := range []struct{ in, hint string }{
		{"ask or refuse", "no rule says yes to a contract: `ask` asks you, `refuse` does not"},
		{"a list of contacts", "write a list, `[ben]`, or the word anyone"},
		{"a length of time", "write 90s, 15m, 1h or 2d"},
		{"an amount", "write 500, 500k or 2M"},
		{"unknown field", "`sealbridge explain G12` and spec/policy.md list every key"},
		{"/ask/", "each of contract, effect, budget, delegation and delivery says who is asked: `contract: {who: [me]}`"},
		{"somebody in people", "name the person under `people`: `me: owner`"},
		{"an absolute path", "begin with / or ~/; * stands for part of a name, ** for any folders"},
	} {
		if strings.Contains(said, h.in) {
			return p, hint(err, "%s", h.hint)
		}
	}
	return p, err
}

// notices are what only a look at rules, contacts and agents together shows.
func (a *app) notices(ctx context.Context, path string, p policy.Policy) []notice {
	ns := []notice{}
	add := func(pointer, text string) {
		ns = append(ns, notice{pointer, home.LineOf(path, pointer), text})
	}
	for _, at := range p.Unreached() {
		add(at, "no case comes to this rule: those above it fit first")
	}
	h, err := home.Read(a.home)
	if err != nil {
		return ns // not in a home: nobody to compare with
	}
	known, err := local.Contacts.Call(ctx, local.NewClient(h.Socket(), thisVersion()), gateway.None{})
	missing := func(names policy.Names, pointer string) {
		for _, n := range names {
			if err == nil && n != policy.Anyone && !slices.ContainsFunc(known, func(c gateway.ContactView) bool { return c.Name == n }) {
				add(pointer, "no contact is called "+manifest.Display(n, 40))
			}
		}
	}
	for i, r := range p.Incoming {
		missing(r.From, pointerOf("incoming", i, "from"))
		if _, ok := h.Config.Agents[r.Agent]; r.Agent != "" && !ok {
			add(pointerOf("incoming", i, "agent"), "config.yaml has no agent "+manifest.Display(r.Agent, 40))
		}
	}
	for i, r := range p.Outgoing {
		missing(r.To, pointerOf("outgoing", i, "to"))
	}
	return ns
}

// lawInForce is the policy in force: as the running gateway says, or as the journal of a home whose gateway does not run has it.
func (a *app) lawInForce(ctx context.Context) (v gateway.PolicyView, running bool, err error) {
	h, cl, err := a.client()
	if err != nil {
		return v, false, err
	}
	if v, err = local.Policy.Call(ctx, cl, gateway.None{}); err == nil || spec.ReasonOf(err) != spec.Unavailable {
		return v, true, err
	}
	locked, err := home.Open(a.home)
	if err != nil {
		return v, false, err
	}
	defer locked.Close()
	if _, err := os.Stat(h.Journal()); err != nil {
		return v, false, gateway.ErrNoPolicy
	}
	j, err := journal.Open(h.Journal())
	if err != nil {
		return v, false, journalError(err)
	}
	defer j.Close()
	v, err = gateway.PolicyIn(ctx, j)
	return v, false, err
}

// compared is a file against what is in force.
type compared struct {
	File       string            `json:"file"`
	InForce    signing.Digest    `json:"inForce"`
	Widens     bool              `json:"widens"`
	Agree      signing.Digest    `json:"differenceDigest"` // what `policy apply --yes` takes
	Difference policy.Difference `json:"difference"`
	Running    bool              `json:"running"`

	next policy.Policy
}

func (a *app) comparePolicy(ctx context.Context, path string) (c compared, err error) {
	if c.next, err = readPolicyAt(path); err != nil {
		return c, err
	}
	v, running, err := a.lawInForce(ctx)
	if err != nil {
		return c, err
	}
	d := policy.Compare(v.Policy, c.next)
	c.File, c.InForce, c.Widens, c.Agree, c.Difference, c.Running = path, v.InForce, d.Widens(), d.Digest(), d, running
	return c, nil
}

// showDifference prints what a change newly permits first.
func (a *app) showDifference(c compared) {
	name := filepath.Base(c.File)
	switch {
	case c.Difference.From == c.Difference.To:
		a.print("%s is in force\n", name)
		return
	case len(c.Difference.Lines) == 0:
		a.print("%s permits the same as the policy in force\n", name)
		return
	}
	for _, l := range c.Difference.Lines {
		colour := map[policy.Mark]string{policy.Added: "31", policy.Wider: "33", policy.Narrower: "32"}[l.Mark]
		a.print("  %s %s\n", a.paint(colour, string(l.Mark)), manifest.Display(l.Text, 2*policy.MaxPolicyText))
		if l.Was != "" {
			a.print("      was: %s\n", manifest.Display(l.Was, 2*policy.MaxPolicyText))
		}
	}
}

func policyDiff(a *app) *cobra.Command {
	return &cobra.Command{Use: "diff [FILE]", Short: "compare a policy with the one in force; exit 1 where it permits more", Args: cobra.MaximumNArgs(1),
		Example: "  sealbridge policy diff\n  sealbridge policy diff new-policy.yaml --json",
		RunE: func(c *cobra.Command, args []string) error {
			d, err := a.comparePolicy(c.Context(), a.policyPath(args))
			if err != nil {
				return err
			}
			if a.json {
				if err := a.emit(d); err != nil {
					return err
				}
			} else {
				a.showDifference(d)
			}
			switch {
			case d.Widens:
				a.note("it permits more: in force after `sealbridge policy apply`  (--yes %s)", agreeing(d.Agree))
				return errNo
			case d.Difference.From != d.Difference.To:
				a.note("it permits no more: in force as soon as the gateway reads it")
			}
			return nil
		}}
}

// agreeing is how a script says yes to a difference: the beginning of its digest.
func agreeing(d signing.Digest) string {
	return strings.TrimPrefix(d.String(), "sha256:")[:agreeLength]
}

const agreeLength = 16 // hex digits: 64 bits of what was shown

func policyApply(a *app) *cobra.Command {
	var yes string
	c := &cobra.Command{Use: "apply [FILE]", Short: "put a policy in force; where it permits more, with your yes", Args: cobra.MaximumNArgs(1),
		Example: "  sealbridge policy apply\n  sealbridge policy apply new-policy.yaml --yes 3f9a0c11d2e4b567",
		RunE: func(c *cobra.Command, args []string) error {
			d, err := a.comparePolicy(c.Context(), a.policyPath(args))
			if err != nil {
				return err
			}
			if !d.Running {
				return hint(spec.Refuse(spec.Unavailable, "", "no gateway runs in this home"), "start it with `sealbridge serve`: it compares the file with what was in force")
			}
			out, err := a.agree(c.Context(), d, yes)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if err := home.SetPolicy(a.home, args[0], d.Difference.To); err != nil {
					return err
				}
			}
			if a.json {
				return a.emit(out)
			}
			a.print("in force: %s\n", out.InForce)
			return nil
		}}
	c.Flags().StringVar(&yes, "yes", "", "without a terminal: the difference that you agree to, as `policy diff` names it")
	return c
}

// agree asks the owner where a policy permits more, signs here and not in the gateway (G9), and hands it over.
func (a *app) agree(ctx context.Context, d compared, yes string) (out gateway.PolicyView, err error) {
	h, cl, err := a.client()
	if err != nil {
		return out, err
	}
	in := gateway.PolicyChange{Policy: d.next}
	if d.Widens {
		switch {
		case yes != "" && yes != agreeing(d.Agree) && yes != d.Agree.String():
			return out, hint(spec.Refuse(spec.Conflict, "", "another difference than the one that you agree to"), "look again: `sealbridge policy diff`")
		case yes == "" && !a.terminal():
			return out, hint(spec.Refuse(spec.GateOpen, "", "it permits more than the policy in force, and there is no terminal to ask"), "`sealbridge policy diff` shows it; agree with --yes %s", agreeing(d.Agree))
		case yes == "":
			if err := a.ownerAgrees(d); err != nil {
				return out, err
			}
		}
		if in.Consent, err = a.consent(h, d); err != nil {
			return out, err
		}
	}
	return local.ChangePolicy.Call(ctx, cl, in)
}

func (a *app) ownerAgrees(d compared) error {
	a.note("POLICY   what your rules would newly permit, and what they would not any more")
	a.showDifference(d)
	k, err := a.choose("a allow   l later: ", "al")
	if err == nil && k == 'l' {
		return ended(exitNotYet)
	}
	return err
}

// consent is the owner's signed yes over the difference that was shown.
func (a *app) consent(h *home.Home, d compared) (string, error) {
	owner, presence, err := a.owner(h)
	if err != nil {
		return "", err
	}
	v, err := manifest.Sign(&manifest.PolicyConsent{Type: "sealbridge/policy-consent", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: h.Owner, AgentDid: h.Agent.DID(),
		From: d.Difference.From, To: d.Difference.To, Difference: d.Agree, Presence: presence, DecidedAt: signing.TimeOf(a.now())}, owner, a.now())
	if err != nil {
		return "", err
	}
	return v.Wire().String(), nil
}

// tally says how many lines of a difference are of which mark: 1 added, 2 wider, 1 narrower.
func tally(d policy.Difference) string {
	words := map[policy.Mark]string{policy.Added: "added", policy.Wider: "wider", policy.Narrower: "narrower"}
	n := map[policy.Mark]int{}
	for _, l := range d.Lines {
		n[l.Mark]++
	}
	var out []string
	for _, m := range []policy.Mark{policy.Added, policy.Wider, policy.Narrower} {
		if n[m] > 0 {
			out = append(out, fmt.Sprintf("%d %s", n[m], words[m]))
		}
	}
	return strings.Join(out, ", ")
}

// policyStands is doctor's line: whether the file reads and is what is in force.
func (a *app) policyStands(ctx context.Context) (ok bool, text string) {
	d, err := a.comparePolicy(ctx, home.PolicyPath(a.home))
	switch {
	case errors.Is(err, gateway.ErrNoPolicy):
		return true, "reads; the first `sealbridge serve` puts it in force"
	case err != nil:
		return false, err.Error()
	case d.Widens:
		return false, "the file permits more than what is in force (" + tally(d.Difference) + "): sealbridge policy diff"
	case d.Difference.From != d.Difference.To:
		return true, "reads; permits no more than what is in force, and is taken as soon as the gateway reads it"
	}
	return true, "reads, and is in force"
}
