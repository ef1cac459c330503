package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sealbridge/gateway"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
)

// toolRecord tells a test binary to be an MCP server that writes down what its
// tool received, and answers when a file says so.
const toolRecord = "SEALBRIDGE_TEST_RECORD"

func recordCalls(at string) {
	s := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "work", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		f, err := os.OpenFile(at, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if _, err := fmt.Fprintf(f, "%s\n", r.Params.Arguments); err != nil {
			return nil, err
		}
		for {
			if _, err := os.Stat(at + ".go"); err == nil {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "worked"}}}, nil
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(10 * time.Millisecond): // another process makes the file
			}
		}
	})
	s.Run(context.Background(), &mcp.StdioTransport{}) //nolint:errcheck // it ends with its gateway
	os.Exit(0)
}

// slowly is a demo in which Ben's agent calls one tool of Ann's that answers only
// when the test lets it; wait returns when the tool has received n calls.
func slowly(t *testing.T) (d *demo, record string, wait func(n int) []string) {
	t.Helper()
	d, _ = story(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	x, err := runner.New(ctx, runner.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if !x.Ports() {
		const why = "granted tools come into a box with a network of its own, which this machine does not have"
		if os.Getenv("CI") != "" && runtime.GOOS == "linux" {
			t.Fatal(why)
		}
		t.Skip("left out: " + why)
	}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.stopAll)
	record = filepath.Join(d.dir, "record")
	for _, step := range []func(context.Context) error{d.startRelay, d.identities, func(context.Context) error { return d.lendSlow(record) }, d.gateways, d.invite, d.words} {
		if err := step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	tool, err := d.caller()
	if err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(d.dir, "agent", "agent.sh")
	if err := os.MkdirAll(filepath.Dir(agent), 0o755); err != nil {
		t.Fatal(err)
	}
	script := `cat >/dev/null
out=$(SEALBRIDGE_RUN=1 "$1" call slow.work '{"text":"<once>"}' 2>&1) && state=done || state=$(printf %s "$out" | tr -d '"\\' | tr '\n' ' ')
printf '{"output":{"state":"%s"},"evidence":[{"criterion":"ac_1","text":"called"}]}' "$state"
`
	if err := os.WriteFile(agent, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := d.must(ctx, "ben", "agent", "add", "coder", "--read-only", filepath.Dir(agent), "--read-only", filepath.Dir(tool), "--", "/bin/sh", agent, tool); err != nil {
		t.Fatal(err)
	}
	draft := filepath.Join(d.dir, "task.yaml")
	if err := os.WriteFile(draft, []byte("title: Call once\ngoal: Call slow.work\ncheck: [schema]\ngates: [contract]\nbudget: {time: 5m}\ngrants:\n  - {resource: mcp://slow/work, tools: [slow.work], uses: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := ask[gateway.Proposed](ctx, d, "ann", "propose", draft, "--to", "ben")
	if err != nil {
		t.Fatal(err)
	}
	d.task = p.Task
	for _, who := range []string{"ann", "ben"} {
		if err := d.gate(ctx, who, manifest.ContractGate); err != nil {
			t.Fatal(err)
		}
	}
	wait = func(n int) (lines []string) {
		t.Helper()
		err := eventually(ctx, fmt.Sprintf("%d calls", n), func() (bool, error) {
			b, err := os.ReadFile(record)
			lines = strings.Split(strings.TrimSpace(string(b)), "\n")
			return err == nil && len(lines) >= n, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	return d, record, wait
}

// lendSlow gives Ann the recording server.
func (d *demo) lendSlow(record string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	secrets := filepath.Join(d.dir, "ann", "slow.env")
	if err := os.WriteFile(secrets, []byte(toolRecord+"="+record+"\n"), 0o600); err != nil {
		return err
	}
	for name, edit := range map[string]func(string) string{
		"config.yaml": func(s string) string {
			return s + fmt.Sprintf("tools: {slow: {command: [%q], secrets: slow.env}}\n", self)
		},
		"policy.yaml": func(s string) string {
			return strings.Replace(s, "tools: []", "tools: [{match: slow.work, resource: 'mcp://slow/work', effect: none, then: allow}]", 1)
		},
	} {
		at := filepath.Join(d.dir, "ann", name)
		b, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		if err := os.WriteFile(at, []byte(edit(string(b))), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// ended waits for the outcome and returns what Ben's agent said, and what is left of the grant.
func (d *demo) ended(t *testing.T) (state string, left int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var res struct {
		Output struct {
			State string `json:"state"`
		} `json:"output"`
	}
	err := eventually(ctx, "an end", func() (bool, error) {
		out, code := d.cli(ctx, "ann", "task", "result", d.task, "-o", filepath.Join(d.dir, "out"), "--json")
		return code == 0 && json.Unmarshal([]byte(out), &res) == nil, nil
	})
	if err != nil {
		out, _ := d.cli(context.Background(), "ann", "task", "show", d.task)
		t.Fatalf("%v\n%s\n%s", err, out, d.logs())
	}
	ls, err := ask[[]gateway.Lent](ctx, d, "ann", "tools", "lent", "--all")
	if err != nil || len(ls) != 1 {
		t.Fatalf("%+v, %v", ls, err)
	}
	return res.Output.State, ls[0].Left
}

// TestAGatewayThatIsKilledBetweenBeginAndEndAnswersUnknown kills Ann's gateway
// while her tool works: the tool is not called again, and the use is charged.
func TestAGatewayThatIsKilledBetweenBeginAndEndAnswersUnknown(t *testing.T) { // B1, C4
	d, record, wait := slowly(t)
	if got := wait(1); got[0] != `{"text":"<once>"}` {
		t.Errorf("the tool received %q", got)
	}
	d.kill("ann")
	if err := os.WriteFile(record+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.serve(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	state, left := d.ended(t)
	if !strings.Contains(state, "nobody knows") || left != 2 || len(wait(1)) != 1 {
		t.Errorf("the agent heard %q, %d uses are left, the tool received %q", state, left, wait(1))
	}
}

// TestACallersGatewayThatIsKilledLosesNoUseAndDoublesNone kills Ben's gateway
// while Ann's tool works: his agent's next run makes another call, and each was counted.
func TestACallersGatewayThatIsKilledLosesNoUseAndDoublesNone(t *testing.T) { // B1, C5
	d, record, wait := slowly(t)
	wait(1)
	d.kill("ben")
	if err := os.WriteFile(record+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.serve(t.Context(), "ben"); err != nil {
		t.Fatal(err)
	}
	state, left := d.ended(t)
	if calls := int64(len(wait(1))); state != "done" || left != 3-calls {
		t.Errorf("the agent heard %q, %d uses are left, the tool received %q", state, left, wait(1))
	}
}
