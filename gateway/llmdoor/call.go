package llmdoor

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"sealbridge/gateway"
	"sealbridge/spec"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// free is the use of a call that used nothing.
var free = gateway.ModelUse{}

// call takes one call through: read, reserve, send, pass on, charge.
func (d *Door) call(w http.ResponseWriter, r *http.Request, e endpoint, g Guest) {
	q, err := e.read(r)
	if err != nil {
		writeError(w, e.kind, err)
		return
	}
	lease, err := d.Gateway.BeginModelCall(r.Context(), q.call(g))
	if err != nil {
		writeError(w, e.kind, err)
		return
	}
	c := &exchange{Door: d, w: w, r: r, q: &q, lease: lease, began: time.Now()}
	defer c.end(nothing) // whatever happens: once, and unknown if nothing better was said (B1)
	q.limitTo(lease.Output)
	c.run()
}

// exchange is one call that was let through.
type exchange struct {
	*Door
	w     http.ResponseWriter
	r     *http.Request
	q     *request
	key   string
	lease gateway.ModelLease
	ended bool
	began time.Time
}

// end charges the call, the first time. The agent may be gone by then.
func (c *exchange) end(used gateway.ModelUse) {
	if c.ended {
		return
	}
	c.ended = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), endingCalls)
	defer cancel()
	if err := c.Gateway.EndModelCall(ctx, c.lease, used); err != nil {
		c.Log.Error("ending a model call", "call", c.lease.ID, "error", err) // it stays reserved, and is charged with its run
	}
	c.Log.Info("model call", "call", c.lease.ID, "provider", c.lease.Provider, "endpoint", c.q.path, "in", used.Input, "out", used.Output, "milliseconds", time.Since(c.began).Milliseconds())
}

func (c *exchange) refuse(err error) { writeError(c.w, c.q.kind, err) }

func (c *exchange) run() {
	up, ok := c.Upstream(c.lease.Provider)
	at, err := url.Parse(c.q.at(up.URL))
	if !ok || err != nil || at.Host != c.lease.Host {
		c.end(free)
		c.refuse(spec.Refuse(spec.Unavailable, "", "X4h: the provider is not the one that the contract names any more"))
		return
	}
	if up.Key != nil {
		if c.key, err = up.Key(); err != nil {
			c.Log.Error("reading the key of a model provider", "provider", c.lease.Provider, "error", err)
			c.end(free)
			c.refuse(spec.Refuse(spec.Unavailable, "", "X4a: the owner's key cannot be read"))
			return
		}
	}
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	left := &atomic.Bool{} // a byte of the call left this machine
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaderField: func(string, []string) { left.Store(true) }})
	body := c.q.bytes()
	req := (&http.Request{Method: http.MethodPost, URL: at, Host: at.Host, Header: c.q.header(c.r, c.key), Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}).WithContext(ctx)
	res, err := c.Client.RoundTrip(req) // follows nothing
	if err != nil {
		if !left.Load() {
			c.end(free)
		}
		c.Log.Warn("asking a model provider", "provider", c.lease.Provider, "error", c.scrub(err.Error()))
		c.end(nothing)
		c.refuse(spec.Refuse(spec.Unavailable, "", "the model provider does not answer"))
		return
	}
	defer res.Body.Close()
	idle := time.AfterFunc(stall, cancel)
	defer idle.Stop()
	answer, err := decoded(res, &watched{res.Body, idle})
	if err != nil {
		c.refuse(spec.Refuse(spec.Unavailable, "", "the model provider's answer is of an unknown encoding"))
		return
	}
	switch {
	case res.StatusCode != http.StatusOK:
		c.passError(res, answer)
	case strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream"):
		c.passStream(res, answer)
	default:
		c.passWhole(res, answer)
	}
}

// watched is a body that may not stand still for too long.
type watched struct {
	io.Reader
	idle *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.idle.Reset(stall)
	}
	return n, err
}

// decoded undoes an encoding that we did not ask for.
func decoded(res *http.Response, body io.Reader) (io.Reader, error) {
	switch res.Header.Get("Content-Encoding") {
	case "", "identity":
		return body, nil
	case "gzip":
		return gzip.NewReader(body)
	}
	return nil, errors.New("unknown encoding")
}

