package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sealbridge/gateway/home"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/spec"
)

// commandOf is how an agent is run, without a task.
func commandOf(ag home.Agent) runner.Command {
	return runner.Command{Argv: ag.Command, Module: ag.Wasm, Image: ag.Image, ReadOnly: ag.ReadOnly}
}

// findEngine looks for a container engine where an agent needs one; what is said of the level afterwards tells what came of it.
func (a *app) findEngine(ctx context.Context, x *runner.Exec, agents ...home.Agent) {
	for _, ag := range agents {
		if ag.Image != "" {
			x.FindEngine(ctx)
			return
		}
	}
}

// fileThere is the absolute path of a file that is there; none of none.
func fileThere(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(abs); err != nil {
		return "", &spec.Error{Reason: spec.NotFound, Path: abs, Err: err}
	}
	return abs, nil
}

// agentShow says what an agent is and what it would be held in on this machine, without running it.
func agentShow(a *app) *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "show an agent program and the box that it gets on this machine", Example: "  sealbridge agent show coder", Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		h, err := home.Read(a.home)
		if err != nil {
			return err
		}
		ag, ok := h.Config.Agents[args[0]]
		if !ok {
			return spec.Refuse(spec.NotFound, "", "no agent is called "+manifest.Display(args[0], 40))
		}
		if ag.Kind == home.KindMCP {
			if a.json {
				return a.emit(map[string]any{"name": args[0], "agent": ag})
			}
			a.print("%s   asks for you by MCP (tools: %s); it runs in your session, in no box of ours\n", args[0], cmp.Or(ag.Tools, "requester"))
			return nil
		}
		dir, err := os.MkdirTemp("", "sealbridge-show-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		x, err := runner.New(c.Context(), runner.Config{Dir: dir})
		if err != nil {
			return err
		}
		a.findEngine(c.Context(), x, ag)
		level := commandOf(ag).Level()
		i, holds := x.Isolation(level), x.Enforces(level)
		if a.json {
			return a.emit(map[string]any{"name": args[0], "agent": ag, "isolation": i, "enforces": holds, "lacks": x.Lacks(level)})
		}
		a.print("%s   works for others: %s\n", args[0], whatRuns(ag))
		a.showSpeech(h, ag)
		a.print("box   %s (%s)\n", i.Level, i.Enforced)
		for _, e := range holds {
			a.print("  %s\n", e)
		}
		for _, l := range lacking(x, level) {
			a.print("  %s\n", l)
		}
		a.print("hosts %s\n", hostsOf(x, ag))
		return nil
	}}
}

// hostsOf is what an agent could reach of the hosts that contracts name (X1, X3).
func hostsOf(x *runner.Exec, ag home.Agent) string {
	switch level := commandOf(ag).Level(); {
	case level != runner.Subprocess:
		return "none: it has no network, whatever a contract names"
	case x.Ports() && len(ag.Hosts) > 0:
		return "those of a contract, by this gateway; its own model needs " + strings.Join(ag.Hosts, ", ") + ", and a contract without them is declined"
	case x.Ports():
		return "those of a contract, by this gateway; `reach` in policy.yaml says which are asked about, allowed or refused"
	}
	return "not held to those of a contract: this machine has no box"
}

// whatRuns is an agent's program, module or image with its arguments.
func whatRuns(ag home.Agent) string {
	what := ""
	switch {
	case ag.Wasm != "":
		what = "module " + ag.Wasm
	case ag.Image != "":
		what = "image " + ag.Image
	}
	if len(ag.Command) > 0 {
		what = strings.TrimSpace(fmt.Sprintf("%s %q", what, ag.Command))
	}
	return what
}

// lacking says what this machine has not got to hold an agent with (X7).
func lacking(x *runner.Exec, level string) (out []string) {
	for _, l := range x.Lacks(level) {
		out = append(out, "not here: "+l)
	}
	return out
}

// boxes are the lines of doctor about what agents are held in: a subprocess as
// ever, and what an agent of this home needs beside it.
func (a *app) boxes(ctx context.Context, x *runner.Exec, agents map[string]home.Agent) (fs []finding) {
	levels := map[string]bool{}
	for _, ag := range agents {
		if ag.Kind == home.KindExec {
			a.findEngine(ctx, x, ag)
			levels[commandOf(ag).Level()] = true
		}
	}
	for _, level := range []string{runner.Subprocess, runner.Wasm, runner.Container} {
		if !levels[level] && level != runner.Subprocess {
			continue
		}
		i := x.Isolation(level)
		text := i.Level + ", " + i.Enforced
		for _, l := range lacking(x, level) {
			text += "; " + l
		}
		fs = append(fs, finding{"box", i.Enforced == "gateway" || !levels[level] && len(levels) > 0, text})
	}
	return fs
}
