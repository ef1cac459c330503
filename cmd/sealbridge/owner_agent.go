package main

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/local"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/spec"
)

var _ = register(agentCommand)

func agentCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "agent", GroupID: "agents", Short: "agent programs: those that work for others, and those that ask for you", Example: "  sealbridge agent add coder -- /usr/bin/python3 /home/ben/agent.py"}
	c.AddCommand(agentAdd(a), agentTest(a), agentShow(a), agentList(a), agentRemove(a))
	return c
}

func agentAdd(a *app) *cobra.Command {
	var readOnly, providers, hosts []string
	var model, wasm, image, known, key string
	var asks asking
	c := &cobra.Command{
		Use: "add NAME [--wasm FILE | --image REF] -- COMMAND…", Short: "add an agent program that works for others, or with --client one that asks for you", Args: cobra.MinimumNArgs(1),
		Long: "With a command: a program that works for others, the task as JSON on stdin, the result as JSON on stdout.\n" +
			"With --preset: a program that is known, found in your PATH and started so that it asks nobody.\n" +
			"With --wasm: the same as a WASI module, held by its own runtime on every system (level wasm); what stands behind -- are its arguments.\n" +
			"With --image: the same in a container of podman or docker (level oci_container), from an image that is here already, by its digest.\n" +
			"With --client: the agent program that you talk to. It gets a token of its own, asks contacts for work by MCP and decides nothing.",
		Example: "  sealbridge agent add coder --preset claude-code\n  sealbridge agent add coder --read-only /home/ben/agent -- /bin/sh /home/ben/agent/run.sh\n  sealbridge agent add totals --wasm totals.wasm\n  sealbridge agent add claude --client claude-code --write",
		RunE: func(c *cobra.Command, args []string) error {
			h, err := home.Read(a.home)
			if err != nil {
				return err
			}
			name := args[0]
			if err := shortName(name); err != nil {
				return err
			}
			if _, there := h.Config.Agents[name]; there {
				return spec.Refuse(spec.Conflict, "", "an agent "+name+" is there already: sealbridge agent remove "+name)
			}
			if asks.client != "" {
				if len(args) > 1 {
					return usage("--client or a command, not both")
				}
				if c.Flags().Changed("model") {
					asks.model, asks.providers = model, providers
				}
				return a.addAsking(h, name, asks)
			}
			if known != "" {
				if c.Flags().Changed("model") || wasm+image != "" || len(readOnly)+len(providers)+len(hosts) > 0 {
					return hint(usage("--preset says the rest itself"), "`agent show %s` prints what it made, and config.yaml is yours to change", name)
				}
				return a.addPreset(c.Context(), h, name, known, args[1:], key)
			}
			if len(args) < 2 && wasm == "" && image == "" {
				return usage("a command behind --, --preset " + presetNames + ", --wasm FILE, --image REF, or --client " + clientNames)
			}
			if wasm, err = fileThere(wasm); err != nil {
				return err
			}
			if image != "" {
				if err := runner.CheckImage(image); err != nil {
					return err
				}
			}
			for i, p := range readOnly {
				if readOnly[i], err = filepath.Abs(p); err != nil {
					return err
				}
			}
			ag := home.Agent{Kind: home.KindExec, Command: args[1:], Wasm: wasm, Image: image, ReadOnly: readOnly, Model: model, Providers: providers, Hosts: hosts}
			return a.setAgent(c.Context(), h, name, ag)
		},
	}
	c.Flags().StringVar(&known, "preset", "", "a known agent program: "+presetNames+"; what stands behind -- is added to its arguments")
	c.Flags().StringVar(&key, "key-file", "", "of a preset with a login of its own (cursor): a file with its key, mode 0600")
	c.Flags().StringArrayVar(&readOnly, "read-only", nil, "a folder that the program needs to run; it sees no other of yours")
	c.Flags().StringVar(&wasm, "wasm", "", "a WASI module that is the agent, instead of a program")
	c.Flags().StringVar(&image, "image", "", "a container image that is the agent, NAME@sha256:…; it is never fetched")
	c.Flags().StringVar(&model, "model", "none", "none: no network; door: calls go through this gateway, which has the key and meters them; own: the program brings its own login and host (tokens are claimed)")
	c.Flags().StringArrayVar(&hosts, "host", nil, "a host that it needs with --model own; it works only where the contract names it, and reaches nothing else")
	c.Flags().StringArrayVar(&providers, "provider", nil, "a name of `models` that it may use with --model door; without it all")
	asks.flags(c)
	return c
}

// addPreset adds a known program.
func (a *app) addPreset(ctx context.Context, h *home.Home, name, known string, rest []string, key string) error {
	p, ok := presets[known]
	if !ok {
		return usage("--preset " + presetNames)
	}
	ag, err := p.agent(h, known, rest, key)
	if err != nil {
		return err
	}
	return a.setAgent(ctx, h, name, ag)
}

func (a *app) setAgent(ctx context.Context, h *home.Home, name string, ag home.Agent) error {
	if err := home.SetAgent(a.home, name, &ag); err != nil {
		return err
	}
	a.inForce(ctx, h, name)
	if a.json {
		return a.emit(map[string]any{"name": name, "agent": ag})
	}
	a.print("%s added. Try it in its box first:\n  sealbridge agent test %s\n", name, name)
	return nil
}

// inForce waits until a running gateway has read the files again, so that the next command finds the agent.
func (a *app) inForce(ctx context.Context, h *home.Home, name string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cl := local.NewClient(h.Socket(), thisVersion())
	for {
		s, err := local.Status.Call(ctx, cl, gateway.None{})
		if err != nil || slices.Contains(s.Agents, name) {
			return // no gateway runs: it reads the files when it starts
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func agentList(a *app) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "list agent programs", Example: "  sealbridge agent list", RunE: func(*cobra.Command, []string) error {
		h, err := home.Read(a.home)
		if err != nil {
			return err
		}
		if a.json {
			return a.emit(h.Config.Agents)
		}
		names := make([]string, 0, len(h.Config.Agents))
		for n := range h.Config.Agents {
			names = append(names, n)
		}
		sort.Strings(names)
		if len(names) == 0 {
			a.print("no agents yet: sealbridge agent add NAME -- COMMAND… (works for others) or --client claude-code (asks for you)\n")
		}
		for _, n := range names {
			ag := h.Config.Agents[n]
			if ag.Kind == home.KindMCP {
				a.print("%-12s asks for you by MCP (tools: %s)\n", n, cmp.Or(ag.Tools, "requester"))
				continue
			}
			a.print("%-12s works for others: %s\n", n, whatRuns(ag))
		}
		return nil
	}}
}

func agentRemove(a *app) *cobra.Command {
	return &cobra.Command{Use: "remove NAME", Short: "take an agent program away", Example: "  sealbridge agent remove coder", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		h, err := home.Read(a.home)
		if err != nil {
			return err
		}
		if _, ok := h.Config.Agents[args[0]]; !ok {
			return spec.Refuse(spec.NotFound, "", "no agent is called "+manifest.Display(args[0], 40))
		}
		if err := home.ForgetAgentToken(a.home, args[0]); err != nil { // first: whatever comes after, the token is gone
			return err
		}
		if err := home.SetAgent(a.home, args[0], nil); err != nil {
			return err
		}
		a.print("%s removed\n", args[0])
		return nil
	}}
}

// shortName refuses what is no name for an agent or a provider: it becomes a member of config.yaml and a file.
func shortName(name string) error {
	if err := manifest.CheckArtifactName(name); err != nil || len(name) > 39 {
		return usage("a short name of letters, digits and dashes")
	}
	return nil
}
