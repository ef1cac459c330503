package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"sealbridge/gateway/artifact"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/manifest/schema"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// job is what an agent program reads on stdin. Title, goal and criteria are the
// other side's words: data, with their origin (M9).
type job struct {
	Task struct {
		ID     string `json:"id"`
		From   string `json:"from"`
		Origin string `json:"origin"`
		Title  string `json:"title"`
		Goal   string `json:"goal"`
		Type   string `json:"type,omitempty"`
	} `json:"task"`
	Criteria []manifest.Criterion `json:"criteria"`
	Inputs   []string             `json:"inputs"`          // in the folder in
	Hosts    []string             `json:"hosts,omitempty"` // that the contract names; each by the proxy, and only if its owner opens it
	Output   jcs.Value            `json:"outputSchema"`
	Again    string               `json:"again,omitempty"` // why the last delivery came back
	Limits   manifest.Meters      `json:"limits"`
}

// result is what it writes on stdout.
type result struct {
	Output   jcs.Value           `json:"output"`
	Evidence []manifest.Evidence `json:"evidence,omitempty" rule:"items=0..100"`
	Usage    *reported           `json:"usage,omitempty"`
}

type reported struct {
	InputTokens  int64 `json:"inputTokens" rule:"num=0..100000000"`
	OutputTokens int64 `json:"outputTokens" rule:"num=0..100000000"`
}

func (g *Gateway) command(row taskRow, a Agent, left time.Duration) (c runner.Command, err error) {
	m := row.Task.Manifest()
	j := job{Criteria: m.Task.AcceptanceCriteria, Hosts: m.SandboxPolicy.AllowedHosts, Inputs: []string{}, Output: m.IO.OutputSchema, Again: row.Again, Limits: row.Task.Limits()}
	j.Task.ID, j.Task.Origin, j.Task.Title, j.Task.Goal, j.Task.Type = m.TaskID.String(), "untrusted: written by the other owner", m.Task.Title, m.Task.Description, m.Task.TaskType
	c = runner.Command{Argv: a.Command, Module: a.Module, Image: a.Image, ReadOnly: a.ReadOnly, WallClock: left, Inputs: map[string]string{}, Env: map[string]string{}}
	if a.level() == runner.Subprocess { // nothing else has a way out (X12)
		c.Hosts = g.hosts(row, a)
	}
	maps.Copy(c.Env, a.Env)
	if a.model() == modelDoor {
		port, env := g.Models.Port(ModelRun{row.Key.String(), row.Runs})
		c.Ports = append(c.Ports, port)
		maps.Copy(c.Env, env)
	}
	if g.ToolDoor != nil && len(m.Permissions.GrantedCapabilities) > 0 && c.Module == "" && g.Runner.Isolation(a.level()).Enforced == "gateway" {
		port, env := g.ToolDoor.Port(ToolRun{Agent: row.Agent, Task: m.TaskID.String(), Key: row.Key.String()})
		c.Ports = append(c.Ports, port)
		maps.Copy(c.Env, env)
	}
	for _, in := range m.IO.InputArtifacts {
		if c.Inputs[in.Name], err = g.Files.Path(in.Digest); err != nil {
			return c, err
		}
		j.Inputs = append(j.Inputs, in.Name)
	}
	task, err := json.Marshal(j)
	if err != nil {
		return c, err
	}
	var last []string
	c.Stdin, last, err = a.Speaks.Task(task)
	c.Argv = slices.Concat(c.Argv, last)
	return c, err
}

// endRun records what came of a run and delivers it, or says why not.
func (g *Gateway) endRun(ctx context.Context, key string, a Agent, res runner.Result, ran error) error {
	out, refs, why := g.collectResult(ctx, a.Speaks, res, ran)
	return g.turn(ctx, func(t *turn) error {
		row, err := t.row(key)
		if err != nil {
			return err
		}
		wall := int64((res.Wall + time.Second - 1) / time.Second)
		used := manifest.Meters{WallClockSeconds: wall}
		if out.Usage != nil {
			used.InputTokens, used.OutputTokens = out.Usage.InputTokens, out.Usage.OutputTokens
		}
		over, err := t.passed(&row, used)
		if err != nil {
			return err
		}
		if err := t.commitRun(&row, used, false); err != nil {
			return err
		}
		if err := t.Settle(jobRun, key); err != nil {
			return err
		}
		if row.Task.Ended() || row.Task.State() != task.Working {
			return t.wants(row)
		}
		if over != "" { // it says of itself that it used more than there was (B2)
			return t.exhausted(&row, over)
		}
		m := row.Task.Manifest()
		if why == "" {
			why = checkOutput(m.IO.OutputSchema, out.Output)
		}
		if why == "" {
			why = strangeEvidence(m, out.Evidence)
		}
		if why != "" {
			word := string(spec.VerificationFailed)
			if res.TimedOut {
				word = string(spec.BudgetExhausted)
			}
			if spent := (spentError{}); errors.As(ran, &spent) { // X4f
				word, why = string(spec.BudgetExhausted), string(spent.meter)
			}
			_, err := t.say(&row, manifest.Failed{Reason: word, Text: cut(why, 2000), Usage: t.usage(row)})
			return err
		}
		return t.deliver(&row, res, out, refs, a)
	})
}

