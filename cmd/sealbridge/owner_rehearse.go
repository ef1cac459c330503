package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"sealbridge/gateway/artifact"
	"sealbridge/gateway/home"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/spec"
)

func policyTest(a *app) *cobra.Command {
	var to, from, agent, file string
	c := &cobra.Command{Use: "test DRAFT", Short: "say what would happen to a draft, and by which rule; nothing is sent", Args: cobra.ExactArgs(1),
		Example: "  sealbridge policy test task.yaml --to ben\n  sealbridge policy test task.yaml --to ben --agent claude\n  sealbridge policy test task.yaml --from ann --file new-policy.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			if (to == "") == (from == "") {
				return usage("--to CONTACT, as work that you ask for, or --from CONTACT, as work that is asked of you")
			}
			path := a.policyPath(nil)
			if file != "" {
				path = file
			}
			p, err := readPolicyAt(path)
			if err != nil {
				return err
			}
			d, err := home.ReadDraft(args[0])
			if err != nil {
				return err
			}
			r := policy.Rehearsal{Draft: d, Side: manifest.Requester, Contact: to, Caller: agent, Named: agent == "", At: a.now()}
			if from != "" {
				r.Side, r.Contact = manifest.Worker, from
				if r.Caller == "" {
					r.Caller = a.workerFor(p, from)
				}
			}
			if r.Inputs, r.Files, err = measured(c.Context(), d); err != nil {
				return err
			}
			out, err := rehearsed(p, path, r)
			if err != nil {
				return err
			}
			if a.json {
				if err := a.emit(out); err != nil {
					return err
				}
			} else {
				a.showRehearsal(out)
			}
			if out.Outcome == policy.Deny.String() {
				return errNo
			}
			return nil
		}}
	f := c.Flags()
	f.StringVar(&to, "to", "", "the contact that you would ask")
	f.StringVar(&from, "from", "", "the contact that would ask you")
	f.StringVar(&agent, "agent", "", "as this agent of yours would ask, or would work; you yourself, or the rule's, where absent")
	f.StringVar(&file, "file", "", "another policy than that of this home")
	return c
}

// workerFor is the agent that would work: the rule's, or the first one that there is.
func (a *app) workerFor(p policy.Policy, contact string) string {
	if name := p.Worker(contact, ""); name != "" {
		return name
	}
	h, err := home.Read(a.home)
	if err != nil || len(h.Config.Agents) == 0 {
		return "an agent"
	}
	names := make([]string, 0, len(h.Config.Agents))
	for n := range h.Config.Agents {
		names = append(names, n)
	}
	sort.Strings(names)
	return names[0]
}

