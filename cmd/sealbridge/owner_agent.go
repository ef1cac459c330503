package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
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
	"sealbridge/relay"
	"sealbridge/signing/jcs"
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
	var model, wasm, image string
	var asks asking
	c := &cobra.Command{
		Use: "add NAME [--wasm FILE | --image REF] -- COMMAND…", Short: "add an agent program that works for others, or with --client one that asks for you", Args: cobra.MinimumNArgs(1),
		Long: "With a command: a program that works for others, the task as JSON on stdin, the result as JSON on stdout.\n" +
			"With --wasm: the same as a WASI module, held by its own runtime on every system (level wasm); what stands behind -- are its arguments.\n" +
			"With --image: the same in a container of podman or docker (level oci_container), from an image that is here already, by its digest.\n" +
			"With --client: the agent program that you talk to. It gets a token of its own, asks contacts for work by MCP and decides nothing.",
		Example: "  sealbridge agent add coder --read-only /home/ben/agent -- /bin/sh /home/ben/agent/run.sh\n  sealbridge agent add totals --wasm totals.wasm\n  sealbridge agent add claude --client claude-code --write",
		RunE: func(c *cobra.Command, args []string) error {
			h, err := home.Read(a.home)
			if err != nil {
				return err
			}
			name := args[0]
			if err := manifest.CheckArtifactName(name); err != nil || len(name) > 39 {
				return usage("a short name of letters, digits and dashes")
			}
			if _, there := h.Config.Agents[name]; there {
				return spec.Refuse(spec.Conflict, "", "an agent "+name+" is there already: sealbridge agent remove "+name)
			}
			if asks.client != "" {
				if len(args) > 1 {
					return usage("--client or a command, not both")
				}
				return a.addAsking(h, name, asks)
			}
			if len(args) < 2 && wasm == "" && image == "" {
				return usage("a command behind --, --wasm FILE, --image REF, or --client " + clientNames)
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
			if err := home.SetAgent(a.home, name, &ag); err != nil {
				return err
			}
			a.inForce(c.Context(), h, name)
			if a.json {
				return a.emit(map[string]any{"name": name, "agent": ag})
			}
			a.print("%s added. Try it in its box first:\n  sealbridge agent test %s\n", name, name)
			return nil
		},
	}
	c.Flags().StringArrayVar(&readOnly, "read-only", nil, "a folder that the program needs to run; it sees no other of yours")
	c.Flags().StringVar(&wasm, "wasm", "", "a WASI module that is the agent, instead of a program")
	c.Flags().StringVar(&image, "image", "", "a container image that is the agent, NAME@sha256:…; it is never fetched")
	c.Flags().StringVar(&model, "model", "none", "none: no network; door: calls go through this gateway, which has the key and meters them; own: the program brings its own login and host (tokens are claimed)")
	c.Flags().StringArrayVar(&hosts, "host", nil, "a host that it needs with --model own; it works only where the contract names it, and reaches nothing else")
	c.Flags().StringArrayVar(&providers, "provider", nil, "a name of `models` that it may use with --model door; without it all")
	asks.flags(c)
	return c
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

// trial is the harmless task of `agent test`.
var trial = map[string]any{
	"task":     map[string]string{"id": "task_trial0001", "from": "you", "origin": "a trial of your own", "title": "Trial", "goal": "Answer with any result."},
	"criteria": []map[string]any{{"id": "ac_1", "description": "There is a result.", "required": true}}, "inputs": []string{"hello.txt"},
	"outputSchema": map[string]any{}, "limits": map[string]int{"inputTokens": 0, "outputTokens": 0, "toolInvocations": 0, "wallClockSeconds": 60},
}

// trialHosts lets a trial reach what the agent's own model needs, where the box
// can be held to it; the owner typed the command, so nobody is asked.
func trialHosts(x *runner.Exec, ag home.Agent) *runner.Hosts {
	if len(ag.Hosts) == 0 || !x.Ports() {
		return nil
	}
	return &runner.Hosts{Allowed: ag.Hosts, Public: relay.Public,
		Way:  func(context.Context, string) (runner.Way, error) { return runner.Way{}, nil },
		Open: func(context.Context, *runner.Box, string) error { return nil }}
}

func agentTest(a *app) *cobra.Command {
	return &cobra.Command{Use: "test NAME", Short: "run an agent program on a harmless task, in its real box", Example: "  sealbridge agent test coder", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		h, err := home.Read(a.home)
		if err != nil {
			return err
		}
		ag, ok := h.Config.Agents[args[0]]
		if !ok {
			return spec.Refuse(spec.NotFound, "", "no agent is called "+manifest.Display(args[0], 40))
		}
		if ag.Kind != home.KindExec {
			return spec.Refuse(spec.NotPermitted, "", "an agent of kind mcp asks for you and runs nothing here: its client tries it")
		}
		dir, err := os.MkdirTemp("", "sealbridge-trial-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		input := filepath.Join(dir, "hello.txt")
		if err := os.WriteFile(input, []byte("hello\n"), 0o600); err != nil {
			return err
		}
		x, err := runner.New(c.Context(), runner.Config{Dir: filepath.Join(dir, "work")})
		if err != nil {
			return err
		}
		a.findEngine(c.Context(), x, ag)
		stdin, err := json.Marshal(trial)
		if err != nil {
			return err
		}
		done := a.working("running " + args[0])
		run := commandOf(ag)
		run.Stdin, run.Inputs, run.WallClock, run.Hosts = stdin, map[string]string{"hello.txt": input}, time.Minute, trialHosts(x, ag)
		res, err := x.Run(c.Context(), run)
		done()
		defer res.Close()
		if err != nil {
			return err
		}
		if !res.OK() {
			a.note("exit %d   %s", res.Exit, manifest.Display(string(bytes.TrimSpace(res.StderrTail)), 500))
			return ended(exitNo)
		}
		v, err := jcs.Canonicalize(res.Stdout)
		if err != nil {
			return fmt.Errorf("its stdout: %w", err)
		}
		if _, there := v.Member("output"); !there {
			return spec.Refuse(spec.VerificationFailed, "/output", `stdout has to be {"output": …}`)
		}
		if a.json {
			return a.emit(map[string]any{"result": v, "isolation": res.Isolation, "enforces": res.Enforced, "image": res.Image, "milliseconds": res.Wall.Milliseconds()})
		}
		a.print("works: %s in %s; boxed as %s (%s)\n", v, res.Wall.Round(time.Millisecond), res.Isolation.Level, res.Isolation.Enforced)
		if res.Image != nil {
			a.print("  it is %s\n", res.Image)
		}
		for _, e := range res.Enforced {
			a.print("  %s\n", e)
		}
		return nil
	}}
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
