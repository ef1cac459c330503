package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/gateway/tools"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

var _ = register(toolsCommand)
var _ = register(revokeCommand)

func toolsCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "tools", GroupID: "agents", Short: "your tools that contracts may grant: what servers offer, what others may call", Example: "  sealbridge tools list"}
	c.AddCommand(toolsList(a), toolsTest(a), toolsLent(a))
	return c
}

// offered is a tool of a server with what the policy says of it.
type offered struct {
	Tool        string   `json:"tool"`
	Then        string   `json:"then"`
	Rule        string   `json:"rule,omitempty"` // policy.yaml:14
	Reaches     []string `json:"reaches"`        // templates; none: whatever it is given
	Effect      []string `json:"effect"`         // none said: asked about where the contract names the gate
	About       string   `json:"about"`
	ReadOnly    bool     `json:"readOnly"` // as the server says of itself
	Destructive bool     `json:"destructive"`
}

func toolsList(a *app) *cobra.Command {
	return &cobra.Command{Use: "list [SERVER]", Short: "start your tool servers and show what they offer, and what your policy says of it", Args: cobra.MaximumNArgs(1), Example: "  sealbridge tools list docs",
		RunE: func(c *cobra.Command, args []string) error {
			h, all, p, err := a.toolServers()
			if err != nil {
				return err
			}
			defer all.Close()
			out := []offered{}
			var failed error
			for _, server := range all.Names() {
				if len(args) > 0 && server != args[0] {
					continue
				}
				offers, err := all.Offers(c.Context(), server)
				if err != nil {
					failed = err
					a.note("sealbridge: warning: %s: %v", server, err)
				}
				for _, o := range offers {
					out = append(out, offerOf(h, p, o))
				}
			}
			if len(args) > 0 && len(out) == 0 && failed == nil {
				return spec.Refuse(spec.NotFound, "", "no tool server is called "+manifest.Display(args[0], 40))
			}
			slices.SortFunc(out, func(x, y offered) int { return cmp.Compare(x.Tool, y.Tool) })
			if a.json {
				return errors.Join(a.emit(out), failed)
			}
			if len(out) == 0 && failed == nil {
				a.print("no tool servers: `tools: {docs: {files: ~/docs}}` in config.yaml names one\n")
			}
			for _, o := range out {
				a.print("%-7s %-28s %s\n", o.Then, manifest.Display(o.Tool, 60), reaches(o))
			}
			return failed
		}}
}

func reaches(o offered) string {
	if o.Then == string(policy.ThenRefuse) {
		return o.Rule
	}
	text := "whatever it is given"
	if len(o.Reaches) > 0 {
		text = strings.Join(o.Reaches, " and ")
	}
	effect := "nobody said what it does outside"
	if len(o.Effect) > 0 {
		effect = strings.Join(o.Effect, ", ")
	}
	return text + "   does: " + effect + "   " + o.Rule
}

func offerOf(h *home.Home, p policy.Policy, o tools.Offer) offered {
	rule, at := p.Tool(o.Name)
	out := offered{Tool: o.Name, Then: string(rule.Then), Reaches: rule.Resource, Effect: rule.Effect, About: o.About, ReadOnly: o.ReadOnly, Destructive: o.Destructive}
	if at >= 0 {
		out.Rule = h.PolicyLine("/tools/" + strconv.Itoa(at))
	} else {
		out.Rule = "no rule of tools names it"
	}
	return out
}

// toolServers are the owner's servers as this command reaches them itself.
func (a *app) toolServers() (*home.Home, *tools.Tools, policy.Policy, error) {
	h, err := home.Read(a.home)
	if err != nil {
		return nil, nil, policy.Policy{}, err
	}
	p, err := h.Policy()
	if err != nil {
		return nil, nil, p, err
	}
	servers, err := toolsOf(h)
	if err != nil {
		return nil, nil, p, err
	}
	all, err := tools.New(servers, nil)
	return h, all, p, err
}

func toolsTest(a *app) *cobra.Command {
	var call bool
	c := &cobra.Command{Use: "test TOOL [ARGUMENTS]", Short: "show what a call would reach by your policy; with --call make it", Args: cobra.RangeArgs(1, 2), Example: "  sealbridge tools test docs.read '{\"path\":\"public/a.txt\"}' --call",
		RunE: func(c *cobra.Command, args []string) error {
			text := "{}"
			if len(args) == 2 {
				text = args[1]
			}
			v, err := jcs.Canonicalize([]byte(text))
			if err == nil && v.Kind() != '{' {
				err = spec.Refuse(spec.Malformed, "", "an object")
			}
			if err != nil {
				return spec.At("ARGUMENTS", err)
			}
			_, all, p, err := a.toolServers()
			if err != nil {
				return err
			}
			defer all.Close()
			row, ok := p.TableFor(args[0])[args[0]]
			if rule, _ := p.Tool(args[0]); !ok || rule.Then == policy.ThenRefuse {
				return spec.Refuse(spec.PolicyDenied, "/tool", "C1a: no rule of tools in policy.yaml allows "+manifest.Display(args[0], 100))
			}
			whole, _ := row.Complete(v)
			rs, err := row.Resources(args[0], whole)
			if err != nil {
				return err
			}
			answer, err := a.maybeCall(c.Context(), all, call, args[0], whole)
			if err != nil {
				return err
			}
			if a.json {
				return a.emit(map[string]any{"tool": args[0], "arguments": whole, "resources": rs, "result": answer})
			}
			for _, r := range rs {
				a.print("reaches  %s\n", r)
			}
			a.print("given    %s\n", manifest.Display(whole.String(), 1000))
			if !answer.IsZero() {
				a.print("answer   %s\n", manifest.Display(answer.String(), 4000))
			}
			return nil
		}}
	c.Flags().BoolVar(&call, "call", false, "call the tool, for yourself")
	return c
}

