package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/gateway/llmdoor"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/relay"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// What a trial may use: an agent that works needs less.
const (
	trialTime   = 2 * time.Minute
	trialInput  = 300_000 // tokens
	trialOutput = 10_000
)

// trial is the harmless task of `agent test`.
var trial = map[string]any{
	"task":     map[string]string{"id": "task_trial0001", "from": "you", "origin": "a trial of your own", "title": "Trial", "goal": "Answer with any result."},
	"criteria": []map[string]any{{"id": "ac_1", "description": "There is a result.", "required": true}}, "inputs": []string{"hello.txt"},
	"outputSchema": map[string]any{}, "limits": map[string]int{"inputTokens": trialInput, "outputTokens": trialOutput, "toolInvocations": 0, "wallClockSeconds": int(trialTime / time.Second)},
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
	return &cobra.Command{Use: "test NAME", Short: "run an agent program on a harmless task, in its real box", Example: "  sealbridge agent test coder", Args: cobra.ExactArgs(1),
		Long: "It gets a small task of ours in the box that it would get for others. With a model by this gateway it calls the model: a few thousand tokens on your key.",
		RunE: func(c *cobra.Command, args []string) error {
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
			return a.try(c.Context(), h, args[0], ag)
		}}
}

// try runs a program as the gateway would.
func (a *app) try(ctx context.Context, h *home.Home, name string, ag home.Agent) error {
	as, err := agentOf(h.Dir, ag)
	if err != nil {
		return err
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
	x, err := runner.New(ctx, runner.Config{Dir: filepath.Join(dir, "work")})
	if err != nil {
		return err
	}
	task, err := json.Marshal(trial)
	if err != nil {
		return err
	}
	stdin, last, err := as.Speaks.Task(task)
	if err != nil {
		return err
	}
	a.findEngine(ctx, x, ag)
	c := commandOf(ag)
	c.Argv, c.Stdin, c.Env, c.Hosts = slices.Concat(c.Argv, last), stdin, as.Env, trialHosts(x, ag)
	c.Inputs, c.WallClock = map[string]string{"hello.txt": input}, trialTime
	spent := &trialBudget{home: h, agent: as}
	if ag.Model == "door" {
		spent.open(&c)
	}
	done := a.working("running " + name)
	res, err := x.Run(ctx, c)
	done()
	defer res.Close()
	if err != nil {
		return err
	}
	if !res.OK() {
		a.note("exit %d   %s", res.Exit, manifest.Display(string(bytes.TrimSpace(append(res.StderrTail, bytes.TrimSpace(res.Stdout)...))), 500))
		return ended(exitNo)
	}
	return a.tried(as, &res, spent)
}

// tried says what came of a trial.
func (a *app) tried(as gateway.Agent, res *runner.Result, spent *trialBudget) error {
	out, err := as.Speaks.Result(res.Stdout)
	if err != nil {
		return err
	}
	v, err := jcs.Canonicalize(out)
	if err != nil {
		return fmt.Errorf("its stdout: %w", err)
	}
	if _, there := v.Member("output"); !there {
		return spec.Refuse(spec.VerificationFailed, "/output", `stdout has to be {"output": …}`)
	}
	if a.json {
		return a.emit(map[string]any{"result": v, "isolation": res.Isolation, "enforces": res.Enforced, "image": res.Image, "milliseconds": res.Wall.Milliseconds(),
			"modelCalls": spent.calls, "inputTokens": spent.used.Input, "outputTokens": spent.used.Output})
	}
	a.print("works: %s in %s; boxed as %s (%s)\n", manifest.Display(v.String(), 2000), res.Wall.Round(time.Millisecond), res.Isolation.Level, res.Isolation.Enforced)
	if as.Model == "door" {
		a.print("  %d calls to a model: %d tokens in, %d out\n", spent.calls, spent.used.Input, spent.used.Output)
	}
	if res.Image != nil {
		a.print("  it is %s\n", res.Image)
	}
	for _, e := range res.Enforced {
		a.print("  %s\n", e)
	}
	return nil
}

// trialBudget stands in for a gateway before the LLM door of one trial.
type trialBudget struct {
	home  *home.Home
	agent gateway.Agent

	mu    sync.Mutex // guards what follows
	calls int64
	used  gateway.ModelUse
}

// open gives the program of a trial the door.
func (b *trialBudget) open(c *runner.Command) {
	token := llmdoor.NewToken()
	door := llmdoor.New(llmdoor.Config{Gateway: b, Log: slog.New(slog.DiscardHandler), Upstream: func(provider string) (llmdoor.Upstream, bool) {
		m, ok := b.home.Config.Models[provider]
		return llmdoor.Upstream{URL: m.Address(), Key: func() (string, error) { return m.Key(b.home.Dir) }}, ok
	}})
	c.Ports = []runner.Port{{Number: modelPort, Serve: func(ctx context.Context, box *runner.Box, conn net.Conn) {
		llmdoor.ServeConn(ctx, conn, door.Run(llmdoor.Guest{Hold: box.Hold}, token))
	}}}
	for k, v := range llmdoor.Environment("http://127.0.0.1:"+strconv.Itoa(modelPort), token) {
		c.Env[k] = v
	}
}

func (b *trialBudget) rules() gateway.Rules { return gateway.Rules{Providers: providersOf(b.home)} }

// BeginModelCall lets a call through while the trial has tokens left.
func (b *trialBudget) BeginModelCall(_ context.Context, in gateway.ModelCall) (gateway.ModelLease, error) {
	names := b.rules().Serving(b.agent, in.Kind, in.Model)
	if len(names) == 0 {
		return gateway.ModelLease{}, spec.Refuse(spec.NotPermitted, "/model", "X4a: no provider of yours has this model")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	left := trialOutput - b.used.Output
	if b.used.Input+in.Input > trialInput || left < in.Least {
		return gateway.ModelLease{}, spec.Refuse(spec.BudgetExhausted, "", "of a trial")
	}
	if !in.Free {
		b.calls++
	}
	return gateway.ModelLease{ID: "trial", Provider: names[0], Host: b.home.Config.Models[names[0]].Host(), Output: min(in.Output, left)}, nil
}

// EndModelCall counts what a call used.
func (b *trialBudget) EndModelCall(_ context.Context, _ gateway.ModelLease, u gateway.ModelUse) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used.Input, b.used.Output = b.used.Input+max(u.Input, 0), b.used.Output+max(u.Output, 0)
	return nil
}

// ModelNames and ModelRunOf: nobody asks them in a trial of a program.
func (b *trialBudget) ModelNames(context.Context, gateway.ModelRun, string) ([]string, error) {
	return nil, nil
}

func (b *trialBudget) ModelRunOf(context.Context, gateway.Caller, gateway.Ref) (gateway.ModelRun, error) {
	return gateway.ModelRun{}, spec.Refuse(spec.NotPermitted, "", "")
}
