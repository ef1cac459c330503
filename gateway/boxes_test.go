package gateway_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/policy/audit"
	"sealbridge/signing"
)

// exampleModule is the agent of examples/wasi, built by the Go toolchain.
func exampleModule(t *testing.T) (path string, d signing.Digest) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "revenue.wasm")
	cmd := exec.Command("go", "build", "-o", path, "sealbridge/examples/wasi")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, signing.DigestOf(b)
}

func (s *side) revenue(box manifest.DraftSandbox) gateway.Proposed {
	s.t.Helper()
	in, err := filepath.Abs("../examples/revenue/sales.csv")
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := s.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "Revenue", Goal: "Add up sales.csv per region.",
		Inputs: []manifest.DraftInput{{File: in, As: "sales.csv"}}, Output: map[string]any{"type": "object", "required": []any{"totals"}}, Sandbox: box}})
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func TestAModuleWorksWhereAContractAsksForOne(t *testing.T) { // X9, X10
	ann, ben := pair(t)
	ann.patience, ben.patience = 10*time.Minute, 10*time.Minute // a compiler of modules under the race detector takes its time
	module, digest := exampleModule(t)
	ben.rules.Agents["totals"] = gateway.Agent{Module: module} // beside the one that is a subprocess
	ben.adopt()
	p := ann.revenue(manifest.DraftSandbox{Isolation: "wasm"})
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	res, err := ann.g.Result(context.Background(), gateway.Owner, gateway.Fetch{Task: p.Task, Dir: filepath.Join(t.TempDir(), "out")})
	if err != nil || !res.Ready || !strings.Contains(res.Output.String(), `"totals":{`) {
		t.Fatalf("%+v, %v", res, err)
	}
	bundle, err := ann.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: p.Task})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := audit.Verify(strings.NewReader(bundle.Text), audit.Options{})
	if err != nil || !rep.Verified || rep.Facts.Isolation == nil || *rep.Facts.Isolation != (manifest.Isolation{Level: "wasm", Enforced: "gateway"}) {
		t.Fatalf("%+v, %v", rep.Facts, err)
	}
	for _, want := range []string{`"runner":"wasm"`, `"image":"` + digest.String() + `"`, "no links"} {
		if !strings.Contains(bundle.Text, want) {
			t.Errorf("the attestation does not say %s", want)
		}
	}
}

func TestAnImageWorksWhereAContractAsksForAContainer(t *testing.T) { // X10, X12
	dir := t.TempDir()
	engine := `#!/bin/sh
case $1 in
version) echo 5.9.1 ;;
image) echo there ;;
run) echo '{"output":{"totals":{}},"evidence":[{"criterion":"ac_1","text":"none to add up"}]}' ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "podman"), []byte(engine), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ann, ben := pair(t)
	x, err := runner.New(t.Context(), runner.Config{Dir: filepath.Join(t.TempDir(), "runs")})
	if err != nil {
		t.Fatal(err)
	}
	if ok, lacks := x.FindEngine(t.Context()); !ok {
		t.Fatal(lacks)
	}
	digest := signing.DigestOf([]byte("an image")).String()
	ben.rules.Agents["totals"] = gateway.Agent{Image: "registry.example/totals@" + digest}
	ben.run = x
	ben.restart()
	p := ann.revenue(manifest.DraftSandbox{Isolation: "container"})
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	bundle, err := ann.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: p.Task})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"runner":"container"`, `"image":"` + digest + `"`, `"level":"oci_container"`, "a container of podman 5.9.1"} {
		if !strings.Contains(bundle.Text, want) {
			t.Errorf("the attestation does not say %s", want)
		}
	}
}

func TestABoxThatDoesNotFitIsDeclined(t *testing.T) { // X6, X10
	for _, box := range []manifest.DraftSandbox{{Isolation: "wasm", ClaimedOK: true}, {Isolation: "container", ClaimedOK: true}} {
		ann, ben := pair(t)
		p := ann.revenue(box)
		ann.allow(manifest.ContractGate)
		ann.until("declined", func() bool { return ann.state(p.Task).Outcome == "declined" })
		if n := ben.state(p.Task); n.Outcome != "declined" {
			t.Errorf("%s: %s", box.Isolation, n.Outcome)
		}
	}
}

