package mcptools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway/gatewaytest"
	"sealbridge/gateway/mcptools"
	"sealbridge/manifest"
	"sealbridge/spec"
)

var requesterTools = []string{"cancel_task", "check_inbox", "delegate_multi", "delegate_task", "get_approval", "get_result", "get_task", "list_contacts", "list_tasks",
	"request_approval", "request_contact", "verify_evidence", "wait_for_mention"}

func TestBothDoorsHaveTheToolsOfTheTable(t *testing.T) {
	h := newHouse(t, gatewaytest.Counter)
	for _, over := range []string{"socket", "http"} {
		c := h.over(over, "claude-token")
		tools, err := c.ListTools(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, x := range tools.Tools {
			names = append(names, x.Name)
			if x.Title == "" || len(x.Description) < 40 || x.Annotations == nil || x.InputSchema == nil || x.OutputSchema == nil {
				t.Errorf("%s has no title, description, annotations or schemas", x.Name)
			}
			for _, forbidden := range []string{"decide", "allow", "deny", "confirm", "invite", "export", "policy"} {
				if strings.Contains(x.Name, forbidden) {
					t.Errorf("a tool is called %s (G9)", x.Name)
				}
			}
		}
		if slices.Sort(names); !slices.Equal(names, requesterTools) {
			t.Errorf("%s: tools are %v", over, names)
		}
		if got := c.InitializeResult(); strings.Count(got.Instructions, ". ")+1 != 4 || strings.Contains(canonical(got.Capabilities), "logging") || got.ServerInfo.Name != "sealbridge" {
			t.Errorf("%s: %+v", over, got)
		}
	}
}

func TestATaskGoesThroughEitherDoor(t *testing.T) {
	for _, over := range []string{"socket", "http"} {
		t.Run(over, func(t *testing.T) {
			h := newHouse(t, gatewaytest.Counter)
			c := h.over(over, "claude-token")
			contacts := c.must("list_contacts", nil)["contacts"].([]any)[0].(object)
			if contacts["name"] != "Ben" || contacts["may_ask"] != true || contacts["may_send"].([]any)[0] != h.folder+"/**" {
				t.Fatalf("%v", contacts)
			}
			ask := object{"to": "ben", "goal": "Count the lines of sales.csv", "inputs": []object{{"file": h.file}}, "sandbox": object{"claimed_ok": true},
				"done_when": []string{"the lines are counted", "optional: and it is nice"},
				"output":    object{"type": "object", "required": []string{"lines"}}}
			dry := c.must("delegate_task", with(ask, "dry_run", true))
			if dry["state"] != "dry_run" || dry["contract"] == nil {
				t.Fatalf("%v", dry)
			}
			first := c.must("delegate_task", ask)
			id := first["task_id"].(string)
			if next := first["next"].(object); first["state"] != "waiting" || next["who"] != "owner" {
				t.Fatalf("%v", first)
			}
			if again := c.must("delegate_task", ask); again["task_id"] != id || again["joined"] != true {
				t.Errorf("the same call: %v", again)
			}
			if a := c.must("get_approval", object{"task_id": id}); a["state"] != "open" || a["ask_id"] != first["ask_id"] || a["gate"] != "contract" {
				t.Errorf("%v", a)
			}
			h.ann.Allow(manifest.ContractGate)
			if a := c.must("request_approval", object{"ask_id": first["ask_id"]}); a["state"] != "allowed" {
				t.Errorf("%v", a)
			}
			h.ben.Allow(manifest.ContractGate)
			if early := c.must("get_result", object{"task_id": id}); early["ready"] != false || early["output"] != nil {
				t.Errorf("before the yes: %v", early)
			}
			h.ann.Allow(manifest.DeliveryGate)
			got := c.must("get_result", object{"task_id": id[len(id)-6:], "wait_seconds": 20})
			output := got["output"].(object)
			if got["ready"] != true || output["untrusted"] != true || output["data"].(object)["lines"] != 3.0 || !strings.Contains(output["origin"].(string), "Ben") {
				t.Fatalf("%v", got)
			}
			if part := c.must("get_result", object{"task_id": id, "file": "count.csv"})["part"].(object); part["text"] != "lines,3\n" || part["untrusted"] != true {
				t.Errorf("%v", part)
			}
			if v := c.must("get_task", object{"task_id": id}); v["outcome"] != "completed" || v["next"].(object)["do"] != "get_result" || v["used"] == nil {
				t.Errorf("%v", v)
			}
			if l := c.must("list_tasks", nil)["tasks"].([]any); len(l) != 1 || l[0].(object)["task_id"] != id {
				t.Errorf("%v", l)
			}
			e := c.must("verify_evidence", object{"task_id": id})
			if e["verified"] != true || e["known"] != "all" || e["report"].(object)["untrusted"] != true {
				t.Errorf("%v", e)
			}
		})
	}
}

func with(o object, k string, v any) object {
	out := object{k: v}
	for k, v := range o {
		if _, set := out[k]; !set {
			out[k] = v
		}
	}
	return out
}

func TestWhatIsNotTheAgentsIsRefused(t *testing.T) {
	h := newHouse(t, gatewaytest.Counter)
	_, secret := gatewaytest.File(t, "id_ed25519", "secret")
	claude, cursor := h.over("socket", "claude-token"), h.over("http", "cursor-token")
	mine := claude.must("delegate_task", object{"to": "Ben", "goal": "mine"})
	id, ask := mine["task_id"], mine["ask_id"]
	for _, x := range []struct {
		by   *client
		tool string
		args object
		want string
	}{
		{cursor, "get_task", object{"task_id": id}, "not-found"},
		{cursor, "get_result", object{"task_id": id}, "not-found"},
		{cursor, "cancel_task", object{"task_id": id}, "not-found"},
		{cursor, "get_approval", object{"task_id": id}, "not-found"},
		{cursor, "get_approval", object{"ask_id": ask}, "not-found"},
		{cursor, "request_approval", object{"ask_id": ask}, "not-found"},
		{cursor, "verify_evidence", object{"task_id": id}, "not-found"},
		{claude, "delegate_task", object{"to": "Ben", "goal": "x", "inputs": []object{{"file": secret}}}, "policy-denied: /inputs/0/file"},
		{claude, "delegate_task", object{"to": "Ben", "goal": "x", "inputs": []object{{"file": "../x"}}}, "malformed: /inputs/0/file"},
		{claude, "delegate_task", object{"to": "Nobody", "goal": "x"}, "not-found: /to"},
		{claude, "delegate_task", object{"to": "Ben", "goal": "x", "check": []string{"rm -rf /"}}, "malformed: /check/0"},
		{claude, "get_approval", object{}, "malformed"},
		{claude, "verify_evidence", object{}, "malformed"},
		{claude, "verify_evidence", object{"bundle": "no"}, "malformed"},
		{claude, "get_task", object{"task_id": id, "agent": "cursor"}, "validating"},
		{claude, "wait_for_mention", object{"project": "nobody"}, "not-found: /project"},
		{claude, "wait_for_mention", object{"timeout_seconds": 51}, "validating"},
	} {
		if _, refused := x.by.call(x.tool, x.args); !strings.HasPrefix(refused, x.want) {
			t.Errorf("%s %v: %q, want %s", x.tool, x.args, refused, x.want)
		}
	}
	as, err := h.ann.G.Asks(context.Background(), owner, true)
	if err != nil || len(as) != 1 {
		t.Errorf("a refused call became an ask: %d, %v", len(as), err)
	}
}

// post is one request without a client, and its answer.
func post(t *testing.T, url, token, body string) string {
	t.Helper()
	r, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestArgumentsAreReadAsStrictlyAsDocuments(t *testing.T) { // D1, D2
	h := newHouse(t, gatewaytest.Counter)
	for what, args := range map[string]string{
		"a name twice":        `{"to":"Ben","goal":"a","goal":"b"}`,
		"a name twice inside": `{"to":"Ben","goal":"a","data":{"x":1,"\u0078":2}}`,
		"a number too large":  `{"to":"Ben","goal":"a","data":{"x":9007199254740993}}`,
		"a lone surrogate":    `{"to":"Ben","goal":"a","data":"\ud800"}`,
		"another case":        `{"to":"Ben","Goal":"a"}`,
	} {
		out := post(t, h.url, "claude-token", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delegate_task","arguments":`+args+`}}`)
		if !strings.Contains(out, `"isError":true`) && !strings.Contains(out, `"error"`) {
			t.Errorf("%s: %s", what, out)
		}
	}
	if out := post(t, h.url, "claude-token", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_tasks","arguments":{}}}`); !strings.Contains(out, `"tasks":[]`) {
		t.Errorf("something was asked: %s", out)
	}
}

func TestASocketTakesATokenAndNarrowsTools(t *testing.T) { // A1
	h := newHouse(t, gatewaytest.Counter)
	for what, p := range map[string]mcptools.Pipe{
		"no token":           {},
		"a wrong token":      {Token: "claude-tokem"},
		"another agent":      {Token: "claude-token", Agent: "cursor"},
		"more tools":         {Token: "claude-token", Tools: mcptools.All},
		"another's tools":    {Token: "claude-token", Tools: mcptools.Worker},
		"tools of no name":   {Token: "claude-token", Tools: "admin"},
		"an oversized token": {Token: strings.Repeat("x", 5000)},
	} {
		p.Socket, p.In, p.Out = h.socket, strings.NewReader(""), &bytes.Buffer{}
		if err := p.Run(context.Background()); spec.ReasonOf(err) != spec.NotPermitted && spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("%s: %v", what, err)
		}
	}
	none := mcptools.Pipe{Socket: h.socket + "x", Token: "claude-token", In: strings.NewReader(""), Out: &bytes.Buffer{}}
	if err := none.Run(context.Background()); spec.ReasonOf(err) != spec.Unavailable {
		t.Errorf("no gateway: %v", err)
	}
	c := h.over("socket", "cursor-token")
	c.must("list_tasks", nil)
	h.mu.Lock()
	delete(h.tokens, "cursor-token")
	h.mu.Unlock()
	if _, err := c.ListTools(context.Background(), nil); err == nil {
		t.Error("a token that was taken away still works on an open connection")
	}
}

func TestOnlyJSONRPCComesOutOfAPipe(t *testing.T) {
	h := newHouse(t, gatewaytest.Counter)
	in := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_contacts","arguments":{}}}
`
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	mcptools.Pipe{Socket: h.socket, Token: "claude-token", In: strings.NewReader(in), Out: &out}.Run(ctx)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, l := range lines {
		var m struct {
			JSONRPC string `json:"jsonrpc"`
		}
		if json.Unmarshal([]byte(l), &m) != nil || m.JSONRPC != "2.0" {
			t.Errorf("stdout has %q", l)
		}
	}
	if !strings.Contains(out.String(), `"id":1`) {
		t.Errorf("no answer: %q", out.String())
	}
}

func TestHTTPTakesOnlyThisComputersPrograms(t *testing.T) { // A10
	h := newHouse(t, gatewaytest.Counter)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
	ask := func(method, body string, change func(*http.Request)) int {
		r, err := http.NewRequest(method, h.url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer claude-token")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		change(r)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	set := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
	for _, x := range []struct {
		what, method, body string
		change             func(*http.Request)
		want               int
	}{
		{"a program", "POST", list, func(*http.Request) {}, 200},
		{"no token", "POST", list, func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"a wrong token", "POST", list, set("Authorization", "Bearer nobody"), 401},
		{"no bearer", "POST", list, set("Authorization", "Basic claude-token"), 401},
		{"another site", "POST", list, set("Origin", "https://evil.example"), 403},
		{"another port", "POST", list, set("Origin", "http://127.0.0.1:1"), 403},
		{"no origin at all", "POST", list, set("Origin", "null"), 403},
		{"another site reading", "GET", "", set("Origin", "https://evil.example"), 403},
		{"a cross-site fetch", "POST", list, set("Sec-Fetch-Site", "cross-site"), 403},
		{"a name of another site", "POST", list, func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"a stream without a session", "GET", "", func(*http.Request) {}, 405},
		{"a form", "POST", list, set("Content-Type", "text/plain"), 415},
		{"too much", "POST", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 2<<20) + `"}`, func(*http.Request) {}, 413},
	} {
		if got := ask(x.method, x.body, x.change); got != x.want {
			t.Errorf("%s: %d, want %d", x.what, got, x.want)
		}
	}
}

func TestAnOversizedLineEndsItsConnectionAndNoOther(t *testing.T) { // A8
	h := newHouse(t, gatewaytest.Counter)
	other := h.over("socket", "claude-token")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var out bytes.Buffer
	line := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delegate_task","arguments":{"to":"Ben","goal":"` + strings.Repeat("x", 2<<20) + `"}}}` + "\n"
	mcptools.Pipe{Socket: h.socket, Token: "claude-token", In: strings.NewReader(line), Out: &out}.Run(ctx)
	if strings.Contains(out.String(), "task_id") || ctx.Err() != nil {
		t.Errorf("it was read: %.200s, %v", out.String(), ctx.Err())
	}
	if tasks := other.must("list_tasks", nil)["tasks"].([]any); len(tasks) != 0 {
		t.Errorf("%v", tasks)
	}
}
