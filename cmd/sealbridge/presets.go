package main

import (
	"bufio"
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/spec"
)

// preset is a known agent program: where it is found, how it is started so that
// it asks nobody, and how it speaks.
type preset struct {
	title    string
	programs []string // names in PATH; the first that is there
	args     []string
	speaks   gateway.Speaks
	model    string
	kind     string   // of a provider, with the door
	secret   string   // the variable of its own login, with a model of its own
	hosts    []string // that it needs then
	env      map[string]string
	install  string
}

var presets = map[string]preset{
	// The box holds it, so it may do in it what it likes; what the provider would
	// run for it the door refuses (X4), so it does not try.
	"claude-code": {title: "Claude Code", programs: []string{"claude"}, speaks: gateway.SpeaksClaudeCode, model: "door", kind: "anthropic",
		args:    []string{"-p", "--output-format", "json", "--dangerously-skip-permissions", "--strict-mcp-config", "--disallowedTools", "WebSearch,WebFetch"},
		env:     map[string]string{"DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
		install: "https://code.claude.com/docs says how it is installed"},
	"cursor": {title: "Cursor", programs: []string{"cursor-agent", "agent"}, speaks: gateway.SpeaksCursor, model: "own", secret: "CURSOR_API_KEY", hosts: []string{"api2.cursor.sh"},
		args: []string{"-p", "--output-format", "json", "--force"}, install: "https://cursor.com/cli says how it is installed"},
	"shell": {title: "a script", programs: []string{"sh"}},
}

const presetNames = "claude-code, cursor or shell"

// agent makes an agent of a preset. rest is what the owner put behind --, key the file of its login.
func (p preset) agent(h *home.Home, name string, rest []string, key string) (ag home.Agent, err error) {
	ag = home.Agent{Kind: home.KindExec, Model: p.model, Speaks: string(p.speaks), Env: p.env, Hosts: p.hosts, Preset: name}
	path, err := p.find()
	if err != nil {
		return ag, err
	}
	if name == "shell" {
		return ag, p.script(&ag, path, rest)
	}
	if ag.Command, ag.ReadOnly, err = located(path); err != nil {
		return ag, err
	}
	ag.Command = slices.Concat(ag.Command, p.args, rest)
	switch {
	case p.model == "door":
		for n, m := range h.Config.Models {
			if m.Kind == p.kind {
				ag.Providers = append(ag.Providers, n)
			}
		}
		slices.Sort(ag.Providers)
		if len(ag.Providers) == 0 {
			return ag, hint(spec.Refuse(spec.NotFound, "/models", "no provider of the kind "+p.kind+" yet"),
				"its calls go through this gateway, which needs a key of yours: sealbridge model add %s --key-file FILE --model 'claude-*'", p.kind)
		}
	case key == "":
		return ag, hint(usage("--key-file: "+p.title+" needs a login of its own"), "put the value of %s into a file with mode 0600", p.secret)
	default:
		if key, err = filepath.Abs(key); err != nil {
			return ag, err
		}
		ag.Secrets = map[string]string{p.secret: key}
		if _, err := ag.Environment(h.Dir); err != nil {
			return ag, err
		}
	}
	return ag, nil
}

func (p preset) find() (string, error) {
	for _, name := range p.programs {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", hint(spec.Refuse(spec.NotFound, "", strings.Join(p.programs, " or ")+" is not in your PATH"), "%s; or name a program behind --", p.install)
}

// script is the preset shell: a file of the owner's, run by the shell; JSON both ways.
func (p preset) script(ag *home.Agent, shell string, rest []string) error {
	if len(rest) == 0 {
		return usage("--preset shell: a script behind --")
	}
	path, err := filepath.Abs(rest[0])
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return &spec.Error{Reason: spec.NotFound, Path: rest[0], Err: err}
	}
	ag.Command, ag.ReadOnly = append([]string{shell, path}, rest[1:]...), []string{filepath.Dir(path)}
	return nil
}

// located is how a program is started in a box that sees the system's folders
// and no others of the owner's: by absolute paths, its interpreter too, with the
// folders that both need.
func located(path string) (command, readOnly []string, err error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, nil, &spec.Error{Reason: spec.NotFound, Path: path, Err: err}
	}
	interpreter, err := shebang(real)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range append(slices.Clone(interpreter), real) {
		if !filepath.IsAbs(f) {
			continue
		}
		if dir := packageOf(f); dir != "" && !slices.Contains(readOnly, dir) {
			readOnly = append(readOnly, dir)
		}
	}
	return append(interpreter, real), readOnly, nil
}

