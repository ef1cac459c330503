package gateway

import (
	"encoding/json"
	"strings"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// groups are the tasks of ours that belong together (P4), by id, in groups of
// where they stand: one that disagrees waits for the owner.
var groups = journal.NewTable[groupRow]("group")

type groupRow struct {
	ID    string             `json:"id"`
	Kind  manifest.GroupKind `json:"kind"`
	Need  int64              `json:"need"`
	Tasks []string           `json:"tasks"` // keys
	Agent string             `json:"agent"`
	Ended string             `json:"ended,omitempty"` // why its owner or agent ended it
	At    time.Time          `json:"at"`
}

// Reasons with which tasks of a group are cancelled: all that a worker hears of it.
const (
	otherTaken = "another delivery was taken"
	sameTaken  = "the same was delivered and taken"
)

// groupOf reads the group of a task and its tasks, as they stand in this turn.
func (t *turn) groupOf(row taskRow) (g groupRow, rows []taskRow, err error) {
	g, ok, err := groups.Get(t.Tx, row.Group)
	if err == nil && !ok {
		err = spec.Refuse(spec.NotFound, "", "group")
	}
	for _, key := range g.Tasks {
		r := row
		if key != row.Key.String() && err == nil {
			r, err = t.row(key)
		}
		rows = append(rows, r)
	}
	return g, rows, err
}

// law is the group as it is decided about.
func (g groupRow) law(rows []taskRow, now time.Time) policy.Group {
	out := policy.Group{Kind: g.Kind, Need: g.Need}
	for _, r := range rows {
		out.Members = append(out.Members, r.member(now))
	}
	return out
}

func (r taskRow) member(now time.Time) policy.Member {
	m := policy.Member{Task: r.Key, Owner: r.Peer, Taken: endOf(r.Task, manifest.Requester) == manifest.KindCompleted}
	m.Over = !m.Taken && (r.Dropped != "" || r.Breach != "" || !r.Task.IsZero() && (r.Task.Ended() || r.Task.Broken() || r.Task.Outcome(now) != ""))
	if d := r.Task.Delivery(); d != nil && r.Task.State() == task.Delivered && r.Report != nil && r.Report.Delivery == d.Digest && r.Report.Verdict == passed {
		m.Same = r.Same
	}
	return m
}

// together is the group of a task of ours for a decision; nil for a task that stands alone.
func (t *turn) together(row taskRow) (*policy.Group, error) {
	if row.Group == "" {
		return nil, nil
	}
	g, rows, err := t.groupOf(row)
	if err != nil {
		return nil, err
	}
	out := g.law(rows, t.now)
	return &out, nil
}

// grouped does in the turn of one task what it means for the others of its
// group: once one is taken nobody can say yes to another, and each that is open
// is owed an end.
func (t *turn) grouped(row taskRow) error {
	if row.Group == "" {
		return nil
	}
	g, rows, err := t.groupOf(row)
	if err != nil {
		return err
	}
	law := g.law(rows, t.now)
	state := law.State()
	switch {
	case state == policy.GroupTaken || g.Ended != "":
		err = t.endOthers(law, rows, orWhy(g.Ended, string(g.Kind)+": "+otherTaken))
	case state == policy.GroupAgreed: // whoever was asked about may be gone: the next is looked at
		err = t.owe(jobCheck, first(law), nil)
	case state == policy.GroupDisagreed:
		err = t.tell()
	}
	if err != nil {
		return err
	}
	return groups.Put(t.Tx, g.ID, string(state), g)
}

// first is the task of a quorum's answer that is asked about: the first in the order in which they were asked.
func first(g policy.Group) string {
	for _, m := range g.Members {
		if !m.Over && !m.Same.IsZero() && g.Agree(m.Task) >= g.Need {
			return m.Task.String()
		}
	}
	return ""
}

// endOthers drops what nobody said, withdraws what is asked, and owes an end to the rest.
func (t *turn) endOthers(g policy.Group, rows []taskRow, why string) error {
	for i, r := range rows {
		if m := g.Members[i]; m.Taken || m.Over {
			continue
		}
		var err error
		if r.Task.IsZero() {
			err = t.drop(&r, why)
		} else if err = t.withdraw(r.Key.String(), why); err == nil {
			err = t.owe(jobCancel, r.Key.String(), nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drop ends a proposal that was never said.
func (t *turn) drop(row *taskRow, why string) error {
	row.Dropped = "cancelled"
	if err := t.withdraw(row.Key.String(), why); err != nil {
		return err
	}
	if err := t.note(row.Key.String(), map[string]string{"dropped": row.Dropped}); err != nil { // whoever watches sees it
		return err
	}
	return t.putRow(*row)
}

// lost says why a task of a group is to be cancelled; "" where it goes on.
func (t *turn) lost(row taskRow) string {
	if row.Group == "" {
		return ""
	}
	g, rows, err := t.groupOf(row)
	if err != nil {
		return ""
	}
	law := g.law(rows, t.now)
	by, taken := law.Taken()
	switch {
	case g.Ended != "":
		return g.Ended
	case !taken || by == row.Key:
		return ""
	}
	why := otherTaken
	for _, r := range rows {
		if mine := row.member(t.now).Same; g.Kind == manifest.Quorum && r.Key == by && !mine.IsZero() && r.Same == mine {
			why = sameTaken
		}
	}
	return string(g.Kind) + ": " + why
}

// waitsForGroup says that a good delivery of a quorum is not the one to be
// completed now: too few are the same, or another of the same is asked about.
func (t *turn) waitsForGroup(row taskRow) (bool, error) {
	g, err := t.together(row)
	if g == nil || err != nil {
		return false, err
	}
	if by, taken := g.Taken(); taken && by != row.Key {
		return true, nil // it is being cancelled
	}
	if g.Kind != manifest.Quorum {
		return false, nil
	}
	if g.Agree(row.Key) < g.Need || first(*g) != row.Key.String() {
		return true, t.grouped(row)
	}
	return t.asksAnother(*g, row)
}

// asksAnother says whether the owner is asked already about another task with the same answer.
func (t *turn) asksAnother(g policy.Group, row taskRow) (bool, error) {
	for _, m := range g.Members {
		if m.Task == row.Key || m.Over || m.Same != row.Same {
			continue
		}
		rows, err := asks.Group(t.Tx, m.Task.String())
		if err != nil {
			return false, err
		}
		for _, r := range rows {
			if r.V.Kind == manifest.KindCompleted && r.V.stateAt(t.now) == approval.Waiting {
				return true, nil
			}
		}
	}
	return false, nil
}

// GroupView is the group of a task as its owner sees it.
type GroupView struct {
	ID    string             `json:"id"`
	Kind  manifest.GroupKind `json:"kind"`
	Need  int64              `json:"need"` // deliveries that must be the same; 1 for a race
	State policy.GroupState  `json:"state"`
	Tasks []GroupTask        `json:"tasks"`
	Total manifest.Meters    `json:"total"` // what all tasks together may use
}

// GroupTask is one task of a group.
type GroupTask struct {
	TaskID  string `json:"taskId"`
	With    string `json:"with"`
	State   string `json:"state"`
	Outcome string `json:"outcome,omitempty"`
	Same    string `json:"same,omitempty"`  // of a good delivery that waits: equal for equal answers
	Agree   int64  `json:"agree,omitempty"` // how many delivered the same, this one included
	Taken   bool   `json:"taken,omitempty"`
}

func (t *turn) groupView(row taskRow) (*GroupView, error) {
	if row.Group == "" {
		return nil, nil
	}
	g, rows, err := t.groupOf(row)
	if err != nil {
		return nil, err
	}
	law := g.law(rows, t.now)
	v := &GroupView{ID: g.ID, Kind: g.Kind, Need: g.Need, State: law.State(), Total: total(rows)}
	for i, r := range rows {
		m := law.Members[i]
		state, outcome := r.standing(t.now)
		k := GroupTask{TaskID: r.Key.ID.String(), With: t.trust.Contacts[r.Peer].Name, State: state, Outcome: outcome, Taken: m.Taken}
		if !m.Same.IsZero() {
			k.Same, k.Agree = m.Same.String(), law.Agree(r.Key)
		}
		v.Tasks = append(v.Tasks, k)
	}
	return v, nil
}

// total is what several contracts allow together.
func total(rows []taskRow) (sum manifest.Meters) {
	for _, r := range rows {
		m := r.contract().Budget.Limits()
		if !r.Task.IsZero() {
			m = r.Task.Limits()
		}
		sum = manifest.Meters{InputTokens: sum.InputTokens + m.InputTokens, OutputTokens: sum.OutputTokens + m.OutputTokens,
			ToolInvocations: sum.ToolInvocations + m.ToolInvocations, WallClockSeconds: sum.WallClockSeconds + m.WallClockSeconds}
	}
	return sum
}

// findGroup resolves a group's id, or a unique ending of it, among those that the caller sees.
func (t *turn) findGroup(by Caller, ref string) (groupRow, error) {
	rows, err := groups.All(t.Tx)
	if err != nil {
		return groupRow{}, err
	}
	var found []groupRow
	for _, r := range rows {
		if (by == Owner || r.V.Agent == by.Agent) && (r.Key == ref || len(ref) >= 4 && strings.HasSuffix(strings.ToLower(r.Key), strings.ToLower(ref))) {
			found = append(found, r.V)
		}
	}
	if len(found) != 1 {
		return groupRow{}, spec.Refuse(spec.NotFound, "", "no group ends in "+manifest.Display(ref, 40))
	}
	return found[0], nil
}

// endGroup ends every task of a group that is not over: one durable word of the
// caller, and an end owed to each.
func (t *turn) endGroup(g groupRow, why string) (row taskRow, err error) {
	g.Ended = cut(orWhy(why, "not needed any more"), 1000)
	if err := groups.Put(t.Tx, g.ID, string(policy.GroupOpen), g); err != nil {
		return row, err
	}
	if err := t.recordGroup(g); err != nil {
		return row, err
	}
	if row, err = t.row(g.Tasks[0]); err != nil {
		return row, err
	}
	if err := t.grouped(row); err != nil {
		return row, err
	}
	return t.row(g.Tasks[0])
}

// recordGroup writes down what belongs together, and its end.
func (t *turn) recordGroup(g groupRow) error {
	body, err := json.Marshal(g)
	if err != nil {
		return err
	}
	return t.append(recGroup, g.ID, body)
}

// asTold is what a card says of the group of a task; nil where it stands alone.
func (t *turn) asTold(row *taskRow) (*approval.Together, error) {
	if row.Together == "" {
		return nil, nil
	}
	x := &approval.Together{Kind: row.Together}
	if row.Group == "" {
		return x, nil // a worker is told that others were asked, and nothing else
	}
	g, rows, err := t.groupOf(*row)
	if err != nil {
		return nil, err
	}
	law := g.law(rows, t.now)
	x.Need, x.Total = g.Need, total(rows)
	for i, r := range rows {
		name := t.trust.Contacts[r.Peer].Name
		x.With = append(x.With, name)
		switch same := law.Members[i].Same; {
		case r.Key == row.Key || law.Members[i].Over:
		case same.IsZero():
			x.Waiting = append(x.Waiting, name)
		case same == row.Same:
			x.Same = append(x.Same, name)
		default:
			x.Differ = append(x.Differ, name)
		}
	}
	return x, nil
}
