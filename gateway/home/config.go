package home

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/spec"
)

// Config is config.yaml. Zero values are useful; unknown keys are refused.
type Config struct {
	Name       string           `yaml:"name"`
	Relay      string           `yaml:"relay"`                 // address / identity
	AlsoRelays []string         `yaml:"also_relays,omitempty"` // of contacts, where they have no public address (X2): address / identity
	JoinTicket string           `yaml:"join_ticket,omitempty"` // from the relay's operator, where admission is by invitation
	Agents     map[string]Agent `yaml:"agents,omitempty"`
	Models     map[string]Model `yaml:"models,omitempty"` // providers of models, by the owner's names (X4a)
	Notify     []Notify         `yaml:"notify,omitempty"`
	Keep       Keep             `yaml:"keep,omitempty"`
	Console    Console          `yaml:"console,omitempty"`
	Chips      *Chips           `yaml:"chips,omitempty"`
	Prickle    *Prickle         `yaml:"prickle,omitempty"`
	MCP        MCP              `yaml:"mcp,omitempty"`

	Tools map[string]ToolServer `yaml:"tools,omitempty"` // of ours, that contracts may grant
}

// Prickle says who is who on one Prickle server (spec/bridge.md).
type Prickle struct {
	Server   string                `yaml:"server"`
	Owner    string                `yaml:"owner"`              // our own handle
	Contacts map[string]string     `yaml:"contacts,omitempty"` // owner handle -> our name of a contact
	Deadline string                `yaml:"deadline,omitempty"`
	Budget   manifest.DraftBudget  `yaml:"budget,omitempty"`
	Sandbox  manifest.DraftSandbox `yaml:"sandbox,omitempty"`
}

// Chips says who is who in one Chips workspace (spec/bridge.md).
type Chips struct {
	Workspace string                `yaml:"workspace"`
	Lead      string                `yaml:"lead"`
	Owner     string                `yaml:"owner"`
	Contacts  map[string]string     `yaml:"contacts,omitempty"` // participant -> our name of a contact
	Locals    []string              `yaml:"locals,omitempty"`
	Worker    string                `yaml:"worker,omitempty"`
	Autonomy  int64                 `yaml:"autonomy,omitempty"`
	Deadline  string                `yaml:"deadline,omitempty"` // where a task has none
	Budget    manifest.DraftBudget  `yaml:"budget,omitempty"`
	Sandbox   manifest.DraftSandbox `yaml:"sandbox,omitempty"`
}

// Console is the owner's page in a browser, on loopback.
type Console struct {
	Port *int `yaml:"port,omitempty"` // absent: 7811; 0: any free one, which no passkey can be bound to
	Off  bool `yaml:"off,omitempty"`

	// AlsoAt is where a proxy of the owner's own shows it: https://name, no path.
	AlsoAt string `yaml:"also_at,omitempty"`
}

// MCP is the agents' door over HTTP, on loopback (A10).
type MCP struct {
	Port int `yaml:"port,omitempty"` // absent: the socket only
}

// Agent is one agent program: exec works for others, one boxed process a task;
// mcp asks for its owner.
type Agent struct {
	Kind     string   `yaml:"kind"`                // exec or mcp
	Command  []string `yaml:"command,omitempty"`   // or the arguments of a module
	Wasm     string   `yaml:"wasm,omitempty"`      // absolute path of a WASI module that is the agent
	Image    string   `yaml:"image,omitempty"`     // or a container image by its digest, NAME@sha256:…
	ReadOnly []string `yaml:"read_only,omitempty"` // further folders that the program needs to run
	Model    string   `yaml:"model,omitempty"`     // own, door or none; of exec none, of mcp own where absent
	Tools    string   `yaml:"tools,omitempty"`     // of mcp: requester, worker or all; requester where absent

	Hosts     []string          `yaml:"hosts,omitempty"`     // of exec, with model: own: what its model needs to be reached (X3)
	Providers []string          `yaml:"providers,omitempty"` // of models, with model: door; all where absent
	Env       map[string]string `yaml:"env,omitempty"`       // of exec: what its program finds in its environment
	Secrets   map[string]string `yaml:"secrets,omitempty"`   // the same, of its own login: files that nobody else may read
	Speaks    string            `yaml:"speaks,omitempty"`    // of exec: claude-code or cursor; JSON both ways where absent
	Preset    string            `yaml:"preset,omitempty"`    // what it was made from, for people
}

