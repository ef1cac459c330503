package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/audit"
	"sealbridge/spec"
)

// improver is an agent program that delivers 1, and when it comes back 2, and then 3.
const improver = `#!/bin/sh
n=1
case "$(cat)" in *'"again":"chk_1: exit 1, want 0'*) n=2;; esac
echo "$n" > out/n
printf '{"output":{"n":%s},"evidence":[{"criterion":"ac_1","text":"done"}]}' "$n"
`

// commandPair has a worker that delivers a better answer the second time, and a
// requester whose rules list a command that wants the number n.
func commandPair(t *testing.T, want string) (ann, ben *side, line string) {
	ann, ben = pair(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	agent, check := filepath.Join(dir, "agent.sh"), filepath.Join(dir, "check.sh")
	for path, body := range map[string]string{agent: improver, check: "#!/bin/sh\ntest \"$(cat out/n)\" -ge \"$1\" || { echo \"too small\"; exit 1; }\n"} {
		if err := os.WriteFile(path, []byte(body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ben.rules.Agents["coder"] = gateway.Agent{Command: []string{"/bin/sh", agent}, ReadOnly: []string{dir}}
	ben.adopt()
	line = check + " " + want
	ann.rules.Policy.Checks = []string{line}
	ann.adopt()
	if s, err := ann.g.Status(context.Background(), gateway.Owner, gateway.None{}); err != nil || !s.Isolated {
		if os.Getenv("CI") != "" {
			t.Fatal("this machine has no box: namespaces are needed")
		}
		t.Skip("not run: this machine has no box")
	}
	return ann, ben, line
}

func (s *side) askCommand(line string, retries int64) (gateway.Proposed, error) {
	return s.g.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "A number", Goal: "The larger the better",
		Check: []manifest.DraftCheck{{Run: line}}, Gates: []string{"contract"}, Verify: manifest.DraftVerify{Retries: &retries}, Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
}

// commandCheck is what a side shows of the command.
func (s *side) commandCheck(id string) (v gateway.CheckView) {
	for _, c := range s.state(id).Checks {
		if c.Command != "" {
			return c
		}
	}
	return v
}

// The command sends the first revision back with its exit code and passes the
// second; both sides and the evidence say so, and what it printed stays at home.
func TestACommandSendsADeliveryBackAndTakesTheNext(t *testing.T) { // M6, V3
	ann, ben, line := commandPair(t, "2")
	p, err := ann.askCommand(line, 1)
	if err != nil {
		t.Fatal(err)
	}
	card := ann.askOf(p.Task)
	if text := strings.Join(linesOf(card), "\n"); !strings.Contains(text, "“"+line+"” here over what comes back, boxed") || !strings.Contains(text, "run anything else here") {
		t.Errorf("the requester's card: %s", text)
	}
	ann.allow(manifest.ContractGate)
	if text := strings.Join(linesOf(ben.askOf(p.Task)), "\n"); !strings.Contains(text, "“"+line+"”, which Ann runs over the result; nothing of it runs here") {
		t.Errorf("the worker's card: %s", text)
	}
	ben.allow(manifest.ContractGate)
	ann.until("see the first come back", func() bool { return strings.Contains(kindsOf(ann.state(p.Task)), "rejected") })
	ann.until("complete it", func() bool { return ann.state(p.Task).Outcome == "completed" }) // no person: automated_checks
	ben.until("hear it", func() bool { return ben.state(p.Task).Outcome == "completed" })
	if got, want := kindsOf(ann.state(p.Task)), "delivered rejected delivered completed"; !strings.HasSuffix(got, want) {
		t.Errorf("%s, want …%s", got, want)
	}
	for _, s := range []*side{ann, ben} {
		c := s.commandCheck(p.Task)
		if c.Result != "pass" || c.Run == nil || c.Run.Exit != 0 || c.Run.Output.IsZero() || c.Run.Box.Enforced != "gateway" {
			t.Errorf("the check: %+v %+v", c, c.Run)
		}
	}
	b, err := ben.g.Export(context.Background(), gateway.Owner, gateway.Ref{Task: p.Task})
	if err != nil || strings.Contains(b.Text, "too small") || !strings.Contains(b.Text, `"text":"exit 1, want 0`) {
		t.Errorf("the worker's evidence: %v", err)
	}
	rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{})
	if err != nil || !rep.Verified {
		t.Fatalf("the auditor: %v, %+v", err, rep.Findings)
	}
	if i := slices.IndexFunc(rep.Claimed, func(e audit.Entry) bool { return e.Rule == "M6" }); i < 0 || rep.Claimed[i].By != "Ann" ||
		rep.Claimed[i].What != line+" exit 0, pass, in its box "+ann.commandCheck(p.Task).Run.Box.Level {
		t.Errorf("the auditor claims %+v", rep.Claimed)
	}
}

func TestACommandThatNeverPassesEndsTheTask(t *testing.T) { // V3
	ann, ben, line := commandPair(t, "9")
	p, err := ann.askCommand(line, 1)
	if err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.until("reject it", func() bool { return ann.state(p.Task).Outcome == "rejected" })
	if got, want := kindsOf(ann.state(p.Task)), "delivered rejected delivered rejected"; !strings.HasSuffix(got, want) {
		t.Errorf("%s, want …%s: one retry on the same budget", got, want)
	}
	if c := ann.commandCheck(p.Task); c.Printed != "too small\n" || c.Run.Exit != 1 {
		t.Errorf("the requester is shown %+v %+v", c, c.Run)
	}
	if c := ben.commandCheck(p.Task); c.Printed != "" {
		t.Errorf("the worker is shown what the command printed: %q", c.Printed)
	}
}

// A draft whose command the rules do not list does not leave; a rule that is
// taken back after the contract is not evaluated, and that is not verified.
func TestACommandThatTheRulesDoNotListNeverRuns(t *testing.T) { // M6
	ann, ben, line := commandPair(t, "1")
	if _, err := ann.askCommand(line+"0", 0); spec.ReasonOf(err) != spec.PolicyDenied {
		t.Errorf("an unlisted line: %v", err)
	}
	if _, err := ann.askCommand(line+" && true", 0); spec.ReasonOf(err) != spec.Malformed {
		t.Errorf("a line for a shell: %v", err)
	}
	p, err := ann.askCommand(line, 0)
	if err != nil {
		t.Fatal(err)
	}
	ann.allow(manifest.ContractGate)
	ann.rules.Policy.Checks = nil
	ann.adopt()
	ben.allow(manifest.ContractGate)
	ann.until("reject it", func() bool { return ann.state(p.Task).Outcome == "rejected" })
	if c := ann.commandCheck(p.Task); c.Result != "not_evaluated" || c.Run != nil {
		t.Errorf("%+v", c)
	}
}

func linesOf(a gateway.AskView) (out []string) {
	for _, l := range a.Ask.Lines {
		out = append(out, l.Word+" "+l.Text)
	}
	return out
}

func kindsOf(v gateway.TaskView) string {
	var out []string
	for _, m := range v.History {
		out = append(out, string(m.Kind))
	}
	return strings.Join(out, " ")
}

// An agent that shows something for what nobody asked has not delivered (V1).
func TestEvidenceForACriterionOfNobodysIsNoDelivery(t *testing.T) {
	ann, ben := pair(t)
	ben.rules.Agents["coder"] = script(t, `printf '{"output":{},"evidence":[{"criterion":"ac_9","text":"done"}]}'`)
	ben.adopt()
	p := ann.proposeWith(func(d *manifest.Draft) { d.Inputs, d.Output = nil, nil })
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	ann.until("fail", func() bool { return ann.state(p.Task).Outcome == "failed" })
	h := ann.state(p.Task).History
	if last := h[len(h)-1]; !strings.Contains(last.Text, "evidence for ac_9, which the contract does not name") {
		t.Errorf("%+v", last)
	}
}