// measured reads the files of a draft as the gateway would, in a place that is gone afterwards.
func measured(ctx context.Context, d manifest.Draft) (refs []manifest.ArtifactRef, files []string, err error) {
	dir, err := os.MkdirTemp("", "sealbridge-policy-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	store, err := artifact.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer store.Close()
	refs = []manifest.ArtifactRef{}
	for i, in := range d.Inputs {
		ref, resolved, err := store.Import(ctx, artifact.Import{Path: in.File, Name: in.As})
		if err != nil {
			return nil, nil, spec.At(fmt.Sprintf("/inputs/%d", i), err)
		}
		refs, files = append(refs, ref), append(files, resolved)
	}
	return refs, files, nil
}

// rehearsal is the answer of `policy test`.
type rehearsal struct {
	Outcome  string          `json:"outcome"` // allow, hold or deny
	Rule     string          `json:"rule"`
	Place    string          `json:"place,omitempty"` // policy.yaml:14
	Reason   spec.Reason     `json:"reason,omitempty"`
	Path     string          `json:"path,omitempty"`
	Limit    string          `json:"limit,omitempty"`
	With     string          `json:"with"`
	Side     manifest.Role   `json:"side"`
	Agent    string          `json:"agent,omitempty"`
	Policy   string          `json:"policyDigest"`
	Asked    []rehearsedGate `json:"asked"` // first what is asked now, then what the contract names besides
	Contract string          `json:"title"`
}

type rehearsedGate struct {
	Gate     policy.GateWord `json:"gate"`
	Now      bool            `json:"now"` // before anything leaves
	Who      []string        `json:"who"`
	Need     int             `json:"need"`
	Wait     string          `json:"wait"`
	Presence []string        `json:"presence"`
}

func rehearsed(p policy.Policy, path string, r policy.Rehearsal) (out rehearsal, err error) {
	m, d, err := p.Rehearse(r)
	if err != nil {
		return out, err
	}
	out = rehearsal{Outcome: d.Outcome.String(), Rule: d.Rule, Reason: d.Reason, Path: d.Path, Limit: d.Limit, With: r.Contact, Side: r.Side, Agent: r.Caller,
		Policy: p.Digest().String(), Asked: []rehearsedGate{}, Contract: m.Task.Title}
	if d.Outcome != policy.Deny {
		out.Reason = ""
	}
	if d.Section != "" && d.Index >= 0 {
		pointer := pointerOf(d.Section, d.Index, "")
		out.Rule, out.Place = ruleName(p, d), filepath.Base(path)+":"+home.LineOf(path, pointer)
	}
	if d.Outcome == policy.Deny {
		return out, nil
	}
	if g := d.Gate; g != nil {
		out.Asked = append(out.Asked, rehearsedGate{policy.WordOf(g.Gate), true, g.Who, g.Need, policy.Duration(g.Until.Sub(r.At)).String(), g.Presence})
	}
	for _, g := range later(m, r.Side) {
		a := p.Ask.Of(g)
		out.Asked = append(out.Asked, rehearsedGate{policy.WordOf(g), false, a.Who, max(1, a.Need), policy.Duration(policy.WaitFor(g, a)).String(), a.Kinds()})
	}
	return out, nil
}

// later are the gates that the contract puts before what comes after it, on one side.
func later(m manifest.TaskManifest, side manifest.Role) (out []manifest.Gate) {
	for _, g := range []manifest.Gate{manifest.EffectGate, manifest.BudgetGate, manifest.SubGate, manifest.DeliveryGate} {
		mode := m.Verification.Mode
		needed := slices.Contains(m.HITLPolicy.RequiredGates, g) || g == manifest.DeliveryGate && (mode == "hybrid" || mode == "human_in_the_loop")
		if needed && (g != manifest.DeliveryGate || side == manifest.Requester) {
			out = append(out, g)
		}
	}
	return out
}

func ruleName(p policy.Policy, d policy.Decision) string {
	switch {
	case d.Section == "incoming" && d.Index < len(p.Incoming):
		return p.Incoming[d.Index].Name
	case d.Section == "outgoing" && d.Index < len(p.Outgoing):
		return p.Outgoing[d.Index].Name
	}
	return d.Rule
}

func pointerOf(section string, index int, member string) string {
	return strings.TrimSuffix(fmt.Sprintf("/%s/%d/%s", section, index, member), "/")
}

func (a *app) showRehearsal(r rehearsal) {
	what := "asking " + r.With
	if r.Side == manifest.Worker {
		what = "work from " + r.With
	}
	if r.Agent != "" {
		what += " by " + r.Agent
	}
	word := map[string]string{"deny": "REFUSED", "hold": "ASKED", "allow": "ALLOWED"}[r.Outcome]
	a.print("%s   %s: %s\n", word, manifest.Display(what, 120), manifest.Display(r.Contract, 200))
	place := r.Place
	if place != "" {
		place = "   " + place
	}
	a.print("  rule    %s%s\n", manifest.Display(r.Rule, 200), place)
	if r.Outcome == policy.Deny.String() {
		a.print("  why     %s\n", strings.Join(strings.Fields(string(r.Reason)+" "+r.Path+" "+manifest.Display(r.Limit, 200)), " "))
	}
	for _, g := range r.Asked {
		when := "then"
		if g.Now {
			when = "first"
		}
		votes := ""
		if g.Need > 1 {
			votes = fmt.Sprintf(", %d of them", g.Need)
		}
		a.print("  %-6s  %s: %s%s, for %s, by %s; silence means no\n", when, g.Gate, strings.Join(g.Who, ", "), votes, g.Wait, strings.Join(g.Presence, " or "))
	}
	a.note("nothing was sent. %s counts as a confirmed contact, and the day as one on which nothing was used yet.", manifest.Display(r.With, 40))
}
