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

// The questions. A name is a contract between a command and a gateway of the same version.
var (
	Status        = Op[gateway.None, gateway.Status]{"status", (*gateway.Gateway).Status}
	Policy        = Op[gateway.None, gateway.PolicyView]{"policy", (*gateway.Gateway).Policy}
	ChangePolicy  = Op[gateway.PolicyChange, gateway.PolicyView]{"policy-change", (*gateway.Gateway).ChangePolicy}
	AddInvite     = Op[gateway.Document, gateway.Invited]{"invite", (*gateway.Gateway).AddInvite}
	AddContact    = Op[gateway.Redemption, gateway.ContactView]{"contact-add", (*gateway.Gateway).AddContact}
	Contacts      = Op[gateway.None, []gateway.ContactView]{"contacts", (*gateway.Gateway).Contacts}
	ChangeContact = Op[gateway.ContactChange, gateway.ContactView]{"contact-change", (*gateway.Gateway).ChangeContact}
	Propose       = Op[gateway.Proposal, gateway.Proposed]{"propose", (*gateway.Gateway).Propose}
	Tasks         = Op[gateway.None, []gateway.TaskView]{"tasks", (*gateway.Gateway).Tasks}
	Task          = Op[gateway.Ref, gateway.TaskView]{"task", (*gateway.Gateway).Task}
	Watch         = Op[gateway.Since, gateway.Changes]{"watch", (*gateway.Gateway).Watch}
	Amend         = Op[gateway.Change, gateway.Changed]{"amend", (*gateway.Gateway).Amend}
	Cancel        = Op[gateway.Cancellation, gateway.TaskView]{"cancel", (*gateway.Gateway).Cancel}
	Result        = Op[gateway.Fetch, gateway.Fetched]{"result", (*gateway.Gateway).Result}
	Quarantined   = Op[gateway.Fetch, gateway.Fetched]{"quarantined", (*gateway.Gateway).Quarantined}
	Asks          = Op[bool, []gateway.AskView]{"asks", (*gateway.Gateway).Asks}
	Decide        = Op[gateway.Answer, gateway.Decided]{"decide", (*gateway.Gateway).DecideGate}
	Deny          = Op[gateway.Denial, gateway.Decided]{"deny", (*gateway.Gateway).DenyGate}
	Wishes        = Op[bool, []gateway.Wish]{"wishes", (*gateway.Gateway).Wishes}
	Login         = Op[gateway.None, gateway.Login]{"login", (*gateway.Gateway).Login}
	Contract      = Op[gateway.Ref, gateway.Contracted]{"contract", (*gateway.Gateway).Contract}
	Counter       = Op[gateway.TakeUp, gateway.Proposed]{"counter", (*gateway.Gateway).TakeUpCounter}
	Counters      = Op[gateway.None, []gateway.TaskView]{"counters", (*gateway.Gateway).Counters}
	Offered       = Op[gateway.OfferRef, gateway.Offer]{"offered", (*gateway.Gateway).Offered}
	AddApprover   = Op[gateway.Document, gateway.ApproverView]{"approver-add", (*gateway.Gateway).AddApprover}
	Approvers     = Op[gateway.None, gateway.ApproverList]{"approvers", (*gateway.Gateway).ListApprovers}
	Unapprove     = Op[gateway.Document, gateway.None]{"approver-revoke", (*gateway.Gateway).RevokeApprover}
	Export        = Op[gateway.Ref, gateway.Bundle]{"export", (*gateway.Gateway).Export}
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
	row(mux, g, Status)
	row(mux, g, Policy)
	row(mux, g, ChangePolicy)
	row(mux, g, AddInvite)
	row(mux, g, AddContact)
	row(mux, g, Contacts)
	row(mux, g, ChangeContact)
	row(mux, g, Propose)
	row(mux, g, Tasks)
	row(mux, g, Task)
	row(mux, g, Watch)
	row(mux, g, Amend)
	row(mux, g, Cancel)
	row(mux, g, Result)
	row(mux, g, Quarantined)
	row(mux, g, Asks)
	row(mux, g, Decide)
	row(mux, g, Deny)
	row(mux, g, Wishes)
	row(mux, g, Counter)
	row(mux, g, Counters)
	row(mux, g, Login)
	row(mux, g, Contract)
	row(mux, g, Offered)
	row(mux, g, AddApprover)
	row(mux, g, Approvers)
	row(mux, g, Unapprove)
	row(mux, g, Export)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := r.Header.Get(versionHeader); v != version {
			answer(w, nil, spec.Refuse(spec.Unavailable, "", "this command is of version "+v+" and the running gateway of "+version+": restart it"))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

const versionHeader = "Sealbridge-Version"

func row[In, Out any](mux *http.ServeMux, g *gateway.Gateway, o Op[In, Out]) {
	mux.HandleFunc("POST /"+o.name, func(w http.ResponseWriter, r *http.Request) {
		var in In
		d := json.NewDecoder(io.LimitReader(r.Body, maxQuestion))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			answer(w, nil, &spec.Error{Reason: spec.Malformed, Err: err})
			return
		}
		out, err := o.do(g, r.Context(), gateway.Owner, in)
		answer(w, out, err)
	})
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

// Listen opens a unix socket. The folder is its guard: 0700.
func Listen(path string) (net.Listener, error) {
	if len(path) > maxSocket {
		return nil, spec.Refuse(spec.Malformed, path, "a socket's path has 104 bytes at most: use a shorter --home")
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, &spec.Error{Reason: spec.Unavailable, Path: path, Err: err}
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
