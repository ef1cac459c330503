package llmdoor_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/gateway/llmdoor"
	"sealbridge/spec"
)

func message(content string) string {
	return `{"model":"m-1","max_tokens":100,"messages":[{"role":"user","content":[` + content + `]}]}`
}

func chatMessage(content string) string {
	return `{"model":"m-1","messages":[{"role":"user","content":[` + content + `]}]}`
}

func item(it string) string { return `{"model":"m-1","input":[` + it + `]}` }

func tool(kind, t string) string {
	if kind == messagesPath {
		return `{"model":"m-1","max_tokens":100,"messages":[],"tools":[` + t + `]}`
	}
	if kind == chatPath {
		return `{"model":"m-1","messages":[],"tools":[` + t + `]}`
	}
	return `{"model":"m-1","input":"x","tools":[` + t + `]}`
}

// What X4 refuses, in every place where somebody tried to put it.
func TestWhatIsNotListedIsRefusedAndNothingLeaves(t *testing.T) { // X4, X4c
	const no, bad = string(spec.NotPermitted), string(spec.Malformed)
	for _, test := range []struct{ name, path, body, word, at string }{
		{"web search", messagesPath, tool(messagesPath, `{"type":"web_search_20250305","name":"web_search"}`), no, "/tools/0/type"},
		{"web fetch", messagesPath, tool(messagesPath, `{"type":"web_fetch_20250910","name":"web_fetch"}`), no, "/tools/0/type"},
		{"code execution", messagesPath, tool(messagesPath, `{"type":"code_execution_20250825","name":"code_execution"}`), no, "/tools/0/type"},
		{"computer use", messagesPath, tool(messagesPath, `{"type":"computer_20250124","name":"computer","display_width_px":1,"display_height_px":1}`), no, "/tools/0/type"},
		{"a toolset of a remote server", messagesPath, tool(messagesPath, `{"type":"mcp_toolset","mcp_server_name":"x"}`), no, "/tools/0/type"},
		{"a tool with a member more", messagesPath, tool(messagesPath, `{"name":"x","input_schema":{},"defer_loading":true}`), no, "/tools/0/defer_loading"},
		{"a tool that the provider's code calls", messagesPath, tool(messagesPath, `{"name":"x","input_schema":{},"allowed_callers":["code_execution_20250825"]}`), no, "/tools/0/allowed_callers/0"},
		{"remote MCP", messagesPath, `{"model":"m-1","max_tokens":1,"messages":[],"mcp_servers":[{"type":"url","url":"https://x"}]}`, no, "/mcp_servers"},
		{"a container", messagesPath, `{"model":"m-1","max_tokens":1,"messages":[],"container":"c"}`, no, "/container"},
		{"an image by address", messagesPath, message(`{"type":"image","source":{"type":"url","url":"https://x/y.png"}}`), no, "/messages/0/content/0/source/type"},
		{"an image by id", messagesPath, message(`{"type":"image","source":{"type":"file","file_id":"file_1"}}`), no, "/messages/0/content/0/source/type"},
		{"a document by address", messagesPath, message(`{"type":"document","source":{"type":"url","url":"https://x/y.pdf"}}`), no, "/messages/0/content/0/source/type"},
		{"a document of pages", messagesPath, message(`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBE"}}`), no, "/messages/0/content/0/source/type"},
		{"an upload into a container", messagesPath, message(`{"type":"container_upload","file_id":"f"}`), no, "/messages/0/content/0/type"},
		{"an address in what a tool returned", messagesPath, message(`{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"https://x"}}]}`), no, "/messages/0/content/0/content/0/source/type"},
		{"a context edit that writes", messagesPath, `{"model":"m-1","max_tokens":1,"messages":[],"context_management":{"edits":[{"type":"compact_20260112"}]}}`, no, "/context_management/edits/0/type"},
		{"an unknown member", messagesPath, `{"model":"m-1","max_tokens":1,"messages":[],"priority":1}`, no, "/priority"},
		{"a member in another case", messagesPath, `{"model":"m-1","max_tokens":1,"messages":[],"MCP_servers":[]}`, no, "/MCP_servers"},
		{"a name twice", messagesPath, `{"model":"m-1","max_tokens":1,"messages":[],"model":"m-2"}`, bad, ""},
		{"a name twice, spelled in two ways", messagesPath, `{"model":"m-1","max_tokens":1,"messages":[],"mod\u0065l":"m-2"}`, bad, ""},
		{"no model", messagesPath, `{"max_tokens":1,"messages":[]}`, bad, "/model"},
		{"a limit below nothing", messagesPath, `{"model":"m-1","max_tokens":-1,"messages":[]}`, bad, "/max_tokens"},
		{"half a limit", messagesPath, `{"model":"m-1","max_tokens":0.5,"messages":[]}`, bad, "/max_tokens"},
		{"no object", messagesPath, `[]`, bad, ""},
		{"nothing", messagesPath, ``, bad, ""},
		{"something after it", messagesPath, askMessages + `{}`, bad, ""},
		{"too deep", messagesPath, message(`{"type":"tool_use","id":"x","name":"y","input":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`), string(spec.TooLarge), ""},
		{"a count with a tool of the provider's", "/v1/messages/count_tokens", `{"model":"m-1","messages":[],"tools":[{"type":"web_search_20250305"}]}`, no, "/tools/0/type"},

		{"web search", chatPath, `{"model":"m-1","messages":[],"web_search_options":{}}`, no, "/web_search_options"},
		{"a tool of the provider's", chatPath, tool(chatPath, `{"type":"mcp","server_url":"https://x"}`), no, "/tools/0/type"},
		{"an image by address", chatPath, chatMessage(`{"type":"image_url","image_url":{"url":"https://x/y.png"}}`), no, "/messages/0/content/0/image_url/url"},
		{"a file by id", chatPath, chatMessage(`{"type":"file","file":{"file_id":"f"}}`), no, "/messages/0/content/0/type"},
		{"a sound", chatPath, chatMessage(`{"type":"input_audio","input_audio":{"data":"","format":"wav"}}`), no, "/messages/0/content/0/type"},
		{"stored", chatPath, `{"model":"m-1","messages":[],"store":true}`, no, "/store"},
		{"two answers", chatPath, `{"model":"m-1","messages":[],"n":2}`, no, "/n"},
		{"sound as an answer", chatPath, `{"model":"m-1","messages":[],"modalities":["text","audio"]}`, no, "/modalities/1"},
		{"two limits", chatPath, `{"model":"m-1","messages":[],"max_tokens":1,"max_completion_tokens":100000}`, bad, "/max_tokens"},
		{"a role of nobody", chatPath, `{"model":"m-1","messages":[{"role":"function","content":"x","name":"y"}]}`, no, "/messages/0/role"},

		{"web search", responsesPath, tool(responsesPath, `{"type":"web_search"}`), no, "/tools/0/type"},
		{"search in files", responsesPath, tool(responsesPath, `{"type":"file_search","vector_store_ids":["v"]}`), no, "/tools/0/type"},
		{"code", responsesPath, tool(responsesPath, `{"type":"code_interpreter","container":{"type":"auto"}}`), no, "/tools/0/type"},
		{"a computer", responsesPath, tool(responsesPath, `{"type":"computer_use_preview"}`), no, "/tools/0/type"},
		{"images", responsesPath, tool(responsesPath, `{"type":"image_generation"}`), no, "/tools/0/type"},
		{"remote MCP", responsesPath, tool(responsesPath, `{"type":"mcp","server_label":"x","server_url":"https://x"}`), no, "/tools/0/type"},
		{"in the background", responsesPath, `{"model":"m-1","input":"x","background":true}`, no, "/background"},
		{"stored", responsesPath, `{"model":"m-1","input":"x","store":true}`, no, "/store"},
		{"going on from what is stored", responsesPath, `{"model":"m-1","input":"x","previous_response_id":"r"}`, no, "/previous_response_id"},
		{"a conversation", responsesPath, `{"model":"m-1","input":"x","conversation":"c"}`, no, "/conversation"},
		{"a stored prompt", responsesPath, `{"model":"m-1","input":"x","prompt":{"id":"p"}}`, no, "/prompt"},
		{"an item by id", responsesPath, item(`{"type":"item_reference","id":"i"}`), no, "/input/0/type"},
		{"an image by address", responsesPath, item(`{"role":"user","content":[{"type":"input_image","image_url":"https://x"}]}`), no, "/input/0/content/0/image_url"},
		{"an image by id", responsesPath, item(`{"role":"user","content":[{"type":"input_image","file_id":"f"}]}`), no, "/input/0/content/0/file_id"},
		{"a file by address", responsesPath, item(`{"role":"user","content":[{"type":"input_file","file_url":"https://x"}]}`), no, "/input/0/content/0/type"},
		{"an address in what a tool returned", responsesPath, item(`{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"http://169.254.169.254/"}]}`), no, "/input/0/output/0/image_url"},
		{"what the provider's tools found", responsesPath, `{"model":"m-1","input":"x","include":["file_search_call.results"]}`, no, "/include/0"},
	} {
		t.Run(test.path+" "+test.name, func(t *testing.T) {
			r := newRig(t, writes(200, nil, `{}`))
			a := r.post(test.path, test.body)
			var e struct {
				Type  string `json:"type"`
				Error struct {
					Type, Message string
					Code          any
				} `json:"error"`
			}
			if err := json.Unmarshal([]byte(a.body), &e); err != nil || e.Error.Message == "" {
				t.Fatalf("%d %s: no error in the provider's form", a.status, a.body)
			}
			if !strings.HasPrefix(e.Error.Message, test.word+": "+test.at) || a.status < 400 || a.status > 499 {
				t.Errorf("%d %q, want %s: %s", a.status, e.Error.Message, test.word, test.at)
			}
			if anthropic := strings.HasPrefix(test.path, messagesPath); anthropic != (e.Type == "error") || anthropic != (e.Error.Code == nil) {
				t.Errorf("%s: not in the form of its API", a.body)
			}
			if q, _ := r.sent(); q != nil || len(r.books.begun) > 0 {
				t.Error("it left, or was reserved for")
			}
		})
	}
}

