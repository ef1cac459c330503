package mcptools_test

import (
	"strings"
	"testing"

	"sealbridge/gateway/gatewaytest"
	"sealbridge/gateway/mcptools"
)

func TestAnAgentAsksSeveral(t *testing.T) { // P4
	says := func(n string) string { return "#!/bin/sh\nprintf '{\"output\":{\"n\":" + n + "}}'\n" }
	ann, by := gatewaytest.Circle(t, map[string]string{"Ben": says("7"), "Cleo": says("8"), "Dan": says("7")})
	h := &house{t: t, ann: ann, tokens: map[string]mcptools.Agent{"claude-token": {Name: "claude", Tools: mcptools.Requester}}}
	h.socket, h.url = h.open(ann)
	c := h.over("socket", "claude-token")
	ask := object{"to": []string{"Ben", "Cleo", "Dan"}, "mode": "quorum", "need": 2, "goal": "Count", "sandbox": object{"claimed_ok": true}}
	if _, refused := c.call("delegate_multi", with(ask, "need", 1)); refused == "" {
		t.Error("a quorum of one was taken")
	}
	if _, refused := c.call("delegate_multi", with(with(with(ask, "mode", "race"), "check", []string{"schema"}), "gates", []string{"contract"})); !strings.HasPrefix(refused, "policy-denied") {
		t.Errorf("a race by shape alone: %q", refused)
	}
	first := c.must("delegate_multi", ask)
	if again := c.must("delegate_multi", ask); again["group_id"] != first["group_id"] || again["joined"] != true {
		t.Errorf("the same call: %v", again)
	}
	if first["state"] != "waiting" || first["total"].(object)["input_tokens"] != 600_000.0 {
		t.Errorf("%v", first)
	}
	var ids []string
	for i, row := range first["tasks"].([]any) {
		id := row.(object)["task_id"].(string)
		ids = append(ids, id)
		ann.Yes(row.(object)["ask_id"].(string))
		w := by[[]string{"Ben", "Cleo", "Dan"}[i]]
		w.Yes(w.OpenAsk(id, "contract"))
	}
	ann.Yes(ann.OpenAsk(ids[0], "delivery"))
	got := c.must("get_result", object{"task_id": ids[0], "wait_seconds": 20})
	if got["ready"] != true || got["output"].(object)["data"].(object)["n"] != 7.0 {
		t.Fatalf("%v", got)
	}
	v := c.must("get_task", object{"task_id": ids[1]})
	g := v["group"].(object)
	if g["state"] != "taken" || g["mode"] != "quorum" || g["tasks"].([]any)[0].(object)["taken"] != true {
		t.Errorf("%v", g)
	}
	for _, id := range ids[1:] {
		if v := c.must("get_task", object{"task_id": id, "wait_seconds": 20}); v["outcome"] != "cancelled" {
			t.Errorf("%v", v)
		}
	}
}
