package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Member is what the operator sees of one.
type Member struct {
	Key       signing.DID `json:"key"`
	Since     time.Time   `json:"since"`
	LastLogin time.Time   `json:"lastLogin,omitzero"` // since the relay was started
	Waiting   int         `json:"waiting"`
	Bytes     int64       `json:"bytes"`
	Banned    string      `json:"banned,omitempty"` // the reason
}

// Trace is all that the relay may tell of one envelope or mailbox.
type Trace struct {
	Member    bool       `json:"member"`
	LastLogin time.Time  `json:"lastLogin,omitzero"`
	Mail      []TraceOne `json:"mail"`
}

// TraceOne is an envelope that waits.
type TraceOne struct {
	Digest    signing.Digest `json:"digest"`
	To        signing.DID    `json:"to"`
	From      signing.DID    `json:"from"`
	At        time.Time      `json:"at"`
	Size      int            `json:"size"`
	Delivered bool           `json:"delivered"` // handed over, not yet acknowledged
}

// Info is the public face of the relay and its state.
type Info struct {
	Name      string    `json:"name,omitempty"`
	Contact   string    `json:"contact,omitempty"`
	Terms     string    `json:"terms,omitempty"`
	Address   string    `json:"address"`
	Admission Admission `json:"admission"`
	Sync      string    `json:"sync"`
	Stats     Stats     `json:"stats"`
	Human     string    `json:"human"`
}

// Admit makes a ticket that lets that many keys in.
func (s *Server) Admit(uses int, valid time.Duration) (ticket string, err error) {
	if valid <= 0 || valid > 366*24*time.Hour {
		return "", spec.Refuse(spec.Malformed, "/for", "≤ 366 days")
	}
	return s.state.admit(uses, s.cfg.Now().Add(valid))
}

// Members lists them, by key.
func (s *Server) Members() []Member {
	s.state.mu.Lock()
	var out []Member
	for t, m := range s.state.members {
		d, err := t.DID()
		if err != nil {
			continue
		}
		out = append(out, Member{Key: d, Since: m.Since, Banned: s.state.bans[t].Reason})
	}
	s.state.mu.Unlock()
	for i := range out {
		t := relay.TokenOf(out[i].Key)
		out[i].LastLogin = s.auth.lastLogin(t)
		s.mail.mu.Lock()
		if b := s.mail.boxes[t]; b != nil {
			out[i].Waiting, out[i].Bytes = len(b.entries), b.bytes
		}
		s.mail.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b Member) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return out
}

// Ban ends a key's connections and refuses its logins from now on.
func (s *Server) Ban(key signing.DID, reason string) error {
	if reason == "" {
		return spec.Refuse(spec.Malformed, "/reason", "required")
	}
	if err := s.state.ban(relay.TokenOf(key), reason, s.cfg.Now()); err != nil {
		return err
	}
	s.auth.kick(relay.TokenOf(key), 0)
	return nil
}

// Forget takes back everything that is stored of a key: mail that waits for it,
// files it put, list, box-key, membership. Mail it put for others is theirs,
// receipts in the log name nobody.
func (s *Server) Forget(key signing.DID) error {
	t := relay.TokenOf(key)
	s.auth.kick(t, 0)
	return errors.Join(s.state.forget(t), s.mail.forget(t), s.objects.forget(t))
}

// Trace looks for a key's mailbox or an envelope's digest.
func (s *Server) Trace(what string) (Trace, error) {
	tr := Trace{Mail: []TraceOne{}}
	d, err := signing.ParseDigest(what)
	if err == nil {
		tr.Mail = s.mail.trace(func(_ relay.Token, e entry) bool { return signing.DigestFrom(e.digest) == d })
		return tr, nil
	}
	key, err := signing.ParseDID(what)
	if err != nil {
		return tr, spec.Refuse(spec.Malformed, "", "did:key:z6Mk… or sha256:…")
	}
	t := relay.TokenOf(key)
	tr.Member, tr.LastLogin = s.state.isMember(t), s.auth.lastLogin(t)
	tr.Mail = s.mail.trace(func(to relay.Token, e entry) bool { return to == t || e.from == t })
	return tr, nil
}

const maxTrace = 1000