func (a *app) maybeCall(ctx context.Context, all *tools.Tools, call bool, tool string, arguments jcs.Value) (jcs.Value, error) {
	if !call {
		return jcs.Value{}, nil
	}
	defer a.working("calling " + tool)()
	return all.Call(ctx, tool, arguments)
}

func toolsLent(a *app) *cobra.Command {
	var all bool
	c := &cobra.Command{Use: "lent", Short: "what others may call now, and what is left of it", Args: cobra.NoArgs, Example: "  sealbridge tools lent",
		RunE: func(c *cobra.Command, _ []string) error {
			return query(a, c, local.Lent, all, func(out []gateway.Lent) error {
				if len(out) == 0 {
					a.print("nobody may call a tool of yours\n")
				}
				for _, l := range out {
					state := "until " + inLocal(l.Until)
					if l.Off != "" {
						state = "off: " + manifest.Display(l.Off, 200)
					}
					a.print("%s  %-12s %s of %s   %s on %s   task %s   %s\n", tokenRef(l), manifest.Display(l.To, 40), strconv.FormatInt(l.Left, 10), strconv.FormatInt(l.Uses, 10), strings.Join(l.Tools, ", "), l.Resource, short(l.Task), state)
				}
				return nil
			})
		}}
	c.Flags().BoolVar(&all, "all", false, "also what has ended")
	return c
}

// tokenRef is how people type a token: the end of its digest.
func tokenRef(l gateway.Lent) string {
	d := l.Digest.String()
	return d[len(d)-8:]
}

func revokeCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "revoke", GroupID: "gates", Short: "take back what others may do", Example: "  sealbridge revoke token 4be109c7 --reason \"enough\""}
	c.AddCommand(revokeToken(a))
	return c
}

func revokeToken(a *app) *cobra.Command {
	var reason string
	var tell bool
	c := &cobra.Command{Use: "token TOKEN", Short: "honour no call by a token of yours any more; it needs no key", Args: cobra.ExactArgs(1),
		Long:    "TOKEN is an ending of a token of `sealbridge tools lent`, or of the grant's id. From then on no call by it is taken;\none that waits for you is refused. With --tell the owner's key signs the revocation and your contacts are told.",
		Example: "  sealbridge revoke token 4be109c7 --reason \"enough\"",
		RunE: func(c *cobra.Command, args []string) error {
			h, cl, err := a.client()
			if err != nil {
				return err
			}
			in := gateway.TakingBack{Token: args[0], Reason: reason}
			out, err := local.TakeBack.Call(c.Context(), cl, in)
			if err != nil {
				return err
			}
			if tell {
				if in.Revocation, err = a.revocation(c.Context(), h, cl, out, reason); err != nil {
					return err
				}
				if out, err = local.TakeBack.Call(c.Context(), cl, in); err != nil {
					return err
				}
			}
			if a.json {
				return a.emit(out)
			}
			a.print("%s may not call %s by this token any more\n", manifest.Display(out.To, 64), strings.Join(out.Tools, ", "))
			return nil
		}}
	c.Flags().StringVar(&reason, "reason", "not needed any more", "why; your contacts can read it with --tell")
	c.Flags().BoolVar(&tell, "tell", false, "sign it with the owner's key and tell your contacts until they have acknowledged it")
	return c
}

func (a *app) revocation(ctx context.Context, h *home.Home, cl *local.Client, l gateway.Lent, reason string) (string, error) {
	list, err := local.Approvers.Call(ctx, cl, gateway.None{})
	if err != nil {
		return "", err
	}
	owner, _, err := a.owner(h)
	if err != nil {
		return "", err
	}
	r, err := manifest.Sign(&manifest.Revocation{Type: "sealbridge/revocation", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: h.Owner,
		Target: "capability-token", TargetDigest: l.Digest, Seq: list.Revocations + 1, Reason: reason, Stands: []manifest.Stand{}, At: signing.TimeOf(a.now())}, owner, a.now())
	return r.Wire().String(), err
}

const mostCalls = 20 // of a task, in its text: the newest

// refusedBy is why a call was refused, behind its line.
func refusedBy(c gateway.CallView) string {
	if c.Denial == nil {
		return ""
	}
	return "   " + manifest.Display(strings.TrimSpace(c.Denial.Reason+": "+c.Denial.Rule+" "+c.Denial.Path+" "+c.Denial.Limit), 300)
}
