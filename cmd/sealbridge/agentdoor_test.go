package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
)

// asker is a demo with an agent of Ann's that asks: what its client starts, and its token.
func asker(t *testing.T) (d *demo, entry serverEntry) {
	t.Helper()
	d, _ = story(t)
	t.Cleanup(d.stopAll)
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, step := range []func(context.Context) error{d.startRelay, d.identities, d.gateways, d.invite, d.words, d.agent} {
		if err := step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var added struct {
		Entry serverEntry `json:"entry"`
	}
	out, err := d.must(ctx, "ann", "agent", "add", "claude", "--client", "claude-code", "--binary", self, "--json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &added)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d, added.Entry
}

// client runs a program that comes by the agents' door.
func (e serverEntry) client(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), runAsSelf+"=1", tokenEnv+"="+e.Env[tokenEnv])
	return cmd
}

// yes says yes to whatever is asked on both sides until the end of ctx.
func (d *demo) yes(ctx context.Context) {
	for ctx.Err() == nil {
		for _, who := range []string{"ann", "ben"} {
			out, err := d.must(ctx, who, "gate", "list", "--json")
			var asks []struct {
				ID string `json:"askId"`
			}
			if err != nil || json.Unmarshal([]byte(out), &asks) != nil {
				continue
			}
			for _, a := range asks {
				d.cli(ctx, who, "gate", "allow", a.ID)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Millisecond): // how often a person looks
		}
	}
}

func needNode(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("node is needed to run the example agent and the official SDK: install it")
		}
		t.Skip("left out, because node is not installed: the example agent and the official SDK at the agents' door")
	}
}

func TestTheExampleAgentAsksByTheRealDoor(t *testing.T) {
	needNode(t)
	d, e := asker(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	script, err := filepath.Abs(filepath.Join("..", "..", "examples", "mcp-agent", "agent.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	sales, err := filepath.Abs(filepath.Join("..", "..", "examples", "revenue", "sales.csv"))
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{script, "--to", "ben", "--goal", "Add up amount_eur per region", "--claimed-ok", "--input", sales, "--", e.Command}, e.Args...)
	if out, err := e.client(ctx, t.TempDir(), "node", args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "policy-denied: /inputs/0/file") {
		t.Fatalf("a file that may_send does not list: %v\n%s", err, out)
	}
	policy := filepath.Join(d.dir, "ann", "policy.yaml")
	text, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	allowed := strings.Replace(string(text), "may_send: []", "may_send: ["+filepath.Dir(sales)+"/*.csv]", 1)
	if err := os.WriteFile(policy, []byte(allowed), 0o600); err != nil {
		t.Fatal(err)
	}
	var widens struct { // G12: what permits more needs the owner's yes
		Agree string `json:"differenceDigest"`
	}
	if diff, _ := d.cli(ctx, "ann", "policy", "diff", "--json"); json.Unmarshal([]byte(diff[:strings.IndexByte(diff, '\n')+1]), &widens) != nil {
		t.Fatal(diff)
	}
	if _, err := d.must(ctx, "ann", "policy", "apply", "--yes", widens.Agree); err != nil {
		t.Fatal(err)
	}
	go d.yes(ctx)
	cursor := filepath.Join(t.TempDir(), "cursor")
	cmd := e.client(ctx, t.TempDir(), "node", append([]string{script, "--cursor", cursor}, args[1:]...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), `"totals"`) {
		t.Fatalf("%v\n%s\n%s", err, out, errs.String())
	}
	if b, err := os.ReadFile(cursor); err != nil || !strings.HasPrefix(string(b), "sb1.") {
		t.Errorf("the cursor that it keeps: %q, %v", b, err)
	}
	vs, err := ask[[]gateway.TaskView](ctx, d, "ann", "task", "list")
	if err != nil || len(vs) != 1 || vs[0].Agent != "claude" {
		t.Errorf("%+v, %v", vs, err)
	}
}

func TestTheOfficialClientDoesATaskByTheCommand(t *testing.T) {
	needNode(t)
	dir, err := filepath.Abs(filepath.Join("..", "..", ".ci", "mcp"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("run `npm ci --prefix .ci/mcp` first")
		}
		t.Skip("left out, because `npm ci --prefix .ci/mcp` was not run: the official TypeScript SDK over stdio")
	}
	d, e := asker(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	any := filepath.Join(d.dir, "revenue", "any.sh")
	if err := os.WriteFile(any, []byte("printf '{\"output\":{\"ok\":true}}'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"remove", "coder"}, {"add", "coder", "--read-only", filepath.Dir(any), "--", "/bin/sh", any}} {
		if _, err := d.must(ctx, "ben", append([]string{"agent"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	go d.yes(ctx)
	out, err := e.client(ctx, dir, "node", append([]string{"client.mjs", "stdio", e.Command}, e.Args...)...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"untrusted":true`) {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestAGatewayThatGoesAwayIsSaidOnStderr(t *testing.T) {
	d, e := asker(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := e.client(ctx, t.TempDir(), e.Command, e.Args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Fatalf("%q\n%s", lines.Text(), errs.String())
	}
	d.kill("ann")
	if lines.Scan() {
		t.Errorf("stdout has %q", lines.Text())
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitUnreachable || !strings.Contains(errs.String(), "unavailable: the gateway ended the connection") {
		t.Errorf("%v\n%s", err, errs.String())
	}
}
