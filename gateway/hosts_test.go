package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
)

// fetcher is an agent that asks its proxy for each page that it is told and
// says which status came back.
const fetcher = `#!/bin/bash
case $(cat) in *'"hosts":["127.0.0.1"]'*) ;; *) exit 9 ;; esac
said=
for page in $PAGES; do
  at=${HTTP_PROXY#http://}
  if exec 3<>/dev/tcp/${at%:*}/${at##*:}; then
    printf 'GET http://%s HTTP/1.1\r\nHost: x\r\n\r\n' "$page" >&3
    read -r _ status _ <&3
    cat <&3 >/dev/null
    exec 3>&-
  fi 2>/dev/null
  said="$said $status"
done
printf '{"output":{"lines":3,"said":"%s"},"evidence":[{"criterion":"ac_1","text":"counted"}]}' "$said"
`

// site is a server of the test's and an agent of Ben's that asks for its pages.
func site(t *testing.T, ben *side, pages string) (host string, port uint16, hits *atomic.Int64) {
	t.Helper()
	hits = new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		io.WriteString(w, "a page")
	}))
	t.Cleanup(srv.Close)
	n, err := strconv.ParseUint(srv.URL[strings.LastIndexByte(srv.URL, ':')+1:], 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "fetch.sh")
	if err := os.WriteFile(script, []byte(fetcher), 0o755); err != nil {
		t.Fatal(err)
	}
	ben.rules.Agents["coder"] = gateway.Agent{Command: []string{"/bin/bash", script}, ReadOnly: []string{filepath.Dir(script)},
		Env: map[string]string{"PAGES": strings.ReplaceAll(pages, "PORT", fmt.Sprint(n))}}
	return "127.0.0.1", uint16(n), hits
}

// local lets work reach this machine at a port: what no manifest can (X2).
func local(port uint16, then policy.Then) policy.Reach {
	return policy.Reach{Host: "127.0.0.1", At: []string{"127.0.0.1"}, Ports: []uint16{port}, Then: then}
}

func boxed(t *testing.T, s *side) {
	t.Helper()
	st, err := s.g.Status(context.Background(), gateway.Owner, gateway.None{})
	if err != nil {
		t.Fatal(err)
	}
	if !st.Isolated {
		t.Skip("this machine gives us no box: hosts are not filtered here")
	}
}

func hosts(gates []string, names ...any) func(*manifest.Draft) {
	return func(d *manifest.Draft) {
		d.Sandbox.Network, d.Sandbox.ClaimedOK, d.Gates = names, false, gates
	}
}

// proven holds both sides' bundles to the law and returns the worker's.
func proven(t *testing.T, id string, ann, ben *side) (text string) {
	t.Helper()
	for _, s := range []*side{ann, ben} {
		b, err := s.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: id})
		if err != nil {
			t.Fatal(err)
		}
		rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{})
		if err != nil || !rep.Verified {
			t.Errorf("%s's bundle: %v, %+v", s.home.Config.Name, err, rep.Findings)
		}
		text = b.Text
	}
	return text
}

