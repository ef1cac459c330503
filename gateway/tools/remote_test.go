package tools_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"

	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sealbridge/gateway/tools"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// TestMain is also the MCP server of these tests: a program that writes down
// every line that it got, as it came, and does as the tool's name says.
func TestMain(m *testing.M) {
	if at := os.Getenv("RECORD"); at != "" {
		recorder(at)
		return
	}
	os.Exit(m.Run())
}

func recorder(at string) {
	f, err := os.OpenFile(at, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := f.WriteString(line); err != nil {
			panic(err)
		}
		var q struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			panic(err)
		}
		answer := `{}`
		switch q.Method {
		case "initialize":
			answer = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"recorder","version":"1"}}`
		case "tools/list":
			answer = `{"tools":[{"name":"echo","description":"says it back","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}`
		case "tools/call":
			switch q.Params.Name {
			case "crash":
				os.Exit(3)
			case "silent":
				continue
			case "large":
				answer = `{"content":[{"type":"text","text":"` + strings.Repeat("x", 17<<20) + `"}]}`
			case "odd":
				answer = `{"content":[],"structuredContent":{"n":123456789012345678901234567890}}`
			case "error":
				answer = `{"content":[{"type":"text","text":"no such row"}],"isError":true}`
			case "env":
				answer = fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, strings.Join(os.Environ(), " "))
			default:
				answer = `{"content":[{"type":"text","text":"fine"}],"structuredContent":{"b":1,"a":[2.50]}}`
			}
		case "server/discover":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", q.ID)
			continue
		}
		if q.ID != nil {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", q.ID, answer)
		}
	}
}

