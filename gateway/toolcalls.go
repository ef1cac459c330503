package gateway

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// ToolDoor is where a boxed program calls the tools that were granted for its task.
type ToolDoor interface {
	// Port is the door as one run sees it, with the environment by which a program finds it.
	Port(run ToolRun) (p runner.Port, env map[string]string)
}

// ToolRun is one run that may call granted tools.
type ToolRun struct{ Agent, Task string }

// ownCall is one call of our agent on a tool of another owner. Its use of the
// contract's tool calls is reserved when it is signed, and charged unless the
// other side says that the tool was not called (B1).
type ownCall struct {
	Task    string         `json:"task"`
	Agent   string         `json:"agent"`
	Call    jcs.Value      `json:"call"` // signed
	ID      string         `json:"id"`   // the handle that the agent has
	Subject signing.Digest `json:"subject"`
	State   string         `json:"state"`  // sent, or a manifest.CallState
	Result  jcs.Value      `json:"result"` // the newest tool-result
	At      time.Time      `json:"at"`
	Ended   time.Time      `json:"ended"`
}

const callSent = "sent" // no answer is here yet

var (
	ownCalls  = journal.NewTable[ownCall]("owncall")         // by the call's digest, grouped by task
	openCalls = journal.NewTable[signing.Digest]("opencall") // by agent, task and subject: a call that joins (A3)
)

func (c ownCall) open() bool { return c.State == callSent || c.State == string(manifest.CallPending) }

const (
	callTerm    = 15*time.Minute - time.Minute // C4, with a minute for clocks
	maxOwnCalls = 20_000                       // of one task: as many as the other side keeps
	maxOpenOwn  = 64                           // without an answer, of one task
)

// Capability is a token of another owner's that an agent may use, as it sees it.
type Capability struct {
	ID         string // of the grant
	Task       string
	With       string // our name of its owner
	Tools      []string
	Resource   string
	Arguments  jcs.Value // constraints; zero: any
	Uses, Left int64     // Left as the other side last said it
	Until      time.Time
}

// atTools is a task whose granted tools the caller may use now: it works on it.
func (t *turn) atTools(by Caller, ref string) (taskRow, error) {
	if err := by.agent(); err != nil {
		return taskRow{}, err
	}
	row, err := t.find(by, ref)
	switch {
	case err != nil:
	case row.Role != manifest.Worker:
		err = spec.Refuse(spec.NotPermitted, "", "only the agent that works on a task")
	case row.Recovery != "":
		err = spec.Refuse(spec.Unavailable, "", "R4b: in recovery: "+row.Recovery)
	case row.Task.Ended() || row.Task.State() != task.Working || row.RunAt.IsZero():
		err = spec.Refuse(spec.NotPermitted, "", "C2: while it works on the task")
	}
	return row, err
}

// Capabilities lists what other owners granted for a task that the caller works on.
func (g *Gateway) Capabilities(ctx context.Context, by Caller, in Ref) (out []Capability, err error) {
	out = []Capability{}
	err = g.view(ctx, func(t *turn) error {
		row, err := t.atTools(by, in.Task)
		if err != nil {
			return err
		}
		rows, err := tokens.Group(t.Tx, row.Key.String())
		if err != nil {
			return err
		}
		left, err := t.usesLeft(row.Key.String())
		if err != nil {
			return err
		}
		m, _ := row.Task.Contract()
		for _, r := range rows {
			k, d, err := t.token(r.V)
			if err != nil {
				return err
			}
			if !t.now.Before(k.ExpiresAt.Time()) || !slices.ContainsFunc(m.Permissions.GrantedCapabilities, func(g manifest.Grant) bool { return g.CapabilityID == k.CapabilityID }) {
				continue
			}
			c := Capability{ID: k.CapabilityID.String(), Task: row.Key.ID.String(), With: t.trust.Contacts[row.Peer].Name, Tools: k.AllowedTools,
				Resource: k.Resource.String(), Arguments: k.ArgConstraints, Uses: k.MaxInvocations, Left: k.MaxInvocations, Until: k.ExpiresAt.Time()}
			if n, ok := left[d]; ok {
				c.Left = n
			}
			out = append(out, c)
		}
		slices.SortFunc(out, func(a, b Capability) int { return strings.Compare(a.Resource+a.ID, b.Resource+b.ID) })
		return nil
	})
	return out, err
}