// passed are the headers of an answer that reach the agent (X4g).
var passed = []string{"Retry-After", "Retry-After-Ms", "X-Should-Retry", "Request-Id", "X-Request-Id"}

func (c *exchange) header(res *http.Response, contentType string) {
	for _, name := range passed {
		if v := res.Header.Get(name); v != "" {
			c.w.Header().Set(name, c.scrub(v))
		}
	}
	c.w.Header().Set("Content-Type", contentType)
}

// scrub takes the key out of a text of the provider's.
func (c *exchange) scrub(s string) string {
	if c.key == "" {
		return s
	}
	return strings.ReplaceAll(s, c.key, "…")
}

// refusedForFree are answers that say that no model was asked (X4e).
func refusedForFree(status int) bool {
	return status >= 300 && status < 500 || status == http.StatusInternalServerError || status == http.StatusServiceUnavailable || status == 529
}

// passError passes on that a provider refused, in words that say nothing of the owner's account.
func (c *exchange) passError(res *http.Response, body io.Reader) {
	if refusedForFree(res.StatusCode) {
		c.end(free)
	} else {
		c.end(nothing)
	}
	raw, _ := io.ReadAll(io.LimitReader(body, maxRefusal)) //nolint:errcheck // what came of it
	var said struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
			Code    any    `json:"code"`
		} `json:"error"`
	}
	json.Unmarshal(raw, &said) //nolint:errcheck // no words then
	c.Log.Warn("a model provider refused", "provider", c.lease.Provider, "status", res.StatusCode)
	code, _ := said.Error.Code.(string)
	status, what, text := res.StatusCode, c.scrub(said.Error.Type), c.scrub(said.Error.Message)
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		c.refuse(spec.Refuse(spec.NotPermitted, "", "the model provider refused the owner's key"))
		return
	case status < 400: // an address that moved: the owner has to look
		c.refuse(spec.Refuse(spec.Unavailable, "", "the model provider answered with another address"))
		return
	case text == "" || what == "":
		what, text = "api_error", "the model provider answered "+itoa(int64(status))
	}
	c.header(res, "application/json")
	c.w.WriteHeader(status)
	c.w.Write(errorBody(c.q.kind, what, c.scrub(code), text))
}

// passWhole passes on an answer in one piece, after it was charged.
func (c *exchange) passWhole(res *http.Response, body io.Reader) {
	raw, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil || len(raw) > maxAnswer || !json.Valid(raw) {
		c.end(nothing)
		c.refuse(spec.Refuse(spec.Unavailable, "", "the model provider's answer was cut, or is none"))
		return
	}
	m := c.q.reader(c.q.told)
	m.whole(raw)
	c.end(m.used())
	c.header(res, "application/json")
	c.w.Write(c.scrubbed(raw))
}

func (c *exchange) scrubbed(b []byte) []byte {
	if c.key == "" {
		return b
	}
	return bytes.ReplaceAll(b, []byte(c.key), []byte("…"))
}

// passStream passes on events as they come. What says that the call is over
// waits until that is written down, so that a program which ends at once has
// been charged what it used and not what was reserved (X4e). A stream that is cut ends
// for the agent as one that is cut.
func (c *exchange) passStream(res *http.Response, body io.Reader) {
	c.header(res, "text/event-stream")
	c.w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(c.w)
	m := c.q.reader(c.q.told)
	in := &sse{r: bufio.NewReaderSize(body, 64<<10), limit: maxAnswer}
	var kept []byte
	send := func(b []byte) bool {
		_, err := c.w.Write(c.scrubbed(b))
		return errors.Join(err, out.Flush()) == nil
	}
	for {
		raw, data, err := in.next()
		if err != nil {
			c.end(m.used())
			send(kept)
			if err != io.EOF {
				panic(http.ErrAbortHandler)
			}
			return
		}
		switch m.event(data) {
		case keep:
			kept = append(kept, raw...)
			continue
		case drop:
			continue
		case ends:
			c.end(m.used())
		}
		if !send(append(kept, raw...)) {
			return
		}
		kept = nil
	}
}
