package gateway

import (
	"context"
	"errors"
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
type ToolRun struct {
	Agent, Task string
	Key         string // of the task: the id alone may be another owner's too (M11)
}

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
