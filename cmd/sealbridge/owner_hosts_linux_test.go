package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/gateway/gatewaytest"
	"sealbridge/gateway/runner"
	"sealbridge/policy"
)

// reader is an agent that reads one page through the proxy of its box.
const reader = `exec bash -c '
cat >/dev/null
at=${HTTP_PROXY#http://}
exec 3<>/dev/tcp/${at%:*}/${at##*:}
printf "GET http://127.0.0.1:PORT/page HTTP/1.1\r\nHost: x\r\n\r\n" >&3
read -r _ status _ <&3
cat <&3 >/dev/null
printf "{\"output\":{\"status\":%s},\"evidence\":[{\"criterion\":\"ac_1\",\"text\":\"read\"}]}" "$status"'
`

func TestAPageIsReadByAnAgentAndEverybodyCanSeeIt(t *testing.T) { // X1, X2, V4
	x, err := runner.New(t.Context(), runner.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if !x.Ports() {
		t.Skip("this machine gives us no box: hosts are not filtered here")
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "a page") }))
	defer srv.Close()
	at := srv.URL[strings.LastIndexByte(srv.URL, ':')+1:]
	port, err := strconv.ParseUint(at, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	ann, ben := gatewaytest.Pair(t, strings.ReplaceAll(reader, "PORT", at))
	serves(t, ann)
	serves(t, ben)
	ben.Rules.Policy.Reach = []policy.Reach{{Host: "127.0.0.1", At: []string{"127.0.0.1"}, Ports: []uint16{uint16(port)}, Then: policy.ThenAsk}}
	ben.Reload()

	dir := t.TempDir()
	file := filepath.Join(dir, "task.yaml")
	if err := os.WriteFile(file, []byte("title: Read a page\ngoal: Say what the page answers\nsandbox: {network: [127.0.0.1]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(s *gatewaytest.Side, want []string, args ...string) string {
		t.Helper()
		code, out, errs := of(s, args...)
		plain := strings.Join(strings.Fields(out), " ") // whatever the width
		for _, w := range want {
			if code != 0 || !strings.Contains(plain, w) {
				t.Fatalf("%s: exit %d, want %q: %s%s", strings.Join(args, " "), code, w, out, errs)
			}
		}
		return out
	}
	var p gateway.Proposed
	if err := json.Unmarshal([]byte(says(ann, nil, "propose", file, "--to", "Ben", "--json")), &p); err != nil {
		t.Fatal(err)
	}
	says(ann, []string{"reach 127.0.0.1: by Ben's agent"}, "gate", "show", p.Ask)
	ann.Yes(p.Ask)
	contract := ben.OpenAsk(p.Task, "contract")
	says(ben, []string{"no network but the hosts below", "reach 127.0.0.1", "a person is asked before each one is opened"}, "gate", "show", contract)
	ben.Yes(contract)
	effect := ben.OpenAsk(p.Task, "effect")
	says(ben, []string{"reach 127.0.0.1?", "ports 80, 443, " + at, "as your policy lists"}, "gate", "show", effect)
	ben.Yes(effect)
	ann.Yes(ann.OpenAsk(p.Task, "delivery"))
	says(ann, []string{"COMPLETED"}, "task", "watch", p.Task)
	says(ann, []string{`{"status":200}`}, "task", "result", p.Task)
	bundle := filepath.Join(dir, "case.json")
	says(ann, nil, "export", p.Task, "-o", bundle)
	says(ann, []string{"Opened", "127.0.0.1 by Ben's owner, for this task", "Reached", "127.0.0.1 port " + at + ": 1 connection"}, "verify", bundle)
}