// usesLeft is what the newest result by each root said of it.
func (t *turn) usesLeft(task string) (map[signing.Digest]int64, error) {
	rows, err := ownCalls.Group(t.Tx, task)
	if err != nil {
		return nil, err
	}
	out, at := map[signing.Digest]int64{}, map[signing.Digest]time.Time{}
	for _, r := range rows {
		if r.V.Result.IsZero() || r.V.Ended.IsZero() {
			continue
		}
		c, res, err := t.readCall(r.V)
		if err != nil {
			return nil, err
		}
		if res != nil && !r.V.Ended.Before(at[c.Root]) {
			out[c.Root], at[c.Root] = res.UsesLeft, r.V.Ended
		}
	}
	return out, nil
}

// readCall opens a call and its newest result, nil where none came.
func (t *turn) readCall(o ownCall) (*manifest.ToolCall, *manifest.ToolResult, error) {
	s, err := manifest.OpenValue(o.Call, t.g.keys)
	if err != nil {
		return nil, nil, err
	}
	c, ok := s.Document().(*manifest.ToolCall)
	if !ok {
		return nil, nil, spec.Refuse(spec.Internal, "", "no call")
	}
	if o.Result.IsZero() {
		return c, nil, nil
	}
	if s, err = manifest.OpenValue(o.Result, t.g.keys); err != nil {
		return c, nil, err
	}
	r, _ := s.Document().(*manifest.ToolResult)
	return c, r, nil
}

// Use is what an agent asks of a tool.
type Use struct {
	Task       string
	Capability string // "" takes the only grant that has the tool and covers the resources
	Tool       string
	Resources  []string // what it reaches; none: what its arguments name, where that is only one thing (C1a)
	Arguments  jcs.Value
	Call       string // instead of all but Task: the handle of a call that was made
}

// Used is what became of it.
type Used struct {
	Call     string
	Tool     string
	With     string
	State    string // sent, pending, done, refused, unknown
	Result   jcs.Value
	Arriving bool             // done; its result is a file that is on its way
	Denial   *manifest.Denial // of a refused one
	UsesLeft int64
}

// CallTool makes a call on a granted tool, or looks for one by its handle; the
// same call while the first is open joins it (A3). It answers at once.
func (g *Gateway) CallTool(ctx context.Context, by Caller, in Use) (out Used, err error) {
	var file *manifest.ArtifactRef
	err = g.turn(ctx, func(t *turn) error {
		o, err := t.callTool(by, in)
		if err != nil {
			return err
		}
		out, file, err = t.used(o)
		return err
	})
	g.keepUnsentCall(ctx, by, in, err)
	if err == nil && file != nil && !out.Arriving {
		out.Result, err = g.answerIn(*file)
	}
	return out, err
}

func (t *turn) callTool(by Caller, in Use) (ownCall, error) {
	row, err := t.atTools(by, in.Task)
	if err != nil {
		return ownCall{}, err
	}
	key := row.Key.String()
	if in.Call != "" {
		rows, err := ownCalls.Group(t.Tx, key)
		for _, r := range rows {
			if r.V.ID == in.Call {
				return r.V, nil
			}
		}
		return ownCall{}, errors.Join(err, spec.Refuse(spec.NotFound, "/call", "no call of this task has this handle"))
	}
	k, root, resources, err := t.capabilityFor(row, in)
	if err != nil {
		return ownCall{}, err
	}
	subject, err := subjectOf(by, key, root, in.Tool, resources, in.Arguments)
	if err != nil {
		return ownCall{}, err
	}
	if d, ok, err := openCalls.Get(t.Tx, subject.String()); err != nil || ok {
		if err != nil {
			return ownCall{}, err
		}
		o, _, err := ownCalls.Get(t.Tx, d.String())
		return o, err
	}
	if err := t.roomForCall(key); err != nil {
		return ownCall{}, err
	}
	return t.signCall(row, by, k, root, resources, subject, in)
}

