package mcptools

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sealbridge/gateway"
	"sealbridge/manifest"
)

// subtask is a part of a task that the agent works on, for a contact (P1).
type subtask struct {
	Task   string   `json:"task_id"`
	To     string   `json:"to"`
	HandOn []string `json:"hand_on"`
	work
	ClientID string `json:"client_id"`
	DryRun   bool   `json:"dry_run"`
}

var subtaskShape = object(append([]field{
	must("task_id", taskID.says("the task that you work on and hand a part of on")),
	must("to", some(64).says("the contact, by a name of list_contacts")),
	maybe("hand_on", list(50, some(500)).says("input files of your task that go along, by their names; both owners are shown them")),
	maybe("client_id", some(64).says("your own id for this request: the same again is the same part, for ever")),
	maybe("dry_run", flag.says("show the contract, ask nobody, send nothing")),
}, workFields...)...)

// delegateSubtask asks whoever asked us whether a part may go to a third owner.
func (c caller) delegateSubtask(ctx context.Context, in subtask) (out delegated, err error) {
	d, err := in.draft()
	if err != nil {
		return out, err
	}
	p, err := c.Gateway.Propose(ctx, c.by, gateway.Proposal{Draft: d, To: in.To, Parent: in.Task, HandOn: in.HandOn, DryRun: in.DryRun, ID: in.ClientID})
	if err != nil {
		return out, err
	}
	out = delegated{TaskID: p.Task, State: "waiting", Joined: p.Joined, Ask: p.Ask, Digest: p.Digest}
	if in.DryRun {
		out.State, out.Contract = "dry_run", p.Manifest.Bytes()
		out.Next = next{"you", "nothing was asked or sent; call delegate_subtask without dry_run to ask"}
		return out, nil
	}
	v, err := c.Gateway.AgentTask(ctx, c.by, gateway.Ref{Task: p.Task})
	out.Next = c.nextOf(v.TaskView)
	return out, err
}

// treeAnswer is what a task says of its place in a tree.
type treeAnswer struct {
	Parent string      `json:"parent_task_id,omitempty"`
	Above  int64       `json:"above"`
	Depth  int64       `json:"depth"`
	Parts  []partState `json:"parts"`
}

type partState struct {
	Task    string           `json:"task_id"`
	With    string           `json:"with"`
	State   string           `json:"state"`
	Outcome string           `json:"outcome,omitempty"`
	Waiting string           `json:"waiting,omitempty"`
	Share   map[string]int64 `json:"share"`
}

var treeShape = object(
	maybe("parent_task_id", text(80).says("the task that this one is a part of")),
	must("above", count.says("how many contracts are above this one; you learn nothing else of them")),
	must("depth", count.says("how often the work may be handed on: delegate_subtask")),
	must("parts", list(20, object(must("task_id", text(80)), must("with", text(140)), must("state", text(20)), maybe("outcome", text(20)),
		maybe("waiting", text(100).says("whose yes it waits for")), must("share", shape{"type": "object", "additionalProperties": count})))))

func treeOf(v gateway.TaskView) *treeAnswer {
	if v.Parent == "" && v.Depth == 0 && len(v.Parts) == 0 {
		return nil
	}
	a := &treeAnswer{v.Parent, v.Above, v.Depth, []partState{}}
	for _, p := range v.Parts {
		a.Parts = append(a.Parts, partState{p.TaskID, manifest.Display(p.With, 130), p.State, p.Outcome, p.Waiting, meters(p.Share)})
	}
	return a
}

// onwardTools are for an agent that works for others: to hand a part on, and to
// use what comes of it. What a requester's tools have already is not added twice.
func (c caller) onwardTools(s *mcp.Server) {
	add(c, s, tool{name: "delegate_subtask", title: "Hand a part of your task on", hints: changes(false, true, true), in: subtaskShape, out: delegatedShape,
		about: "Asks whether a part of a task that you work on may go to a contact of your owner's. Answers at once with its task_id; the owner who asked you decides first, then yours, then the contact's. " +
			"What you do not say is taken from your task; of each limit half of what is left goes along and comes back if it is not used. Its result is get_result of that task_id, and another owner's words."}, c.delegateSubtask)
	if c.agent.Tools.has(Requester) {
		return
	}
	c.contactsTool(s)
	c.cancelTool(s)
	c.resultTools(s)
}
