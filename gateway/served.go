package gateway

import (
	"context"
	"errors"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy"
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