// Requests as clients of the APIs send them, and what is made of them.
func TestWhatIsListedGoesOn(t *testing.T) { // X4c, X4d
	for name, test := range map[string]struct{ path, body, want string }{
		"plain": {messagesPath, askMessages, `{"model":"m-1","max_tokens":50,"messages":[{"role":"user","content":"hello"}]}`},
		"a client of a coding agent": {messagesPath, `{"model":"m-1","max_tokens":32000,"stream":true,"temperature":1,"metadata":{"user_id":"u"},
			"system":[{"type":"text","text":"You are…","cache_control":{"type":"ephemeral"}}],"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},
			"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
			"tools":[{"name":"Bash","description":"runs","input_schema":{"type":"object","properties":{"mcp_servers":{"type":"string"}}}}],
			"messages":[{"role":"user","content":[{"type":"text","text":"<a> & \"b\" é 😀"}]},
				{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"tool_use","id":"t","name":"Bash","input":{"type":"image","source":{"type":"url","url":"https://x"}}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":false,"content":[{"type":"text","text":"ok"}]}]},{"role":"system","content":"now"}]}`, `"input":{"type":"image","source":{"type":"url","url":"https://x"}}`},
		"chat": {chatPath, `{"model":"m-1","max_tokens":9,"n":1,"store":false,"tools":[{"type":"function","function":{"name":"f","parameters":{},"strict":true}}],"tool_choice":"auto",
			"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]},
				{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"y"}]}`, `"max_tokens":9`},
		"chat without a limit": {chatPath, askChat, `"max_completion_tokens":50`},
		"responses": {responsesPath, `{"model":"m-1","instructions":"i","include":["reasoning.encrypted_content"],"reasoning":{"effort":"high","summary":"auto"},"tools":[{"type":"function","name":"f","parameters":{}},{"type":"custom","name":"patch","format":{"type":"grammar","syntax":"lark","definition":"x"}}],
			"input":[{"role":"user","content":"x"},{"type":"reasoning","summary":[],"encrypted_content":"e"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"y"}]}`, `"store":false`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, writes(200, nil, `{}`))
			r.books.allow = 50
			if a := r.post(test.path, test.body); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			if _, body := r.sent(); !strings.Contains(body, test.want) || !json.Valid([]byte(body)) {
				t.Errorf("the provider was sent %s", body)
			}
		})
	}
}

