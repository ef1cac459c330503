package bridge_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/manifest/bridge"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func imported(t *testing.T, raw []byte) bridge.Imported {
	t.Helper()
	in, err := workspace().Import(must(bridge.ReadTask(raw, bridge.Sent|bridge.Stored)), bridge.Terms{}, noon)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestATaskBecomesAProposal(t *testing.T) {
	raw := edit{"attachments": []any{file("release notes.md", sum, 4)}}.of(task())
	if err := seed(t, "chips-task.v1.schema.json").Validate(must(jcs.Canonicalize(raw))); err != nil {
		t.Fatal("the fixture is no Chips task:", err)
	}
	in := imported(t, raw)
	m := contract(t, in)
	if in.Contact != "ben" || in.TaskID.String() != "task_"+ulid1+"_"+strings.TrimPrefix(signing.DigestOf([]byte("ws_"+ulid1+"|lane_"+ulid1)).String(), "sha256:")[:16] {
		t.Errorf("%s for %s", in.TaskID, in.Contact)
	}
	var ids []string
	for _, c := range m.Task.AcceptanceCriteria {
		ids = append(ids, c.ID.String())
	}
	if !slices.Equal(ids, []string{"ac_goal", "ac_c00"}) || m.IO.InputArtifacts[0].Name != "00_release_notes.md" || m.Task.Title != "Total sales.csv" ||
		!strings.Contains(m.Task.Description, "--- constraints ---\n1. Keep the order.") || m.Deadline.String() != "2026-12-02T12:00:00Z" {
		t.Errorf("%+v", m)
	}
	if want := []manifest.Gate{manifest.ContractGate, manifest.EffectGate, manifest.DeliveryGate}; !slices.Equal(m.HITLPolicy.RequiredGates, want) {
		t.Errorf("gates %v, want %v", m.HITLPolicy.RequiredGates, want)
	}
	if m.Verification.Mode != "human_in_the_loop" || len(m.Verification.Checks) != 1 || m.Verification.MaxRetries != 1 || m.Budget.OnOverrun != "hard_stop" ||
		m.Permissions.MaxDelegationDepth != 0 || len(m.Permissions.GrantedCapabilities) != 0 || m.SandboxPolicy.NetworkAccess != "none" || m.Budget.CostBearer != "worker_byok" {
		t.Errorf("%+v %+v %+v", m.Verification, m.Budget, m.SandboxPolicy)
	}
	s := must(bridge.OpenSidecar(in.Sidecar))
	if s.Raw != string(raw) || s.Autonomy != 1 || s.Names["00_release_notes.md"] != "release notes.md" || !slices.Contains(in.Left, "/idempotency_key") || slices.Contains(in.Invented, "deadline") {
		t.Errorf("%+v, left %v, invented %v", s, in.Left, in.Invented)
	}
	wire := must(jcs.Encode(m)).String()
	for _, secret := range []string{"k1", "evt_", "ws_", "usr_", "hrn_", "att_"} {
		if strings.Contains(wire, secret) {
			t.Errorf("%q is in the manifest", secret)
		}
	}
}

