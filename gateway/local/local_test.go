package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/gateway/gatewaytest"
	"sealbridge/gateway/home"
	"sealbridge/manifest"
	"sealbridge/spec"
)

// short is a path that a socket can have, in a folder of its own.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sbl") // t.TempDir is too long for a socket on some systems
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, home.PeopleSock)
}

// serving answers on a real socket until the test ends.
func serving(t *testing.T, h http.Handler) *Client {
	t.Helper()
	path := short(t)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, h) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return NewClient(path, "v1")
}

// said posts raw bytes to one question, as any program of this user could.
func said(t *testing.T, c *Client, name, version string, body []byte, header ...string) (code spec.Reason, text string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://gateway/"+name, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(versionHeader, version)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var raw json.RawMessage
	if err := json.NewDecoder(res.Body).Decode(&raw); err != nil {
		t.Fatalf("%s: status %d without JSON: %v", name, res.StatusCode, err)
	}
	var f failure
	if res.StatusCode != http.StatusOK {
		if err := json.Unmarshal(raw, &f); err != nil || f.Code == "" {
			t.Fatalf("%s: status %d: %s", name, res.StatusCode, raw)
		}
	}
	return f.Code, string(raw)
}

// names are all questions, by their rows.
func names(t *testing.T) (out []string) {
	t.Helper()
	src, err := os.ReadFile("local.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(src)) {
		if _, rest, ok := strings.Cut(line, `= op("`); ok {
			name, _, _ := strings.Cut(rest, `"`)
			out = append(out, name)
		}
	}
	if len(out) < 20 || len(out) != len(rows) {
		t.Fatalf("%d questions, %d rows", len(out), len(rows))
	}
	return out
}

func TestEveryQuestionIsAnsweredStrictly(t *testing.T) {
	ann, _ := gatewaytest.Pair(t, gatewaytest.Counter)
	c := serving(t, Handler(ann.G, "v1"))
	for _, name := range names(t) {
		for what, body := range map[string]string{"an unknown member": `{"nonsense":1}`, "two values": "null null", "no JSON": "{", "nothing": "", "a list": "[[]]"} {
			if code, text := said(t, c, name, "v1", []byte(body)); code != spec.Malformed || strings.Contains(text, "nonsense") {
				t.Errorf("%s of %s: %s", name, what, text)
			}
		}
		if code, _ := said(t, c, name, "v1", bytes.Repeat([]byte(" "), maxQuestion+1)); code != spec.TooLarge {
			t.Errorf("%s of more than %d bytes: %q", name, maxQuestion, code)
		}
		// An empty question reaches the gateway: it is answered, or refused for what it lacks.
		if code, text := said(t, c, name, "v1", []byte("null")); code == spec.Internal {
			t.Errorf("%s of nothing: %s", name, text)
		}
		if code, _ := said(t, c, name, "v2", []byte("null")); code != spec.Unavailable {
			t.Errorf("%s by another version: %q", name, code)
		}
	}
}