func (m *mail) trace(is func(relay.Token, entry) bool) []TraceOne {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []TraceOne{}
	for to, b := range m.boxes {
		for _, e := range b.entries {
			if len(out) < maxTrace && is(to, e) {
				one := TraceOne{Digest: signing.DigestFrom(e.digest), At: e.at, Size: e.size, Delivered: e.delivered}
				one.To, _ = to.DID()
				one.From, _ = e.from.DID()
				out = append(out, one)
			}
		}
	}
	slices.SortFunc(out, func(a, b TraceOne) int { return a.At.Compare(b.At) })
	return out
}

// Info is what `relay info` shows.
func (s *Server) Info() Info {
	return Info{s.cfg.Name, s.cfg.Contact, s.cfg.Terms, s.address.String(), s.cfg.Admission, string(s.cfg.Sync), s.Stats(), s.Human()}
}

// Human is the page "what this relay knows, and for how long", written from
// the configuration.
func (s *Server) Human() string {
	q := s.cfg.Quotas
	days := func(d time.Duration) string { return fmt.Sprintf("%.0f days", d.Hours()/24) }
	var b strings.Builder
	p := func(f string, v ...any) { fmt.Fprintf(&b, f+"\n", v...) }
	p("What this relay knows, and for how long")
	p("")
	p("It cannot read a letter or a file: both are sealed to keys it does not have.")
	p("")
	p("Of every envelope   who put it, for whom, when, its size, its expiry, the name of the key it is sealed to,")
	p("                    and a commitment that only its sender can open. Until it is collected, at most %s.", days(q.MailAge))
	p("Of every file       who put it, a random name, when, its size. At most %s, or until its sender drops it.", days(q.FileAge))
	p("Of every mailbox    its owner's current box-key, the keys on its list, hashes of its tickets. Until `relay forget`.")
	p("Of every member     the key, and since when. Until `relay forget`. The last login: in memory, at most %s.", days(loginMemory))
	p("Of every connection the network address, while it is open. It is not written down.")
	p("Invites that wait   a sealed blob under a random name, until it expires, at most %s.", days(relay.MaxLife))
	p("For good            the custody log: one hash for each envelope taken. It names nobody and cannot be turned back.")
	p("")
	p("So it knows who talks to whom, when and how much. It does not know what.")
	switch s.cfg.Sync {
	case relay.SyncAlways:
		p("Every envelope is on the disk before its sender hears so.")
	default:
		p("After a power failure the last seconds of mail may be gone; senders keep theirs and send again.")
	}
	p("With the disk, mail may be lost and nothing is lost: senders keep it until the recipient has signed for it.")
	return b.String()
}

// adminServer serves the operator's commands on a socket that only the
// relay's user can open.
type adminServer struct {
	http *http.Server
	done chan struct{}
}

func socketPath(dir string) string { return filepath.Join(dir, "admin.sock") }

func startAdmin(s *Server) (*adminServer, error) {
	path := socketPath(s.cfg.Dir)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("opening the admin socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening the admin socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close() //nolint:errcheck // the first error is the one to tell
		return nil, fmt.Errorf("opening the admin socket: %w", err)
	}
	a := &adminServer{http: &http.Server{Handler: s.adminHandler(), ReadHeaderTimeout: 5 * time.Second}, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		if err := a.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("admin socket", "error", err)
		}
	}()
	return a, nil
}

func (a *adminServer) close() {
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if a.http.Shutdown(ctx) != nil { // whoever asked for the end hears the answer first
		a.http.Close() //nolint:errcheck // nothing more to do
	}
	<-a.done
}

// command is the body of every admin request.
type command struct {
	Key    string        `json:"key,omitempty"`
	Reason string        `json:"reason,omitempty"`
	Uses   int           `json:"uses,omitempty"`
	For    time.Duration `json:"for,omitempty"` // ns
}

