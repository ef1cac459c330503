package gateway_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/gateway/tools"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// recorded keeps what reached the tools of another hand.
type recorded struct {
	*shelf
	*tools.Tools
}

func (r recorded) Call(ctx context.Context, tool string, arguments jcs.Value) (jcs.Value, error) {
	if _, err := r.shelf.Call(ctx, tool, arguments); err != nil {
		return jcs.Value{}, err
	}
	return r.Tools.Call(ctx, tool, arguments)
}

// foreign starts MCP servers of others, pinned in .ci/tools. Without them CI
// fails; elsewhere the test says what it leaves out.
func foreign(t *testing.T, servers map[string][]string) recorded {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join("..", ".ci", "tools", "node_modules", ".bin"))
	if err != nil {
		t.Fatal(err)
	}
	const how = "node and `npm ci --prefix .ci/tools` are needed for the MCP servers of others"
	_, none := exec.LookPath("node")
	if _, err := os.Stat(bin); err != nil || none != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(how)
		}
		t.Skip("left out: " + how)
	}
	var all []tools.Server
	for name, argv := range servers {
		all = append(all, tools.Server{Name: name, Command: append([]string{filepath.Join(bin, argv[0])}, argv[1:]...)})
	}
	ts, err := tools.New(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ts.Close)
	return recorded{&shelf{}, ts}
}

// withRules is lent with other tools and rules.
func withRules(t *testing.T, r gateway.Tools, rules []policy.Tool, grants ...manifest.DraftGrant) (ann, ben *side, id string) {
	t.Helper()
	before := docs
	docs = rules
	defer func() { docs = before }()
	return lent(t, r, grants...)
}

func TestTheFilesystemServerOfOthersIsHeldToTheGrant(t *testing.T) { // C1, C1a, C5
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "shelf")
	for name, text := range map[string]string{"shelf/public/a.txt": "alpha", "shelf/private/c.txt": "SECRET", "outside.txt": "SECRET"} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "outside.txt"), filepath.Join(root, "public", "out.txt")); err != nil {
		t.Fatal(err)
	}
	r := foreign(t, map[string][]string{"fs": {"mcp-server-filesystem", root}})
	public := "mcp://fs" + filepath.ToSlash(root) + "/public/"
	rules := []policy.Tool{
		{Match: "fs.read_text_file", Resource: policy.Words{"mcp://fs{/path}"}, Effect: policy.Words{"none"}, Then: policy.ThenAllow},
		{Match: "fs.move_file", Resource: policy.Words{"mcp://fs{/source}", "mcp://fs{/destination}"}, Effect: policy.Words{"none"}, Then: policy.ThenAllow},
		{Match: "fs.read_multiple_files", Resource: policy.Words{"mcp://fs{/paths}"}, Effect: policy.Words{"none"}, Then: policy.ThenAllow},
	}
	_, ben, id := withRules(t, r, rules, manifest.DraftGrant{Resource: public + "*", Tools: []string{"fs.read_text_file", "fs.move_file", "fs.read_multiple_files"}, Uses: 6})
	ctx := context.Background()
	use := func(tool, arguments string, resources ...string) gateway.Used {
		t.Helper()
		u, err := ben.g.CallTool(ctx, scribe, gateway.Use{Task: id, Tool: tool, Arguments: args(t, arguments), Resources: resources})
		if err != nil {
			return gateway.Used{State: "refused", Denial: &manifest.Denial{Reason: string(spec.ReasonOf(err))}}
		}
		ben.until("answered", func() bool {
			u, err = ben.g.CallTool(ctx, scribe, gateway.Use{Task: id, Call: u.Call})
			return err == nil && u.State != "sent"
		})
		return u
	}
	at := filepath.ToSlash(root)
	if u := use("fs.read_text_file", `{"path":"`+at+`/public/a.txt"}`); u.State != "done" || !strings.Contains(u.Result.String(), "alpha") || u.UsesLeft != 5 {
		t.Fatalf("%+v %+v", u, u.Denial)
	}
	if u := use("fs.read_multiple_files", `{"paths":["`+at+`/public/a.txt","`+at+`/public/a.txt"]}`); u.State != "done" || u.UsesLeft != 4 {
		t.Errorf("%+v %+v", u, u.Denial)
	}
	// a link of Ann's own that leads out of the folder: her server says no, in its own words
	if u := use("fs.read_text_file", `{"path":"`+at+`/public/out.txt"}`); u.State != "done" || !strings.Contains(u.Result.String(), `"isError":true`) || strings.Contains(u.Result.String(), "SECRET") || u.UsesLeft != 3 {
		t.Errorf("%+v %+v", u, u.Denial)
	}
	reached := len(r.calls())
	claim := public + "a.txt"
	for _, c := range []struct{ tool, args string }{
		{"fs.read_text_file", `{"path":"` + at + `/private/c.txt"}`},
		{"fs.read_text_file", `{"path":"` + at + `/public/../private/c.txt"}`},
		{"fs.read_text_file", `{"path":"` + at + `/public/./../private/c.txt"}`},
		{"fs.read_text_file", `{"path":"` + at + `/public//../private/c.txt"}`},
		{"fs.read_text_file", `{"path":"` + at + `/public/%2e%2e/private/c.txt"}`},
		{"fs.read_text_file", `{"path":"` + at + `/public\\..\\private\\c.txt"}`},
		{"fs.read_text_file", `{"path":"public/a.txt"}`},
		{"fs.read_text_file", `{"path":"~/x"}`},
		{"fs.read_text_file", `{"path":"/etc/passwd"}`},
		{"fs.read_text_file", `{"path":"file://` + at + `/private/c.txt"}`},
		{"fs.read_text_file", `{"path":"//` + at + `/public/a.txt"}`},
		{"fs.read_text_file", `{"path":"` + at + `/public/a.txt/"}`},
		{"fs.read_text_file", `{"path":["` + at + `/public/a.txt","` + at + `/private/c.txt"]}`},
		{"fs.read_text_file", `{"Path":"` + at + `/private/c.txt","path":7}`},
		{"fs.read_text_file", `{}`},
		{"fs.read_multiple_files", `{"paths":["` + at + `/public/a.txt","` + at + `/private/c.txt"]}`},
		{"fs.read_multiple_files", `{"paths":[]}`},
		{"fs.move_file", `{"source":"` + at + `/private/c.txt","destination":"` + at + `/public/c.txt"}`},
		{"fs.write_file", `{"path":"` + at + `/public/a.txt","content":"x"}`},
	} {
		u := use(c.tool, c.args, claim)
		if u.State != "refused" || u.Denial.Reason != string(spec.CapabilityDenied) {
			t.Errorf("%s %s: %+v %+v", c.tool, c.args, u, u.Denial)
		}
	}
	if got := r.calls(); len(got) != reached {
		t.Errorf("of what was refused the server received %q", got[reached:])
	}
	for i := range 4 { // counts hold: three are left
		u := use("fs.read_text_file", `{"path":"`+at+`/public/a.txt"}`)
		if want := map[bool]string{true: "done", false: "refused"}[i < 3]; u.State != want {
			t.Errorf("use %d: %s %+v, want %s", i, u.State, u.Denial, want)
		}
	}
}