func recording(t *testing.T, timeout time.Duration) (all *tools.Tools, record string) {
	t.Helper()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	record = filepath.Join(t.TempDir(), "record")
	t.Setenv("SEALBRIDGE_OWN_SECRET", "not for tools")
	all, err = tools.New([]tools.Server{{Name: "rec", Command: []string{me}, Secrets: []string{"RECORD=" + record}, Timeout: timeout}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Close)
	return all, record
}

func value(t *testing.T, s string) jcs.Value {
	t.Helper()
	v, err := jcs.Canonicalize([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheToolReceivesTheVeryBytesThatWereChecked(t *testing.T) {
	all, record := recording(t, 0)
	for _, args := range []string{`{}`, `{"a":"<b>&</b>","z":"\u2028\u2029 \u0001 ü \ud83d\ude00"}`, `{"n":[0,1e-7,0.1,-5],"o":{"y":null,"x":true}}`, `{"s":"\"\\/"}`} {
		v := value(t, args)
		got, err := all.Call(t.Context(), "rec.echo", v)
		if err != nil || got.String() != `{"content":[{"text":"fine","type":"text"}],"structuredContent":{"a":[2.5],"b":1}}` {
			t.Fatalf("%v, %v", got, err)
		}
		b, err := os.ReadFile(record)
		if err != nil || !strings.Contains(string(b), `"arguments":`+v.String()) {
			t.Errorf("the tool got %s, want the bytes %s (%v)", b, v, err)
		}
	}
}

func TestAServerSaysWhatItHas(t *testing.T) {
	all, _ := recording(t, 0)
	os_, err := all.Offers(t.Context(), "rec")
	if err != nil || len(os_) != 1 || os_[0].Name != "rec.echo" || !os_[0].ReadOnly || os_[0].Input.String() != `{"type":"object"}` {
		t.Errorf("%+v, %v", os_, err)
	}
	if _, err := all.Offers(t.Context(), "none"); spec.ReasonOf(err) != spec.NotFound {
		t.Error(err)
	}
}

func TestWhatNobodyKnowsTheEndOfMayHaveBeenSent(t *testing.T) {
	all, _ := recording(t, 300*time.Millisecond)
	for _, c := range []struct {
		tool string
		sent bool
	}{{"rec.silent", true}, {"rec.large", true}, {"none.echo", false}} {
		_, err := all.Call(t.Context(), c.tool, jcs.EmptyObject)
		if err == nil || tools.Sent(err) != c.sent {
			t.Errorf("%s: %v, sent %t, want %t", c.tool, err, tools.Sent(err), c.sent)
		}
	}
}

func TestTheOwnNoOfAToolIsAnAnswer(t *testing.T) {
	all, _ := recording(t, 0)
	for tool, want := range map[string]string{"rec.error": "no such row", "rec.odd": "cannot be signed"} {
		got, err := all.Call(t.Context(), tool, jcs.EmptyObject)
		if err != nil || !strings.Contains(got.String(), want) || !strings.Contains(got.String(), `"isError":true`) {
			t.Errorf("%s: %v, %v", tool, got, err)
		}
	}
}

func TestAServerThatCrashedIsStartedAgainAfterAPause(t *testing.T) {
	all, record := recording(t, 0)
	if _, err := all.Call(t.Context(), "rec.crash", jcs.EmptyObject); !tools.Sent(err) {
		t.Fatalf("a crash in a call: %v", err)
	}
	if _, err := all.Call(t.Context(), "rec.echo", jcs.EmptyObject); tools.Sent(err) || err == nil {
		t.Fatalf("in the pause: %v", err)
	}
	for end := time.Now().Add(30 * time.Second); ; { // the pause is a second, and the program a real one
		if _, err := all.Call(t.Context(), "rec.echo", jcs.EmptyObject); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(record)
	if err != nil || strings.Count(string(b), `"method":"initialize"`) != 2 {
		t.Errorf("%s, %v", b, err)
	}
}

func TestAServerSeesItsOwnSecretsAndNothingOfOurs(t *testing.T) {
	all, record := recording(t, 0)
	got, err := all.Call(t.Context(), "rec.env", jcs.EmptyObject)
	if err != nil || strings.Contains(got.String(), "SEALBRIDGE_OWN_SECRET") || !strings.Contains(got.String(), "RECORD="+record) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAServerThatIsTakenAwayEnds(t *testing.T) {
	all, _ := recording(t, 0)
	if _, err := all.Call(t.Context(), "rec.echo", jcs.EmptyObject); err != nil {
		t.Fatal(err)
	}
	if err := all.Use(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := all.Call(t.Context(), "rec.echo", jcs.EmptyObject); tools.Sent(err) || err == nil {
		t.Errorf("%v", err)
	}
}

func TestAServerBehindAnAddressGetsTheOwnersHeadersAndNobodyElseDoes(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("sent on to %s with %v", r.Host, r.Header)
	}))
	defer elsewhere.Close()
	var body string
	s := mcp.NewServer(&mcp.Implementation{Name: "far", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "say", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		body = string(r.Params.Arguments)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "heard"}}}, nil
	})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/away":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case r.Header.Get("Authorization") != "Bearer x":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			h.ServeHTTP(w, r)
		}
	}))
	defer srv.Close()
	all, err := tools.New([]tools.Server{{Name: "far", URL: srv.URL, Secrets: []string{"Authorization: Bearer x"}}, {Name: "no", URL: srv.URL},
		{Name: "away", URL: srv.URL + "/away", Secrets: []string{"Authorization: Bearer x"}}, {Name: "clear", URL: "http://example.org"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	got, err := all.Call(t.Context(), "far.say", value(t, `{"b":"<","a":1}`))
	if err != nil || !strings.Contains(got.String(), "heard") || body != `{"a":1,"b":"<"}` {
		t.Errorf("%v, %v; the tool got %s", got, err, body)
	}
	for _, tool := range []string{"no.say", "away.say", "clear.say"} {
		if got, err := all.Call(t.Context(), tool, jcs.EmptyObject); err == nil || tools.Sent(err) {
			t.Errorf("%s: %v, %v", tool, got, err)
		}
	}
}

func TestAServerIsOneThing(t *testing.T) {
	for _, s := range []tools.Server{{}, {Name: "a"}, {Name: "a", Files: "/x", URL: "https://y"}, {Name: "A", Files: "/x"}, {Name: "a.b", Files: "/x"}, {Name: "a", Files: "/x", Timeout: time.Hour}} {
		if _, err := tools.New([]tools.Server{s}, nil); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
