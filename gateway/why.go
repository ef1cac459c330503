package gateway

import (
	"context"
	"slices"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// Reasons is why something stands where it stands (E1): every no that there was
// about it, and who acts next.
type Reasons struct {
	Task    *TaskView `json:"task,omitempty"` // as in a list; absent for what belongs to no task
	Next    *Next     `json:"next,omitempty"`
	Refused []Refusal `json:"refused"` // oldest first
}

// Next is who acts next, on what, until when, and what happens by itself then.
type Next struct {
	Who   string    `json:"who"` // you, this gateway, nobody, or the contact by our name
	What  string    `json:"what"`
	Ask   string    `json:"askId,omitempty"`
	Rule  string    `json:"because,omitempty"` // of an ask: what asks
	Until time.Time `json:"until,omitzero"`
	Then  string    `json:"then,omitempty"`
	Again time.Time `json:"again,omitzero"` // of something owed: when it is tried next
	Tries int       `json:"tries,omitempty"`
	Quiet bool      `json:"quiet,omitempty"` // the other side has not confirmed our newest word
}

// Why explains a task, by any unique ending of its id or of its group's; a call
// on a tool by its id; or, without a name, lists what was refused lately.
func (g *Gateway) Why(ctx context.Context, by Caller, in Ref) (out Reasons, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	out.Refused = []Refusal{}
	err = g.view(ctx, func(t *turn) error {
		if in.Task == "" {
			out.Refused, err = t.lately()
			return err
		}
		row, err := t.find(by, in.Task)
		if spec.ReasonOf(err) == spec.NotFound {
			if out.Refused, err = t.refusedNamed(in.Task); err != nil || len(out.Refused) > 0 {
				return err
			}
			row, err = t.memberOf(by, in.Task)
		}
		if err != nil {
			return err
		}
		v, err := t.taskView(row, true)
		if err != nil {
			return err
		}
		if out.Next, err = t.nextOf(row, v); err != nil {
			return err
		}
		if out.Refused, err = t.refusedIn(row, v); err != nil {
			return err
		}
		v.History, v.Budget = []Moment{}, map[string]Balance{} // task show has them
		out.Task = &v
		return nil
	})
	return out, err
}

// memberOf is the first task of a group that is named by its id.
func (t *turn) memberOf(by Caller, ref string) (taskRow, error) {
	g, err := t.findGroup(by, ref)
	if err != nil {
		return taskRow{}, spec.Refuse(spec.NotFound, "", "no task, group or call ends in "+manifest.Display(ref, 40))
	}
	return t.row(g.Tasks[0])
}

const mostLately = 30 // of all that was refused, the newest that a person still reads

// lately lists the newest refusals, whatever they belong to.
func (t *turn) lately() ([]Refusal, error) {
	rows, err := denials.All(t.Tx)
	out := []Refusal{}
	for _, r := range rows {
		out = append(out, r.V)
	}
	slices.SortFunc(out, func(a, b Refusal) int { return a.At.Compare(b.At) })
	return out[max(0, len(out)-mostLately):], err
}

// refusedNamed finds what was refused to one call.
func (t *turn) refusedNamed(ref string) (out []Refusal, err error) {
	rows, err := denials.All(t.Tx)
	out = []Refusal{}
	for _, r := range rows {
		if r.V.Call != "" && len(ref) >= 4 && strings.HasSuffix(strings.ToLower(r.V.Call), strings.ToLower(ref)) {
			out = append(out, r.V)
		}
	}
	byTimeOf(out)
	return out, err
}

// byTimeOf orders by the second, as events state it: a cause stands before what followed from it at once.
func byTimeOf(rs []Refusal) {
	slices.SortStableFunc(rs, func(a, b Refusal) int { return a.At.Truncate(time.Second).Compare(b.At.Truncate(time.Second)) })
}

// refusedIn is every no in a task: what was kept of the law's and the rules', what
// people said or left unsaid, what checks found, and what either side ended it with.
func (t *turn) refusedIn(row taskRow, v TaskView) ([]Refusal, error) {
	out := []Refusal{}
	rows, err := denials.Group(t.Tx, row.Key.String())
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		out = append(out, r.V)
	}
	as, err := asks.Group(t.Tx, row.Key.String())
	if err != nil {
		return nil, err
	}
	for _, a := range as {
		if r, ok := a.V.refusal(t.now); ok {
			out = append(out, r)
		}
	}
	for _, m := range v.History {
		if r, ok := refusalIn(v, m); ok {
			out = append(out, r)
		}
	}
	if r := row.Report; r != nil && r.Verdict != passed {
		for _, c := range r.Checks {
			if c.Result != passed {
				out = append(out, Refusal{By: byCheck, What: string(manifest.KindDelivered), Word: spec.VerificationFailed, Rule: "V2", Path: c.Check, Have: c.Result, Most: passed, Words: manifest.Display(c.Text, 500), At: r.At.Time()})
			}
		}
	}
	for _, role := range []manifest.Role{manifest.Requester, manifest.Worker} {
		if b := row.Task.Break(role); b != nil {
			out = append(out, Refusal{By: byLaw, What: string(b.Kind), Word: brokenBy(b), Rule: "H6", Limit: "event " + itoa(b.Seq) + " of the " + string(role), Words: manifest.Display(b.Cause, 300)})
		}
	}
	byTimeOf(out)
	for i := range out {
		out[i].Task = v.TaskID
	}
	return out, nil
}

func brokenBy(b *task.Break) spec.Reason {
	if b.Fork {
		return spec.Fork
	}
	return spec.IllegalTransition
}