func TestASubprocessStandsInOnlyWhereTheContractSaysSo(t *testing.T) { // X10
	ann, ben := pair(t)
	if s, err := ben.g.Status(context.Background(), gateway.Owner, gateway.None{}); err != nil || !s.Isolated {
		t.Skip("this machine boxes no subprocess: no fallback to be accepted")
	}
	p := ann.revenue(manifest.DraftSandbox{Isolation: "container", Fallback: true})
	if card := ann.ask(manifest.ContractGate); !strings.Contains(fmt.Sprint(card.Ask.Lines), "a subprocess will do where") {
		t.Errorf("the card does not say so: %v", card.Ask.Lines)
	}
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.until("accepted", func() bool {
		return slices.Contains([]string{"accepted", "working", "delivered", "failed"}, ann.state(p.Task).State)
	})
	bundle, err := ann.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: p.Task})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := audit.Verify(strings.NewReader(bundle.Text), audit.Options{})
	if err != nil || rep.Facts.Isolation == nil || *rep.Facts.Isolation != (manifest.Isolation{Level: "subprocess_restricted", Enforced: "gateway"}) {
		t.Errorf("accepted as %+v, %v", rep.Facts.Isolation, err)
	}
}

// thief is an agent that looks for what its owner's gateway has, and says what it read.
const thief = `#!/bin/sh
cat >/dev/null
for f in HOME/*.yaml HOME/*key* HOME/*/* OTHERS HOME/journal* /proc/*/environ /proc/1/root/HOME/config.yaml ../../*/*/in/* /etc/shadow; do
  case $f in /proc/$$/*|/proc/1/environ|/proc/self/*|/proc/thread-self/*) continue ;; esac
  head -c 40 "$f" 2>/dev/null >>out/loot.txt
done
(setsid sh -c 'sleep 300' >/dev/null 2>&1 &)
echo "{\"output\":{\"lines\":$(ls HOME 2>/dev/null | wc -l)},\"evidence\":[{\"criterion\":\"ac_1\",\"text\":\"looked\"}]}"
`

func TestAnAgentReadsNothingOfItsGateway(t *testing.T) { // X3, X8
	ann, ben := pair(t)
	if s, err := ben.g.Status(context.Background(), gateway.Owner, gateway.None{}); err != nil || !s.Isolated {
		t.Skip("this machine boxes no subprocess: what it could read is not tried")
	}
	script := filepath.Join(t.TempDir(), "thief.sh")
	if err := os.WriteFile(script, []byte(strings.NewReplacer("HOME", ben.home.Dir, "OTHERS", filepath.Join(ben.home.Work(), "*", "work", "in", "*")).Replace(thief)), 0o755); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(ben.home.Work(), "run-OTHER", "work", "in") // another task, at work
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "theirs.csv"), []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	ben.rules.Agents["coder"] = gateway.Agent{Command: []string{"/bin/sh", script}, ReadOnly: []string{filepath.Dir(script)}}
	ben.adopt()
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.allow(manifest.DeliveryGate)
	ann.until("completed", func() bool { return ann.state(p.Task).Released })
	dir := filepath.Join(t.TempDir(), "out")
	res, err := ann.g.Result(context.Background(), gateway.Owner, gateway.Fetch{Task: p.Task, Dir: dir})
	if err != nil || res.Output.String() != `{"lines":0}` {
		t.Errorf("it saw files of its gateway: %s, %v", res.Output, err)
	}
	if loot, err := os.ReadFile(filepath.Join(dir, "loot.txt")); err != nil || len(loot) != 0 {
		t.Errorf("it read %q, %v", loot, err)
	}
}

// held is a twin of the runner that holds at a level and, once it was begun, works until it is stopped.
type held struct {
	counter
	enforced string
	began    chan struct{}
}

func (h held) Isolation(level string) manifest.Isolation {
	return manifest.Isolation{Level: level, Enforced: h.enforced}
}

func (h held) Run(ctx context.Context, c runner.Command) (runner.Result, error) {
	if h.enforced == "gateway" {
		close(h.began)
		<-ctx.Done()
		return runner.Result{}, ctx.Err()
	}
	return h.counter.Run(ctx, c)
}

func TestAnAgentThatIsHeldByLessThanWasAcceptedDoesNotRun(t *testing.T) { // X10
	ann, ben := pair(t)
	strong := held{enforced: "gateway", began: make(chan struct{})}
	ben.run = strong
	ben.restart()
	p := ann.propose()
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	<-strong.began
	ben.run = held{enforced: "claimed"} // as after a move to another machine
	ben.restart()
	ann.until("failed", func() bool { return ann.state(p.Task).Outcome == "failed" })
	bundle, err := ann.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: p.Task})
	if err != nil || !strings.Contains(bundle.Text, `"reason":"unsupported-isolation"`) {
		t.Errorf("%v: the end does not say why", err)
	}
}