// Notify is one way in which a person is told that something waits: a command or an address.
type Notify struct {
	Command []string `yaml:"command,omitempty"` // {summary} and {count} are replaced
	URL     string   `yaml:"url,omitempty"`
	Private bool     `yaml:"private,omitempty"` // an address of the private network is meant
}

// Keep says how long ended work stays.
type Keep struct {
	Tasks     string `yaml:"tasks,omitempty"`
	Artifacts string `yaml:"artifacts,omitempty"`
}

const maxYAML = 1 << 20 // bytes of any file that a person writes

func readConfig(path string) (c Config, err error) {
	if err := readYAML(path, &c); err != nil {
		return c, err
	}
	for name, m := range c.Models {
		if err := m.check("/models/" + name); err != nil {
			return c, err
		}
	}
	for name, a := range c.Agents {
		if err := a.check("/agents/"+name, c.Models); err != nil {
			return c, err
		}
	}
	if err := checkTools(c.Tools); err != nil {
		return c, err
	}
	if p := c.MCP.Port; p < 0 || p > 65535 {
		return c, spec.Refuse(spec.Malformed, "/mcp/port", "1 to 65535; absent: no HTTP")
	}
	if p := c.Console.Port; p != nil && (*p < 0 || *p > 65535) {
		return c, spec.Refuse(spec.Malformed, "/console/port", "0 to 65535")
	}
	if at := c.Console.AlsoAt; at != "" {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "https" || u.Host == "" || at != "https://"+strings.ToLower(u.Host) || net.ParseIP(u.Hostname()) != nil || u.Hostname() == "localhost" {
			return c, spec.Refuse(spec.Malformed, "/console/also_at", "https:// and a name, in lower case, no path: a browser binds passkeys to it")
		}
	}
	return c, nil
}

func readPolicy(path string) (policy.Policy, error) {
	var p policy.Policy
	if err := readYAML(path, &p); err != nil {
		return p, err
	}
	if err := p.Validate(); err != nil {
		return p, place(path, err)
	}
	return p, atHome(p)
}

// ReadPolicy reads any policy file as policy.yaml is read.
func ReadPolicy(path string) (policy.Policy, error) { return readPolicy(path) }

// atHome puts the owner's home folder for ~ in what may be sent, free of links as paths are compared.
func atHome(p policy.Policy) error {
	for _, o := range p.Outgoing {
		for k, glob := range o.MaySend {
			rest, ok := strings.CutPrefix(glob, "~/")
			if !ok {
				continue
			}
			dir, err := os.UserHomeDir()
			if err != nil {
				return &spec.Error{Reason: spec.Unavailable, Limit: "no home folder for ~", Err: err}
			}
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				dir = real
			}
			o.MaySend[k] = strings.TrimSuffix(filepath.ToSlash(dir), "/") + "/" + rest
		}
	}
	return nil
}

// ReadDraft reads a draft; file names in it count from its folder.
func ReadDraft(path string) (d manifest.Draft, err error) {
	if err := readYAML(path, &d); err != nil {
		return d, err
	}
	dir := filepath.Dir(path)
	for i, in := range d.Inputs {
		if !filepath.IsAbs(in.File) {
			d.Inputs[i].File = filepath.Join(dir, in.File)
		}
		if d.Inputs[i].As == "" {
			d.Inputs[i].As = filepath.Base(in.File)
		}
	}
	for _, member := range []*any{&d.Input, &d.Output} { // a schema may stand in a file of its own
		if name, ok := (*member).(string); ok {
			var schema any
			if err := readYAML(filepath.Join(dir, name), &schema); err != nil {
				return d, err
			}
			*member = schema
		}
	}
	return d, nil
}

