package gateway

import (
	"bytes"
	"context"
	"errors"
	"time"

	"sealbridge/gateway/artifact"
	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Tools hands a call on to a tool of our owner's: exactly these arguments, once.
// What comes back is an MCP tool result, canonical. An error with the word
// unavailable or not-found says that nothing was sent; after every other one
// nobody knows whether the tool ran (B1).
type Tools interface {
	Call(ctx context.Context, tool string, arguments jcs.Value) (jcs.Value, error)
}

// servedRow is one call on a tool of ours. The step that decides about it
// reserves its use; the step that begins it is durable before the tool hears of
// it; no recorded end is unknown, and charged (C4, B1).
type servedRow struct {
	Task      string      `json:"task"` // key of the task whose grant it uses
	Peer      signing.DID `json:"peer"` // owner of who called
	Call      jcs.Value   `json:"call"`
	Chain     []jcs.Value `json:"chain"` // the root as we hold it, and the links of the call
	State     string      `json:"state"`
	Ask       string      `json:"ask,omitempty"` // that it waits for
	Tool      string      `json:"tool"`
	Arguments jcs.Value   `json:"arguments"` // completed: what was checked, and what the tool receives
	Defaults  jcs.Value   `json:"defaults"`
	Result    jcs.Value   `json:"result"` // the newest tool-result, signed
	At        time.Time   `json:"at"`
}

// The states of a served call that no result has; the others are manifest.CallState.
const (
	callReady   = "ready"   // decided and reserved
	callRunning = "running" // handed to the tool
)

var (
	served  = journal.NewTable[servedRow]("served")      // by the call's digest, grouped by task
	callIDs = journal.NewTable[signing.Digest]("callid") // by caller and call id: the digest (C4)
)

const (
	keepAnswers  = 24 * time.Hour // after the root expires (C4)
	maxServed    = 20_000         // calls of one task that are kept, refused ones too: a grant has 10,000 uses at most
	maxCallsBusy = 16             // handed to tools at once: half of what this gateway does at once
	maxInline    = 96 << 10       // bytes of a result inside a tool-result; a larger one travels as a file
)

// callFor takes a call on a tool of ours: it is kept and acknowledged, then decided in the same turn.
func (t *turn) callFor(v manifest.Verified, c *manifest.ToolCall) error {
	key := v.Digest().String()
	if s, ok, err := served.Get(t.Tx, key); err != nil || ok { // C4: joins, or gets the recorded answer
		if err != nil || s.Result.IsZero() {
			return errors.Join(err, t.confirmDocument(v))
		}
		return errors.Join(t.confirmDocument(v), t.owe(jobReply, "result "+key, replyRow{v.Owner(), s.Result}))
	}
	root, ok, err := tokens.Get(t.Tx, c.Root.String())
	if err != nil {
		return err
	}
	if !ok || c.To != t.g.Agent.DID() {
		return spec.Refuse(spec.CapabilityDenied, "/root", "C2: a token of this gateway")
	}
	if n, err := served.Count(t.Tx, root.Task); err != nil || n >= maxServed {
		return errors.Join(err, spec.Refuse(spec.Quota, "", "20,000 calls of a task"))
	}
	s := servedRow{Task: root.Task, Peer: v.Owner(), Call: v.Wire(), Chain: append([]jcs.Value{root.Wire}, c.Links...), Tool: c.Tool, At: t.now}
	if err := t.append(recCall, root.Task, v.Wire().Bytes()); err != nil {
		return err
	}
	if err := t.confirmDocument(v); err != nil {
		return err
	}
	id := v.By().String() + " " + c.CallID.String()
	other, taken, err := callIDs.Get(t.Tx, id)
	switch {
	case err != nil:
		return err
	case taken:
		t.g.Log.Warn("two calls with one id", "call", c.CallID.String(), "other", other.String())
		return t.refuseCall(key, &s, manifest.Denial{Reason: string(spec.Conflict), Rule: "C4", Path: "/callId", Limit: "the same id with another digest"})
	}
	if err := callIDs.Put(t.Tx, id, root.Task, v.Digest()); err != nil {
		return err
	}
	return t.serve(key, &s)
}

// callCase is all that the decision about a call may look at.
func (t *turn) callCase(s servedRow) (c policy.CallCase, row taskRow, err error) {
	if row, err = t.row(s.Task); err != nil {
		return c, row, err
	}
	signed, err := manifest.OpenValue(s.Call, t.g.keys)
	if err != nil {
		return c, row, err
	}
	call, ok := signed.Document().(*manifest.ToolCall)
	if !ok {
		return c, row, spec.Refuse(spec.Internal, "", "no call")
	}
	v, err := t.trust.Admit(signed, t.now)
	if err != nil {
		return c, row, err
	}
	chain, err := t.g.chains.ChainOf(t.g.keys, call, s.Chain[0])
	if err != nil {
		return c, row, err
	}
	contact := t.trust.Contacts[row.Peer]
	c = policy.CallCase{Call: v, Chain: chain, Self: t.g.Agent.DID(), Task: row.Task, Children: t.children(row), Trust: t.trust, Heard: map[signing.DID]time.Time{}, At: t.now, Came: s.At,
		Contact: policy.Contact{Name: contact.Name, Owner: row.Peer, Confirmed: contact.Confirmed, Blocked: contact.Blocked}}
	rows, err := heard.All(t.Tx)
	if err != nil {
		return c, row, err
	}
	for _, r := range rows {
		if did, err := signing.ParseDID(r.Key); err == nil {
			c.Heard[did] = r.V
		}
	}
	if c.Consents, err = t.effectConsents(s.Task); err != nil {
		return c, row, err
	}
	c.Ledger, err = t.ledger(policy.CallAccounts(row.Key, chain))
	return c, row, err
}

// mayCall is what the rules say of a call: those in force, and while a change
// waits for its yes the stricter of both (G12).
func (t *turn) mayCall(c policy.CallCase, tool string) policy.CallDecision {
	c.Table = t.rules.Policy.TableFor(tool)
	d := t.rules.Policy.DecideCall(c)
	w := t.law.Waiting
	if w == nil {
		return d
	}
	c.Table = w.Policy.TableFor(tool)
	next := w.Policy.DecideCall(c)
	if d.Outcome == policy.Deny {
		return d
	}
	if next.Outcome == policy.Deny || d.Arguments.String() != next.Arguments.String() {
		next.Decision = policy.Stricter(d.Decision, next.Decision)
		return next
	}
	d.Decision = policy.Stricter(d.Decision, next.Decision)
	return d
}

// serve decides about a call: refused, held until a person says yes, or
// reserved and owed to the tool. It is one step (C5, G6).
func (t *turn) serve(key string, s *servedRow) error {
	c, row, err := t.callCase(*s)
	switch known, no := denial(err); {
	case no:
		d := policy.DenialOf(err)
		if d.Rule == "" {
			d.Rule, d.Reason = "C2", string(known.Reason)
		}
		return t.refuseCall(key, s, d)
	case err != nil:
		return err
	}
	if root, ok, err := tokens.Get(t.Tx, c.Chain.Link(1).Digest().String()); err != nil || !ok || root.Off != "" || row.Recovery != "" {
		why := "taken back: " + root.Off
		if row.Recovery != "" {
			why = "R4b: this gateway is in recovery"
		}
		return errors.Join(err, t.refuseCall(key, s, manifest.Denial{Reason: string(spec.Revoked), Rule: "C2k", Link: 1, Limit: cut(why, 200)}))
	}
	d := t.mayCall(c, s.Tool)
	s.Arguments, s.Defaults = d.Arguments, d.Defaults
	switch d.Outcome {
	case policy.Deny:
		return t.refuseCall(key, s, *d.Denial())
	case policy.Hold:
		return t.askCall(key, s, row, c, d)
	}
	if d.Consent != nil {
		if err := t.useConsent(s.Task, d.Consent.Decision); err != nil {
			return err
		}
	}
	if err := t.move(c.Ledger, d.Moves); err != nil {
		return err
	}
	s.State, s.Ask = callReady, ""
	if err := served.Put(t.Tx, key, s.Task, *s); err != nil {
		return err
	}
	return t.owe(jobCall, key, nil)
}

// effectConsents are our owner's yeses to calls of a task that no call has used up.
func (t *turn) effectConsents(task string) (out []policy.Consent, err error) {
	rows, err := asks.Group(t.Tx, task)
	for _, r := range rows {
		if r.V.Call != "" && r.V.State == stateAllowed && !r.V.Used && t.stands(r.V) {
			out = append(out, r.V.Consent)
		}
	}
	return out, err
}

// useConsent spends a yes: in the durable step before the act (G6).
func (t *turn) useConsent(task string, decision signing.Digest) error {
	rows, err := asks.Group(t.Tx, task)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.V.Consent.Decision == decision && !r.V.Used {
			r.V.Used = true
			return asks.Put(t.Tx, r.Key, task, r.V)
		}
	}
	return spec.Refuse(spec.Internal, "", "a consent without its decision")
}

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

