package mcptools_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/gateway/gatewaytest"
	"sealbridge/gateway/mcptools"
	"sealbridge/manifest"
)

// An agent hands a part of its task on and uses what comes back (P1, G11): its
// own words to the door, three owners' yeses, another owner's result as untrusted data.
func TestAnAgentHandsAPartOn(t *testing.T) {
	for _, over := range []string{"socket", "http"} {
		t.Run(over, func(t *testing.T) {
			row := gatewaytest.Row(t, gatewaytest.Counter, "Ann", "Ben", "Cleo")
			ann, ben, cleo := row[0], row[1], row[2]
			h := &house{t: t, ann: ann, ben: ben, tokens: map[string]mcptools.Agent{"scribe-token": {Name: "scribe", Tools: mcptools.Worker}}}
			socket, url := h.open(ben)
			scribe := h.client(over, "scribe-token", socket, url)
			_, file := gatewaytest.File(t, "sales.csv", "a,1\nb,2\nc,3\n")
			p, err := ann.G.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "Count", Goal: "Count the lines", Depth: 1,
				Inputs: []manifest.DraftInput{{File: file}}, Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
			if err != nil {
				t.Fatal(err)
			}
			ann.Yes(p.Ask)
			ben.Yes(ben.OpenAsk(p.Task, "contract"))
			part := object{"task_id": p.Task, "to": "cleo", "goal": "Count the lines of sales.csv", "hand_on": []string{"sales.csv"}}
			if _, refused := scribe.call("delegate_subtask", part); !strings.HasPrefix(refused, "illegal-transition") {
				t.Errorf("before it works: %q", refused)
			}
			ben.Until("started", func() error {
				if _, refused := scribe.call("start_task", object{"task_id": p.Task}); refused != "" {
					return os.ErrNotExist
				}
				return nil
			})
			if tree := scribe.must("get_task", object{"task_id": p.Task})["tree"].(object); tree["depth"] != 1.0 || tree["above"] != 0.0 {
				t.Errorf("%v", tree)
			}
			deep := object{"task_id": p.Task, "to": "cleo", "goal": "as deep", "delegation_depth": 1}
			if _, refused := scribe.call("delegate_subtask", deep); !strings.HasPrefix(refused, "depth-exceeded") {
				t.Errorf("as deep as its parent: %q", refused)
			}
			if dry := scribe.must("delegate_subtask", object{"task_id": p.Task, "to": "cleo", "goal": "x", "dry_run": true}); dry["state"] != "dry_run" || dry["contract"].(object)["parentTaskId"] != p.Task {
				t.Errorf("%v", dry)
			}
			made := scribe.must("delegate_subtask", part)
			if made["state"] != "waiting" || made["next"].(object)["who"] != "contact" || !strings.Contains(made["next"].(object)["do"].(string), "Ann (delegation)") {
				t.Errorf("%v", made)
			}
			if again := scribe.must("delegate_subtask", part); again["joined"] != true || again["task_id"] != made["task_id"] {
				t.Errorf("the same call again: %v", again)
			}
			id := made["task_id"].(string)
			ann.Yes(ann.OpenAsk(p.Task, "delegation"))
			ben.Yes(ben.OpenAsk(p.Task, "delegation"))
			ben.Yes(ben.OpenAsk(id, "contract"))
			cleo.Yes(cleo.OpenAsk(id, "contract"))
			ben.Yes(ben.OpenAsk(id, "delivery"))
			got := scribe.must("get_result", object{"task_id": id, "wait_seconds": 20})
			unmarked(t, "", got, false)
			if got["ready"] != true || got["output"].(object)["data"].(object)["lines"] != 3.0 {
				t.Errorf("%v", got)
			}
			tree := scribe.must("get_task", object{"task_id": p.Task})["tree"].(object)
			if ps := tree["parts"].([]any); len(ps) != 1 || ps[0].(object)["task_id"] != id || ps[0].(object)["state"] != "completed" || ps[0].(object)["with"] != "Cleo" {
				t.Errorf("%v", tree)
			}
			if at := scribe.must("get_task", object{"task_id": id})["tree"].(object); at["parent_task_id"] != p.Task || at["above"] != 1.0 {
				t.Errorf("%v", at)
			}
			v, err := ann.G.Task(context.Background(), gateway.Owner, gateway.Ref{Task: p.Task})
			if err != nil || len(v.Parts) != 1 || v.Parts[0].State != "handed on" || !strings.HasPrefix(v.Parts[0].With, "Cleo (") {
				t.Errorf("Ann sees %+v, %v", v.Parts, err)
			}
		})
	}
}