// sentBack keeps why the requester did not take a delivery: the agent reads it
// at its next try (V3).
func sentBack(row *taskRow, v manifest.Verified) {
	if e, ok := v.Document().(*manifest.Event); ok && row.Role == manifest.Worker {
		if f, ok := e.Body.Fact.(manifest.Rejected); ok {
			row.Again = orWhy(f.Text, "it did not pass")
		}
	}
}

// strangeEvidence: an item points at a criterion of the contract (V1).
func strangeEvidence(m manifest.TaskManifest, es []manifest.Evidence) string {
	for _, e := range es {
		if !slices.ContainsFunc(m.Task.AcceptanceCriteria, func(c manifest.Criterion) bool { return c.ID == e.Criterion }) {
			return "the result has evidence for " + manifest.Display(e.Criterion.String(), 64) + ", which the contract does not name"
		}
	}
	return ""
}

func checkOutput(doc, output jcs.Value) string {
	s, err := schema.Parse(doc)
	if err == nil {
		err = s.Validate(output)
	}
	if err != nil {
		return "the result does not match the contract's output schema: " + err.Error()
	}
	return ""
}

// collectResult reads stdout strictly and keeps the output files.
func (g *Gateway) collectResult(ctx context.Context, as Speaks, res runner.Result, ran error) (out result, refs []manifest.ArtifactRef, why string) {
	refs = []manifest.ArtifactRef{}
	switch {
	case ran != nil:
		return out, refs, "the agent did not run: " + ran.Error()
	case res.TimedOut:
		return out, refs, "working time ran out"
	case res.Cancelled:
		return out, refs, "stopped"
	case res.OutOfMemory:
		return out, refs, "the agent took too much memory"
	case res.Overfilled:
		return out, refs, "the agent filled its workspace"
	case res.Overflowed:
		return out, refs, "the result is too large"
	case res.Exit != 0:
		return out, refs, "the agent ended with exit code " + itoa(res.Exit)
	}
	stdout, err := as.Result(res.Stdout)
	if err != nil {
		return out, refs, "the agent's result: " + err.Error()
	}
	v, err := jcs.Canonicalize(stdout)
	if err == nil {
		err = jcs.Decode(v, &out)
	}
	if err != nil {
		return out, refs, "the agent's result is not what was asked for: " + err.Error()
	}
	for _, f := range res.Files {
		ref, err := g.keepFile(ctx, f)
		if err != nil {
			return out, refs, "output file " + f.Name + ": " + err.Error()
		}
		refs = append(refs, ref)
	}
	return out, refs, ""
}

func (g *Gateway) keepFile(ctx context.Context, f runner.File) (manifest.ArtifactRef, error) {
	r, err := f.Open()
	if err != nil {
		return manifest.ArtifactRef{}, err
	}
	defer r.Close()
	return g.Files.Put(ctx, f.Name, "", r, artifact.MaxSize)
}

// deliver says delivered, with receipt and attestation (V1).
func (t *turn) deliver(row *taskRow, res runner.Result, out result, refs []manifest.ArtifactRef, a Agent) error {
	contract := row.Task.InForce()
	revision := int64(1)
	if d := row.Task.Delivery(); d != nil {
		revision = d.Revision + 1
	}
	u := t.usage(*row)
	children, missing, err := t.receipts(*row)
	if err != nil {
		return err
	}
	receipt, err := manifest.Sign(&manifest.UsageReceipt{Type: "sealbridge/usage-receipt", ProtocolVersion: manifest.ProtocolVersion,
		TaskID: row.Key.ID, ManifestDigest: row.Task.ManifestDigest(), Contract: contract.Digest, AgentDid: t.g.Agent.DID(), Revision: revision,
		Limits: contract.Limits, Usage: u, Children: children, Complete: len(missing) == 0, Missing: missing, At: signing.TimeOf(t.now)}, t.g.Agent, t.now)
	if err != nil {
		return err
	}
	doc := receipt.Wire()
	if out.Evidence == nil {
		out.Evidence = []manifest.Evidence{}
	}
	ran, enforces := res.Isolation, res.Enforced
	if ran.Level == "" { // nothing of ours ran
		ran = t.isolationOf(a)
	}
	if enforces == nil {
		enforces = []string{}
	}
	d := manifest.Delivery{Contract: contract.Digest, Revision: revision, Output: out.Output, Artifacts: refs, Evidence: out.Evidence, Receipt: &doc,
		Attestation: &manifest.Attestation{Runner: runnerOf(a), Isolation: ran, Enforces: enforces, Image: res.Image, Exit: int64(res.Exit), WallClockSeconds: u.WallClockSeconds, Reached: row.Reached}}
	_, err = t.say(row, manifest.Delivered{Delivery: d, Usage: u})
	return err
}

func runnerOf(a Agent) string {
	switch {
	case a.Session:
		return "session"
	case a.Module != "":
		return "wasm"
	case a.Image != "":
		return "container"
	}
	return "exec"
}
