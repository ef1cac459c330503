package main

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"sealbridge/gateway/home"
	"sealbridge/spec"
)

// asking is what `agent add --client` is told.
type asking struct {
	client, tools, binary string
	write                 bool
	model                 string // "" or door: its calls count for the work that it takes
	providers             []string
}

func (x *asking) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&x.client, "client", "", clientNames+": the program you talk to")
	f.StringVar(&x.tools, "tools", "requester", "with --client: requester, worker or all")
	f.BoolVar(&x.write, "write", false, "with --client: put it into the client's own file, and keep what was there beside it")
	f.StringVar(&x.binary, "binary", "", "with --client: the sealbridge that the client starts; without it this one")
}

// handle is what Prickle calls an agent: it has to hold as one.
var handle = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)

// addAsking adds an agent that asks for its owner. Its token is made here, shown once, and kept as a digest (A1).
func (a *app) addAsking(h *home.Home, name string, x asking) error {
	cl, ok := clients[x.client]
	switch {
	case !ok:
		return usage("--client " + clientNames)
	case !handle.MatchString(name):
		return usage("a name of small letters, digits and single dashes: " + name + " is not one")
	}
	binary, err := ownBinary(x.binary)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(a.home)
	if err != nil {
		return err
	}
	if x.model == "door" && h.Config.MCP.Port == 0 {
		return hint(usage("--model door: an agent in your session comes by a port of the gateway, and there is none"), "put `mcp: {port: 7812}` into config.yaml")
	}
	ag := home.Agent{Kind: home.KindMCP, Tools: x.tools, Model: x.model, Providers: x.providers}
	if err := home.SetAgent(a.home, name, &ag); err != nil {
		return err
	}
	token, err := home.NewAgentToken(a.home, name, rand.Reader)
	if err != nil {
		return err
	}
	e := serverEntry{Command: binary, Args: []string{"--home", dir, "mcp", "--tools", x.tools, "--agent", name}, Env: map[string]string{tokenEnv: token}}
	file, backup := "", ""
	if x.write {
		user, err := os.UserHomeDir()
		if err != nil {
			return &spec.Error{Reason: spec.NotFound, Limit: "the user's home folder", Err: err}
		}
		file = cl.file(user)
		if backup, err = mergeClient(file, "sealbridge", e, a.now()); err != nil { // whole or not at all
			return errors.Join(err, home.ForgetAgentToken(a.home, name), home.SetAgent(a.home, name, nil))
		}
	}
	if a.json {
		return a.emit(map[string]any{"name": name, "client": x.client, "tools": x.tools, "file": file, "backup": backup, "entry": e, "port": h.Config.MCP.Port})
	}
	a.print("%s added: it asks your contacts for work, and you say yes or no.\n", name)
	if x.model == "door" {
		a.print("its model, for work that it takes: http://127.0.0.1:%d with this token as the key (ANTHROPIC_BASE_URL; OPENAI_BASE_URL ends in /v1)\n  %s\n", h.Config.MCP.Port, token)
	}
	switch {
	case x.write:
		a.print("written to %s; restart %s\n", file, cl.title)
		if backup != "" {
			a.print("what was there: %s\n", backup)
		}
	case x.client == "claude-code":
		a.print("Run this once; the token in it is shown only now:\n\n  claude mcp add --scope user sealbridge --env %s=%s -- %s --home %s mcp --tools %s --agent %s\n\n", tokenEnv, token, quote(binary), quote(dir), x.tools, name)
	default:
		a.print("Put this into the client's file (or use --write); the token in it is shown only now:\n\n%s\n\n", snippet("sealbridge", e))
	}
	a.print("Whom it may ask and which files it may send stands in policy.yaml under outgoing: {agent: %s, to: […], may_send: [FOLDER/**]}; then `sealbridge policy apply`.\n", name)
	return nil
}

// quote is a word as a shell takes it.
func quote(s string) string {
	if regexp.MustCompile(`^[A-Za-z0-9_./:@%+=-]+$`).MatchString(s) {
		return s
	}
	out := []byte{'\''}
	for i := range len(s) {
		if s[i] == '\'' {
			out = append(out, `'\''`...)
			continue
		}
		out = append(out, s[i])
	}
	return string(append(out, '\''))
}
