package home

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/spec"
)

// ToolServer is where tools of ours are that contracts may grant: an MCP server
// that is a command or an address, or a folder that may be listed and read.
// What each tool may be used for stands in policy.yaml.
type ToolServer struct {
	Command []string `yaml:"command,omitempty"`
	URL     string   `yaml:"url,omitempty"`
	Files   string   `yaml:"files,omitempty"`
	Secrets string   `yaml:"secrets,omitempty"` // a file, 0600, a line each: NAME=value for a command, Name: value for an address
	Timeout string   `yaml:"timeout,omitempty"` // of one call; a minute where absent
}

const maxToolServers = 50

func checkTools(servers map[string]ToolServer) error {
	if len(servers) > maxToolServers {
		return spec.Refuse(spec.TooLarge, "/tools", "50 servers")
	}
	for name, s := range servers {
		at := "/tools/" + name
		ways := 0
		for _, there := range []bool{len(s.Command) > 0, s.URL != "", s.Files != ""} {
			if there {
				ways++
			}
		}
		if name == "" || len(name) > 40 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return spec.Refuse(spec.Malformed, at, "a name of small letters, digits, - and _")
		}
		if ways != 1 {
			return spec.Refuse(spec.Malformed, at, "one of command, url and files")
		}
		if s.Files != "" && s.Secrets != "" {
			return spec.Refuse(spec.Malformed, at+"/secrets", "of a command or an address")
		}
		if _, err := s.Wait(); err != nil {
			return spec.At(at+"/timeout", err)
		}
	}
	return nil
}

// Wait is how long one call may take; 0 where nothing is said.
func (s ToolServer) Wait() (time.Duration, error) {
	if s.Timeout == "" {
		return 0, nil
	}
	d, err := manifest.ParseSpan(s.Timeout)
	if err == nil && d > 10*time.Minute {
		err = spec.Refuse(spec.Malformed, "", "at most 10m")
	}
	return d, err
}

// ToolNames are the servers of config.yaml, in order.
func (h *Home) ToolNames() []string {
	var out []string
	for name := range h.Config.Tools {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// AtHome is a server with the owner's home folder for ~/ at the beginning of a
// word, and paths that count from this home.
func (h *Home) AtHome(s ToolServer) (ToolServer, error) {
	s.Command = slices.Clone(s.Command)
	for _, word := range append([]*string{&s.Files, &s.Secrets}, pointers(s.Command)...) {
		rest, ok := strings.CutPrefix(*word, "~/")
		if !ok {
			continue
		}
		dir, err := os.UserHomeDir()
		if err != nil {
			return s, &spec.Error{Reason: spec.Unavailable, Limit: "no home folder for ~", Err: err}
		}
		*word = filepath.Join(dir, rest)
	}
	for _, path := range []*string{&s.Files, &s.Secrets} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(h.Dir, *path)
		}
	}
	return s, nil
}

func pointers(words []string) (out []*string) {
	for i := range words {
		out = append(out, &words[i])
	}
	return out
}

// maxSecrets bounds the file of a server's secrets: a few tokens.
const maxSecrets = 64 << 10

// ReadSecrets are the lines of a server's secrets. A file that others can read is refused.
func (s ToolServer) ReadSecrets() ([]string, error) {
	if s.Secrets == "" {
		return nil, nil
	}
	info, err := os.Stat(s.Secrets)
	switch {
	case err != nil:
		return nil, &spec.Error{Reason: spec.NotFound, Path: s.Secrets, Err: err}
	case info.Size() > maxSecrets:
		return nil, spec.Refuse(spec.TooLarge, s.Secrets, "64 KiB")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, spec.Refuse(spec.NotPermitted, s.Secrets, "others can read it: chmod 600")
	}
	b, err := os.ReadFile(s.Secrets)
	if err != nil {
		return nil, disk(err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out, nil
}
