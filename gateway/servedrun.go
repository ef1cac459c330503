package gateway

import (
	"bytes"
	"context"
	"errors"

	"sealbridge/gateway/artifact"
	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// doToolCall hands a reserved call to its tool: begun in one turn, ended in another.
func (g *Gateway) doToolCall(ctx context.Context, jb journal.Job) error {
	if !g.enter() {
		return spec.Refuse(spec.Unavailable, "", "as many tools as may run at once")
	}
	defer g.leave()
	var s servedRow
	begun := false
	err := g.turn(ctx, func(t *turn) (err error) {
		begun, s, err = t.beginCall(jb.Key)
		return err
	})
	if err != nil || !begun {
		return err
	}
	if g.Tools == nil {
		err = spec.Refuse(spec.Unavailable, "/tool", "this gateway has no tools")
	}
	var answer jcs.Value
	if err == nil {
		answer, err = g.Tools.Call(ctx, s.Tool, s.Arguments)
	}
	if err != nil && ctx.Err() != nil { // the gateway stops: unknown, and charged at the next start
		return ctx.Err()
	}
	var file *manifest.ArtifactRef
	if err == nil && len(answer.Bytes()) > maxInline && len(s.Chain) > 1 { // files go between the two sides of a task
		answer = tooLargeToHandOn
	}
	if err == nil && len(answer.Bytes()) > maxInline {
		ref, kept := g.Files.Put(ctx, "call-"+jb.Key[len(jb.Key)-16:]+".json", "application/json", bytes.NewReader(answer.Bytes()), artifact.MaxSize)
		file, err = &ref, kept
	}
	return g.turn(ctx, func(t *turn) error { return t.endCall(jb.Key, answer, file, err) })
}

// tooLargeToHandOn stands for an answer that would travel as a file.
var tooLargeToHandOn = func() jcs.Value {
	v, err := jcs.Canonicalize([]byte(`{"content":[{"text":"The answer is larger than 96 KiB, which is the most that a handed-on tool returns.","type":"text"}],"isError":true}`))
	if err != nil {
		panic(err)
	}
	return v
}()

// enter and leave bound how many tools run at once.
func (g *Gateway) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calling >= maxCallsBusy {
		return false
	}
	g.calling++
	return true
}

func (g *Gateway) leave() {
	g.mu.Lock()
	g.calling--
	g.mu.Unlock()
}

// beginCall looks again before dispatch: the stricter answer counts (G12), and
// what was taken back meanwhile goes no further (I7).
func (t *turn) beginCall(key string) (begun bool, s servedRow, err error) {
	s, ok, err := served.Get(t.Tx, key)
	if err != nil {
		return false, s, err
	}
	if !ok || s.State != callReady {
		return false, s, t.Settle(jobCall, key)
	}
	if no := t.callEnded(s); no != nil {
		return false, s, t.finishCall(key, &s, manifest.CallRefused, false, func(r *manifest.ToolResult) { r.Denial = no })
	}
	s.State = callRunning
	if err := served.Put(t.Tx, key, s.Task, s); err != nil {
		return false, s, err
	}
	return true, s, t.Begin(jobCall, key)
}

// callEnded says why a call that was decided may not go out any more.
func (t *turn) callEnded(s servedRow) *manifest.Denial {
	no := func(r spec.Reason, rule, limit string) *manifest.Denial {
		return &manifest.Denial{Reason: string(r), Rule: rule, Limit: cut(limit, 200)}
	}
	c, row, err := t.callCase(s)
	if err != nil {
		d := policy.DenialOf(err)
		return &d
	}
	root, ok, err := tokens.Get(t.Tx, c.Chain.Link(1).Digest().String())
	switch {
	case err != nil || !ok:
		return no(spec.CapabilityDenied, "C2", "a token of this gateway")
	case row.Recovery != "":
		return no(spec.Revoked, "R4b", "this gateway is in recovery")
	case root.Off != "":
		return no(spec.Revoked, "C2k", "taken back: "+root.Off)
	}
	if rule, _ := t.rules.Policy.Tool(s.Tool); rule.Then == policy.ThenRefuse {
		return no(spec.PolicyDenied, "tools", "")
	}
	// what the law says but for the use, which this call holds already, and the yes, which it has spent
	c.Table = t.rules.Policy.TableFor(s.Tool)
	if d := policy.CallStill(c); d != nil {
		return d
	}
	return nil
}

// endCall records what a tool answered and sends it.
func (t *turn) endCall(key string, answer jcs.Value, file *manifest.ArtifactRef, failed error) error {
	s, ok, err := served.Get(t.Tx, key)
	if err != nil || !ok || s.State != callRunning {
		return errors.Join(err, t.Settle(jobCall, key))
	}
	switch known, _ := denial(failed); {
	case failed == nil && file != nil:
		if err := t.offer(s.Task, *file); err != nil {
			return err
		}
		return t.finishCall(key, &s, manifest.CallDone, true, func(r *manifest.ToolResult) { r.Artifact = file })
	case failed == nil:
		return t.finishCall(key, &s, manifest.CallDone, true, func(r *manifest.ToolResult) { r.Result = answer })
	case spec.ReasonOf(failed) == spec.Unavailable, spec.ReasonOf(failed) == spec.NotFound: // nothing was sent
		limit := "the tool is not there"
		var e *spec.Error
		if errors.As(failed, &e) && e.Limit != "" {
			limit = e.Limit
		}
		return t.finishCall(key, &s, manifest.CallRefused, false, func(r *manifest.ToolResult) {
			r.Denial = &manifest.Denial{Reason: string(spec.Unavailable), Rule: "C5", Path: "/tool", Limit: cut(limit, 200)}
		})
	case known != nil:
		t.g.Log.Warn("a call without an answer", "tool", s.Tool, "word", known.Reason, "limit", known.Limit)
	default:
		t.g.Log.Warn("a call without an answer", "tool", s.Tool, "error", failed)
	}
	return t.finishCall(key, &s, manifest.CallUnknown, true, func(*manifest.ToolResult) {})
}

// endUnknownCalls ends calls that were begun before a stop: unknown, and charged (B1).
func (t *turn) endUnknownToolCalls() error {
	jobs, err := t.Jobs(jobCall)
	if err != nil {
		return err
	}
	for _, jb := range jobs {
		if !jb.Begun {
			continue
		}
		if err := t.endCall(jb.Key, jcs.Value{}, nil, errStopped); err != nil {
			return err
		}
	}
	return nil
}

var errStopped = errors.New("the gateway stopped while the tool ran")