// shebang is what a script names as its interpreter, with absolute paths; nothing for a binary.
func shebang(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &spec.Error{Reason: spec.NotFound, Path: path, Err: err}
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(f, 512).ReadString('\n') //nolint:errcheck // a binary has no lines
	rest, is := strings.CutPrefix(line, "#!")
	words := strings.Fields(rest)
	if !is || len(words) == 0 {
		return nil, nil
	}
	if filepath.Base(words[0]) == "env" {
		if words = words[1:]; len(words) > 0 && words[0] == "-S" {
			words = words[1:]
		}
		if len(words) == 0 {
			return nil, spec.Refuse(spec.Malformed, path, "its first line names no interpreter")
		}
	}
	at, err := exec.LookPath(words[0])
	if err == nil {
		at, err = filepath.Abs(at)
	}
	if err == nil {
		at, err = filepath.EvalSymlinks(at)
	}
	if err != nil {
		return nil, &spec.Error{Reason: spec.NotFound, Path: path, Limit: "its interpreter " + words[0], Err: err}
	}
	return append([]string{at}, words[1:]...), nil
}

// packageOf is the folder that a program needs beside itself: that of its
// package, or the one above its bin. "" where the box shows it anyway.
func packageOf(path string) string {
	for _, shown := range []string{"/usr/", "/bin/", "/sbin/", "/lib", "/opt/", "/nix/store/"} {
		if strings.HasPrefix(path, shown) {
			return ""
		}
	}
	dir := filepath.Dir(path)
	for up := dir; len(up) > 1; up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, "package.json")); err == nil {
			return up
		}
	}
	if filepath.Base(dir) == "bin" && len(filepath.Dir(dir)) > 1 {
		if home, err := os.UserHomeDir(); err != nil || filepath.Dir(dir) != home && filepath.Dir(dir) != filepath.Join(home, ".local") { // not everything that the owner has
			return filepath.Dir(dir)
		}
	}
	return dir
}

// showSpeech says how a program is given its work and how it gets at a model.
func (a *app) showSpeech(h *home.Home, ag home.Agent) {
	switch gateway.Speaks(ag.Speaks) {
	case gateway.SpeaksClaudeCode:
		a.print("gets      the task as a text on stdin; its last message has to be the result as JSON\n")
	case gateway.SpeaksCursor:
		a.print("gets      the task as a text, its last argument; its last message has to be the result as JSON\n")
	default:
		a.print("gets      the task as JSON on stdin; writes the result as JSON on stdout\n")
	}
	switch ag.Model {
	case "door":
		names := slices.Clone(ag.Providers)
		if len(names) == 0 {
			names = slices.Sorted(maps.Keys(h.Config.Models))
		}
		for i, n := range names {
			names[i] = n + " (" + h.Config.Models[n].Host() + ")"
		}
		a.print("model     by this gateway, which has the key and meters it: %s\n", strings.Join(names, ", "))
	case "own":
		a.print("model     its own login at %s, which the contract has to name; what it says of tokens is a claim\n", cmp.Or(strings.Join(ag.Hosts, ", "), "no host"))
	default:
		a.print("model     none\n")
	}
	for _, v := range slices.Sorted(maps.Keys(ag.Secrets)) {
		a.print("has       %s, from %s\n", v, ag.Secrets[v])
	}
}