// refuseCall ends a call before anything was reserved.
func (t *turn) refuseCall(key string, s *servedRow, d manifest.Denial) error {
	d.Path, d.Limit = cut(d.Path, 500), cut(d.Limit, 200)
	t.g.Log.Info("refusing a call", "tool", s.Tool, "word", d.Reason, "rule", d.Rule, "path", d.Path, "limit", d.Limit)
	if err := t.callRefused(s.Task, s.Call, byLaw, d); err != nil {
		return err
	}
	return t.finishCall(key, s, manifest.CallRefused, false, func(r *manifest.ToolResult) { r.Denial = &d })
}

// finishCall moves what the call had reserved, and signs and sends its result.
func (t *turn) finishCall(key string, s *servedRow, state manifest.CallState, used bool, say func(*manifest.ToolResult)) error {
	row, err := t.row(s.Task)
	if err != nil {
		return err
	}
	digest, err := signing.ParseDigest(key)
	if err != nil {
		return err
	}
	signed, err := manifest.OpenValue(s.Call, t.g.keys)
	if err != nil {
		return err
	}
	left := int64(0)
	if chain, err := t.g.chains.OpenValues(t.g.keys, s.Chain...); err == nil { // a chain that does not hold had nothing reserved
		l, err := t.ledger(policy.CallAccounts(row.Key, chain))
		if err != nil {
			return err
		}
		if state != manifest.CallPending {
			if err := t.move(l, policy.CallEnds(l, row.Key, chain, digest, used)); err != nil {
				return err
			}
			if l, err = t.ledger(policy.CallAccounts(row.Key, chain)); err != nil {
				return err
			}
		}
		left = policy.UsesLeft(l, row.Key, chain.Token(1), chain.Link(1).Digest())
	}
	r := manifest.ToolResult{Type: "sealbridge/tool-result", ProtocolVersion: manifest.ProtocolVersion, To: signed.By(), Call: digest, State: state,
		UsesLeft: left, At: signing.TimeOf(t.now), Revocations: t.revocations()}
	if state == manifest.CallDone && !s.Defaults.IsZero() {
		r.Defaults = s.Defaults
	}
	say(&r)
	v, err := manifest.Sign(&r, t.g.Agent, t.now)
	if err != nil {
		return err
	}
	if err := t.append(recResult, s.Task, v.Wire().Bytes()); err != nil {
		return err
	}
	s.State, s.Result = string(state), v.Wire()
	if err := served.Put(t.Tx, key, s.Task, *s); err != nil {
		return err
	}
	if state != manifest.CallPending {
		if err := t.Settle(jobCall, key); err != nil {
			return err
		}
		if err := t.oweAt(jobDropCall, key, t.forgetAt(*s), nil); err != nil {
			return err
		}
	}
	if c, ok := t.trust.Contacts[s.Peer]; !ok || c.Blocked { // who was sent away is told nothing (K3)
		return nil
	}
	return t.send(s.Peer, v.Signed, "", s.Task, 0)
}