func TestAnAnswerIsWhatTheGatewaySays(t *testing.T) {
	ann, _ := gatewaytest.Pair(t, gatewaytest.Counter)
	c, ctx := serving(t, Handler(ann.G, "v1")), context.Background()
	s, err := Status.Call(ctx, c, gateway.None{})
	want, err2 := ann.G.Status(ctx, gateway.Owner, gateway.None{})
	s.Head, want.Head, s.Outgoing, want.Outgoing = 0, 0, 0, 0 // move by themselves
	if err != nil || err2 != nil || asJSON(t, s) != asJSON(t, want) {
		t.Errorf("%+v, %v, want %+v", s, err, want)
	}
	cs, err := Contacts.Call(ctx, c, gateway.None{})
	if err != nil || len(cs) != 1 || cs[0].Name != "Ben" || !cs[0].Confirmed {
		t.Errorf("%+v, %v", cs, err)
	}
	p, err := Propose.Call(ctx, c, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "t", Goal: "g", Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
	if err != nil || p.Ask == "" {
		t.Fatalf("%+v, %v", p, err)
	}
	as, err := Asks.Call(ctx, c, false)
	direct, err2 := ann.G.Asks(ctx, gateway.Owner, false)
	if err != nil || err2 != nil || len(as) != 1 || as[0].Ask.Digest() != direct[0].Ask.Digest() || !reflect.DeepEqual(as[0].Ask, direct[0].Ask) {
		t.Errorf("an ask is another one through the socket: %v, %v", err, err2)
	}
	if d, err := Deny.Call(ctx, c, gateway.Denial{Ask: p.Ask, Reason: "no"}); err != nil || d.State != "denied" {
		t.Errorf("%+v, %v", d, err)
	}
	_, err = Deny.Call(ctx, c, gateway.Denial{Ask: p.Ask})
	if spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("twice: %v, want conflict", err)
	}
	if _, err := Task.Call(ctx, c, gateway.Ref{Task: "nope"}); spec.ReasonOf(err) != spec.NotFound {
		t.Errorf("%v, want not-found", err)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestNobodyBecomesSomebodyElse: who asks is the socket, not what a request says of itself (G9).
func TestNobodyBecomesSomebodyElse(t *testing.T) {
	callers := make(chan gateway.Caller, 10)
	who := Op[gateway.None, gateway.None]{"who", func(_ *gateway.Gateway, _ context.Context, by gateway.Caller, _ gateway.None) (gateway.None, error) {
		callers <- by
		return gateway.None{}, nil
	}}
	mux := http.NewServeMux()
	who.row(mux, nil)
	c := serving(t, mux)
	for _, header := range [][]string{nil, {"Authorization", "Bearer sba_agent"}, {"Sealbridge-Agent", "claude"}, {"X-Forwarded-For", "1.2.3.4"}} {
		if code, text := said(t, c, "who", "v1", []byte("{}"), header...); code != "" {
			t.Fatal(text)
		}
		if by := <-callers; by != gateway.Owner {
			t.Errorf("%v asks as %+v", header, by)
		}
	}
	if code, _ := said(t, c, "who", "v1", []byte(`{"Agent":"claude"}`)); code != spec.Malformed {
		t.Errorf("a caller in the question: %q", code)
	}
}

func TestNoInternalTextLeaves(t *testing.T) {
	hidden := errors.New("opening /home/ann/keys/owner.key: permission denied")
	mux := http.NewServeMux()
	for name, err := range map[string]error{"plain": hidden, "wrapped": &spec.Error{Reason: spec.Unavailable, Path: "/p", Limit: "disk", Err: hidden},
		"of the system": &fs.PathError{Op: "open", Path: "/home/ann/keys", Err: fs.ErrPermission}} {
		o := Op[gateway.None, gateway.None]{strings.ReplaceAll(name, " ", "-"), func(*gateway.Gateway, context.Context, gateway.Caller, gateway.None) (gateway.None, error) {
			return gateway.None{}, err
		}}
		o.row(mux, nil)
	}
	c := serving(t, mux)
	for name, want := range map[string]string{"plain": `{"code":"internal","path":"","limit":""}`, "wrapped": `{"code":"unavailable","path":"/p","limit":"disk"}`,
		"of-the-system": `{"code":"internal","path":"","limit":""}`} {
		if _, text := said(t, c, name, "v1", []byte("{}")); text != want {
			t.Errorf("%s: %s, want %s", name, text, want)
		}
	}
	// A question that does not decode says where nothing of it came from.
	if _, text := said(t, c, "plain", "v1", []byte(`{"secret":"x"}`)); strings.Contains(text, "secret") {
		t.Errorf("%s", text)
	}
}

func TestOnlyPostsAreQuestions(t *testing.T) {
	c := serving(t, Handler(nil, "v1"))
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		req, err := http.NewRequest(method, "http://gateway/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(versionHeader, "v1")
		res, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			t.Errorf("%s is answered", method)
		}
	}
	_, err := Op[gateway.None, gateway.None]{name: "no-such-question"}.Call(context.Background(), c, gateway.None{})
	if spec.ReasonOf(err) != spec.Internal {
		t.Errorf("a question that nobody knows: %v", err)
	}
}

func TestASocketIsItsOwnersAlone(t *testing.T) {
	path := short(t)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if i, err := os.Lstat(path); err != nil || runtime.GOOS != "windows" && (i.Mode().Perm() != 0o600 || i.Mode()&fs.ModeSocket == 0) {
		t.Errorf("%v, %v, want a socket of mode 0600", i.Mode(), err)
	}
}

func TestAStaleSocketIsTakenAndALivingOneIsNot(t *testing.T) {
	path := short(t)
	first, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("a second server: %v, want conflict", err)
	}
	if c, err := net.Dial("unix", path); err != nil {
		t.Errorf("the first one lost its socket: %v", err)
	} else {
		c.Close()
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // as after a kill
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal("the test has no stale socket:", err)
	}
	second, err := Listen(path)
	if err != nil {
		t.Fatalf("a stale socket: %v", err)
	}
	second.Close()
}

func TestWhatIsNoSocketIsLeftAlone(t *testing.T) {
	path := short(t)
	if err := os.WriteFile(path, []byte("notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("%v, want conflict", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "notes" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := Listen(filepath.Join(t.TempDir(), strings.Repeat("x", maxSocket))); spec.ReasonOf(err) != spec.Malformed {
		t.Errorf("a path that is too long: %v, want malformed", err)
	}
	if _, err := Listen(filepath.Join(filepath.Dir(path), "no-folder", "s")); spec.ReasonOf(err) != spec.Unavailable {
		t.Errorf("no folder: %v, want unavailable", err)
	}
}

func TestNobodyThereIsUnavailable(t *testing.T) {
	_, err := Status.Call(context.Background(), NewClient(short(t), "v1"), gateway.None{})
	if spec.ReasonOf(err) != spec.Unavailable || !strings.Contains(err.Error(), "no gateway runs") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Status.Call(ctx, NewClient(short(t), "v1"), gateway.None{}); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever gave up hears that: %v", err)
	}
}

// TestAWatcherThatLeavesIsNotWaitedFor: the question ends when its caller goes, and the server ends when it is told.
func TestAWatcherThatLeavesIsNotWaitedFor(t *testing.T) {
	begun, left := make(chan bool, 1), make(chan bool, 1)
	waits := Op[gateway.None, gateway.None]{"waits", func(_ *gateway.Gateway, ctx context.Context, _ gateway.Caller, _ gateway.None) (gateway.None, error) {
		begun <- true
		<-ctx.Done()
		left <- true
		return gateway.None{}, ctx.Err()
	}}
	mux := http.NewServeMux()
	waits.row(mux, nil)
	c := serving(t, mux)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { _, err := waits.Call(ctx, c, gateway.None{}); ended <- err }()
	<-begun
	cancel()
	<-left
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	go waits.Call(context.Background(), c, gateway.None{}) //nolint:errcheck // ends with the server
	<-begun
}
