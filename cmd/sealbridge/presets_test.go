package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway/home"
	"sealbridge/gateway/runner"
	"sealbridge/spec"
)

// fakeClaude makes this test's own program `claude`: it reads a prompt, calls
// the model once as the real one does, and says the model's words.
const fakeClaude = "SEALBRIDGE_FAKE_CLAUDE"

func init() {
	if os.Getenv(fakeClaude) == "" {
		return
	}
	prompt, _ := io.ReadAll(os.Stdin)
	body, _ := json.Marshal(map[string]any{"model": "claude-test", "max_tokens": 32000, "stream": true, "messages": []any{map[string]string{"role": "user", "content": string(prompt)}}})
	q, _ := http.NewRequest(http.MethodPost, os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages?beta=true", bytes.NewReader(body))
	q.Header.Set("X-Api-Key", os.Getenv("ANTHROPIC_API_KEY"))
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	answer, _ := io.ReadAll(res.Body)
	text := ""
	for line := range strings.Lines(string(answer)) {
		var e struct{ Delta struct{ Text string } }
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &e) == nil {
			text += e.Delta.Text
		}
	}
	out, _ := json.Marshal(map[string]any{"type": "result", "subtype": "success", "is_error": res.StatusCode != 200, "result": text + string(answer[:min(len(answer), 300*(res.StatusCode/400))])})
	os.Stdout.Write(out)
	os.Exit(0)
}

// claudeIn puts the fake where PATH finds it, as a package manager would, and a
// provider that it calls; seen are the provider's requests.
func claudeIn(t *testing.T) (at string, seen func() []*http.Request) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, pkg := filepath.Join(dir, "bin"), filepath.Join(dir, "lib", "claude-code", "cli")
	for _, d := range []string{bin, pkg} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{
		filepath.Join(pkg, "claude.bin"):                   raw,
		filepath.Join(pkg, "claude"):                       []byte("#!/usr/bin/env sh\n" + fakeClaude + "=1 exec \"$(dirname \"$0\")/claude.bin\" \"$@\"\n"),
		filepath.Join(dir, "lib/claude-code/package.json"): []byte("{}"),
	} {
		if err := os.WriteFile(path, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(pkg, "claude"), filepath.Join(bin, "claude")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	var all []*http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		all = append(all, r)
		w.Header().Set("Content-Type", "text/event-stream")
		result, _ := json.Marshal("{\"output\":{\"lines\":3},\"evidence\":[{\"criterion\":\"ac_1\",\"text\":\"counted\"}]}")
		fmt.Fprintf(w, "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":50,\"output_tokens\":1}}}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":%s}}\n\n", result)
		io.WriteString(w, "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":20}}\n\ndata: {\"type\":\"message_stop\"}\n\n")
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []*http.Request { return all }
}

// withKey gives a home the provider, with a key that is found nowhere else.
func withKey(t *testing.T, do func(args ...string), at string) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("sk-owners-key-0123456789\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	do("model", "add", "anthropic", "--url", at, "--key-file", key, "--model", "claude-*")
}