// refusal is a question that did not get a yes.
func (r askRow) refusal(now time.Time) (out Refusal, ok bool) {
	out = Refusal{What: string(r.Kind), Rule: "G1", Where: r.Rule, Limit: manifest.GateWord(r.Ask.Gate) + ", ask " + r.Ask.Short(), Words: manifest.Display(r.Why, 300), At: r.Closed}
	switch r.stateAt(now) {
	case approval.Denied:
		out.By, out.Word = byPerson, spec.GateDenied
	case approval.Expired:
		out.By, out.Word, out.Rule, out.Have, out.Most = byTime, spec.GateExpired, "G4", "no answer", "before "+r.Ask.Until.String()
		if out.At.IsZero() {
			out.At = r.Ask.Until.Time()
		}
	case approval.Withdrawn:
		out.By, out.Word, out.Rule = byLaw, spec.Conflict, "G3"
	default:
		return out, false
	}
	return out, true
}

// refusalIn is an event that ends a task, or sends a delivery back.
func refusalIn(v TaskView, m Moment) (r Refusal, ok bool) {
	rules := map[manifest.Kind]string{manifest.KindDeclined: "H4", manifest.KindRejected: "V3", manifest.KindFailed: "H4", manifest.KindCancelled: "H4", manifest.KindTimedOut: "H8", manifest.KindDisputed: "H12"}
	rule, ok := rules[m.Kind]
	if !ok {
		return r, false
	}
	r = Refusal{By: byContact, Name: v.With, What: string(m.Kind), Rule: rule, Words: m.Text, At: m.At}
	if m.Author == v.Role {
		r.By = "you"
	}
	return r, true
}

// silence is what no answer to a question comes to (G4).
var silence = map[manifest.Kind]string{manifest.KindProposed: "the draft is dropped", manifest.KindAccepted: "it is declined", manifest.KindAsked: "it is not asked",
	manifest.KindAnswered: "the answer is no", manifest.KindCompleted: "the delivery goes back, or is rejected for good where no retry is left", manifest.KindDelegated: "it is not handed on"}

// duties are what this gateway does by itself, in words.
var duties = map[string]string{jobAccept: "decide about the contract", jobFetch: "fetch the files", jobStart: "start the agent", jobRun: "run the agent", jobUpload: "send the files",
	jobCheck: "check the delivery", jobRelease: "hand the result over", jobCancel: "cancel the task", jobStop: "end the program and say what was used", jobAnswer: "answer what the other owner asks"}

// nextOf says who acts next, from what is owed and what is asked.
func (t *turn) nextOf(row taskRow, v TaskView) (*Next, error) {
	as, err := asks.Group(t.Tx, row.Key.String())
	if err != nil {
		return nil, err
	}
	for _, a := range as {
		if r := a.V; r.stateAt(t.now) == approval.Waiting {
			return &Next{Who: "you", What: "say yes or no: " + manifest.GateWord(r.Ask.Gate) + ", ask " + r.Ask.Short(), Ask: r.Ask.AskID.String(), Rule: r.Ask.Because,
				Until: r.Ask.Until.Time(), Then: silence[r.Kind]}, nil
		}
	}
	n := &Next{Who: "nobody", What: "nothing is left to do"}
	switch {
	case v.State == "dropped":
		return n, nil
	case row.Recovery != "":
		return &Next{Who: v.With, What: "give back the history that this home lost", Until: row.RecoveryUntil, Then: "this gateway signs again once it has it (R4b)"}, nil
	case v.Group != nil && v.Group.State == policy.GroupDisagreed && v.State == string(task.Delivered):
		return &Next{Who: "you", What: "look at the deliveries, which differ, and end what you do not want", Until: v.Deadline, Then: "the task has timed out (H8)"}, nil
	case v.Waiting != "":
		return &Next{Who: "you", What: "answer the questions before this one: it stands in line (B9)"}, nil
	case row.Task.IsZero():
		return &Next{Who: "you", What: "propose again: nothing is asked about this draft"}, nil
	}
	if head := row.Task.Head(row.Role); head != nil && (row.PeerHas == nil || row.PeerHas.Seq < head.Seq) {
		n.Quiet = true
	}
	for _, kind := range append(t.next(row), jobAnswer) {
		jb, owed, err := t.JobOf(kind, row.Key.String())
		if err != nil {
			return nil, err
		}
		if owed && duties[kind] != "" {
			n.Who, n.What, n.Again, n.Tries = "this gateway", duties[kind], jb.Due, jb.Tries
			return n, nil
		}
	}
	switch {
	case v.Outcome != "" && n.Quiet:
		n.Who, n.What = v.With, "confirm that it has heard the end"
	case v.Outcome != "":
	case v.Group != nil && v.State == string(task.Delivered):
		n.Who, n.What = "the others", "deliver: the group is "+string(v.Group.State)
	case v.Mine && row.Session:
		n.Who, n.What = row.Agent, "go on with the work: it comes by itself"
	case v.Mine:
		n.Who, n.What = "this gateway", "go on; nothing of it is late"
	default:
		n.Who, n.What, n.Until, n.Then = v.With, turnOf[row.Task.State()], v.Deadline, "the task has timed out (H8)"
	}
	return n, nil
}

// turnOf is what the side that has the turn does (H7).
var turnOf = map[task.State]string{task.Proposed: "decide about the contract", task.Accepted: "start the work", task.Working: "work and deliver", task.Delivered: "check the delivery and decide"}
