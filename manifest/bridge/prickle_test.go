package bridge_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest/bridge"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func room() bridge.Room {
	return bridge.Room{Server: "https://prickle.example", Owner: "ann", Contacts: map[string]string{"ben": "ben"}}
}

const stamp = "2026-11-30T12:00:00Z"

func evidence(more object) object {
	e := object{"kind": "test_output", "summary": "ok", "criteria": []int{0, 1}, "artifact": 0, "observed_at": "2026-11-30T11:00:00Z"}
	maps.Copy(e, more)
	return e
}

func result(more object) object {
	r := object{"summary": "done", "evidence": []any{evidence(nil)}, "provenance": "agent_generated", "returned_by": "ben/coder", "returned_at": "2026-11-30T11:30:00Z", "revision": 1,
		"artifacts": []any{object{"ref": "revenue.csv", "sha256": sum, "commit_sha": nil}}, "status": "submitted"}
	maps.Copy(r, more)
	return r
}

func work(more object) object {
	w := object{"id": "t1", "project": "sales", "state": "requested", "waiting_on": nil, "requester": "ann/claude", "assignee": "ben/coder", "result": nil, "latest_checkpoint": nil,
		"parent_task_id": nil, "created_at": stamp, "updated_at": stamp,
		"packet": object{"task": "Total sales.csv\nper region", "deliverable_type": "data", "acceptance_criteria": []string{"one row per region", "to the cent"}, "context": "November", "files": []string{"../sales.csv"}, "depends_on": []string{"t0"}}}
	maps.Copy(w, more)
	return w
}

func raw(o object) []byte { return must(json.Marshal(o)) }