func (s *Server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	on := func(name string, do func(command) (any, error)) {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
			var c command
			body, err := io.ReadAll(io.LimitReader(r.Body, relay.MaxRequest))
			if err == nil {
				err = relay.Read(body, &c)
			}
			var out any
			if err == nil {
				out, err = do(c)
			}
			if err != nil {
				out = relay.FailureOf(err, 0)
			}
			w.Header().Set("Content-Type", "application/json")
			w.Write(relay.Write(out)) //nolint:errcheck // the other end may be gone
		})
	}
	withKey := func(do func(signing.DID, command) error) func(command) (any, error) {
		return func(c command) (any, error) {
			d, err := signing.ParseDID(c.Key)
			if err != nil {
				return nil, err
			}
			return struct{}{}, do(d, c)
		}
	}
	on("admit", func(c command) (any, error) { return s.Admit(c.Uses, c.For) })
	on("members", func(command) (any, error) { return s.Members(), nil })
	on("ban", withKey(func(d signing.DID, c command) error { return s.Ban(d, c.Reason) }))
	on("forget", withKey(func(d signing.DID, _ command) error { return s.Forget(d) }))
	on("trace", func(c command) (any, error) { return s.Trace(c.Key) })
	on("info", func(command) (any, error) { return s.Info(), nil })
	on("checkpoint", func(command) (any, error) {
		b, err := s.Checkpoint()
		return json.RawMessage(b), err
	})
	mux.HandleFunc("POST /backup", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := s.Backup(w); err != nil { // the reader misses the last entry
			s.log.Error("backup", "error", err)
		}
	})
	on("drain", func(command) (any, error) {
		go s.Close() //nolint:errcheck // says nothing; Done tells when
		return struct{}{}, nil
	})
	return mux
}

// Done is closed when the relay has begun to stop, by whomever.
func (s *Server) Done() <-chan struct{} { return s.stopping }

// Admin speaks to a running relay.
type Admin struct{ http *http.Client }

// DialAdmin finds the relay that runs over dir.
func DialAdmin(dir string) (*Admin, error) {
	path := socketPath(dir)
	c, err := net.DialTimeout("unix", path, 2*time.Second)
	if err != nil {
		return nil, &spec.Error{Reason: spec.Unavailable, Limit: "no relay runs over this store", Err: err}
	}
	c.Close() //nolint:errcheck // only to know
	var d net.Dialer
	return &Admin{&http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) }}}}, nil
}

func (a *Admin) call(ctx context.Context, name string, c command, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://relay/"+name, bytes.NewReader(relay.Write(c)))
	if err != nil {
		return err
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return &spec.Error{Reason: spec.Unavailable, Err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return &spec.Error{Reason: spec.Unavailable, Err: err}
	}
	if err := relay.Failed(body); err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// Admit, Members, Ban, Forget, Trace, Info, Checkpoint and Drain are those of
// the running [Server].
func (a *Admin) Admit(ctx context.Context, uses int, valid time.Duration) (ticket string, err error) {
	err = a.call(ctx, "admit", command{Uses: uses, For: valid}, &ticket)
	return ticket, err
}

func (a *Admin) Members(ctx context.Context) (ms []Member, err error) {
	err = a.call(ctx, "members", command{}, &ms)
	return ms, err
}

func (a *Admin) Ban(ctx context.Context, key signing.DID, reason string) error {
	return a.call(ctx, "ban", command{Key: key.String(), Reason: reason}, &struct{}{})
}

func (a *Admin) Forget(ctx context.Context, key signing.DID) error {
	return a.call(ctx, "forget", command{Key: key.String()}, &struct{}{})
}

func (a *Admin) Trace(ctx context.Context, keyOrDigest string) (t Trace, err error) {
	err = a.call(ctx, "trace", command{Key: keyOrDigest}, &t)
	return t, err
}

func (a *Admin) Info(ctx context.Context) (i Info, err error) {
	err = a.call(ctx, "info", command{}, &i)
	return i, err
}

// Backup streams the running relay's backup, a tar.
func (a *Admin) Backup(ctx context.Context) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://relay/backup", nil)
	if err != nil {
		return nil, err
	}
	c := *a.http
	c.Timeout = 0 // a long log takes its time
	resp, err := c.Do(req)
	if err != nil {
		return nil, &spec.Error{Reason: spec.Unavailable, Err: err}
	}
	return resp.Body, nil
}

func (a *Admin) Drain(ctx context.Context) error {
	return a.call(ctx, "drain", command{}, &struct{}{})
}
