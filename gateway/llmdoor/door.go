// Package llmdoor answers one question: what may a model call ask? It is a
// reverse proxy for the APIs of two kinds of model providers (spec/models.md):
// it holds a call against a closed list, has the gateway reserve what it can use
// at most, adds the owner's key, and has it charged with what the provider says.
//
//	POST /v1/messages              X-Api-Key: sbm_…      of the run, never the owner's
//	{"model":"claude-…","max_tokens":1000,"messages":[…]}
//
// The agent never has the key, and the key stands in nothing that it gets. What
// a call may use is decided in the gateway; the door has no rule about budgets.
package llmdoor

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sealbridge/gateway"
	"sealbridge/spec"
)

const (
	anthropic kind = gateway.KindAnthropic
	openAI    kind = gateway.KindOpenAI
)

// Upstream is where a provider of the owner's is, and how it is paid.
type Upstream struct {
	URL string                 // https://api.anthropic.com; what a path of the API is put behind
	Key func() (string, error) // read for each call; nil or "": a server without keys
}

// Budget is what the gateway decides about a call.
type Budget interface {
	BeginModelCall(context.Context, gateway.ModelCall) (gateway.ModelLease, error)
	EndModelCall(context.Context, gateway.ModelLease, gateway.ModelUse) error
	ModelNames(context.Context, gateway.ModelRun, string) ([]string, error)
	ModelRunOf(context.Context, gateway.Caller, gateway.Ref) (gateway.ModelRun, error)
}

// Config is what the door is given.
type Config struct {
	Gateway  Budget
	Upstream func(provider string) (Upstream, bool)
	Identify func(token string) (agent string, ok bool) // of agents in their owner's session (A1); nil: none comes
	Client   http.RoundTripper                          // nil: the network, by the environment's proxy
	Log      *slog.Logger                               // nil: nothing is logged
}

// Door is the LLM door. It may be used from many goroutines.
type Door struct {
	Config
	seats chan struct{}
}

// New makes a door.
func New(c Config) *Door {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Client == nil {
		c.Client = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 8,
			IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: firstByte}
	}
	return &Door{Config: c, seats: make(chan struct{}, maxCalls)}
}

// Guest is who comes to the door, and how its program is made to stand still.
type Guest struct {
	Run  gateway.ModelRun
	Hold func(ctx context.Context, wait func(context.Context)) // nil: nothing of ours holds it
}

const tokenPrefix = "sbm_" // so that a token is known where it should not be

// NewToken draws a token for one run (X4b).
func NewToken() string {
	var b [32]byte
	rand.Read(b[:]) //nolint:errcheck // never fails
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// Environment is how a program finds the door that listens at base, such as http://127.0.0.1:11434.
func Environment(base, token string) map[string]string {
	return map[string]string{"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": token, "OPENAI_BASE_URL": base + "/v1", "OPENAI_API_KEY": token}
}

// Run serves one run of a boxed program, which brings the token of that run.
func (d *Door) Run(g Guest, token string) http.Handler {
	return d.handler(func(r *http.Request) (Guest, *http.Request, error) {
		if subtle.ConstantTimeCompare([]byte(tokenOf(r)), []byte(token)) != 1 {
			return Guest{}, r, errNoToken
		}
		return g, r, nil
	})
}

// Sessions serves agents in their owner's session, on loopback.
func (d *Door) Sessions() http.Handler {
	return d.handler(func(r *http.Request) (Guest, *http.Request, error) {
		agent, ok := "", false
		if d.Identify != nil {
			agent, ok = d.Identify(tokenOf(r))
		}
		if !ok {
			return Guest{}, r, errNoToken
		}
		task := ""
		if rest, ok := strings.CutPrefix(r.URL.Path, "/task/"); ok {
			id, path, _ := strings.Cut(rest, "/")
			task, r = id, r.Clone(r.Context())
			r.URL.Path = "/" + path
		}
		run, err := d.Gateway.ModelRunOf(r.Context(), gateway.Caller{Agent: agent}, gateway.Ref{Task: task})
		return Guest{Run: run}, r, err
	})
}

var errNoToken = spec.Refuse(spec.NotPermitted, "", "X4b: a token")

func tokenOf(r *http.Request) string {
	if t := r.Header.Get("X-Api-Key"); t != "" {
		return t
	}
	t, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return t
}

var endpoints = []endpoint{messages, counting, chat, responses}

// handler looks at Host, Origin and token in this order, before a byte of the body.
func (d *Door) handler(guest func(*http.Request) (Guest, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k := kindOf(r)
		if !ownHost(r) {
			writeError(w, k, spec.Refuse(spec.NotPermitted, "", "X4b: only this computer's own programs"))
			return
		}
		g, r, err := guest(r)
		if err != nil {
			writeError(w, k, err)
			return
		}
		if q := r.URL.RawQuery; q != "" && q != "beta=true" {
			writeError(w, k, spec.Refuse(spec.NotPermitted, "", "X4c: no query"))
			return
		}
		if r.Method == http.MethodGet && r.URL.Path == "/v1/models" {
			d.models(w, r, k, g)
			return
		}
		for _, e := range endpoints {
			if r.Method == http.MethodPost && r.URL.Path == e.path {
				select {
				case d.seats <- struct{}{}:
					defer func() { <-d.seats }()
					d.call(w, r, e, g)
				default:
					writeError(w, k, spec.Refuse(spec.Quota, "", "too many calls at once"))
				}
				return
			}
		}
		writeError(w, k, spec.Refuse(spec.NotFound, "", "X4c: no such endpoint at this door"))
	})
}

// kindOf is the form in which a caller reads an answer.
func kindOf(r *http.Request) kind {
	if strings.Contains(r.URL.Path, "/v1/messages") || r.Header.Get("Anthropic-Version") != "" || r.Header.Get("X-Api-Key") != "" {
		return anthropic
	}
	return openAI
}

// ownHost refuses what a page of another site can send, also through a name of its own that leads here.
func ownHost(r *http.Request) bool {
	u, err := url.Parse("http://" + r.Host)
	if err != nil || u.Hostname() != "localhost" && u.Hostname() != "127.0.0.1" && u.Hostname() != "::1" {
		return false
	}
	return r.Header.Get("Origin") == "" // a program sends none, and no page has anything to ask here
}

// models lists the owner's models in the caller's form. Names with a star are no names.
func (d *Door) models(w http.ResponseWriter, r *http.Request, k kind, g Guest) {
	names, err := d.Gateway.ModelNames(r.Context(), g.Run, string(k))
	if err != nil {
		writeError(w, k, err)
		return
	}
	data := []map[string]any{}
	for _, n := range names {
		if k == anthropic {
			data = append(data, map[string]any{"type": "model", "id": n, "display_name": n, "created_at": "1970-01-01T00:00:00Z"})
		} else {
			data = append(data, map[string]any{"object": "model", "id": n, "created": 0, "owned_by": "owner"})
		}
	}
	out := map[string]any{"object": "list", "data": data}
	if k == anthropic {
		out = map[string]any{"data": data, "has_more": false, "first_id": nil, "last_id": nil}
		if len(names) > 0 {
			out["first_id"], out["last_id"] = names[0], names[len(names)-1]
		}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(out) //nolint:errcheck // the agent went away
}