func TestAPrickleTaskBecomesAProposal(t *testing.T) {
	w := must(bridge.ReadWork(raw(work(nil))))
	in, err := room().Import(w, bridge.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	m := contract(t, in)
	digest := strings.TrimPrefix(signing.DigestOf([]byte("https://prickle.example|sales|t1")).String(), "sha256:")
	if in.Contact != "ben" || m.TaskID.String() != "task_p_"+digest[:32] || m.Task.Title != "Total sales.csv" || m.Task.AcceptanceCriteria[1].ID.String() != "ac_p01" ||
		len(m.HITLPolicy.RequiredGates) != 5 || len(m.IO.InputArtifacts) != 0 || !strings.Contains(m.Task.Description, "--- files, by name only ---\n- ../sales.csv") {
		t.Errorf("%+v", m)
	}
	if s, err := bridge.OpenSidecar(in.Sidecar); err != nil || s.Raw != string(raw(work(nil))) {
		t.Errorf("%+v, %v", s, err)
	}
	long := make([]string, 20)
	for i := range long {
		long[i] = strings.Repeat("x", 500)
	}
	fifty := make([]string, 50)
	for i := range fifty {
		fifty[i] = strings.Repeat("f", 300)
	}
	most := work(object{"packet": object{"task": strings.Repeat("t", 500), "deliverable_type": "other", "acceptance_criteria": long, "context": strings.Repeat("c", 4000), "files": fifty, "depends_on": fifty[:20]}})
	in, err = room().Import(must(bridge.ReadWork(raw(most))), bridge.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	contract(t, in) // the longest of all fits
}

func TestWhatOfPrickleIsNotTaken(t *testing.T) {
	for what, c := range map[string]struct {
		work object
		want spec.Reason
	}{
		"requester null, and nobody else":        {work(object{"requester": nil}), spec.Malformed},
		"requester null, asked by our person":    {work(object{"requester": nil, "requested_by": object{"kind": "person", "handle": "ann"}}), ""},
		"requester null, by another person":      {work(object{"requester": nil, "requested_by": object{"kind": "person", "handle": "carol"}}), spec.NotPermitted},
		"asked by another owner's agent":         {work(object{"requester": "carol/x"}), spec.NotPermitted},
		"the same owner":                         {work(object{"assignee": "ann/other"}), spec.NotPermitted},
		"a handle that is no contact":            {work(object{"assignee": "benn/coder"}), spec.NotFound},
		"begun already":                          {work(object{"state": "working"}), spec.NotPermitted},
		"a state that nobody knows":              {work(object{"state": "paused"}), spec.Malformed},
		"no criteria":                            {work(object{"packet": object{"task": "x", "deliverable_type": "data", "acceptance_criteria": []string{}, "context": "", "files": []string{}, "depends_on": []string{}}}), spec.Malformed},
		"an unknown member, which means nothing": {work(object{"approved": true}), ""},
	} {
		w, err := bridge.ReadWork(raw(c.work))
		if err == nil {
			_, err = room().Import(w, bridge.Terms{})
		}
		wants(t, what, err, c.want)
	}
	if w := must(bridge.ReadWork(raw(work(object{"state": "waiting"})))); w.WaitingOn != "stopped" {
		t.Errorf("waiting on nobody is %q, want stopped", w.WaitingOn)
	}
}

// judged is what a result comes to at noon.
func judged(o object, before time.Time) (found []string, err error) {
	w, err := bridge.ReadWork(raw(o))
	if err != nil {
		return nil, err
	}
	fs, err := w.Judge(noon, before)
	for _, f := range fs {
		found = append(found, f.Path+": "+f.Why)
	}
	return found, err
}

func TestAResultIsReckonedAndNotBelieved(t *testing.T) {
	returned := func(more object) object { return work(object{"state": "verifying", "result": result(more)}) }
	if found, err := judged(returned(nil), time.Time{}); err != nil || len(found) != 0 {
		t.Fatalf("a good one: %v, %v", found, err)
	}
	earlier := time.Date(2026, 11, 30, 11, 15, 0, 0, time.UTC)
	for what, c := range map[string]struct {
		work   object
		before time.Time
		want   string
		word   spec.Reason
	}{
		"completed with null result":      {work(object{"state": "completed"}), time.Time{}, "", spec.VerificationFailed},
		"criterion index out of range":    {returned(object{"evidence": []any{evidence(object{"criteria": []int{2}})}}), time.Time{}, "", spec.VerificationFailed},
		"artifact index out of range":     {returned(object{"evidence": []any{evidence(object{"artifact": 5})}}), time.Time{}, "", spec.VerificationFailed},
		"no evidence at all":              {returned(object{"evidence": []any{}}), time.Time{}, "", spec.Malformed},
		"artifact with no hash":           {returned(object{"artifacts": []any{object{"ref": "x", "sha256": nil, "commit_sha": nil}}}), time.Time{}, "/result/artifacts/0: no SHA-256: not pinned", ""},
		"64-hex commit used as digest":    {returned(object{"artifacts": []any{object{"ref": "x", "sha256": nil, "commit_sha": sum}}}), time.Time{}, "/result/artifacts/0: no SHA-256: not pinned", ""},
		"opposite verdicts":               {returned(object{"verdicts": []any{object{"criterion": 0, "accepted": true}, object{"criterion": 0, "accepted": false}}}), time.Time{}, "/result/verdicts/1: two verdicts that contradict each other", ""},
		"complete: true with uncovered":   {returned(object{"evidence": []any{evidence(object{"criteria": []int{0}})}, "evidence_report": object{"complete": true, "coverage": []any{}, "general": []any{}, "uncovered": []int{1}, "stale": []any{}}}), time.Time{}, "/result/evidence_report/complete: the server calls it complete", ""},
		"evidence of no criterion":        {returned(object{"evidence": []any{object{"kind": "note", "summary": "x", "observed_at": "2026-11-30T11:00:00Z"}}}), time.Time{}, "/packet/acceptance_criteria/0: no fresh evidence", ""},
		"evidence before the last return": {returned(nil), earlier, "/result/evidence/0: from before the last revision", ""},
		"evidence of eight days ago":      {returned(object{"evidence": []any{evidence(object{"observed_at": "2026-11-22T11:00:00Z"})}}), time.Time{}, "/result/evidence/0: older than 7 days", ""},
		"evidence that has aged since":    {returned(object{"returned_at": "2026-11-25T11:00:00Z", "evidence": []any{evidence(object{"observed_at": "2026-11-23T11:59:00Z"})}}), time.Time{}, "/result/evidence/0: older than 7 days", ""},
		"undated evidence":                {returned(object{"evidence": []any{object{"kind": "test_output", "summary": "x", "criteria": []int{0, 1}}}}), time.Time{}, "/result/evidence/0: undated", ""},
		"auto_accept on a gated task":     {work(object{"state": "completed", "result": result(object{"status": "accepted", "decided_by_policy": "auto_accept", "decided_by": object{"kind": "person", "handle": "ann"}})}), time.Time{}, "/result/decided_by: accepted, and no person of the requester's decided", ""},
		"accepted by an agent":            {work(object{"state": "completed", "result": result(object{"status": "accepted", "decided_by": object{"kind": "agent", "agent_id": "ann/claude"}})}), time.Time{}, "/result/decided_by: accepted, and no person of the requester's decided", ""},
		"accepted by the worker's person": {work(object{"state": "completed", "result": result(object{"status": "accepted", "decided_by": object{"kind": "person", "handle": "ben"}})}), time.Time{}, "/result/decided_by: accepted, and no person of the requester's decided", ""},
		"verified by the assignee's own":  {returned(object{"verified_by": object{"kind": "agent", "agent_id": "ben/checker"}}), time.Time{}, "/result/verified_by: by the assignee's own owner", ""},
		"returned by somebody else":       {returned(object{"returned_by": "carol/x"}), time.Time{}, "/result/returned_by: by another than the assignee", ""},
	} {
		found, err := judged(c.work, c.before)
		wants(t, what, err, c.word)
		if c.want != "" && !slices.Contains(found, c.want) {
			t.Errorf("%s: %v, want %q", what, found, c.want)
		}
	}
	good := work(object{"state": "completed", "result": result(object{"status": "accepted", "decided_by": object{"kind": "person", "handle": "ann"}})})
	if found, err := judged(good, time.Time{}); err != nil || len(found) != 0 {
		t.Errorf("accepted by a person: %v, %v", found, err)
	}
}

func TestANewRevisionIsAnotherSubject(t *testing.T) { // while an approval of the first is open
	one := must(bridge.ReadWork(raw(work(object{"result": result(nil)})))).Subject()
	two := must(bridge.ReadWork(raw(work(object{"result": result(object{"revision": 2})})))).Subject()
	if one == two || one == "" {
		t.Errorf("%q, %q", one, two)
	}
}

func heard(t *testing.T, was bridge.Waited, status, cursor string, events ...object) bridge.Heard {
	t.Helper()
	list := make([]any, len(events))
	for i, e := range events {
		list[i] = e
	}
	h, err := bridge.Hear(raw(object{"status": status, "cursor": cursor, "events": list}), was)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func message(id string) object {
	return object{"id": id, "project": "sales", "author": object{"kind": "person", "handle": "ben", "display_name": "Ben"}, "body": "hello", "mentions": []any{}, "provenance": nil,
		"in_reply_to": nil, "task_id": nil, "created_at": stamp}
}

func TestTheWaitLoopLosesNothingAndDoesNothingTwice(t *testing.T) {
	start := bridge.Waited{Cursor: "c0"}
	mention := object{"kind": "mention", "message": message("m1")}

	late := heard(t, start, "timeout", "c1", mention) // a timeout that carries events
	if len(late.Events) != 1 || late.Next.Cursor != "c1" {
		t.Errorf("%+v", late)
	}
	again := object{"kind": "room", "message": message("m2"), "replies_left": 2, "lead": true, "attempt": 2, "reannounced": true}
	both := heard(t, late.Next, "events", "c2", mention, object{"kind": "room", "message": message("m2"), "replies_left": 2, "lead": true}, again)
	if len(both.Events) != 1 || both.Events[0].Kind != "room" || both.Events[0].Quiet {
		t.Errorf("the same message twice: %+v", both.Events)
	}
	// A resync is handled inbox first. After a crash before the commit the loop still has the old cursor, and is told again.
	for range 2 {
		if h := heard(t, start, "resync", "c9"); !h.Inbox || start.Cursor != "c0" || h.Next.Cursor != "c9" {
			t.Errorf("%+v", h)
		}
	}
	last := heard(t, start, "events", "c3", object{"kind": "room", "message": message("m3"), "replies_left": 0, "lead": true}, object{"kind": "room", "message": message("m4"), "replies_left": 3, "lead": false})
	if len(last.Events) != 2 || !last.Events[0].Quiet || !last.Events[1].Quiet {
		t.Errorf("no reply left, or not the lead: %+v", last.Events)
	}
	odd := heard(t, start, "events", "c4", object{"kind": "poll", "x": 1}, object{"kind": "task", "task": work(nil)}, object{"kind": "task", "task": work(object{"state": "routed"})}, object{"kind": "action", "action_id": "a1", "project": "sales", "tool": "image_gen"})
	if !slices.Equal(odd.Skipped, []string{"poll"}) || len(odd.Events) != 3 || odd.Next.Cursor != "c4" {
		t.Errorf("an unknown kind: %+v", odd)
	}
	s := seed(t, "prickle-wait_for_mention.output.schema.json")
	for _, e := range []object{mention, again, {"kind": "task", "task": work(object{"result": result(nil)})}, {"kind": "action", "action_id": "a1", "project": "sales", "tool": "image_gen"}} {
		if err := s.Validate(must(jcs.Canonicalize(raw(object{"status": "events", "cursor": "c", "events": []any{e}})))); err != nil {
			t.Errorf("the fixture is none of Prickle's: %v", err)
		}
	}
}

func TestACauseSaysNoMoreThanItShows(t *testing.T) {
	cause := func(basis string, rule, approval any) object {
		return object{"kind": "task", "task_id": "t", "basis": basis, "rule_id": rule, "approval_id": approval}
	}
	for i, c := range []struct {
		cause    object
		from, to string
		want     spec.Reason
	}{
		{cause("approval", nil, nil), "ann/a", "ben/b", spec.Malformed}, // basis approval without id
		{cause("approval", nil, "ap1"), "ann/a", "ben/b", ""},
		{cause("rule", nil, nil), "ann/a", "ben/b", spec.Malformed},
		{cause("same_owner", nil, nil), "ann/a", "ben/b", spec.NotPermitted}, // basis same_owner with different owners
		{cause("same_owner", nil, nil), "ann/a", "ann/b", ""},
		{cause("same_owner", nil, "ap1"), "ann/a", "ann/b", spec.Malformed},
		{cause("trust me", nil, nil), "ann/a", "ben/b", spec.Malformed},
		{object{"kind": "none"}, "", "", ""}, {object{"kind": "miracle"}, "", "", spec.UnknownType},
	} {
		wants(t, fmt.Sprint(i, c.cause), bridge.CheckCause(must(jcs.Canonicalize(raw(c.cause))), c.from, c.to), c.want)
	}
}

func TestAnActionRunsOnlyOnTheOwnersWord(t *testing.T) {
	action := func(status, by string, step bool) jcs.Value {
		return must(jcs.Canonicalize(raw(object{"id": "a", "status": status, "decided_by": by, "step_up": step})))
	}
	for what, c := range map[string]struct {
		v       jcs.Value
		byOwner bool
		want    spec.Reason
	}{
		"approved": {action("approved", "ann", false), false, ""}, "still proposed": {action("proposed", "ann", false), true, spec.GateOpen}, "expired": {action("expired", "ann", false), true, spec.GateOpen},
		"by another owner": {action("approved", "ben", false), true, spec.NotPermitted}, "step_up answered by an agent": {action("approved", "ann", true), false, spec.NotPermitted},
		"step_up in the owner's own channel": {action("approved", "ann", true), true, ""}, "step_up left out": {action("approved", "ann", false).Without("step_up"), false, spec.NotPermitted},
	} {
		wants(t, what, bridge.CheckAction(c.v, c.byOwner, "ann"), c.want)
	}
}

func FuzzReadWork(f *testing.F) {
	f.Add(raw(work(nil)))
	f.Add(raw(work(object{"result": result(nil), "state": "completed"})))
	f.Fuzz(func(t *testing.T, in []byte) {
		w, err := bridge.ReadWork(in)
		if err != nil {
			return
		}
		w.Judge(noon, time.Time{}) //nolint:errcheck // it only must not panic
		w.Subject()
	})
}
