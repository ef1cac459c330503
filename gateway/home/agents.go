package home

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sealbridge/manifest"
	"sealbridge/spec"
)

const (
	agentsDir  = "agents"      // the SHA-256 of each agent's token, a file an agent
	AgentsSock = "agents.sock" // of agents: another one than the people's (G9)

	tokenPrefix = "sba_" // so that a token is known where it should not be
)

// AgentsSocket is the agents' socket of this home.
func (h *Home) AgentsSocket() string { return filepath.Join(h.Dir, AgentsSock) }

// NewAgentToken makes a token for an agent in place of the one it had. It is
// not kept: only its digest is (A1).
func NewAgentToken(dir, name string, chance io.Reader) (token string, err error) {
	var b [32]byte
	if _, err := io.ReadFull(chance, b[:]); err != nil {
		return "", err
	}
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	if err := os.MkdirAll(filepath.Join(dir, agentsDir), 0o700); err != nil {
		return "", disk(err)
	}
	next := filepath.Join(dir, agentsDir, ".new-"+name)
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", disk(err)
	}
	if err := writeNew(next, []byte(tokenDigest(token)+"\n")); err != nil {
		return "", disk(err)
	}
	if err := os.Rename(next, filepath.Join(dir, agentsDir, name)); err != nil {
		return "", disk(err)
	}
	return token, nil
}

func tokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ForgetAgentToken ends an agent's token; one that has none stays as it is.
func ForgetAgentToken(dir, name string) error {
	if err := os.Remove(filepath.Join(dir, agentsDir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return disk(err)
	}
	return nil
}

// AgentOf finds the agent of kind mcp that a token names. It reads the files
// each time, so that a token taken away ends at once.
func AgentOf(dir, token string) (name string, a Agent, ok bool) {
	if !strings.HasPrefix(token, tokenPrefix) {
		return "", Agent{}, false
	}
	want := []byte(tokenDigest(token))
	entries, err := os.ReadDir(filepath.Join(dir, agentsDir))
	if err != nil {
		return "", Agent{}, false
	}
	for _, e := range entries {
		have, err := os.ReadFile(filepath.Join(dir, agentsDir, e.Name()))
		if err == nil && subtle.ConstantTimeCompare([]byte(strings.TrimSpace(string(have))), want) == 1 {
			name = e.Name()
		}
	}
	if name == "" || strings.HasPrefix(name, ".") {
		return "", Agent{}, false
	}
	c, err := readConfig(filepath.Join(dir, configName))
	if err != nil {
		return "", Agent{}, false
	}
	a, ok = c.Agents[name]
	return name, a, ok && a.Kind == KindMCP
}

// The kinds of agents.
const (
	KindExec = "exec" // works for others: one boxed process a task
	KindMCP  = "mcp"  // asks for its owner, by the agents' door
)

// check holds one agent of config.yaml.
func (a Agent) check(path string, models map[string]Model) error {
	switch a.Kind {
	case KindExec:
		switch {
		case a.Wasm == "" && a.Image == "" && len(a.Command) == 0:
			return spec.Refuse(spec.Malformed, path+"/command", "a command")
		case a.Wasm != "" && !filepath.IsAbs(a.Wasm):
			return spec.Refuse(spec.Malformed, path+"/wasm", "an absolute path")
		case a.Wasm != "" && a.Image != "":
			return spec.Refuse(spec.Malformed, path+"/image", "a module or an image")
		case a.Wasm+a.Image != "" && (len(a.ReadOnly) > 0 || a.Model != "" && a.Model != "none"):
			return spec.Refuse(spec.Malformed, path+"/model", "a module or container sees no folder of yours and has no network: no read_only, no model")
		}
		if a.Tools != "" {
			return spec.Refuse(spec.Malformed, path+"/tools", "only with kind: mcp")
		}
	case KindMCP:
		if len(a.Command) > 0 || len(a.ReadOnly) > 0 || a.Wasm+a.Image != "" {
			return spec.Refuse(spec.Malformed, path+"/command", "only with kind: exec: an agent of kind mcp comes by itself")
		}
		if a.Tools != "" && a.Tools != "requester" && a.Tools != "worker" && a.Tools != "all" {
			return spec.Refuse(spec.Malformed, path+"/tools", "requester, worker or all")
		}
	default:
		return spec.Refuse(spec.Malformed, path+"/kind", "exec or mcp")
	}
	switch {
	case a.Model != "" && a.Model != "own" && a.Model != "none" && a.Model != "door":
		return spec.Refuse(spec.Malformed, path+"/model", "own, door or none")
	case a.Kind == KindMCP && a.Model == "none", a.Kind == KindMCP && len(a.Env)+len(a.Secrets)+len(a.Speaks) > 0:
		return spec.Refuse(spec.Malformed, path, "an agent of kind mcp runs in its owner's session: its model is own, or door")
	case a.Model != "door" && len(a.Providers) > 0:
		return spec.Refuse(spec.Malformed, path+"/providers", "only with model: door")
	case a.Model == "door" && len(models) == 0:
		return spec.Refuse(spec.Malformed, path+"/model", "models: names no provider yet: sealbridge model add")
	}
	if len(a.Hosts) > 0 && (a.Kind != KindExec || a.Model != "own") {
		return spec.Refuse(spec.Malformed, path+"/hosts", "only with kind: exec and model: own")
	}
	for i, host := range a.Hosts {
		if !manifest.IsHost(host) {
			return spec.Refuse(spec.Malformed, path+"/hosts/"+strconv.Itoa(i), "M4: a DNS name in lower case or an IP address, no port, no star")
		}
	}
	for _, p := range a.Providers {
		if _, there := models[p]; !there {
			return spec.Refuse(spec.Malformed, path+"/providers", "a name of models")
		}
	}
	return nil
}
