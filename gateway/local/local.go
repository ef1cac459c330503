// Package local answers one question: what may a command ask the running
// gateway? One row serves both ends of a unix socket: the command calls it, the
// gateway answers it. The people's socket and the agents' are apart (G9).
package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"sealbridge/gateway"
	"sealbridge/spec"
)

// Op is one question with its answer.
type Op[In, Out any] struct {
	name string
	do   func(*gateway.Gateway, context.Context, gateway.Caller, In) (Out, error)
}

// rows are the handlers of all questions: a question that is there is answered.
var rows []func(*http.ServeMux, *gateway.Gateway)

// op makes a question and the row that answers it.
func op[In, Out any](name string, do func(*gateway.Gateway, context.Context, gateway.Caller, In) (Out, error)) Op[In, Out] {
	o := Op[In, Out]{name, do}
	rows = append(rows, o.row)
	return o
}

// The questions. A name is a contract between a command and a gateway of the same version.
var (
	Status         = op("status", (*gateway.Gateway).Status)
	Policy         = op("policy", (*gateway.Gateway).Policy)
	ChangePolicy   = op("policy-change", (*gateway.Gateway).ChangePolicy)
	Renew          = op("renew", (*gateway.Gateway).Renew)
	AddInvite      = op("invite", (*gateway.Gateway).AddInvite)
	AddContact     = op("contact-add", (*gateway.Gateway).AddContact)
	Contacts       = op("contacts", (*gateway.Gateway).Contacts)
	ChangeContact  = op("contact-change", (*gateway.Gateway).ChangeContact)
	Propose        = op("propose", (*gateway.Gateway).Propose)
	ProposeSeveral = op("propose-several", (*gateway.Gateway).ProposeSeveral)
	Open           = op("open", (*gateway.Gateway).Open)
	Offers         = op("offers", (*gateway.Gateway).Offers)
	Claim          = op("claim", (*gateway.Gateway).Claim)
	Pick           = op("pick", (*gateway.Gateway).Pick)
	Tasks          = op("tasks", (*gateway.Gateway).Tasks)
	Task           = op("task", (*gateway.Gateway).Task)
	Why            = op("why", (*gateway.Gateway).Why)
	Watch          = op("watch", (*gateway.Gateway).Watch)
	Lent           = op("lent", (*gateway.Gateway).LentTools)
	TakeBack       = op("take-back", (*gateway.Gateway).TakeBack)
	Amend          = op("amend", (*gateway.Gateway).Amend)
	Cancel         = op("cancel", (*gateway.Gateway).Cancel)
	Result         = op("result", (*gateway.Gateway).Result)
	Quarantined    = op("quarantined", (*gateway.Gateway).Quarantined)
	Asks           = op("asks", (*gateway.Gateway).Asks)
	Ask            = op("ask", (*gateway.Gateway).Ask)
	Decide         = op("decide", (*gateway.Gateway).DecideGate)
	Deny           = op("deny", (*gateway.Gateway).DenyGate)
	Wishes         = op("wishes", (*gateway.Gateway).Wishes)
	Login          = op("login", (*gateway.Gateway).Login)
	Contract       = op("contract", (*gateway.Gateway).Contract)
	Counter        = op("counter", (*gateway.Gateway).TakeUpCounter)
	Counters       = op("counters", (*gateway.Gateway).Counters)
	Standing       = op("standing", (*gateway.Gateway).Standing)
	Unstand        = op("unstand", (*gateway.Gateway).RevokeStanding)
	Offered        = op("offered", (*gateway.Gateway).Offered)
	AddApprover    = op("approver-add", (*gateway.Gateway).AddApprover)
	Approvers      = op("approvers", (*gateway.Gateway).ListApprovers)
	Unapprove      = op("approver-revoke", (*gateway.Gateway).RevokeApprover)
	EvidenceFiles  = op("evidence-files", (*gateway.Gateway).EvidenceFiles)
	Export         = op("export", (*gateway.Gateway).Export)
)

const (
	maxQuestion = 4 << 20
	maxAnswer   = 256 << 20 // a bundle of 10,000 events
	maxSocket   = 104       // bytes of a socket's path: the least that any system takes
)

type failure struct {
	Code  spec.Reason `json:"code"`
	Path  string      `json:"path"`
	Limit string      `json:"limit"`
}

