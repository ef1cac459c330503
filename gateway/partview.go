package gateway

import (
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
)

// PartView is a part of a task that its worker hands on, or asks to (P1). At
// the requester it is what both owners signed about it; at the worker also how
// the part itself stands.
type PartView struct {
	TaskID  string          `json:"taskId"`
	Title   string          `json:"title"`
	With    string          `json:"with"`  // who does it: our name for that owner, else what the contract calls it, which is nobody's word
	Owner   string          `json:"owner"` // its DID
	State   string          `json:"state"` // asked, refused, agreed, handed on; at the worker's the state of the part's task from there on
	Outcome string          `json:"outcome,omitempty"`
	Share   manifest.Meters `json:"share"`             // the most that it may use
	Held    bool            `json:"held,omitempty"`    // at the worker's: its share has not come back
	Depth   int64           `json:"depth"`             // how often it may be handed on
	Waiting string          `json:"waiting,omitempty"` // whom a part that nobody works on yet waits for
}

// Words of a PartView's state.
const (
	partAsked   = "asked"
	partRefused = "refused"
	partAgreed  = "agreed"
	partHanded  = "handed on"
)

// partsOf lists the parts of a task in the order in which they were asked for.
func (t *turn) partsOf(row taskRow) (out []PartView, err error) {
	seen := map[string]bool{}
	for _, a := range row.Task.Asks() {
		if a.Part == nil || seen[a.Child.String()] {
			continue
		}
		seen[a.Child.String()] = true
		newest, _ := newestAsk(row.Task, a.Child)
		v, err := t.partView(row, newest)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (t *turn) partView(row taskRow, a task.Ask) (v PartView, err error) {
	m, err := a.Part.Contract()
	if err != nil {
		return v, err
	}
	v = PartView{TaskID: m.TaskID.String(), Title: manifest.Display(m.Task.Title, 200), Owner: m.Worker.OwnerDid.String(),
		With: t.trust.Contacts[m.Worker.OwnerDid].Name, Share: m.Budget.Limits(), Depth: m.Permissions.MaxDelegationDepth}
	if v.With == "" {
		v.With = manifest.Display(orWhy(m.Worker.DisplayName, "an owner"), 60) + " (" + manifest.Fingerprint(m.Worker.OwnerDid) + ")"
	}
	above, below := t.trust.Contacts[row.Peer].Name, "you"
	if row.Role == manifest.Requester {
		above, below = below, above
	}
	switch {
	case delegatedIn(row.Task, a.Child):
		v.State = partHanded
	case a.Status == task.AskYes:
		v.State, v.Waiting = partAgreed, below+" (delegation)"
	case a.Status == task.AskNo:
		v.State = partRefused
	default:
		v.State, v.Waiting = partAsked, above+" (delegation)"
	}
	if row.Role != manifest.Worker {
		return v, nil
	}
	part, ok, err := t.partOf(row, a.Child)
	if err != nil || !ok {
		return v, err
	}
	if state, outcome := part.standing(t.now); !part.Task.IsZero() || part.Dropped != "" {
		v.State, v.Outcome, v.Waiting = state, outcome, ""
	}
	l, err := t.ledger(t.meterAccounts(row.Key))
	_, v.Held = l.Of(policy.MeterOf(row.Key, policy.WallClockSeconds)).Holds[policy.ChildHold(a.Child)]
	return v, err
}

// placeOf fills in where a task stands in a tree: the task above it, how many
// more are above that, and its parts.
func (t *turn) placeOf(row taskRow, v *TaskView) (err error) {
	m := row.contract()
	if m.ParentTaskID != nil {
		v.Parent = m.ParentTaskID.String()
		v.Above = int64(len(row.Passes))
		if !row.Task.IsZero() {
			v.Above = int64(len(row.Task.Passes()))
		}
		if m.Permissions.MaxDelegationDepth > 0 {
			v.Above--
		}
	}
	v.Depth = m.Permissions.MaxDelegationDepth
	if v.Parts, err = t.partsOf(row); err != nil {
		return err
	}
	if row.Parent == "" || !row.Task.IsZero() || row.Dropped != "" {
		return nil
	}
	parent, err := t.row(row.Parent)
	if err != nil {
		return err
	}
	a, ok := newestAsk(parent.Task, row.digest())
	if !ok {
		return nil
	}
	p, err := t.partView(parent, a)
	if p.Waiting != "" {
		v.Waiting, v.Mine = p.Waiting, a.Status == task.AskYes
	}
	return err
}