// forgetAt is when a recorded answer is let go of: the records stay (C4).
func (t *turn) forgetAt(s servedRow) time.Time {
	end := t.now
	if k, _, err := t.token(tokenRow{Wire: s.Chain[0]}); err == nil && k.ExpiresAt.Time().After(end) {
		end = k.ExpiresAt.Time()
	}
	return end.Add(keepAnswers)
}

// forgetCall lets go of a recorded answer.
func (t *turn) forgetCall(key string) error {
	s, ok, err := served.Get(t.Tx, key)
	if err != nil || !ok {
		return err
	}
	signed, err := manifest.OpenValue(s.Call, t.g.keys)
	if err != nil {
		return err
	}
	if c, ok := signed.Document().(*manifest.ToolCall); ok {
		if err := callIDs.Delete(t.Tx, signed.By().String()+" "+c.CallID.String()); err != nil {
			return err
		}
	}
	return served.Delete(t.Tx, key)
}

// offer puts a result that goes as a file among those that the other side may have.
func (t *turn) offer(task string, ref manifest.ArtifactRef) error {
	row, err := t.row(task)
	if err != nil {
		return err
	}
	for _, have := range row.Answers {
		if have.Digest == ref.Digest { // the same answer to another call: it is there, or on its way
			return nil
		}
	}
	row.Answers = append(row.Answers[:len(row.Answers):len(row.Answers)], ref)
	if err := t.putRow(row); err != nil {
		return err
	}
	return t.owe(jobUpload, task, nil)
}