func TestTheEverythingServerOfOthersIsHeldToTheConstraints(t *testing.T) { // C3, C5
	r := foreign(t, map[string][]string{"all": {"mcp-server-everything"}})
	rules := []policy.Tool{
		{Match: "all.get-sum", Resource: policy.Words{"mcp://all/sum"}, Effect: policy.Words{"none"}, Then: policy.ThenAllow},
		{Match: "all.echo", Resource: policy.Words{"mcp://all/echo"}, Defaults: map[string]any{"message": "nothing was said"}, Effect: policy.Words{"none"}, Then: policy.ThenAllow},
	}
	small := map[string]any{"properties": map[string]any{"a": map[string]any{"type": "integer", "maximum": 10}, "b": map[string]any{"type": "integer", "maximum": 10}}, "required": []any{"a", "b"}, "additionalProperties": false}
	_, ben, id := withRules(t, r, rules, manifest.DraftGrant{Resource: "mcp://all/sum", Tools: []string{"all.get-sum"}, Uses: 2, Where: small},
		manifest.DraftGrant{Resource: "mcp://all/echo", Tools: []string{"all.echo"}, Uses: 5})
	if u, err := ben.call(id, "all.get-sum", `{"a":3,"b":4}`); err != nil || u.State != "done" || !strings.Contains(u.Result.String(), "7") {
		t.Fatalf("%+v, %v", u, err)
	}
	for _, a := range []string{`{"a":3,"b":11}`, `{"a":3.5,"b":1}`, `{"a":3}`, `{"a":"3","b":1}`, `{"a":3,"b":1,"c":1}`} {
		if u, err := ben.call(id, "all.get-sum", a); err == nil && (u.State != "refused" || u.Denial.Rule != "C3") {
			t.Errorf("%s: %+v %+v", a, u, u.Denial)
		}
	}
	if u, err := ben.call(id, "all.echo", `{}`); err != nil || u.State != "done" || !strings.Contains(u.Result.String(), "nothing was said") { // the table's default
		t.Errorf("%+v, %v", u, err)
	}
	if got := r.calls(); len(got) != 2 {
		t.Errorf("the server received %q", got)
	}
}
