package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

var claude, cursor = gateway.Caller{Agent: "claude"}, gateway.Caller{Agent: "cursor"}

// mayAsk lets claude ask Ben and send what lies in the folder.
func (s *side) mayAsk(folder string) {
	s.rules.Policy.Outgoing = []policy.Outgoing{
		{Name: "claude asks Ben", Agent: "claude", To: policy.Names{"Ben"}, MaySend: []string{folder + "/**"}, Then: policy.ThenAsk},
		{Name: "cursor asks Ben", Agent: "cursor", To: policy.Names{"Ben"}, Then: policy.ThenAsk},
		{Name: "I ask Ben", To: policy.Names{"Ben"}, Then: policy.ThenAsk},
	}
	s.adopt()
}

// folder is a new folder with a file in it, free of links.
func folder(t *testing.T, name string) (dir, file string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte("a,1\nb,2\nc,3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

func draft(files ...string) gateway.Proposal {
	d := manifest.Draft{Title: "Count lines", Goal: "Count the lines", Output: map[string]any{"type": "object", "required": []any{"lines"}},
		Sandbox: manifest.DraftSandbox{ClaimedOK: true}}
	for _, f := range files {
		d.Inputs = append(d.Inputs, manifest.DraftInput{File: f})
	}
	return gateway.Proposal{To: "Ben", Draft: d}
}

func TestAnAgentSendsOnlyWhatMaySendLists(t *testing.T) { // K3
	ann, _ := pair(t)
	dir, file := folder(t, "sales.csv")
	_, secret := folder(t, "id_ed25519")
	ann.mayAsk(dir)
	link := filepath.Join(dir, "link.csv")
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	answers := map[string]string{}
	for what, path := range map[string]string{"a file elsewhere": secret, "no file elsewhere": filepath.Join(filepath.Dir(secret), "nothing"), "a link out": link,
		"a way out": dir + "/../" + filepath.Base(filepath.Dir(secret)) + "/id_ed25519", "a hidden file": filepath.Join(dir, ".ssh", "key"), "no file here": filepath.Join(dir, ".nothing"), "a relative path": "sales.csv"} {
		_, err := ann.g.Propose(ctx, claude, draft(path))
		if r := spec.ReasonOf(err); r != spec.PolicyDenied && (what != "a relative path" || r != spec.Malformed) {
			t.Errorf("%s: %v, want policy-denied", what, err)
			continue
		}
		answers[what] = err.Error()
	}
	if answers["a file elsewhere"] != answers["no file elsewhere"] {
		t.Errorf("the answer tells whether there is a file: %q, %q", answers["a file elsewhere"], answers["no file elsewhere"])
	}
	if _, err := ann.g.Propose(ctx, cursor, draft(file)); spec.ReasonOf(err) != spec.PolicyDenied {
		t.Errorf("another agent's rule counted: %v", err)
	}
	if as, err := ann.g.Asks(ctx, gateway.Owner, true); err != nil || len(as) != 0 {
		t.Errorf("a refused path became an ask: %v, %v", as, err)
	}
	if p, err := ann.g.Propose(ctx, claude, draft(file)); err != nil || p.Ask == "" {
		t.Errorf("a listed path: %+v, %v", p, err)
	}
}

func TestTheSameCallJoinsTheFirst(t *testing.T) { // G8
	ann, _ := pair(t)
	dir, file := folder(t, "sales.csv")
	ann.mayAsk(dir)
	ctx := context.Background()
	propose := func(by gateway.Caller, id string, in gateway.Proposal) gateway.Proposed {
		t.Helper()
		in.ID = id
		p, err := ann.g.Propose(ctx, by, in)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := propose(claude, "", draft(file))
	if again := propose(claude, "", draft(file)); again.Task != first.Task || again.Ask != first.Ask || !again.Joined {
		t.Errorf("the same call is another task: %+v", again)
	}
	if other := propose(cursor, "", draft()); other.Task == first.Task {
		t.Error("another agent joined")
	}
	named := propose(claude, "monday", draft(file))
	if named.Task == first.Task {
		t.Error("a call with an id of its own joined another")
	}
	in := draft()
	in.ID = "monday"
	if _, err := ann.g.Propose(ctx, claude, in); spec.ReasonOf(err) != spec.Conflict {
		t.Errorf("an id for two requests: %v, want conflict", err)
	}
	for _, a := range []gateway.Proposed{first, named} {
		if _, err := ann.g.Cancel(ctx, claude, gateway.Cancellation{Task: a.Task}); err != nil {
			t.Fatal(err)
		}
	}
	if next := propose(claude, "", draft(file)); next.Joined || next.Task == first.Task {
		t.Error("after the answer the same subject is a new ask")
	}
	if same := propose(claude, "monday", draft(file)); !same.Joined || same.Task != named.Task {
		t.Error("a client's id names its task for ever")
	}
	if a, b := propose(gateway.Owner, "", draft(file)), propose(gateway.Owner, "", draft(file)); a.Task == b.Task {
		t.Error("what a person types twice is meant twice")
	}
}

func TestAnotherAgentsTaskIsNotFound(t *testing.T) {
	ann, _ := pair(t)
	dir, file := folder(t, "sales.csv")
	ann.mayAsk(dir)
	ctx := context.Background()
	p, err := ann.g.Propose(ctx, claude, draft(file))
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"shows":    second(ann.g.Task(ctx, cursor, gateway.Ref{Task: p.Task})),
		"sees":     second(ann.g.AgentTask(ctx, cursor, gateway.Ref{Task: p.Task})),
		"watches":  second(ann.g.Watch(ctx, cursor, gateway.Since{Task: p.Task})),
		"cancels":  second(ann.g.Cancel(ctx, cursor, gateway.Cancellation{Task: p.Task[len(p.Task)-6:]})),
		"fetches":  second(ann.g.Result(ctx, cursor, gateway.Fetch{Task: p.Task})),
		"reads":    second(ann.g.ReadResult(ctx, cursor, gateway.FileRef{Task: p.Task, Name: "x", Limit: 1})),
		"asks":     second(ann.g.RequestApproval(ctx, cursor, gateway.AskRef{Task: p.Task})),
		"asks for": second(ann.g.Approval(ctx, cursor, gateway.AskRef{Ask: p.Ask})),
	} {
		if spec.ReasonOf(err) != spec.NotFound {
			t.Errorf("another agent %s: %v, want not-found", what, err)
		}
	}
	if vs, err := ann.g.Tasks(ctx, cursor, gateway.None{}); err != nil || len(vs) != 0 {
		t.Errorf("another agent lists %v, %v", vs, err)
	}
	if vs, _, err := ann.g.MyTasks(ctx, cursor, gateway.MyTasks{Limit: 9}); err != nil || len(vs) != 0 {
		t.Errorf("another agent lists %v, %v", vs, err)
	}
	if in, err := ann.g.Inbox(ctx, cursor, gateway.Mentions{Limit: 9}); err != nil || len(in.Tasks) != 0 {
		t.Errorf("another agent's inbox: %v, %v", in, err)
	}
	if a, err := ann.g.Approval(ctx, claude, gateway.AskRef{Task: p.Task[len(p.Task)-6:]}); err != nil || a.Ask != p.Ask || a.State != string(approval.Waiting) {
		t.Errorf("its own: %+v, %v", a, err)
	}
}

func TestAnAgentHearsWhatHappensAndGetsTheResultAfterTheYes(t *testing.T) { // G14, V2
	ann, ben := pair(t)
	dir, file := folder(t, "sales.csv")
	ann.mayAsk(dir)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := ann.g.Propose(ctx, claude, draft(file))
	if err != nil {
		t.Fatal(err)
	}
	in, err := ann.g.Inbox(ctx, claude, gateway.Mentions{Limit: 9})
	if err != nil || len(in.Tasks) != 1 || in.Tasks[0].State != "drafted" || in.Tasks[0].Goal == "" {
		t.Fatalf("%+v, %v", in, err)
	}
	ann.allow(manifest.ContractGate)
	ben.allow(manifest.ContractGate)
	last, place := gateway.AgentTask{}, gateway.Mentions{After: in.Next, Mark: in.Mark, Limit: 9}
	hear := func(until func() bool) {
		t.Helper()
		for !until() {
			got, err := ann.g.Mentions(ctx, claude, place)
			if err != nil || len(got.Tasks) != 1 || got.Next <= place.After {
				t.Fatalf("%+v, %v", got, err)
			}
			if again, err := ann.g.Mentions(ctx, claude, place); err != nil || len(again.Tasks) != 1 {
				t.Fatalf("asked from the same place: %v, %v", again, err)
			}
			last, place.After, place.Mark = got.Tasks[0], got.Next, got.Mark
		}
	}
	hear(func() bool { return strings.Contains(last.Waiting, "delivery") })
	if last.Delivery == nil || last.Delivery.Released != nil || len(last.Artifacts) != 0 {
		t.Fatalf("before the yes an agent sees %+v", last.Delivery)
	}
	if _, err := ann.g.ReadResult(ctx, claude, gateway.FileRef{Task: p.Task, Name: "count.csv", Limit: 9}); spec.ReasonOf(err) != spec.GateOpen {
		t.Fatalf("before the yes: %v, want gate-open", err)
	}
	ann.allow(manifest.DeliveryGate)
	hear(func() bool { return last.Released })
	if r := last.Delivery.Released; r == nil || r.Output.String() != `{"lines":3}` || !last.ByPerson {
		t.Fatalf("%+v", last.Delivery)
	}
	part, err := ann.g.ReadResult(ctx, claude, gateway.FileRef{Task: p.Task, Name: "count.csv", Offset: 2, Limit: 3})
	if err != nil || string(part.Data) != "nes" || part.SizeBytes != 8 {
		t.Fatalf("%+v, %v", part, err)
	}
	if _, err := ann.g.Result(ctx, claude, gateway.Fetch{Task: p.Task, Dir: filepath.Join(dir, "out")}); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("an agent names a folder: %v, want not-permitted (V3a)", err)
	}
	quiet, stop := context.WithCancel(ctx)
	stop()
	here, err := ann.g.Place(ctx, claude, gateway.None{})
	if err != nil {
		t.Fatal(err)
	}
	now := gateway.Mentions{After: here.Next, Mark: here.Mark, Limit: 9}
	if got, err := ann.g.Mentions(quiet, claude, now); err != nil || len(got.Tasks) != 0 {
		t.Errorf("nothing happened: %v, %v", got, err)
	}
	for _, in := range []gateway.Mentions{{After: ann.journal.Head() + 9, Mark: now.Mark, Limit: 9}, {After: now.After, Mark: "000000000000", Limit: 9}, {After: now.After - 1, Mark: now.Mark, Limit: 9}} {
		if _, err := ann.g.Mentions(ctx, claude, in); spec.ReasonOf(err) != spec.Stale {
			t.Errorf("a place of another journal: %v, want stale", err)
		}
	}
}

func TestAnAgentWishesForAContactAndMakesNone(t *testing.T) { // K2
	ann, _ := pair(t)
	ctx := context.Background()
	for _, who := range []string{"Cleo", "cleo", "Dan", "Eve", "Fred", "Gina"} {
		if _, err := ann.g.RequestContact(ctx, claude, gateway.Wish{Who: who, Agent: "owner"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ann.g.RequestContact(ctx, claude, gateway.Wish{Who: "Hans"}); spec.ReasonOf(err) != spec.Quota {
		t.Errorf("a sixth wish: %v, want quota", err)
	}
	if _, err := ann.g.Wishes(ctx, claude, false); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("an agent reads wishes: %v", err)
	}
	ws, err := ann.g.Wishes(ctx, gateway.Owner, true)
	if err != nil || len(ws) != 5 || ws[0].Who != "Cleo" || ws[0].Agent != "claude" {
		t.Errorf("%+v, %v", ws, err)
	}
	if cs, err := ann.g.Contacts(ctx, gateway.Owner, gateway.None{}); err != nil || len(cs) != 1 {
		t.Errorf("a wish made a contact: %+v, %v", cs, err)
	}
}

// askedByAgents are the questions of the agents' door. Whatever else takes a
// caller refuses one that is an agent: a new method is on one side or the other.
var askedByAgents = strings.Fields(`AgentTask AnswerOffer Approval Askables CallTool Cancel Capabilities Checkpoint Contacts Counters GiveUp Inbox Mentions ModelRunOf MyTasks Place Propose ProposeSeveral
	ReadInput ReadResult RequestApproval RequestBudget RequestContact Result ReturnResult StartWork Status TakeUpCounter Task Tasks VerifyEvidence Watch`)

func TestEveryMethodThatIsNotTheAgentsRefusesThem(t *testing.T) { // G9
	ann, _ := pair(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	walked := map[string]bool{}
	g := reflect.ValueOf(ann.g)
	for i := range g.NumMethod() {
		name, m := g.Type().Method(i).Name, g.Method(i)
		if m.Type().NumIn() != 3 || m.Type().In(1) != reflect.TypeFor[gateway.Caller]() {
			continue
		}
		walked[name] = true
		if slices.Contains(askedByAgents, name) {
			continue
		}
		out := m.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(claude), reflect.Zero(m.Type().In(2))})
		err, _ := out[len(out)-1].Interface().(error)
		if spec.ReasonOf(err) != spec.NotPermitted {
			t.Errorf("%s answers an agent: %v, want not-permitted", name, err)
		}
	}
	for _, must := range append(slices.Clone(askedByAgents), "DecideGate", "ChangeContact", "AddInvite", "AddContact", "Export", "Quarantined", "Asks", "Login", "Wishes") {
		if !walked[must] {
			t.Errorf("%s was not walked", must)
		}
	}
}
