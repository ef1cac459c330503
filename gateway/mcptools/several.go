package mcptools

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sealbridge/gateway"
	"sealbridge/manifest"
)

// delegations is one piece of work for several contacts (P4).
type delegations struct {
	To   []string `json:"to"`
	Mode string   `json:"mode"`
	Need int64    `json:"need"`
	work
	ClientID string `json:"client_id"`
	DryRun   bool   `json:"dry_run"`
}

var delegationsShape = object(append([]field{
	must("to", shape{"type": "array", "minItems": 2, "maxItems": 10, "uniqueItems": true, "items": some(64)}.says("the contacts, by names of list_contacts")),
	must("mode", word(string(manifest.Race), string(manifest.Quorum)).says("race: the first delivery that passes is taken; quorum: one is taken once `need` contacts deliver the same. The others are cancelled")),
	maybe("need", whole(2, 10).says("of a quorum: how many must deliver the same output and files; a majority of the contacts")),
	maybe("client_id", some(64).says("your own id for this request: the same again is the same group, for ever")),
	maybe("dry_run", flag.says("ask nobody, send nothing")),
}, workFields...)...)

type severalAnswer struct {
	Group  string           `json:"group_id"`
	State  string           `json:"state"`
	Joined bool             `json:"joined"`
	Tasks  []severalTask    `json:"tasks"`
	Total  map[string]int64 `json:"total"`
	Next   next             `json:"next"`
}

type severalTask struct {
	Task string `json:"task_id"`
	With string `json:"with"`
	Ask  string `json:"ask_id,omitempty"`
}

var severalShape = object(
	must("group_id", text(80).says("cancel_task with it ends all tasks")),
	must("state", word("waiting", "sent", "dry_run")),
	must("joined", flag.says("the same was asked before: this is that group")),
	must("tasks", list(10, object(must("task_id", text(80)), must("with", text(64)), maybe("ask_id", text(80).says("what your owner is asked"))))),
	must("total", shape{"type": "object", "additionalProperties": count}.says("the most that all tasks together may use")),
	must("next", nextShape))

// delegateMulti asks several contacts for the same.
func (c caller) delegateMulti(ctx context.Context, in delegations) (out severalAnswer, err error) {
	d, err := in.draft()
	if err != nil {
		return out, err
	}
	j, err := c.Gateway.ProposeSeveral(ctx, c.by, gateway.Several{Draft: d, To: in.To, Kind: manifest.GroupKind(in.Mode), Need: in.Need, DryRun: in.DryRun, ID: in.ClientID})
	if err != nil {
		return out, err
	}
	out = severalAnswer{Group: j.Group, State: "sent", Joined: j.Joined, Tasks: []severalTask{}, Total: meters(j.Total),
		Next: next{"contact", "go on with other work, then get_task for one of the tasks: its group says how far each is, and which was taken"}}
	for i, p := range j.Tasks {
		out.Tasks = append(out.Tasks, severalTask{p.Task, in.To[i], p.Ask})
		if p.Ask != "" {
			out.State = "waiting"
			out.Next = next{"owner", "nothing: your owner is asked about each task and decides with `sealbridge gate list`; go on with other work, then get_task for one of them"}
		}
	}
	if in.DryRun {
		out.State, out.Next = "dry_run", next{"you", "nothing was asked or sent; call delegate_multi without dry_run to ask"}
	}
	return out, nil
}

// groupAnswer is the group of a task that the agent asked for.
type groupAnswer struct {
	Group string       `json:"group_id"`
	Mode  string       `json:"mode"`
	Need  int64        `json:"need"`
	State string       `json:"state"`
	Tasks []memberTask `json:"tasks"`
}

type memberTask struct {
	Task  string `json:"task_id"`
	With  string `json:"with"`
	State string `json:"state"`
	Agree int64  `json:"agree,omitempty"`
	Taken bool   `json:"taken,omitempty"`
}

var groupShape = object(
	must("group_id", text(80)), must("mode", word(string(manifest.Race), string(manifest.Quorum))), must("need", count),
	must("state", word("open", "agreed", "disagreed", "taken", "over").says("taken: get_result of the task that is taken; disagreed: too few can deliver the same, nothing is taken")),
	must("tasks", list(10, object(must("task_id", text(80)), must("with", text(64)), must("state", text(20)),
		maybe("agree", count.says("how many delivered the same as this one")), maybe("taken", flag)))))

func groupOf(v gateway.TaskView) *groupAnswer {
	if v.Group == nil {
		return nil
	}
	g := &groupAnswer{v.Group.ID, string(v.Group.Kind), v.Group.Need, string(v.Group.State), []memberTask{}}
	for _, t := range v.Group.Tasks {
		g.Tasks = append(g.Tasks, memberTask{t.TaskID, manifest.Display(t.With, 64), t.State, t.Agree, t.Taken})
	}
	return g
}

func (c caller) severalTools(s *mcp.Server) {
	add(c, s, tool{name: "delegate_multi", title: "Ask several contacts for the same work", hints: changes(false, true, true), in: delegationsShape, out: severalShape,
		about: "Asks several contacts' agents for one and the same work, as a race or a quorum; at most one task is completed, the others are cancelled. " +
			"Answers at once with a task_id for each; your owner is asked about each. A race needs a check beyond schema. Each contact may use the whole budget."}, c.delegateMulti)
}