func TestAPresetWorksInItsBox(t *testing.T) { // X4, X4b, A14
	at, seen := claudeIn(t)
	dir := filepath.Join(t.TempDir(), "home")
	var out bytes.Buffer
	ben := func(args ...string) {
		t.Helper()
		out.Reset()
		var errs bytes.Buffer
		if code := run(t.Context(), append([]string{"--home", dir}, args...), strings.NewReader(""), &out, &errs); code != 0 {
			t.Fatalf("%v: exit %d\n%s%s", args, code, out.String(), errs.String())
		}
	}
	ben("init", "--name", "Ben", "--relay", "ws://127.0.0.1:1/z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2", "--unsealed")
	withKey(t, ben, at)
	ben("agent", "add", "coder", "--preset", "claude-code")
	ben("agent", "test", "coder", "--json")
	var got struct {
		Result                                struct{ Output struct{ Lines int } }
		ModelCalls, InputTokens, OutputTokens int64
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Result.Output.Lines != 3 || got.ModelCalls != 1 || got.InputTokens != 50 || got.OutputTokens != 20 {
		t.Errorf("%s, %v", out.String(), err)
	}
	q := seen()[0]
	b, err := io.ReadAll(q.Body)
	if err != nil || q.Header.Get("X-Api-Key") != "sk-owners-key-0123456789" || !strings.Contains(string(b), `"max_tokens":10000`) || !strings.Contains(string(b), "Answer with any result.") {
		t.Errorf("the provider got %v %s", q.Header, b)
	}
}

func TestAProgramThatIsNotInPathIsNamed(t *testing.T) { // A14
	t.Setenv("PATH", "/nowhere")
	_, err := presets["claude-code"].agent(&home.Home{}, "claude-code", nil, "")
	if spec.ReasonOf(err) != spec.NotFound || !strings.Contains(err.Error(), "claude is not in your PATH") {
		t.Errorf("%v", err)
	}
}

func TestLocatedNamesWhatAProgramNeeds(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	node := write("node/bin/node", "\x7fELF")
	script := write("npm/pkg/dist/cli.js", "#!/usr/bin/env -S node --flag\n")
	write("npm/pkg/package.json", "{}")
	binary := write("share/tool/1.0/tool", "\x7fELF")
	if err := os.Symlink(script, filepath.Join(dir, "tool")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(node))
	for _, test := range []struct {
		path     string
		command  []string
		readOnly []string
	}{
		{filepath.Join(dir, "tool"), []string{node, "--flag", script}, []string{filepath.Join(dir, "node"), filepath.Join(dir, "npm/pkg")}},
		{binary, []string{binary}, []string{filepath.Dir(binary)}},
		{write("lost", "#!/usr/bin/env nothing-here\n"), nil, nil},
	} {
		command, readOnly, err := located(test.path)
		if !slices.Equal(command, test.command) || test.command != nil && !slices.Equal(readOnly, test.readOnly) || (err != nil) != (test.command == nil) {
			t.Errorf("%s: %q, %q, %v; want %q, %q", test.path, command, readOnly, err, test.command, test.readOnly)
		}
	}
}

// The variables of each preset are ones that a box gives.
func TestPresetsAskForNothingThatABoxRefuses(t *testing.T) {
	for name, p := range presets {
		for v := range p.env {
			if err := runner.CheckEnv(v); err != nil {
				t.Errorf("%s: %s: %v", name, v, err)
			}
		}
		if p.secret != "" && runner.CheckEnv(p.secret) != nil {
			t.Errorf("%s: %s", name, p.secret)
		}
	}
}

// A task from proposal to receipt by processes as they are: the program of the
// preset calls a model by the gateway that has the key, and the key is nowhere else.
func TestATaskIsDoneByAPresetOverTheDoor(t *testing.T) { // X4, X5, B6
	at, seen := claudeIn(t)
	d, _ := story(t)
	t.Cleanup(d.stopAll)
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := d.startRelay(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.identities(ctx); err != nil {
		t.Fatal(err)
	}
	ben := func(args ...string) {
		t.Helper()
		if _, err := d.must(ctx, "ben", args...); err != nil {
			t.Fatal(err)
		}
	}
	withKey(t, ben, at)
	for _, step := range []func() error{func() error { return d.gateways(ctx) }, func() error { return d.invite(ctx) }, func() error { return d.words(ctx) }} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	ben("agent", "add", "coder", "--preset", "claude-code")
	input := filepath.Join(t.TempDir(), "sales.csv")
	if err := os.WriteFile(input, []byte("a\nb\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var p struct{ TaskID string }
	out, err := d.must(ctx, "ann", "propose", "--to", "Ben", "-m", "Count the lines", "--input", input, "--json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &p)
	}
	if err != nil {
		t.Fatal(err, out)
	}
	go d.yes(ctx)
	var task struct {
		Outcome string
		Budget  map[string]struct{ Committed int64 }
	}
	for late := time.After(time.Minute); task.Outcome == ""; {
		out, err = d.must(ctx, "ann", "task", "show", p.TaskID, "--json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &task)
		}
		if err != nil {
			t.Fatal(err, out)
		}
		select {
		case <-late:
			t.Fatalf("never ended: %s", out)
		case <-time.After(50 * time.Millisecond): // how often somebody looks
		}
	}
	if out, err = d.must(ctx, "ben", "task", "show", p.TaskID, "--json"); err == nil {
		err = json.Unmarshal([]byte(out), &task)
	}
	if err != nil || task.Outcome != "completed" || task.Budget["input_tokens"].Committed != 50 || task.Budget["output_tokens"].Committed != 20 || len(seen()) != 1 {
		t.Errorf("%s", out)
	}
	receipt, err := d.must(ctx, "ann", "receipt", p.TaskID)
	if err != nil || !strings.Contains(receipt, "metered by") || strings.Contains(receipt, "tokens claimed") {
		t.Errorf("%s, %v", receipt, err)
	}
	err = filepath.WalkDir(d.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // sockets and what goes away meanwhile
		}
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte("sk-owners-key")) {
			t.Errorf("the key stands in %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