// ReadYAML reads any file of ours that a person writes.
func ReadYAML(path string, into any) error { return readYAML(path, into) }

func readYAML(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return &spec.Error{Reason: spec.NotFound, Path: path, Err: err}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxYAML+1))
	if err != nil {
		return disk(err)
	}
	if len(b) > maxYAML {
		return spec.Refuse(spec.TooLarge, path, "1 MiB")
	}
	return decodeYAML(path, b, into)
}

// decodeYAML is strict: one document, no anchors, aliases or tags, no unknown or double key.
func decodeYAML(path string, b []byte, into any) error {
	bad := func(err error) error {
		return &spec.Error{Reason: spec.Malformed, Path: path, Limit: firstLine(err)}
	}
	file, err := parser.ParseBytes(b, 0)
	if err != nil {
		return bad(err)
	}
	if len(file.Docs) > 1 {
		return bad(errors.New("one document"))
	}
	var tricks tricks
	for _, d := range file.Docs {
		if d.Body != nil {
			ast.Walk(&tricks, d.Body)
		}
	}
	if tricks.found != "" {
		return bad(errors.New(tricks.found))
	}
	err = yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(into)
	if err != nil && !errors.Is(err, io.EOF) {
		return bad(withPlace(b, into, err))
	}
	return nil
}

// tricks finds what makes a YAML file mean something else than it says.
type tricks struct{ found string }

func (t *tricks) Visit(n ast.Node) ast.Visitor {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		at := n.GetToken().Position
		t.found = fmt.Sprintf("[%d:%d] no anchors, aliases or tags", at.Line, at.Column)
	}
	return t
}

// firstLine is the reader's own first line: place and cause, without its picture of the file.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSpace(text)
}

// place turns the path of an error into line and column of the file, where it can be found.
func place(path string, err error) error {
	var e *spec.Error
	if !errors.As(err, &e) {
		return err
	}
	line, column := positionOf(path, e.Path)
	c := *e
	c.Path = fmt.Sprintf("%s:%d:%d %s", path, line, column, e.Path)
	return &c
}

// LineOf is the line of a JSON pointer in a YAML file: of the nearest member
// above it where it has none of its own; "1" where nothing can be told.
func LineOf(path, pointer string) string {
	line, _ := positionOf(path, pointer)
	return fmt.Sprint(line)
}

func positionOf(path, pointer string) (line, column int) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 1, 1
	}
	file, err := parser.ParseBytes(b, 0)
	if err != nil || len(file.Docs) == 0 {
		return 1, 1
	}
	tokens := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for ; len(tokens) > 0; tokens = tokens[:len(tokens)-1] {
		if at := nodeAt(file, tokens); at != nil {
			return at.Line, at.Column
		}
	}
	return 1, 1
}

func nodeAt(file *ast.File, tokens []string) *token.Position {
	expr := "$"
	for _, tok := range tokens {
		if tok != "" && strings.Trim(tok, "0123456789") == "" {
			expr += "[" + tok + "]"
		} else {
			expr += ".'" + strings.ReplaceAll(tok, "'", "") + "'"
		}
	}
	p, err := yaml.PathString(expr)
	if err != nil {
		return nil
	}
	n, err := p.FilterFile(file)
	if err != nil || n == nil || n.GetToken() == nil {
		return nil
	}
	return n.GetToken().Position
}

func configText(n New) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Sealbridge, one owner's gateway. `sealbridge config check` reads this strictly.\nname: %q\nrelay: %s\n", n.Name, n.Relay)
	b.WriteString("# console: {port: 7811}   the owner's page, http://localhost:7811; fixed, because passkeys are bound to it; {off: true} for none\n")
	b.WriteString("# agents work for others, one boxed process a task (sealbridge agent add NAME -- COMMAND…),\n# or ask for you (sealbridge agent add NAME --client claude-code)\n")
	names := make([]string, 0, len(n.Agents))
	for name := range n.Agents {
		names = append(names, name)
	}
	sort.Strings(names)
	return b.String()
}