// Handler answers people's questions. version is held against the command's.
func Handler(g *gateway.Gateway, version string) http.Handler {
	mux := http.NewServeMux()
	for _, row := range rows {
		row(mux, g)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := r.Header.Get(versionHeader); v != version {
			answer(w, nil, spec.Refuse(spec.Unavailable, "", "this command is of version "+v+" and the running gateway of "+version+": restart it"))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

const versionHeader = "Sealbridge-Version"

func (o Op[In, Out]) row(mux *http.ServeMux, g *gateway.Gateway) {
	mux.HandleFunc("POST /"+o.name, func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := question(r.Body, &in); err != nil {
			answer(w, nil, err)
			return
		}
		out, err := o.do(g, r.Context(), gateway.Owner, in)
		answer(w, out, err)
	})
}

// question reads one JSON value strictly, and nothing after it.
func question(r io.Reader, in any) error {
	b, err := io.ReadAll(io.LimitReader(r, maxQuestion+1))
	if err != nil {
		return &spec.Error{Reason: spec.Malformed, Err: err}
	}
	if len(b) > maxQuestion {
		return spec.Refuse(spec.TooLarge, "", "4 MiB")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return &spec.Error{Reason: spec.Malformed, Err: err}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return spec.Refuse(spec.Malformed, "", "one value")
	}
	return nil
}

// answer writes an answer, or the error with its word, path and limit and no internal text.
func answer(w http.ResponseWriter, out any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		f := failure{Code: spec.ReasonOf(err)}
		var e *spec.Error
		if errors.As(err, &e) {
			f.Path, f.Limit = e.Path, e.Limit
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		json.NewEncoder(w).Encode(f) //nolint:errcheck // the caller is gone
		return
	}
	json.NewEncoder(w).Encode(out) //nolint:errcheck // the caller is gone
}

// Listen opens a unix socket. The folder is its guard: 0700. A socket that
// nobody answers any more is taken away; one that somebody answers, and what is
// no socket, is left alone.
func Listen(path string) (net.Listener, error) {
	if len(path) > maxSocket {
		return nil, spec.Refuse(spec.Malformed, path, "a socket's path has 104 bytes at most: use a shorter --home")
	}
	if err := clear(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, &spec.Error{Reason: spec.Unavailable, Path: path, Err: err}
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o600); err != nil {
			l.Close()
			return nil, &spec.Error{Reason: spec.Unavailable, Path: path, Err: err}
		}
	}
	return l, nil
}

func clear(path string) error {
	i, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && i.Mode()&(fs.ModeSocket|fs.ModeIrregular) == 0: // Windows calls its sockets irregular
		return spec.Refuse(spec.Conflict, path, "something else has the socket's name")
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return spec.Refuse(spec.Conflict, path, "a gateway answers here already")
	}
	if err := os.Remove(path); err != nil {
		return &spec.Error{Reason: spec.Unavailable, Path: path, Err: err}
	}
	return nil
}

// Serve answers on l until ctx ends.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stopped := context.AfterFunc(ctx, func() { s.Close() })
	defer stopped()
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// Client asks the gateway behind a socket.
type Client struct {
	http    *http.Client
	path    string
	version string
}

// NewClient dials when it is asked something.
func NewClient(path, version string) *Client {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	return &Client{&http.Client{Transport: t}, path, version}
}

// Call asks. Nobody there is unavailable.
func (o Op[In, Out]) Call(ctx context.Context, c *Client, in In) (out Out, err error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/"+o.name, bytes.NewReader(raw))
	if err != nil {
		return out, err
	}
	req.Header.Set(versionHeader, c.version)
	res, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		return out, &spec.Error{Reason: spec.Unavailable, Limit: "no gateway runs in this home", Err: err}
	}
	defer res.Body.Close()
	answered, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return out, &spec.Error{Reason: spec.Unavailable, Err: err}
	}
	if res.StatusCode != http.StatusOK {
		var f failure
		if json.Unmarshal(answered, &f) != nil || f.Code == "" {
			return out, spec.Refuse(spec.Internal, "", strings.TrimSpace(res.Status))
		}
		return out, spec.Refuse(f.Code, f.Path, f.Limit)
	}
	return out, json.Unmarshal(answered, &out)
}