// Each row is one of the kinds that a hostile or mistaken event can be of.
func TestWhatIsNotTaken(t *testing.T) {
	many := make([]string, 21)
	for what, c := range map[string]struct {
		edit edit
		may  bridge.Profile
		want spec.Reason
	}{
		"missing key":                           {edit{"seq": nil, "idempotency_key": nil}, bridge.Sent, spec.Malformed},
		"inbound seq":                           {edit{}, bridge.Sent, spec.Malformed},
		"not stored":                            {edit{"seq": nil}, bridge.Stored, spec.Malformed},
		"another major version":                 {edit{"v": 2}, bridge.Stored, spec.Malformed},
		"another type":                          {edit{"type": "message"}, bridge.Stored, spec.UnknownType},
		"lane id beyond 128 bits":               {edit{"task_id": "lane_81KBQ4T9YJ6W2M8Z3R5X7C1D0E"}, bridge.Stored, spec.Malformed},
		"event id that is no ULID":              {edit{"id": "evt_../../../../etc/passwd!!!!!"}, bridge.Stored, spec.Malformed},
		"another workspace":                     {edit{"workspace_id": "ws_" + ulid2}, bridge.Stored, spec.NotPermitted},
		"on_behalf_of outside the space":        {edit{"on_behalf_of": "usr_" + ulid2}, bridge.Stored, spec.NotPermitted},
		"child":                                 {edit{"child": object{"label": "x"}}, bridge.Stored, spec.NotPermitted},
		"same-harness lane":                     {edit{"home": "spc_" + ulid1}, bridge.Stored, spec.NotPermitted},
		"to the lead itself":                    {edit{"to": "hrn_" + ulid1}, bridge.Stored, spec.NotPermitted},
		"to a participant of this owner":        {edit{"to": "agt_helper"}, bridge.Stored, spec.NotPermitted},
		"to our own worker":                     {edit{"to": "agt_coder"}, bridge.Stored, spec.NotPermitted},
		"to somebody unknown":                   {edit{"to": "ben"}, bridge.Stored, spec.NotFound},
		"by another harness":                    {edit{"actor": object{"kind": "harness", "id": "hrn_" + ulid2}}, bridge.Stored, spec.NotPermitted},
		"by a person who claims the harness":    {edit{"actor": object{"kind": "person", "id": "usr_" + ulid2, "harness_id": "hrn_" + ulid1}}, bridge.Stored, spec.NotPermitted},
		"by an agent with a harness of its own": {edit{"seq": nil, "actor": object{"kind": "agent", "id": "agt_x", "harness_id": "hrn_" + ulid1}}, bridge.Sent, spec.NotPermitted},
		"past deadline":                         {edit{"deadline": "2026-11-30T13:00:00+01:00"}, bridge.Stored, spec.Expired},
		"a deadline that is no time":            {edit{"deadline": "2026-11-31T12:00:00Z"}, bridge.Stored, spec.Malformed},
		"21 constraints":                        {edit{"constraints": many}, bridge.Stored, spec.Malformed},
		"goal of 4001 characters":               {edit{"goal": strings.Repeat("é", 4001)}, bridge.Stored, spec.Malformed},
		"goal without a word":                   {edit{"goal": " \n\t"}, bridge.Stored, spec.Malformed},
		"autonomy 4":                            {edit{"autonomy": 4}, bridge.Stored, spec.Malformed},
		"attachment of more than 1 GiB":         {edit{"attachments": []any{file("a", sum, 1<<30+1)}}, bridge.Stored, spec.TooLarge},
		"attachment without a digest":           {edit{"attachments": []any{file("a", strings.ToUpper(sum), 1)}}, bridge.Stored, spec.Malformed},
		"more than any event has":               {edit{"x": strings.Repeat("x", bridge.MaxEvent)}, bridge.Stored, spec.TooLarge},
	} {
		task, err := bridge.ReadTask(c.edit.of(task()), c.may)
		if err == nil {
			_, err = workspace().Import(task, bridge.Terms{}, noon)
		}
		wants(t, what, err, c.want)
	}
	if _, err := bridge.ReadTask([]byte(`{"v":1,"v":1}`), bridge.Stored); spec.ReasonOf(err) != spec.Malformed {
		t.Errorf("a name twice: %v", err)
	}
}

func TestAutonomyIsNeverAboveTheLeads(t *testing.T) {
	for _, c := range []struct{ lead, asked, want int64 }{{2, 3, 2}, {0, 3, 0}, {3, 1, 1}} {
		w := workspace()
		w.Autonomy = c.lead
		in, err := w.Import(must(bridge.ReadTask(edit{"autonomy": c.asked}.of(task()), bridge.Stored)), bridge.Terms{}, noon)
		if err != nil {
			t.Fatal(err)
		}
		s := must(bridge.OpenSidecar(in.Sidecar))
		all := len(in.Draft.Gates) == 5
		if s.Autonomy != c.want || all != (c.want == 0) {
			t.Errorf("lead %d, asked %d: level %d, gates %v", c.lead, c.asked, s.Autonomy, in.Draft.Gates)
		}
		for _, kept := range []string{"contract", "effect", "delivery"} {
			if !slices.Contains(in.Draft.Gates, kept) {
				t.Errorf("level %d drops %s", c.want, kept)
			}
		}
	}
	in := imported(t, edit{"autonomy": nil, "deadline": nil}.of(task()))
	if len(in.Draft.Gates) != 5 || !slices.Contains(in.Invented, "deadline") {
		t.Errorf("without a level: %v, invented %v", in.Draft.Gates, in.Invented)
	}
}