// SetAgent writes one agent into config.yaml, or takes it out with nil, and
// leaves every other line as it is.
func SetAgent(dir, name string, a *Agent) error {
	path := filepath.Join(dir, configName)
	c, err := readConfig(path)
	if err != nil {
		return err
	}
	if c.Agents == nil {
		c.Agents = map[string]Agent{}
	}
	if a == nil {
		delete(c.Agents, name)
	} else {
		c.Agents[name] = *a
	}
	if len(c.Agents) == 0 {
		return rewrite(dir, "agents", nil)
	}
	return rewrite(dir, "agents", c.Agents)
}

// SetModel does the same for one provider of models.
func SetModel(dir, name string, m *Model) error {
	c, err := readConfig(filepath.Join(dir, configName))
	if err != nil {
		return err
	}
	if c.Models == nil {
		c.Models = map[string]Model{}
	}
	if m == nil {
		delete(c.Models, name)
	} else {
		c.Models[name] = *m
	}
	if len(c.Models) == 0 {
		return rewrite(dir, "models", nil)
	}
	return rewrite(dir, "models", c.Models)
}

// SetRelay writes the home relay into config.yaml, as the certificate names it.
func SetRelay(dir string, at manifest.RelayRef) error { return rewrite(dir, "relay", at.String()) }

// rewrite replaces one top-level key of config.yaml, or takes it out with nil, and
// leaves every other line as it is.
func rewrite(dir, key string, value any) error {
	path := filepath.Join(dir, configName)
	old, err := os.ReadFile(path)
	if err != nil {
		return disk(err)
	}
	block := ""
	if value != nil {
		out, err := yaml.Marshal(map[string]any{key: value})
		if err != nil {
			return err
		}
		block = string(out)
	}
	next := filepath.Join(dir, ".config-new")
	os.Remove(next)
	if err := writeNew(next, []byte(withoutBlock(string(old), key)+block)); err != nil {
		return disk(err)
	}
	if _, err := readConfig(next); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return disk(err)
	}
	return nil
}

// withoutBlock cuts a top-level key and what is indented below it.
func withoutBlock(text, key string) string {
	var out []string
	inside := false
	for _, line := range strings.SplitAfter(text, "\n") {
		top := line != "" && line[0] != ' ' && line[0] != '\t' && line[0] != '\n' && line[0] != '#' && line[0] != '-'
		if top {
			inside = strings.HasPrefix(line, key+":")
		}
		if !inside {
			out = append(out, line)
		}
	}
	text = strings.Join(out, "")
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// policyText is the policy after init: nobody gets in before a person has
// confirmed a contact, then a person is asked each time (K2).
const policyHead = `# Read top down; the first rule that fits decides; what nothing fits is refused.
# A contact counts only after a person compared the six words.
version: 1
people:
  me: owner
ask:                        # who is asked, for how long; silence means no
  contract: {who: [me], wait: 1dPRESENCE}
  effect: {who: [me], wait: 1hPRESENCE}
  budget: {who: [me], wait: 4hPRESENCE}
  delegation: {who: [me], wait: 1dPRESENCE}
  delivery: {who: [me], wait: 3dPRESENCE}
incoming:                   # work that others ask of my agents
  - {name: a contact asks, from: anyone, then: ask}
outgoing:                   # work that I or my agents ask of others
  - {name: I ask a contact, to: anyone, may_send: [], then: ask}
tools: []                   # my tools, called by others under a contract
checks: []                  # commands that a contract may have run over a delivery
defaults: {deadline: 2d, gates: [contract, effect, delivery], budget: {time: 15m, over: stop}}
`

// policyText: an unsealed key has no presence to show, and the policy says that it counts all the same (I2, G10).
func policyText(n New) string {
	presence := ""
	if n.Passphrase == "" {
		presence = ", presence: [passkey, device, passphrase, none]"
	}
	return strings.ReplaceAll(policyHead, "PRESENCE", presence)
}