// askCall asks our owner about a call (G2). The caller hears that it waits (A3).
// What has no place among the questions about its contact is refused (B9).
func (t *turn) askCall(key string, s *servedRow, row taskRow, c policy.CallCase, d policy.CallDecision) error {
	rows, err := asks.Group(t.Tx, s.Task)
	if err != nil {
		return err
	}
	for _, r := range rows { // G8: the same but for the call id joins the open question
		if r.V.Call != "" && r.V.stateAt(t.now) == approval.Waiting && sameEffect(r.V.Ask.Subject, policy.EffectInFull(d.Effect)) {
			s.Ask = r.Key
			return t.finishCall(key, s, manifest.CallPending, false, func(*manifest.ToolResult) {})
		}
	}
	if n, err := asked.Count(t.Tx, row.Peer.String()); err != nil || n >= policy.MaxOpenAsks {
		return errors.Join(err, t.refuseCall(key, s, manifest.Denial{Reason: string(spec.Quota), Rule: "B9", Limit: "5 questions about you are open"}))
	}
	x, err := t.terms(&row, policy.Case{Ledger: c.Ledger}, d.Decision)
	if err != nil {
		return err
	}
	tools := t.rules.Policy.TableFor(s.Tool)[s.Tool]
	root := c.Chain.Token(1)
	a, err := approval.NewEffect(approval.EffectCase{Task: row.Task, Held: d.Decision, Effect: d.Effect, Effects: tools.Effects, Any: len(tools.Templates) == 0,
		Left: policy.UsesLeft(c.Ledger, row.Key, root, c.Chain.Link(1).Digest()) - 1, At: t.now}, x)
	if err != nil {
		return err
	}
	r := askRow{Ask: a, Task: s.Task, Call: key, State: string(approval.Waiting), Rule: x.Because, At: t.now}
	if err := t.keepAsk(r); err != nil {
		return err
	}
	if err := asked.Put(t.Tx, a.AskID.String(), row.Peer.String(), s.Task); err != nil { // also of a task that our owner asked for: it is the other side that asks now
		return err
	}
	s.Ask = a.AskID.String()
	return t.finishCall(key, s, manifest.CallPending, false, func(*manifest.ToolResult) {})
}

// sameEffect compares two subjects but for the call id (G8).
func sameEffect(a, b jcs.Value) bool {
	x, ok1 := a.Member("effect")
	y, ok2 := b.Member("effect")
	return ok1 && ok2 && x.Without("callId").String() == y.Without("callId").String()
}

// followCall does what a settled ask about a call lets happen, in the same step:
// the yes is for the call that was asked about; others that joined are asked
// about anew, or share the no (G3, G8).
func (t *turn) followCall(r askRow) (said string, err error) {
	rows, err := served.Group(t.Tx, r.Task)
	if err != nil {
		return "", err
	}
	for _, x := range rows {
		s := x.V
		if s.Ask != r.Ask.AskID.String() || s.State != string(manifest.CallPending) {
			continue
		}
		if r.State == stateAllowed {
			if err := t.serve(x.Key, &s); err != nil {
				return "", err
			}
			if x.Key == r.Call {
				said = s.State
			}
			continue
		}
		no := manifest.Denial{Reason: string(spec.GateDenied), Rule: "G1", Limit: r.Why}
		switch r.State {
		case string(approval.Expired):
			no.Reason, no.Rule, no.Limit = string(spec.GateExpired), "G4", "nobody answered in time"
		case string(approval.Withdrawn):
			no.Reason, no.Rule = string(spec.CapabilityDenied), "G3"
		}
		if err := t.refuseCall(x.Key, &s, no); err != nil {
			return "", err
		}
		said = string(manifest.CallRefused)
	}
	return said, nil
}

// askCallAnew makes the decision of an open ask about a call again under the
// law of this turn: one that takes less than the rules do now is asked anew, or
// not any more (G12).
func (t *turn) askCallAnew(r askRow) error {
	s, ok, err := served.Get(t.Tx, r.Call)
	if err != nil || !ok || s.State != string(manifest.CallPending) {
		return err
	}
	c, _, err := t.callCase(s)
	if _, no := denial(err); err != nil && !no {
		return err
	}
	if err == nil {
		if d := t.mayCall(c, s.Tool); d.Outcome == policy.Hold && !looser(r.Ask, *d.Gate) {
			return nil
		}
	}
	if err := t.close(&r, approval.Withdrawn, "your policy changed"); err != nil {
		return err
	}
	s.Ask = ""
	return t.serve(r.Call, &s)
}
