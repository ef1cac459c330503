package home

import (
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"sealbridge/spec"
)

// Model is a provider of models of the owner's (X4a). Its key is never here.
type Model struct {
	Kind    string   `yaml:"kind"`               // anthropic or openai: the form of its API
	URL     string   `yaml:"url,omitempty"`      // absent: the provider's own
	KeyFile string   `yaml:"key_file,omitempty"` // nobody else may read it; a relative path counts from this home
	KeyEnv  string   `yaml:"key_env,omitempty"`  // a variable of the gateway's environment
	Models  []string `yaml:"models"`             // names; a star at the end stands for any ending
}

// providers are where the kinds are, where no url says something else.
var providers = map[string]string{"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com"}

// maxKey is more than a key of a provider has, and less than a file named by mistake.
const maxKey = 4096

// Address is where the provider's API is.
func (m Model) Address() string {
	if m.URL != "" {
		return m.URL
	}
	return providers[m.Kind]
}

// Host is who reads the inputs, as a person sees it.
func (m Model) Host() string {
	u, err := url.Parse(m.Address())
	if err != nil {
		return ""
	}
	return u.Host
}

// Key reads the key, "" where the provider has none.
func (m Model) Key(dir string) (string, error) {
	switch {
	case m.KeyEnv != "":
		key := os.Getenv(m.KeyEnv)
		if key == "" {
			return "", spec.Refuse(spec.NotFound, m.KeyEnv, "X4a: this variable is not set where the gateway runs")
		}
		return key, nil
	case m.KeyFile == "":
		return "", nil
	}
	return secretFile(dir, m.KeyFile)
}

// Environment is what the agent's program finds in its environment, with its own login.
func (a Agent) Environment(dir string) (map[string]string, error) {
	out := maps.Clone(a.Env)
	if out == nil {
		out = map[string]string{}
	}
	for name, file := range a.Secrets {
		v, err := secretFile(dir, file)
		if err != nil {
			return nil, spec.At("/secrets/"+name, err)
		}
		out[name] = v
	}
	return out, nil
}

// secretFile reads one line of a file that only its owner may read; a relative path counts from the home.
func secretFile(dir, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	i, err := os.Stat(path)
	if err != nil {
		return "", &spec.Error{Reason: spec.NotFound, Path: path, Err: err}
	}
	if !i.Mode().IsRegular() || i.Size() > maxKey {
		return "", spec.Refuse(spec.Malformed, path, "a file with a key in it")
	}
	if runtime.GOOS != "windows" && i.Mode().Perm()&(fs.ModePerm^0o600) != 0 {
		return "", spec.Refuse(spec.NotPermitted, path, "X4a: mode 0600: others can read it")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", disk(err)
	}
	key := strings.TrimSpace(string(b))
	if key == "" || strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		return "", spec.Refuse(spec.Malformed, path, "a key, on one line")
	}
	return key, nil
}

func (m Model) check(path string) error {
	if providers[m.Kind] == "" {
		return spec.Refuse(spec.Malformed, path+"/kind", "anthropic or openai")
	}
	u, err := url.Parse(m.Address())
	plain := err == nil && u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && !plain {
		return spec.Refuse(spec.Malformed, path+"/url", "https://…, or http:// on loopback")
	}
	if m.KeyFile != "" && m.KeyEnv != "" {
		return spec.Refuse(spec.Malformed, path+"/key_env", "key_file or key_env")
	}
	if len(m.Models) == 0 {
		return spec.Refuse(spec.Malformed, path+"/models", "the models that agents may use; a star at the end stands for any ending")
	}
	for _, name := range m.Models {
		if name == "" || len(name) > 200 || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			return spec.Refuse(spec.Malformed, path+"/models", "names; a star at the end only")
		}
	}
	return nil
}
