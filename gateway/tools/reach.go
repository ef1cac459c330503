package tools

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sealbridge/spec"
)

// passed are the variables that an owner's program may see: its way to its own
// settings, and nothing that programs put secrets into. What it needs beside
// them stands in the server's secrets.
var passed = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
	"XDG_RUNTIME_DIR", "SystemRoot", "USERPROFILE", "APPDATA", "LOCALAPPDATA"}

// start starts a command in a process group of its own. The group ends with the
// connection: it is in no box of ours, because it is the owner's own program.
func start(s Server, log *slog.Logger) (mcp.Transport, error) {
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Env = append(cmd.Env, s.Secrets...)
	cmd.Dir = s.Dir
	if cmd.Dir == "" {
		cmd.Dir = os.TempDir()
	}
	group(cmd)
	cmd.WaitDelay = endWithin // for pipes that a child of it still holds
	cmd.Stderr = &errLog{log: log}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, inner := io.Pipe() // not StdoutPipe: Wait must not close what is still read
	cmd.Stdout = inner
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, ended: make(chan struct{})}
	go func() {
		inner.CloseWithError(fmt.Errorf("the tool server ended: %w", orEOF(cmd.Wait())))
		close(p.ended)
	}()
	return &mcp.IOTransport{Reader: out, Writer: p, MaxLineLength: maxResult + 64<<10}, nil
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// process is a command that runs; closing it ends it and its group.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	once  sync.Once
	ended chan struct{}
}

func (p *process) Write(b []byte) (int, error) { return p.in.Write(b) }

func (p *process) Close() error {
	p.once.Do(func() {
		p.in.Close()
		t := time.NewTimer(endWithin)
		defer t.Stop()
		select {
		case <-p.ended:
		case <-t.C:
		}
		kill(p.cmd.Process) // whoever is left of the group, itself included
		<-p.ended
	})
	return nil
}

// errLog passes on what a server says on stderr: to the operator's log, cut.
type errLog struct {
	log   *slog.Logger
	lines int
}

func (e *errLog) Write(p []byte) (int, error) {
	if e.lines++; e.lines <= 100 { // of one start: the rest says nothing new
		e.log.Info("tool server", "stderr", cut(strings.TrimSpace(string(p)), 500))
	}
	return len(p), nil
}

// overHTTP reaches a server by its address: https, or plain on loopback.
func overHTTP(s Server) (mcp.Transport, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, spec.Refuse(spec.Malformed, "/tools/"+s.Name+"/url", "https://…, or http:// on loopback")
	}
	headers := http.Header{}
	for _, line := range s.Secrets {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, spec.Refuse(spec.Malformed, "/tools/"+s.Name+"/secrets", "a header a line: Name: value")
		}
		headers.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	c := &http.Client{Transport: &bounded{headers: headers, host: u.Host, next: http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a tool server does not send elsewhere") }}
	return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: c, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: maxResult}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// bounded adds the owner's headers, for that host only, and bounds what comes back.
type bounded struct {
	headers http.Header
	host    string
	next    http.RoundTripper
}

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.URL.Host == b.host {
		for name, values := range b.headers {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	res, err := b.next.RoundTrip(r)
	if err == nil {
		res.Body = &limited{res.Body, maxResult + 64<<10}
	}
	return res, err
}

type limited struct {
	io.ReadCloser
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLarge
	}
	n, err := l.ReadCloser.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
