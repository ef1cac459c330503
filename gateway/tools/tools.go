// Package tools answers one question: how is a tool of our owner reached? It
// knows the owner's MCP servers (a command that it starts, or an address) and
// folders that may be read. Whether a call may happen is decided before, in a
// turn of the gateway (C5); what comes here goes on to the tool exactly as it is.
//
// A tool is called SERVER.NAME, by the server's name in config.yaml and the name
// that the server gives: docs.read_file.
package tools

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Server is one place where tools are: exactly one of Command, URL and Files.
type Server struct {
	Name    string
	Command []string      // an MCP server of our owner's, on stdin and stdout
	URL     string        // one that speaks streamable HTTP
	Files   string        // a folder that the built-in tools list and read look into
	Secrets []string      // NAME=value for a command's environment, "Name: value" headers for an address
	Dir     string        // where a command starts; the system's folder for temporary files where empty
	Timeout time.Duration // of one call; 0 is DefaultTimeout
}

// Offer is one tool as its server describes it.
type Offer struct {
	Name        string    // SERVER.NAME
	About       string    // the server's own words
	Input       jcs.Value // JSON Schema of the arguments, as the server says
	ReadOnly    bool      // what the server claims of itself: a hint for the owner, never a permission
	Destructive bool
}

// source is one server, reached.
type source interface {
	offers(ctx context.Context) ([]Offer, error)
	call(ctx context.Context, tool string, arguments jcs.Value) (jcs.Value, error)
	close()
}

// Tools are the owner's tools. They may be used from many goroutines.
type Tools struct {
	mu      sync.Mutex // guards sources and known
	sources map[string]source
	known   []Server
	log     *slog.Logger
}

// New starts nothing: a server is started or dialled when it is first needed.
func New(servers []Server, log *slog.Logger) (*Tools, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Tools{sources: map[string]source{}, log: log}
	return t, t.Use(servers)
}

// Use takes another list of servers. One that is the same as before goes on
// running; one that changed or is gone ends.
func (t *Tools) Use(servers []Server) error {
	for _, s := range servers {
		if err := s.check(); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, old := range t.known {
		if !slices.ContainsFunc(servers, old.same) {
			t.sources[old.Name].close()
			delete(t.sources, old.Name)
		}
	}
	t.known = slices.Clone(servers)
	for _, s := range servers {
		if t.sources[s.Name] != nil {
			continue
		}
		if s.Files != "" {
			t.sources[s.Name] = folder{s.Files}
		} else {
			t.sources[s.Name] = &remote{server: s, log: t.log.With("server", s.Name), slots: make(chan struct{}, maxAtOnce)}
		}
	}
	return nil
}

// Close ends every server that was started.
func (t *Tools) Close() {
	t.mu.Lock()
	all := t.sources
	t.sources, t.known = map[string]source{}, nil
	t.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(s.close)
	}
	wg.Wait()
}

// Names are the servers, in order.
func (t *Tools) Names() (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.known {
		out = append(out, s.Name)
	}
	slices.Sort(out)
	return out
}

// Offers asks one server what it has.
func (t *Tools) Offers(ctx context.Context, server string) ([]Offer, error) {
	s, err := t.source(server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	out, err := s.offers(ctx)
	for i := range out {
		out[i].Name = server + "." + out[i].Name
	}
	return out, err
}

// Call hands exactly these arguments to a tool and returns its answer, an MCP
// tool result as canonical JSON. An error with the word unavailable or not-found
// says that nothing was sent; every other one that the tool may have run.
func (t *Tools) Call(ctx context.Context, tool string, arguments jcs.Value) (jcs.Value, error) {
	server, name, ok := strings.Cut(tool, ".")
	if !ok || name == "" {
		return jcs.Value{}, spec.Refuse(spec.NotFound, "/tool", "a tool is called SERVER.NAME")
	}
	s, err := t.source(server)
	if err != nil {
		return jcs.Value{}, err
	}
	return s.call(ctx, name, arguments)
}

// Sent says whether a tool may have run although its call failed.
func Sent(err error) bool {
	switch spec.ReasonOf(err) {
	case spec.Unavailable, spec.NotFound:
		return false
	}
	return err != nil
}

func (t *Tools) source(name string) (source, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.sources[name]
	if !ok {
		return nil, spec.Refuse(spec.NotFound, "/tool", "no tool server has this name")
	}
	return s, nil
}

func (s Server) check() error {
	ways := 0
	for _, there := range []bool{len(s.Command) > 0, s.URL != "", s.Files != ""} {
		if there {
			ways++
		}
	}
	switch {
	case s.Name == "" || len(s.Name) > 40 || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
		return spec.Refuse(spec.Malformed, "/tools/"+s.Name, "a name of small letters, digits, - and _")
	case ways != 1:
		return spec.Refuse(spec.Malformed, "/tools/"+s.Name, "one of command, url and files")
	case s.Timeout < 0 || s.Timeout > MaxTimeout:
		return spec.Refuse(spec.Malformed, "/tools/"+s.Name+"/timeout", "at most 10m")
	}
	return nil
}

// same says whether a server need not be started anew.
func (s Server) same(o Server) bool {
	return s.Name == o.Name && s.URL == o.URL && s.Files == o.Files && s.Dir == o.Dir && s.Timeout == o.Timeout &&
		slices.Equal(s.Command, o.Command) && slices.Equal(s.Secrets, o.Secrets)
}

// unsent is a failure before anything reached the tool.
func unsent(limit string, err error) error {
	return &spec.Error{Reason: spec.Unavailable, Path: "/tool", Limit: limit, Err: err}
}

// unknown is a failure after which nobody can say whether the tool ran.
func unknown(limit string, err error) error {
	return &spec.Error{Reason: spec.Internal, Path: "/tool", Limit: limit, Err: err}
}

var errTooLarge = errors.New("more than a result may hold")
