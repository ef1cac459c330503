package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"sealbridge/spec"
)

// mcpClient is an MCP client program, and where it keeps its servers.
type mcpClient struct {
	title string
	file  func(home string) string
}

var clients = map[string]mcpClient{
	"claude-code": {"Claude Code", func(home string) string { return filepath.Join(home, ".claude.json") }},
	"claude-desktop": {"Claude Desktop", func(home string) string {
		switch runtime.GOOS {
		case "darwin":
			return filepath.Join(home, "Library", "Application Support", "Claude", "claude_desktop_config.json")
		case "windows":
			return filepath.Join(os.Getenv("APPDATA"), "Claude", "claude_desktop_config.json")
		}
		return filepath.Join(home, ".config", "Claude", "claude_desktop_config.json")
	}},
	"cursor": {"Cursor", func(home string) string { return filepath.Join(home, ".cursor", "mcp.json") }},
}

const clientNames = "claude-code, claude-desktop or cursor"

// serverEntry is one server in a client's file.
type serverEntry struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

// ownBinary is the absolute path of this program, which clients without our
// PATH need. What `go run` made is gone tomorrow.
func ownBinary(given string) (string, error) {
	path, err := given, error(nil)
	if path == "" {
		path, err = os.Executable()
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", err
	}
	if given == "" && (strings.Contains(filepath.ToSlash(path), "/go-build") || strings.HasSuffix(path, ".test")) {
		return "", hint(usage("this binary is a temporary one of the Go tool and will be gone"), "build it once with `go build -o sealbridge ./cmd/sealbridge` and run that, or name it with --binary")
	}
	if i, err := os.Stat(path); err != nil || !i.Mode().IsRegular() {
		return "", usage("--binary: no such file " + path)
	}
	return path, nil
}

// snippet is the entry as a client's file has it.
func snippet(name string, e serverEntry) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	enc.Encode(map[string]any{"mcpServers": map[string]serverEntry{name: e}}) //nolint:errcheck // plain strings
	return strings.TrimRight(b.String(), "\n")
}

// mergeClient puts the entry into a client's file: every other member keeps its
// bytes and its place, the file its mode, and what was there before is kept beside it.
func mergeClient(path, name string, e serverEntry, now time.Time) (backup string, err error) {
	mode := fs.FileMode(0o600)
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old = []byte("{}")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	default:
		if i, err := os.Stat(path); err == nil {
			mode = i.Mode().Perm()
		}
		backup = path + ".before-sealbridge-" + now.UTC().Format("20060102T150405Z")
		if err := os.WriteFile(backup, old, 0o600); err != nil {
			return "", err
		}
	}
	bad := func(err error) error {
		return hint(&spec.Error{Reason: spec.Malformed, Path: path, Limit: "a JSON object with an object mcpServers", Err: err}, "without --write the entry is printed, to be put in by hand")
	}
	top, err := readMembers(old)
	if err != nil {
		return backup, bad(err)
	}
	servers, err := readMembers(top.get("mcpServers", "{}"))
	if err != nil {
		return backup, bad(err)
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return backup, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, top.with("mcpServers", servers.with(name, raw).bytes()).bytes(), "", "  "); err != nil {
		return backup, bad(err)
	}
	out.WriteByte('\n')
	temp := path + ".sealbridge-new"
	if err := os.WriteFile(temp, out.Bytes(), mode); err != nil {
		return backup, err
	}
	return backup, os.Rename(temp, path)
}

// members is a JSON object with its order.
type members []member

type member struct {
	name  string
	value json.RawMessage
}

func readMembers(raw []byte) (ms members, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("no object: %w", err)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		name, _ := t.(string)
		ms = append(ms, member{name, v})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	return ms, nil
}

func (ms members) get(name, otherwise string) []byte {
	for _, m := range ms {
		if m.name == name {
			return m.value
		}
	}
	return []byte(otherwise)
}

func (ms members) with(name string, v []byte) members {
	out := append(members{}, ms...)
	for i, m := range out {
		if m.name == name {
			out[i].value = v
			return out
		}
	}
	return append(out, member{name, v})
}

func (ms members) bytes() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range ms {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(m.name)
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