func TestTwentyConstraintsAreTwentyOneCriteriaAndOneCheck(t *testing.T) {
	var cs []string
	for i := range 20 {
		cs = append(cs, fmt.Sprintf("%d %s", i, strings.Repeat("x", 497)))
	}
	m := contract(t, imported(t, edit{"constraints": cs, "goal": strings.Repeat("g", 4000)}.of(task())))
	if len(m.Task.AcceptanceCriteria) != 21 || len(m.Verification.Checks) != 1 || m.Task.AcceptanceCriteria[20].ID.String() != "ac_c19" {
		t.Errorf("%d criteria, %d checks", len(m.Task.AcceptanceCriteria), len(m.Verification.Checks))
	}
}

func TestNoFileNameIsAPathOrATwin(t *testing.T) {
	var files []any
	names := []string{"../../etc/passwd", "..", "a b.csv", "a_b.csv", ".git/config", "-rf", "CON", "\u202efdp.exe", strings.Repeat("n", 251) + ".csv", "名前.csv", "A_b.csv"}
	for _, n := range names {
		files = append(files, file(n, sum, 4))
	}
	m := contract(t, imported(t, edit{"attachments": files}.of(task()))) // contract holds them against M3
	for i, a := range m.IO.InputArtifacts {
		if !strings.HasPrefix(a.Name, fmt.Sprintf("%02d_", i)) || strings.Contains(a.Name, "..") || strings.Contains(a.Name, "/") {
			t.Errorf("%q becomes %q", names[i], a.Name)
		}
	}
	if got := m.IO.InputArtifacts[0].Name; got != "00_etc_passwd" {
		t.Errorf("../../etc/passwd becomes %s", got)
	}
}

func TestAnyNameIsGood(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.StringN(1, 255, 1020).Draw(r, "name")
		raw := edit{"attachments": []any{file(name, sum, 4)}}.of(task())
		read, err := bridge.ReadTask(raw, bridge.Stored)
		if err != nil {
			r.Skip("no I-JSON")
		}
		if err := manifest.CheckArtifactName(read.Files[0].As); err != nil {
			r.Fatalf("%q becomes %q: %v", name, read.Files[0].As, err)
		}
	})
}

func TestTheSameEventIsTheSameTaskAndAnotherWorkspaceIsNot(t *testing.T) {
	a, b := imported(t, edit{}.of(task())), imported(t, edit{"goal": "Something else"}.of(task()))
	if a.TaskID != b.TaskID || a.Sidecar == b.Sidecar {
		t.Error("a changed body under one lane has to be the same task with other evidence")
	}
	w := workspace()
	w.ID = "ws_" + ulid2
	c, err := w.Import(must(bridge.ReadTask(edit{"workspace_id": "ws_" + ulid2}.of(task()), bridge.Stored)), bridge.Terms{}, noon)
	if err != nil || c.TaskID == a.TaskID {
		t.Errorf("a lane repeated in another workspace: %v, %v", c.TaskID, err)
	}
	if x, y := must(json.Marshal(a)), must(json.Marshal(imported(t, edit{}.of(task())))); string(x) != string(y) {
		t.Error("not deterministic")
	}
}

func TestUnknownMembersAreNoPermission(t *testing.T) {
	a, b := imported(t, edit{}.of(task())), imported(t, edit{"permissions": object{"network": "all"}, "Goal": "x", "autonomy ": 3, "budget": 1e9}.of(task()))
	a.Sidecar, b.Sidecar, a.Left, b.Left = jcs.Value{}, jcs.Value{}, nil, nil
	if x, y := must(json.Marshal(a)), must(json.Marshal(b)); string(x) != string(y) {
		t.Errorf("they changed something:\n%s\n%s", x, y)
	}
}

func TestASidecarIsHeldAgainstItsDigest(t *testing.T) {
	in := imported(t, edit{}.of(task()))
	other, _ := jcs.Text("{}")
	_, err := bridge.OpenSidecar(in.Sidecar.With("raw", other))
	wants(t, "another event", err, spec.BadDigest)
}

func TestATableIsCheckedBeforeItIsUsed(t *testing.T) {
	for what, mend := range map[string]func(*bridge.Workspace){
		"workspace": func(w *bridge.Workspace) { w.ID = "ws_x" }, "lead": func(w *bridge.Workspace) { w.Lead = "usr_" + ulid1 },
		"owner": func(w *bridge.Workspace) { w.Owner = "" }, "autonomy": func(w *bridge.Workspace) { w.Autonomy = 4 },
	} {
		w := workspace()
		mend(&w)
		wants(t, what, w.Check(), spec.Malformed)
	}
	w := workspace()
	w.Contacts = map[string]string{"agt_helper": "ben"}
	wants(t, "a local contact", w.Check(), spec.Conflict)
	wants(t, "the good one", workspace().Check(), "")
}