func TestABoxedAgentReachesAHostThatItsOwnerOpened(t *testing.T) { // X1, X2, G11
	ann, ben := pair(t)
	boxed(t, ben)
	host, port, hits := site(t, ben, "127.0.0.1:PORT/a 127.0.0.1:PORT/b other.example/ 127.0.0.1:22/")
	ben.rules.Policy.Reach = []policy.Reach{local(port, policy.ThenAllow)} // the contract asks all the same
	ben.adopt()
	p := ann.proposeWith(hosts([]string{"contract", "effect", "delivery"}, host))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	q := ben.ask(manifest.EffectGate)
	if hits.Load() != 0 || q.Ask.Question != "Let “coder” reach 127.0.0.1?" {
		t.Errorf("asked %q after %d pages", q.Ask.Question, hits.Load())
	}
	if _, err := ben.answer(q, approval.Allow); err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	res, err := ann.g.Result(context.Background(), gateway.Owner, gateway.Fetch{Task: p.Task, Dir: filepath.Join(t.TempDir(), "out")})
	if err != nil || !strings.Contains(res.Output.String(), `"said":" 200 200 403 403"`) || hits.Load() != 2 {
		t.Errorf("the agent was told %s, %v; %d pages were asked for", res.Output, err, hits.Load())
	}
	text := proven(t, p.Task, ann, ben)
	for _, want := range []string{`"reached":[{"addresses":["127.0.0.1"],"connections":2,"host":"127.0.0.1","port":` + fmt.Sprint(port), `"opens":{"decision":{"ask`, `"kind":"progressed"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the bundle does not say %s", want)
		}
	}
}

func TestANoToAHostStandsForTheTask(t *testing.T) { // X1, G3
	ann, ben := pair(t)
	boxed(t, ben)
	host, port, hits := site(t, ben, "127.0.0.1:PORT/a 127.0.0.1:PORT/b 127.0.0.1:PORT/c")
	ben.rules.Policy.Reach = []policy.Reach{local(port, policy.ThenAsk)} // and the contract does not
	ben.adopt()
	p := ann.proposeWith(hosts([]string{"contract", "delivery"}, host))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	if _, err := ben.answer(ben.ask(manifest.EffectGate), approval.Deny); err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	res, err := ann.g.Result(context.Background(), gateway.Owner, gateway.Fetch{Task: p.Task, Dir: filepath.Join(t.TempDir(), "out")})
	if err != nil || !strings.Contains(res.Output.String(), `"said":" 403 403 403"`) || hits.Load() != 0 {
		t.Errorf("the agent was told %s, %v; %d pages were asked for", res.Output, err, hits.Load())
	}
	all, err := ben.g.Asks(context.Background(), gateway.Owner, true)
	if n := len(slices.DeleteFunc(all, func(a gateway.AskView) bool { return a.Ask.Gate != manifest.EffectGate })); err != nil || n != 1 {
		t.Errorf("asked %d times, %v, want once", n, err)
	}
	proven(t, p.Task, ann, ben)
}

func TestAHostThatNobodyHasToOpenIsReachedWithoutAsking(t *testing.T) { // G1: a policy adds gates
	ann, ben := pair(t)
	boxed(t, ben)
	host, port, hits := site(t, ben, "127.0.0.1:PORT/a")
	ben.rules.Policy.Reach = []policy.Reach{local(port, policy.ThenAllow)}
	ben.adopt()
	p := ann.proposeWith(hosts([]string{"contract", "delivery"}, host))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	if hits.Load() != 1 {
		t.Errorf("%d pages, want 1", hits.Load())
	}
	proven(t, p.Task, ann, ben)
}

func TestNoManifestReachesThisMachine(t *testing.T) { // X2
	ann, ben := pair(t)
	boxed(t, ben)
	host, port, hits := site(t, ben, "127.0.0.1:PORT/a")
	ben.rules.Policy.Reach = []policy.Reach{{Host: host, Ports: []uint16{port}, Then: policy.ThenAllow}} // the port, and not the address
	ben.adopt()
	p := ann.proposeWith(hosts([]string{"contract", "delivery"}, host))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	res, err := ann.g.Result(context.Background(), gateway.Owner, gateway.Fetch{Task: p.Task, Dir: filepath.Join(t.TempDir(), "out")})
	if err != nil || !strings.Contains(res.Output.String(), `"said":" 403"`) || hits.Load() != 0 {
		t.Errorf("the agent was told %s, %v; %d pages were asked for", res.Output, err, hits.Load())
	}
}

func TestAnOpenQuestionAboutAHostSurvivesARestart(t *testing.T) { // G8
	ann, ben := pair(t)
	boxed(t, ben)
	host, port, hits := site(t, ben, "127.0.0.1:PORT/a")
	ben.rules.Policy.Reach = []policy.Reach{local(port, policy.ThenAsk)}
	ben.adopt()
	p := ann.proposeWith(hosts([]string{"contract", "effect", "delivery"}, host))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	before := ben.ask(manifest.EffectGate)
	ben.restart()
	after := ben.ask(manifest.EffectGate)
	if before.Ask.Digest() != after.Ask.Digest() {
		t.Error("another question after a restart")
	}
	if _, err := ben.answer(after, approval.Allow); err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	if hits.Load() != 1 {
		t.Errorf("%d pages, want 1", hits.Load())
	}
	proven(t, p.Task, ann, ben)
}

func TestARunThatIsCutOffWhileItStandsStillIsNotChargedForIt(t *testing.T) { // B1, B4
	ann, ben := pair(t)
	boxed(t, ben)
	host, port, _ := site(t, ben, "127.0.0.1:PORT/a")
	ben.rules.Policy.Reach = []policy.Reach{local(port, policy.ThenAsk)}
	ben.adopt()
	p := ann.proposeWith(hosts([]string{"contract", "effect", "delivery"}, host))
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ben.ask(manifest.EffectGate)
	ben.until("standing still", func() bool { return ben.g.StandsStill(p.Task) })
	ben.clock = func() time.Time { return time.Now().Add(50 * time.Minute) } // of an hour to answer; the budget has fifteen
	ben.restart()
	ben.until("working again", func() bool { return ben.g.StandsStill(p.Task) })
	if b := ben.state(p.Task).Budget["time"]; b.Committed > 300 || b.Reserved == 0 {
		t.Errorf("%+v: charged for standing still", b)
	}
	ben.ask(manifest.EffectGate)
}

func TestAContractWithAHostThatTheRulesRefuseIsDeclined(t *testing.T) {
	ann, ben := pair(t)
	boxed(t, ben)
	ben.rules.Policy.Reach = []policy.Reach{{Host: "*", Then: policy.ThenRefuse}}
	ben.adopt()
	p := ann.proposeWith(hosts([]string{"contract", "effect", "delivery"}, "api.example.org"))
	ann.allow(manifest.ContractGate)
	ann.until("declined", func() bool { return ann.state(p.Task).Outcome == "declined" })
	if as, err := ben.g.Asks(context.Background(), gateway.Owner, true); err != nil || len(as) != 0 {
		t.Errorf("asked about %d, %v", len(as), err)
	}
}