func TestInputIsReservedByItsBytes(t *testing.T) { // X4d
	long := strings.Repeat("x", 3000)
	for name, test := range map[string]struct {
		path, body string
		want       int64 // beside the text around it, which is below 250 bytes
	}{
		"text":                   {messagesPath, message(`{"type":"text","text":"` + long + `"}`), 3000 + 1024},
		"an image":               {messagesPath, message(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + long + `"}}`), 5000 + 1024},
		"an image of a tool":     {messagesPath, message(`{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + long + `"}}]}`), 5000 + 1024},
		"what looks like one":    {messagesPath, message(`{"type":"tool_use","id":"t","name":"n","input":{"type":"image","source":{"data":"` + long + `"}}}`), 3000 + 1024},
		"an image in chat":       {chatPath, chatMessage(`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + long + `"}}`), 50_000 + 1024},
		"an image in responses":  {responsesPath, item(`{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + long + `"}]}`), 50_000 + 1024},
		"spelled with few bytes": {messagesPath, message(`{"type":"text","text":"` + strings.Repeat(`\u00e9`, 1500) + `"}`), 3000 + 1024},
	} {
		r := newRig(t, writes(200, nil, `{}`))
		r.post(test.path, test.body)
		if got := r.books.begun[0].Input; got < test.want || got > test.want+250 {
			t.Errorf("%s: %d reserved, want %d and a little", name, got, test.want)
		}
	}
}

func TestThinkingHasToFit(t *testing.T) { // X4d
	r := newRig(t, writes(200, nil, `{}`))
	r.post(messagesPath, `{"model":"m-1","max_tokens":5000,"thinking":{"type":"enabled","budget_tokens":2000},"messages":[]}`)
	r.post(responsesPath, askResponses)
	if a, b := r.books.begun[0], r.books.begun[1]; a.Output != 5000 || a.Least != 2001 || b.Output != 32_000 || b.Least != 16 {
		t.Errorf("%+v, %+v", a, b)
	}
}

func TestCountingTokensIsNotMetered(t *testing.T) { // X4c
	r := newRig(t, writes(200, nil, `{"input_tokens":42}`))
	a := r.post("/v1/messages/count_tokens", `{"model":"m-1","messages":[]}`)
	if a.status != 200 || a.body != `{"input_tokens":42}` || !r.books.begun[0].Free {
		t.Errorf("%+v, %+v", a, r.books.begun)
	}
	if _, body := r.sent(); body != `{"model":"m-1","messages":[]}` {
		t.Errorf("sent %s", body)
	}
}

func TestABudgetThatIsUsedUpIsSaidInTheFormOfTheAPI(t *testing.T) { // X4f
	r := newRig(t, writes(200, nil, `{}`))
	r.books.refuse = spec.Refuse(spec.BudgetExhausted, "", "output_tokens")
	if a := r.post(messagesPath, askMessages); a.status != 402 || a.body != `{"error":{"message":"budget-exhausted: output_tokens","type":"billing_error"},"type":"error"}` {
		t.Errorf("%+v", a)
	}
	if a := r.post(chatPath, askChat); a.status != 402 || a.body != `{"error":{"code":"budget-exhausted","message":"budget-exhausted: output_tokens","param":null,"type":"insufficient_quota"}}` {
		t.Errorf("%+v", a)
	}
	r.books.refuse = errNothing // not a word of ours: it leaves without its text
	if a := r.post(chatPath, askChat); a.status != 500 || strings.Contains(a.body, "nothing") {
		t.Errorf("%+v", a)
	}
}

func TestOnlyWhoHasTheTokenOfTheRunComesIn(t *testing.T) { // X4b
	for name, change := range map[string]func(*http.Request){
		"none":                   func(q *http.Request) { q.Header.Del("X-Api-Key") },
		"another":                func(q *http.Request) { q.Header.Set("X-Api-Key", "sbm_x") },
		"the owner's":            func(q *http.Request) { q.Header.Set("X-Api-Key", ownersKey) },
		"a page":                 func(q *http.Request) { q.Header.Set("Origin", "https://example.org") },
		"a page of our own":      func(q *http.Request) { q.Header.Set("Origin", "http://127.0.0.1") },
		"a name that leads here": func(q *http.Request) { q.Host = "evil.example.org" },
		"a query":                func(q *http.Request) { q.URL.RawQuery = "x=1" },
	} {
		r := newRig(t, writes(200, nil, `{}`))
		if a := r.post(messagesPath, askMessages, change); a.status != 403 {
			t.Errorf("%s: %+v", name, a)
		}
		if q, _ := r.sent(); q != nil {
			t.Errorf("%s: it left", name)
		}
	}
	r := newRig(t, writes(200, nil, `{}`))
	bearer := func(q *http.Request) {
		q.Header.Del("X-Api-Key")
		q.Header.Set("Authorization", "Bearer "+r.token)
		q.URL.RawQuery = "beta=true"
	}
	if a := r.post(messagesPath, askMessages, bearer); a.status != 200 {
		t.Errorf("%+v", a)
	}
	for _, path := range []string{"/v1/messages/batches", "/v1/files", "/v1/batches", "/v1/embeddings", "/v1/messages/", "/v1//messages", "/v1/messages/../files", "/"} {
		if a := r.post(path, askMessages); a.status != 404 {
			t.Errorf("%s: %+v", path, a)
		}
	}
}

// The provider gets the key and nothing of the agent's headers; the agent gets neither the key nor what is said of the account.
func TestTheKeyReachesTheProviderAndNobodyElse(t *testing.T) { // X4g
	for name, provider := range map[string]http.HandlerFunc{
		"in an answer":           writes(200, map[string]string{"X-Request-Id": ownersKey, "Set-Cookie": ownersKey, "Anthropic-Organization-Id": "org"}, `{"type":"message","content":"`+ownersKey+`"}`),
		"in an error":            writes(400, map[string]string{"Retry-After": ownersKey}, `{"error":{"type":"`+ownersKey+`","code":"`+ownersKey+`","message":"bad `+ownersKey+`"}}`),
		"in a refusal":           writes(401, nil, `{"error":{"type":"authentication_error","message":"invalid key sk-owner-0123"}}`),
		"in a stream":            writes(200, stream, "data: "+ownersKey+"\n\n"),
		"in an answer's address": writes(307, map[string]string{"Location": "http://x/" + ownersKey}),
	} {
		for _, ask := range []struct{ path, body string }{{messagesPath, askMessages}, {chatPath, askChat}} {
			r := newRig(t, provider)
			a := r.post(ask.path, ask.body, func(q *http.Request) {
				q.Header.Set("Anthropic-Beta", "interleaved-thinking-2025-05-14, mcp-client-2025-04-04,files-api-2025-04-14")
				q.Header.Set("Openai-Organization", "agents")
				q.Header.Set("Cookie", "c=1")
			})
			var all strings.Builder
			a.header.Write(&all)
			if seen := all.String() + a.body; strings.Contains(seen, "sk-owner") || strings.Contains(seen, "org") || strings.Contains(seen, "Set-Cookie") {
				t.Errorf("%s: the agent gets %s", name, seen)
			}
			if strings.Contains(r.log.String(), "sk-owner") {
				t.Errorf("%s: the log has the key: %s", name, r.log)
			}
			q, _ := r.sent()
			if ask.path == messagesPath && (q.Header.Get("X-Api-Key") != ownersKey || q.Header.Get("Anthropic-Beta") != "interleaved-thinking-2025-05-14" || q.Header.Get("Authorization") != "") {
				t.Errorf("%s: the provider got %v", name, q.Header)
			}
			if ask.path == chatPath && (q.Header.Get("Authorization") != "Bearer "+ownersKey || q.Header.Get("X-Api-Key") != "") {
				t.Errorf("%s: the provider got %v", name, q.Header)
			}
			for h := range q.Header {
				switch h {
				case "X-Api-Key", "Authorization", "Content-Type", "Content-Length", "Accept", "Accept-Encoding", "User-Agent", "Anthropic-Version", "Anthropic-Beta":
				default:
					t.Errorf("%s: the provider got the header %s", name, h)
				}
			}
		}
	}
}

func TestTheOwnersModelsAreListed(t *testing.T) { // X4c
	r := newRig(t, writes(200, nil, `{}`))
	get := func(anthropic bool) string {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.at+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+r.token)
		if anthropic {
			q.Header.Set("Anthropic-Version", "2023-06-01")
		}
		res, err := http.DefaultClient.Do(q)
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
	if got := get(true); !strings.Contains(got, `"first_id":"m-1","has_more":false,"last_id":"m-2"`) {
		t.Error(got)
	}
	if got := get(false); !strings.Contains(got, `{"created":0,"id":"m-2","object":"model","owned_by":"owner"}`) {
		t.Error(got)
	}
	if q, _ := r.sent(); q != nil {
		t.Error("the provider was asked")
	}
}

func TestAnAgentInItsSessionComesWithItsOwnToken(t *testing.T) { // X4b
	r := newRig(t, writes(200, nil, messageBody))
	desk := httptest.NewServer(r.door.Sessions())
	defer desk.Close()
	r.at = desk.URL
	for _, test := range []struct {
		path, token string
		status      int
		task        string
	}{
		{messagesPath, "sba_scribe", 200, "scribe/"},
		{"/task/QW7F" + messagesPath, "sba_scribe", 200, "scribe/QW7F"},
		{"/task/QW7F/v1/files", "sba_scribe", 404, ""},
		{"/task/QW7F", "sba_scribe", 404, ""},
		{messagesPath, "sba_idle", 403, ""},
		{messagesPath, r.token, 403, ""},
	} {
		r.books.begun = nil
		a := r.post(test.path, askMessages, func(q *http.Request) { q.Header.Set("X-Api-Key", test.token) })
		if a.status != test.status {
			t.Errorf("%s %s: %+v", test.path, test.token, a)
		}
		if test.task != "" && (len(r.books.begun) != 1 || r.books.begun[0].Run != gateway.ModelRun{Task: test.task, Run: 1}) {
			t.Errorf("%s: %+v", test.path, r.books.begun)
		}
	}
}

func TestTooMuchIsTooMuch(t *testing.T) { // X4c, X4g
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, messageStart)
		for chunk := strings.Repeat("x", 1<<20); ; { // a line without an end
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	})
	if a := r.post(messagesPath, message(`{"type":"text","text":"`+strings.Repeat("x", 8<<20)+`"}`)); a.status != 413 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.post(messagesPath, askStream); a.err == nil {
		t.Errorf("the agent sees an answer that is whole: %d bytes", len(a.body))
	}
	if got := r.charged(); got != (gateway.ModelUse{Input: 15, Output: unknown}) {
		t.Errorf("charged %+v", got)
	}
}

// Whatever is let through is written as it was read.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{askMessages, askStream, askChat, askResponses, `{"a":[1,2.5,true,null,"\u0000é"],"b":{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { roundTrip(t, b) })
}

func roundTrip(t *testing.T, b []byte) {
	once, err := llmdoor.Rewritten(b)
	if err != nil {
		return
	}
	twice, err := llmdoor.Rewritten(once)
	if err != nil || string(once) != string(twice) {
		t.Errorf("%q becomes %q, then %q, %v", b, once, twice, err)
	}
	var x, y any
	if json.Unmarshal(b, &x) != nil || json.Unmarshal(once, &y) != nil || !reflect.DeepEqual(x, y) {
		t.Errorf("%q and %q are not the same", b, once)
	}
}

func TestACallGoesToNobodyButWhomTheOwnerSaidYesTo(t *testing.T) { // X4h
	r := newRig(t, writes(200, nil, messageBody))
	r.books.host = "api.example.org"
	if a := r.post(messagesPath, askMessages); a.status != 503 {
		t.Errorf("%+v", a)
	}
	if q, _ := r.sent(); q != nil || r.charged() != (gateway.ModelUse{}) {
		t.Error("it left")
	}
}