func TestAContractGoesToALocalSpecialist(t *testing.T) {
	m := contract(t, imported(t, edit{"deadline": "2026-12-02T12:00:00Z"}.of(task())))
	digest := signing.DigestOf([]byte("m"))
	v, lost, err := workspace().Lane(m, digest, "Ann")
	if err != nil {
		t.Fatal(err)
	}
	s := seed(t, "chips-task.v1.schema.json")
	if err := s.Validate(v); err != nil {
		t.Errorf("Chips' own schema: %v\n%s", err, v)
	}
	again, _, _ := workspace().Lane(m, digest, "Ann")
	read, err := bridge.ReadTask(v.Bytes(), bridge.Sent)
	if again != v || err != nil || read.To != "agt_coder" || read.OnBehalfOf != "usr_"+ulid1 || read.Autonomy != 2 || len(lost) < 9 {
		t.Errorf("%v, %+v, lost %v", err, read, lost)
	}
	if _, err := workspace().Import(read, bridge.Terms{}, noon); spec.ReasonOf(err) != spec.NotPermitted {
		t.Errorf("our own event comes back as work for others: %v", err)
	}
	for _, mend := range []func(*manifest.TaskManifest){
		func(m *manifest.TaskManifest) { m.Task.Description = strings.Repeat("x", 4000) },
		func(m *manifest.TaskManifest) { m.Task.AcceptanceCriteria[0].Description = strings.Repeat("x", 501) },
		func(m *manifest.TaskManifest) { m.Task.AcceptanceCriteria = make([]manifest.Criterion, 21) },
	} {
		long := contract(t, imported(t, edit{}.of(task())))
		mend(&long)
		_, _, err := workspace().Lane(long, digest, "Ann")
		wants(t, "what does not fit", err, spec.TooLarge)
		_, _, err = bridge.Packet(long, digest)
		wants(t, "what does not fit a packet", err, spec.TooLarge)
	}
}

func TestAContractAsAPricklePacket(t *testing.T) {
	m := contract(t, imported(t, edit{}.of(task())))
	m.Task.AcceptanceCriteria[1].Required = false
	v, _, err := bridge.Packet(m, signing.DigestOf([]byte("m")))
	if err != nil {
		t.Fatal(err)
	}
	context, _ := v.At("/context")
	text, _ := context.Text()
	second, _ := v.At("/acceptance_criteria/1")
	if !strings.HasPrefix(text, "manifest sha256:") || second.String() != `"optional: Keep the order."` {
		t.Errorf("%s", v)
	}
	stamp := "2026-11-30T12:00:00Z"
	event := must(jcs.Canonicalize(must(json.Marshal(object{"status": "events", "cursor": "c", "events": []any{object{"kind": "task", "task": object{
		"id": "t1", "project": "p", "state": "requested", "waiting_on": nil, "requester": nil, "assignee": "ben/coder", "packet": v,
		"result": nil, "latest_checkpoint": nil, "parent_task_id": nil, "created_at": stamp, "updated_at": stamp}}}}))))
	s := seed(t, "prickle-wait_for_mention.output.schema.json")
	if err := s.Validate(event); err != nil {
		t.Errorf("Prickle's own schema: %v\n%s", err, event)
	}
	if err := s.Validate(event.With("status", must(jcs.Encode("nonsense")))); err == nil {
		t.Fatal("the schema refuses nothing")
	}
}

func FuzzReadTask(f *testing.F) {
	f.Add(edit{}.of(task()))
	f.Add(edit{"attachments": []any{file("../x", sum, 4)}}.of(task()))
	f.Add([]byte(`{"v":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		task, err := bridge.ReadTask(raw, bridge.Sent|bridge.Stored)
		if err != nil {
			return
		}
		for _, file := range task.Files {
			if err := manifest.CheckArtifactName(file.As); err != nil {
				t.Fatalf("%q: %v", file.As, err)
			}
		}
		if in, err := workspace().Import(task, bridge.Terms{}, noon); err == nil {
			if s, err := bridge.OpenSidecar(in.Sidecar); err != nil || s.Raw != string(raw) {
				t.Fatalf("%v: not the bytes that came", err)
			}
		}
	})
}