// roomForCall bounds what an agent can have under way and on record (B9).
func (t *turn) roomForCall(key string) error {
	n, err := ownCalls.Count(t.Tx, key)
	if err != nil {
		return err
	}
	if n >= maxOwnCalls {
		return spec.Refuse(spec.Quota, "", "20,000 calls of a task")
	}
	l, err := t.ledger([]policy.Account{toolMeter(key, t)})
	if err != nil {
		return err
	}
	if held := len(l.Of(toolMeter(key, t)).Holds); held >= maxOpenOwn {
		return spec.Refuse(spec.Quota, "", "64 calls without an answer; ask for one of them first")
	}
	return nil
}

func toolMeter(key string, t *turn) policy.Account {
	row, err := t.row(key)
	if err != nil {
		return policy.Account{}
	}
	return policy.MeterOf(row.Key, policy.ToolInvocations)
}

// capabilityFor finds the token for a use. What its own terms refuse does not
// travel: the agent hears it at once.
func (t *turn) capabilityFor(row taskRow, in Use) (k *manifest.CapabilityToken, root signing.Digest, resources []manifest.Resource, err error) {
	rows, err := tokens.Group(t.Tx, row.Key.String())
	if err != nil {
		return nil, root, nil, err
	}
	why := error(spec.Refuse(spec.CapabilityDenied, "/tool", "C2: no grant of this task has this tool; list_capabilities has them"))
	for _, r := range rows {
		c, d, err := t.token(r.V)
		if err != nil {
			return nil, root, nil, err
		}
		if in.Capability != "" && c.CapabilityID.String() != in.Capability || !slices.Contains(c.AllowedTools, in.Tool) {
			continue
		}
		rs, err := resourcesFor(c, in)
		if err == nil {
			err = t.termsOf(c, in)
		}
		if err != nil {
			why = err
			continue
		}
		return c, d, rs, nil
	}
	return nil, root, nil, why
}

// termsOf holds a use against the token that the agent has (C2j, C3).
func (t *turn) termsOf(c *manifest.CapabilityToken, in Use) error {
	if !t.now.Before(c.ExpiresAt.Time()) {
		return spec.Refuse(spec.Expired, "/capability", "C2j: "+c.ExpiresAt.String())
	}
	return nil
}

