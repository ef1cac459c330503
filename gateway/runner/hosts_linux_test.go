package runner

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// ask is a program that says one line to the proxy and prints the answer.
func ask(line string) string {
	return fmt.Sprintf(`at=${HTTP_PROXY#http://}; exec 3<>/dev/tcp/${at%%:*}/${at##*:} && printf '%s\r\nHost: x\r\n\r\n' >&3 && timeout 20 cat <&3; exec 3>&-; `, line)
}

func TestABoxedProgramReachesTheHostsOfItsContractAndNothingElse(t *testing.T) { // X2, X3
	x := isolated(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "page of "+r.Host+"\n") }))
	defer srv.Close()
	w := &world{t: t, names: map[string][]string{"api.example": {"9.1.1.1"}, "inside.example": {"127.0.0.1"}}, to: srv.Listener.Addr().String()}
	host := srv.Listener.Addr().String()
	at := strings.Replace(host, ":", "/", 1)
	h := w.hosts("api.example", "inside.example")
	res, err := x.Run(t.Context(), Command{Argv: bash(ask("GET http://api.example/a HTTP/1.1") + `env | grep -i proxy | sort`), Hosts: h, WallClock: time.Minute})
	t.Cleanup(func() { res.Close() })
	out := string(res.Stdout)
	if err != nil || !strings.Contains(out, "page of api.example\n") || !strings.Contains(out, "HTTPS_PROXY=http://127.0.0.1:3128\nHTTP_PROXY=http://127.0.0.1:3128\nhttp_proxy=") {
		t.Fatalf("Run = %q, %v, %s", out, err, res.StderrTail)
	}
	if r := h.Reached(); len(r) != 1 || r[0].Host != "api.example" || r[0].Connections != 1 || r[0].Received == 0 {
		t.Errorf("Reached = %+v", r)
	}
	for name, script := range map[string]string{
		"the server itself":        `exec 3<>/dev/tcp/` + at + ` && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && cat <&3`,
		"without the proxy":        `exec 3<>/dev/tcp/api.example/80 && cat <&3`,
		"a datagram to a resolver": `exec 3<>/dev/udp/8.8.8.8/53 && echo x >&3 && echo page of x`,
		"a name of its own":        `getent hosts example.org && echo page of x`,
		"an address of IPv6":       `exec 3<>/dev/tcp/2001:4860:4860::8888/53 && echo page of x`,
		"another host":             ask("CONNECT other.example:443 HTTP/1.1"),
		"another host, plain":      ask("GET http://other.example/ HTTP/1.1"),
		"the server by address":    ask("GET http://" + host + "/ HTTP/1.1"),
		"a tunnel to it":           ask("CONNECT " + host + " HTTP/1.1"),
		"loopback as a number":     ask("CONNECT 2130706433:80 HTTP/1.1"),
		"a name that leads inside": ask("GET http://inside.example/ HTTP/1.1"),
		"another port":             ask("CONNECT api.example:22 HTTP/1.1"),
		"the proxy by its own":     ask("CONNECT 127.0.0.1:3128 HTTP/1.1"),
	} {
		dialled := len(w.dials)
		res, err := x.Run(t.Context(), Command{Argv: bash(script), Hosts: w.hosts("api.example", "inside.example"), WallClock: time.Minute})
		if err != nil || strings.Contains(string(res.Stdout), "page of") || len(w.dials) != dialled {
			t.Errorf("%s: %q, %v, dialled %v", name, res.Stdout, err, w.dials[dialled:])
		}
		res.Close()
	}
}

func TestSlowAndManyConnectionsHarmOnlyTheirOwnRun(t *testing.T) {
	x := isolated(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "page\n") }))
	defer srv.Close()
	w := &world{t: t, names: map[string][]string{"api.example": {"9.1.1.1"}}, to: srv.Listener.Addr().String()}
	// Sixty-three seats are held by heads that never end; the last still serves.
	hold := `at=${HTTP_PROXY#http://}; for i in $(seq 63); do eval "exec $((i+10))<>/dev/tcp/${at%:*}/${at##*:}"; eval "printf 'GET http://api.example/ HTTP/1.1\r\n' >&$((i+10))"; done; `
	res, err := x.Run(t.Context(), Command{Argv: bash(hold + ask("GET http://api.example/ HTTP/1.1")), Hosts: w.hosts("api.example"), WallClock: time.Minute})
	t.Cleanup(func() { res.Close() })
	if err != nil || !strings.HasSuffix(string(res.Stdout), "page\n") {
		t.Errorf("Run = %q, %v, %s", res.Stdout, err, res.StderrTail)
	}
}
