package llmdoor_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sealbridge/gateway"
	"sealbridge/gateway/llmdoor"
	"sealbridge/spec"
)

const ownersKey = "sk-owner-0123456789-secret"

// books is a Budget that writes down what it was asked.
type books struct {
	mu     sync.Mutex
	refuse error
	allow  int64 // tokens of output at most
	host   string
	begun  []gateway.ModelCall
	ended  []gateway.ModelUse
	done   chan gateway.ModelUse
}

func (b *books) BeginModelCall(_ context.Context, c gateway.ModelCall) (gateway.ModelLease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun = append(b.begun, c)
	if b.refuse != nil {
		return gateway.ModelLease{}, b.refuse
	}
	return gateway.ModelLease{ID: "model-1-1", Run: c.Run, Provider: c.Kind, Host: b.host, Output: min(c.Output, b.allow)}, nil
}

func (b *books) EndModelCall(_ context.Context, _ gateway.ModelLease, u gateway.ModelUse) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = append(b.ended, u)
	b.done <- u
	return nil
}

func (b *books) ModelNames(context.Context, gateway.ModelRun, string) ([]string, error) {
	return []string{"m-1", "m-2"}, nil
}

func (b *books) ModelRunOf(_ context.Context, by gateway.Caller, in gateway.Ref) (gateway.ModelRun, error) {
	if by.Agent == "idle" {
		return gateway.ModelRun{}, spec.Refuse(spec.NotPermitted, "", "X4b: start_task comes first")
	}
	return gateway.ModelRun{Task: by.Agent + "/" + in.Task, Run: 1}, nil
}

// rig is a door before a provider that the test writes.
type rig struct {
	t     *testing.T
	books *books
	door  *llmdoor.Door
	at    string // where the run finds the door
	token string
	log   *bytes.Buffer

	mu   sync.Mutex
	seen []*http.Request // by the provider
	body []string
}

func newRig(t *testing.T, provider http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{t: t, books: &books{allow: 1 << 40, done: make(chan gateway.ModelUse, 100)}, token: llmdoor.NewToken(), log: &bytes.Buffer{}}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.seen, r.body = append(r.seen, q), append(r.body, string(b))
		r.mu.Unlock()
		q.Body = io.NopCloser(bytes.NewReader(b))
		provider(w, q)
	}))
	t.Cleanup(up.Close)
	r.books.host = strings.TrimPrefix(up.URL, "http://")
	r.door = llmdoor.New(llmdoor.Config{Gateway: r.books, Client: &http.Transport{DisableCompression: true},
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Upstream: func(string) (llmdoor.Upstream, bool) {
			return llmdoor.Upstream{URL: up.URL, Key: func() (string, error) { return ownersKey, nil }}, true
		},
		Identify: func(token string) (string, bool) { name, ok := strings.CutPrefix(token, "sba_"); return name, ok }})
	box := httptest.NewServer(r.door.Run(llmdoor.Guest{Run: gateway.ModelRun{Task: "t", Run: 1}}, r.token))
	t.Cleanup(box.Close)
	r.at = box.URL
	return r
}

type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (r *rig) post(path, body string, change ...func(*http.Request)) answer {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.at+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("X-Api-Key", r.token)
	for _, c := range change {
		c(q)
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(b), err}
}

// sent is what the provider was sent last, "" where nothing was.
func (r *rig) sent() (*http.Request, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		return nil, ""
	}
	return r.seen[len(r.seen)-1], r.body[len(r.body)-1]
}

// charged is the one end of the one call.
func (r *rig) charged() gateway.ModelUse {
	r.t.Helper()
	u := <-r.books.done
	r.books.mu.Lock()
	defer r.books.mu.Unlock()
	if len(r.books.ended) != 1 {
		r.t.Errorf("%d ends of one call", len(r.books.ended))
	}
	return u
}

// writes is a provider that answers with this.
func writes(status int, header map[string]string, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(status)
		for _, p := range parts {
			io.WriteString(w, p)
			http.NewResponseController(w).Flush()
		}
	}
}

// cuts is a provider that hangs up in the middle.
func cuts(header map[string]string, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		writes(http.StatusOK, header, parts...)(w, r)
		panic(http.ErrAbortHandler)
	}
}

var stream = map[string]string{"Content-Type": "text/event-stream"}

const (
	askMessages  = `{"model":"m-1","max_tokens":100,"messages":[{"role":"user","content":"hello"}]}`
	askStream    = `{"model":"m-1","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hello"}]}`
	askChat      = `{"model":"m-1","messages":[{"role":"user","content":"hello"}]}`
	askChatFlow  = `{"model":"m-1","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	askResponses = `{"model":"m-1","input":"hello"}`

	messagesPath  = "/v1/messages"
	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
)

var errNothing = errors.New("nothing")