// resourcesFor are what the agent says that its call reaches. Where it says
// nothing: the grant's own resource if it is one, else what its arguments name
// below the grant's, if that is one argument.
func resourcesFor(c *manifest.CapabilityToken, in Use) (out []manifest.Resource, err error) {
	if len(in.Resources) == 0 && !c.Resource.Open() {
		return []manifest.Resource{c.Resource}, nil
	}
	for i, s := range in.Resources {
		r, err := manifest.ParseResource(s)
		if err != nil || !c.Resource.Covers(r) || r.Open() {
			return nil, spec.Refuse(spec.CapabilityDenied, "/resources/"+itoa(i), "C1: one within "+c.Resource.String())
		}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	for _, v := range in.Arguments.Members() {
		if named := below(c.Resource, v); len(named) > 0 {
			if len(out) > 0 {
				return nil, spec.Refuse(spec.Malformed, "/resources", "C1a: more than one argument could name it: say which resources within "+c.Resource.String())
			}
			out = named
		}
	}
	if len(out) == 0 {
		return nil, spec.Refuse(spec.CapabilityDenied, "/resources", "C1: no argument names a resource within "+c.Resource.String())
	}
	return out, nil
}

// below are the resources that a value names under a grant's authority, if the
// grant covers each: a path as it is, or without its first slash.
func below(grant manifest.Resource, v jcs.Value) (out []manifest.Resource) {
	scheme, rest, _ := strings.Cut(grant.String(), "://")
	authority, _, _ := strings.Cut(rest, "/")
	items := []jcs.Value{v}
	if v.Kind() == '[' {
		items = slices.Collect(v.Items())
	}
	for _, item := range items {
		text, ok := item.Text()
		if !ok {
			return nil
		}
		r, err := manifest.ParseResource(scheme + "://" + authority + "/" + strings.TrimPrefix(text, "/"))
		if err != nil || r.Open() || !grant.Covers(r) {
			return nil
		}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

func subjectOf(by Caller, task string, root signing.Digest, tool string, rs []manifest.Resource, arguments jcs.Value) (signing.Digest, error) {
	v, err := jcs.Encode(struct {
		Agent     string              `json:"agent"`
		Task      string              `json:"task"`
		Root      signing.Digest      `json:"root"`
		Tool      string              `json:"tool"`
		Resources []manifest.Resource `json:"resources"`
		Arguments jcs.Value           `json:"arguments"`
	}{by.Agent, task, root, tool, rs, arguments})
	return signing.DigestOf(v.Bytes()), err
}

// signCall reserves the call's place in the budget, signs it and sends it until
// it is acknowledged (B1, C4).
func (t *turn) signCall(row taskRow, by Caller, k *manifest.CapabilityToken, root signing.Digest, rs []manifest.Resource, subject signing.Digest, in Use) (ownCall, error) {
	text, err := t.g.mint("call_", t.now)
	if err != nil {
		return ownCall{}, err
	}
	id, err := manifest.ParseCallID(text)
	if err != nil {
		return ownCall{}, err
	}
	chain, to, err := t.holding(root)
	if err != nil {
		return ownCall{}, err
	}
	v, err := manifest.Sign(&manifest.ToolCall{Type: "sealbridge/tool-call", ProtocolVersion: manifest.ProtocolVersion, CallID: id, To: chain.Token(1).Issuer, Root: chain.Link(1).Digest(),
		Links: below1(chain), TaskID: row.Key.ID, Contract: row.Task.InForce().Digest, Tool: in.Tool, Resources: rs, Arguments: in.Arguments,
		At: signing.TimeOf(t.now), ExpiresAt: signing.TimeOf(t.now.Add(callTerm))}, t.g.Agent, t.now)
	if err != nil {
		return ownCall{}, err
	}
	acc := policy.MeterOf(row.Key, policy.ToolInvocations)
	l, err := t.ledger([]policy.Account{acc})
	if err != nil {
		return ownCall{}, err
	}
	if err := t.move(l, []policy.Move{{Op: policy.Reserve, Account: acc, Hold: policy.CallHold(v.Digest()), Amount: 1}}); err != nil {
		return ownCall{}, err
	}
	key := row.Key.String()
	o := ownCall{Task: key, Agent: by.Agent, Call: v.Wire(), ID: text, Subject: subject, State: callSent, At: t.now}
	if err := t.append(recCall, key, v.Wire().Bytes()); err != nil {
		return o, err
	}
	if err := ownCalls.Put(t.Tx, v.Digest().String(), key, o); err != nil {
		return o, err
	}
	if err := openCalls.Put(t.Tx, subject.String(), key, v.Digest()); err != nil {
		return o, err
	}
	return o, t.send(to, v.Signed, "", key, 0)
}

// holding is the chain of a token that our agent may use, and the owner whose tool it is for.
func (t *turn) holding(token signing.Digest) (chain policy.Chain, owner signing.DID, err error) {
	r, ok, err := tokens.Get(t.Tx, token.String())
	if err == nil && !ok {
		err = spec.Refuse(spec.NotFound, "/capability", "token")
	}
	if err != nil {
		return chain, owner, err
	}
	if chain, err = t.g.chains.OpenValues(t.g.keys, append(slices.Clone(r.Above), r.Wire)...); err != nil {
		return chain, owner, err
	}
	if owner, ok = t.trust.OwnerOf(chain.Token(1).Issuer); !ok {
		err = spec.Refuse(spec.UnknownKey, "/capability", "C7: whose tool it is was never introduced")
	}
	return chain, owner, err
}

// below1 are the links below the root, as a call carries them (C4).
func below1(c policy.Chain) []manifest.SignedPart {
	out := []manifest.SignedPart{}
	for i := 2; i <= c.Len(); i++ {
		out = append(out, c.Link(i).Wire())
	}
	return out
}

// resultOf takes the answer to a call of ours: only for an open call with that
// digest, from whom it was asked (C5).
func (t *turn) resultOf(v manifest.Verified, r *manifest.ToolResult) error {
	key := r.Call.String()
	o, ok, err := ownCalls.Get(t.Tx, key)
	if err != nil {
		return err
	}
	if !ok || r.To != t.g.Agent.DID() {
		return spec.Refuse(spec.NotFound, "/call", "C5: no call of this gateway")
	}
	c, _, err := t.readCall(o)
	if err != nil {
		return err
	}
	if v.By() != c.To {
		return spec.Refuse(spec.WrongSigner, "/signature/signerDid", "C5: who was asked")
	}
	if err := t.hears(v.Owner(), r.Revocations); err != nil {
		return err
	}
	if !o.open() { // the first final answer stands
		return t.confirmDocument(v)
	}
	row, err := t.row(o.Task)
	if err != nil {
		return err
	}
	if err := t.append(recResult, o.Task, v.Wire().Bytes()); err != nil {
		return err
	}
	o.State, o.Result = string(r.State), v.Wire()
	if !o.open() {
		o.Ended = t.now
		if err := t.endOwnCall(row, r); err != nil {
			return err
		}
		if r.Denial != nil {
			if err := t.callRefused(o.Task, o.Call, byContact, *r.Denial); err != nil {
				return err
			}
		}
		if err := openCalls.Delete(t.Tx, o.Subject.String()); err != nil {
			return err
		}
	}
	if err := ownCalls.Put(t.Tx, key, o.Task, o); err != nil {
		return err
	}
	if r.Artifact != nil {
		row.Answers = append(slices.Clip(row.Answers), *r.Artifact)
		if err := t.putRow(row); err != nil {
			return err
		}
		if err := t.wants(row); err != nil {
			return err
		}
	}
	return t.confirmDocument(v)
}

// endOwnCall charges the call, unless the other side says that the tool was not called.
func (t *turn) endOwnCall(row taskRow, r *manifest.ToolResult) error {
	acc := policy.MeterOf(row.Key, policy.ToolInvocations)
	l, err := t.ledger([]policy.Account{acc})
	if err != nil {
		return err
	}
	hold := policy.CallHold(r.Call)
	if _, held := l.Of(acc).Holds[hold]; !held {
		return nil
	}
	m := policy.Move{Op: policy.Commit, Account: acc, Hold: hold, Amount: 1}
	if r.State == manifest.CallRefused {
		m.Op, m.Amount = policy.Release, 0
	}
	return t.move(l, []policy.Move{m})
}

// used is a call as its agent sees it; file is where a result lies that came as one.
func (t *turn) used(o ownCall) (out Used, file *manifest.ArtifactRef, err error) {
	c, r, err := t.readCall(o)
	if err != nil {
		return out, nil, err
	}
	row, err := t.row(o.Task)
	if err != nil {
		return out, nil, err
	}
	with, ok := t.trust.OwnerOf(c.To)
	if !ok {
		with = row.Peer
	}
	out = Used{Call: o.ID, Tool: c.Tool, With: t.trust.Contacts[with].Name, State: o.State}
	if r == nil {
		return out, nil, nil
	}
	out.Result, out.Denial, out.UsesLeft = r.Result, r.Denial, r.UsesLeft
	if r.Artifact != nil {
		out.Arriving = !row.Here[r.Artifact.Digest.String()]
	}
	return out, r.Artifact, nil
}

// answerIn reads a result that came as a file.
func (g *Gateway) answerIn(ref manifest.ArtifactRef) (jcs.Value, error) {
	f, err := g.Files.Open(ref.Digest)
	if err != nil {
		return jcs.Value{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAnswerFile+1))
	if err != nil {
		return jcs.Value{}, err
	}
	return jcs.ParseWithin(b, jcs.Limits{Bytes: maxAnswerFile, Depth: 64, Values: 1_000_000, Number: 32})
}

const maxAnswerFile = 16 << 20 // bytes of a tool's answer: what a gateway hands on at most

// AwaitTool waits until a call has its answer, or ctx ends: then it is as it is.
func (g *Gateway) AwaitTool(ctx context.Context, by Caller, in Ref, call string) (Used, error) {
	for {
		head := g.Journal.Head()
		out, err := g.CallTool(context.WithoutCancel(ctx), by, Use{Task: in.Task, Call: call})
		if err != nil || out.State != callSent && out.State != string(manifest.CallPending) && !out.Arriving {
			return out, err
		}
		if _, err := g.Journal.Wait(ctx, head); err != nil {
			return out, nil // nothing came in time, which is no error (A4)
		}
	}
}
