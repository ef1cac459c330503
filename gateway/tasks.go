package gateway

import (
	"context"
	"sort"
	"strings"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// TaskView is one task as commands and agents see it.
type TaskView struct {
	TaskID         string             `json:"taskId"`
	Role           manifest.Role      `json:"role"`
	Title          string             `json:"title"`
	With           string             `json:"with"`
	State          string             `json:"state"`
	Outcome        string             `json:"outcome"`
	NextActor      string             `json:"nextActor"` // requester, worker, or "" after an end
	Waiting        string             `json:"waiting,omitempty"`
	ManifestDigest string             `json:"manifestDigest"`
	Deadline       time.Time          `json:"deadline"`
	Agent          string             `json:"agent,omitempty"`
	Budget         map[string]Balance `json:"budget"`
	Gates          []GateView         `json:"gates"`
	Changes        []ChangeView       `json:"changes"` // amendments that either owner asked for, the requester's first
	Chain          Chain              `json:"chain"`
	Artifacts      []FileView         `json:"artifacts"`
	Transfers      []TransferView     `json:"transfers"`       // files on their way, either way
	Calls          []CallView         `json:"calls,omitempty"` // on granted tools
	Checks         []CheckView        `json:"checks"`          // of the last delivery that was checked
	History        []Moment           `json:"history"`
	Released       bool               `json:"released"`
	Breach         string             `json:"breach,omitempty"`
	Recovery       string             `json:"recovery,omitempty"`
	Mine           bool               `json:"mine"` // whether this side acts next
	Counter        *CounterView       `json:"counter,omitempty"`
	Parent         string             `json:"parent,omitempty"` // the task that this one is a part of (P1)
	Above          int64              `json:"above,omitempty"`  // how many contracts are above it
	Depth          int64              `json:"depth,omitempty"`  // how often it may be handed on
	Parts          []PartView         `json:"parts,omitempty"`
	Tree           *TreeNode          `json:"tree,omitempty"`     // of a task that is shown whole: what is left where
	Group          *GroupView         `json:"group,omitempty"`    // of a task of ours (P4)
	Together       manifest.GroupKind `json:"together,omitempty"` // the requester says that others were asked for the same
}

// Balance is one meter.
type Balance struct {
	Limit     int64  `json:"limit"`
	Committed int64  `json:"committed"`
	Reserved  int64  `json:"reserved"`
	Source    string `json:"source,omitempty"`
}

// GateView is one ask of ours in a task.
type GateView struct {
	AskID  string    `json:"askId"`
	Gate   string    `json:"gate"`
	State  string    `json:"state"` // open, allowed, denied, expired, withdrawn
	Until  string    `json:"until"`
	Closed time.Time `json:"closed,omitzero"`
	Why    string    `json:"why,omitempty"` // of a no, the person's words; else what took the ask away
}

// Chain says how far each side's history goes here, and how much of ours the other side holds.
type Chain struct {
	Requester *manifest.Head `json:"requester"`
	Worker    *manifest.Head `json:"worker"`
	PeerHas   *manifest.Head `json:"peerHas"`
}

// Moment is one event of either chain.
type Moment struct {
	Author manifest.Role `json:"author"`
	Seq    int64         `json:"seq"`
	Kind   manifest.Kind `json:"kind"`
	At     time.Time     `json:"at"`
	Text   string        `json:"text,omitempty"` // the author's words: data
	Note   string        `json:"note,omitempty"` // ours: what this gateway reads in the event
	Digest string        `json:"digest"`
	whole  string        // the author's words uncut, for its agent
}

// Ref names a task by any unique ending of its id.
type Ref struct {
	Task string `json:"task"`
}

// find resolves an ending of at least four characters (surface: Habits) among
// the tasks that the caller sees: another agent's is not found.
func (t *turn) find(by Caller, ref string) (taskRow, error) {
	if id, err := manifest.ParseTaskID(ref); err == nil { // whole: no need to look through all
		for owner := range t.trust.Contacts {
			if row, ok, err := tasks.Get(t.Tx, manifest.TaskKey{Owner: owner, ID: id}.String()); err != nil || ok && by.sees(row) {
				return row, err
			}
		}
	}
	rows, err := tasks.All(t.Tx)
	if err != nil {
		return taskRow{}, err
	}
	var found []taskRow
	for _, r := range rows {
		if !by.sees(r.V) {
			continue
		}
		id := r.V.Key.ID.String()
		if id == ref {
			return r.V, nil
		}
		if len(ref) >= 4 && strings.HasSuffix(strings.ToLower(id), strings.ToLower(ref)) {
			found = append(found, r.V)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return taskRow{}, spec.Refuse(spec.NotFound, "", "no task ends in "+manifest.Display(ref, 40))
	}
	return taskRow{}, spec.Refuse(spec.Conflict, "", "more than one task ends in "+manifest.Display(ref, 40))
}

// Tasks lists tasks, newest first.
func (g *Gateway) Tasks(ctx context.Context, by Caller, _ None) (out []TaskView, err error) {
	out = []TaskView{}
	err = g.view(ctx, func(t *turn) error {
		rows, err := tasks.All(t.Tx)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if !by.sees(r.V) {
				continue
			}
			v, err := t.taskView(r.V, false)
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return nil
	})
	sort.SliceStable(out, func(i, k int) bool { return out[i].TaskID > out[k].TaskID })
	return out, err
}

// Task shows one task whole.
func (g *Gateway) Task(ctx context.Context, by Caller, in Ref) (out TaskView, err error) {
	err = g.view(ctx, func(t *turn) error {
		row, err := t.find(by, in.Task)
		if err == nil {
			out, err = t.taskView(row, true)
		}
		return err
	})
	return out, err
}

func (t *turn) taskView(row taskRow, whole bool) (v TaskView, err error) {
	v = TaskView{TaskID: row.Key.ID.String(), Role: row.Role, Title: manifest.Display(row.Title, 200), With: t.trust.Contacts[row.Peer].Name, Agent: row.Agent, Together: row.Together,
		Released: row.Released, Breach: row.Breach, Recovery: row.Recovery, Budget: map[string]Balance{}, Gates: []GateView{}, Changes: []ChangeView{}, Artifacts: []FileView{}, Transfers: []TransferView{}, Checks: []CheckView{}, History: []Moment{}}
	v.State, v.Outcome = row.standing(t.now)
	if row.Task.IsZero() {
		if row.Dropped == "" {
			v.NextActor, v.Mine = string(manifest.Requester), true
		}
		v.ManifestDigest = signing.DigestOf(row.Proposal.Bytes()).String()
	} else {
		v.NextActor = string(row.Task.NextActor())
		v.Mine = v.NextActor == string(row.Role)
		v.ManifestDigest, v.Deadline = row.Task.ManifestDigest().String(), row.Task.Deadline()
		v.Changes = changesOf(row)
		v.Chain = Chain{row.Task.Head(manifest.Requester), row.Task.Head(manifest.Worker), row.PeerHas}
	}
	if v.Group, err = t.groupView(row); err != nil {
		return v, err
	}
	if v.Counter, err = counterView(row); err != nil {
		return v, err
	}
	if err := t.placeOf(row, &v); err != nil {
		return v, err
	}
	if err := t.gatesOf(row, &v); err != nil {
		return v, err
	}
	if v.Waiting == "" && v.Group != nil && v.Group.State == policy.GroupDisagreed && row.Task.State() == task.Delivered && v.Outcome == "" {
		v.Waiting, v.Mine = "you (the deliveries differ)", true
	}
	if !whole {
		return v, nil
	}
	if v.Tree, err = t.treeOf(row); err != nil || row.Task.IsZero() {
		return v, err
	}
	used, err := t.byStanding(row)
	if err != nil {
		return v, err
	}
	v.Gates = append(v.Gates, used...)
	if err := t.budgetOf(row, &v); err != nil {
		return v, err
	}
	if v.Calls, err = t.callsOf(row); err != nil {
		return v, err
	}
	if v.Transfers, err = t.transfersOf(row); err != nil {
		return v, err
	}
	return v, t.historyOf(row, &v)
}

// standing is where a task stands, and how it ended.
func (r taskRow) standing(now time.Time) (state, outcome string) {
	switch {
	case r.Task.IsZero() && r.Dropped != "":
		return "dropped", r.Dropped
	case r.Task.IsZero():
		return "drafted", ""
	}
	if outcome = r.Task.Outcome(now); outcome != "" {
		return outcome, outcome
	}
	return string(r.Task.State()), ""
}

// contract is the original contract, said or not.
func (r taskRow) contract() (m manifest.TaskManifest) {
	if !r.Task.IsZero() {
		return r.Task.Manifest()
	}
	_ = jcs.Decode(r.Proposal, &m) // one that cannot be read was never made
	return m
}

func (t *turn) gatesOf(row taskRow, v *TaskView) error {
	rows, err := asks.Group(t.Tx, row.Key.String())
	for _, r := range rows {
		a := r.V.Ask
		state := r.V.stateAt(t.now)
		v.Gates = append(v.Gates, GateView{a.AskID.String(), manifest.GateWord(a.Gate), string(state), a.Until.String(), r.V.Closed, r.V.Why})
		if state == approval.Waiting {
			v.Waiting, v.Mine = "you ("+manifest.GateWord(a.Gate)+", ask "+a.Short()+")", true
		}
	}
	if err != nil || v.Waiting != "" {
		return err
	}
	in, err := t.inLine(row)
	if in {
		v.Waiting, v.Mine = "you (in line behind "+itoa(policy.MaxOpenAsks)+" questions about "+v.With+")", true
	}
	return err
}

func (t *turn) budgetOf(row taskRow, v *TaskView) error {
	limits := row.Task.Limits()
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return err
	}
	u := row.Task.Usage()
	for _, m := range policy.Meters() {
		b := Balance{Limit: m.Of(limits)}
		if row.Role == manifest.Worker || m == policy.ToolInvocations && l.Has(policy.MeterOf(row.Key, m)) { // calls on our tools are counted here too (B7)
			bal := l.Of(policy.MeterOf(row.Key, m))
			b.Committed, b.Reserved = bal.Committed, bal.Reserved()
		} else if u != nil {
			b.Committed = m.Of(u.Meters)
		}
		if u != nil {
			b.Source = map[policy.Meter]string{policy.InputTokens: u.Source.InputTokens, policy.OutputTokens: u.Source.OutputTokens,
				policy.ToolInvocations: u.Source.ToolInvocations, policy.WallClockSeconds: u.Source.WallClockSeconds}[m]
		}
		v.Budget[string(m)] = b
	}
	return nil
}

func (t *turn) historyOf(row taskRow, v *TaskView) error {
	wires, err := t.events(row.Key.String())
	if err != nil {
		return err
	}
	for _, w := range wires {
		s, err := manifest.OpenValue(w, t.g.keys)
		if err != nil {
			return err
		}
		e, ok := s.Document().(*manifest.Event)
		if !ok {
			continue
		}
		switch f := e.Body.Fact.(type) {
		case manifest.Rejected:
			v.Checks = checksOf(row, f.Report)
		case manifest.Completed:
			v.Checks = checksOf(row, f.Report)
		}
		role, _ := row.Task.RoleOf(e.Author)
		v.History = append(v.History, Moment{Author: role, Seq: e.Seq, Kind: e.Body.Fact.Kind(), At: e.At.Time(), Text: wordsOf(e.Body.Fact), whole: wholeWords(e.Body.Fact),
			Note: noteOf(e.Body.Fact, len(row.Task.Manifest().IO.InputArtifacts)), Digest: s.Digest().String()})
	}
	if r := row.Report; r != nil && !row.Task.Ended() { // before it is said
		v.Checks = checksOf(row, *r)
	}
	if d := row.Task.Delivery(); d != nil {
		full, err := t.deliveryOf(row)
		if err != nil {
			return err
		}
		for _, a := range full.Artifacts {
			v.Artifacts = append(v.Artifacts, FileView{Name: a.Name, Digest: a.Digest.String(), MediaType: a.MediaType, Size: a.SizeBytes, Here: row.Here[a.Digest.String()] || row.Role == manifest.Worker})
		}
	}
	return nil
}

// CheckView is one check of a delivery, as the requester's gateway made it.
type CheckView struct {
	manifest.CheckResult
	Command string `json:"command,omitempty"`
	Printed string `json:"printed,omitempty"` // the beginning of what it printed here: data; the other side does not get it
}

func checksOf(row taskRow, r manifest.Report) []CheckView {
	commands := map[string]string{}
	for _, c := range row.Task.Manifest().Verification.Checks {
		if c.Kind == manifest.CommandCheck {
			commands[c.CheckID.String()] = c.Target
		}
	}
	out := make([]CheckView, 0, len(r.Checks))
	for _, c := range r.Checks {
		v := CheckView{CheckResult: c, Command: commands[c.Check]}
		if row.Report != nil && row.Report.Delivery == r.Delivery {
			v.Printed = row.Printed[c.Check]
		}
		out = append(out, v)
	}
	return out
}

// wholeWords are what an agent reads of an event, uncut and as they came.
func wholeWords(f manifest.Fact) string {
	switch f := f.(type) {
	case manifest.Declined:
		return joinWords(f.Reason, f.Text)
	case manifest.Progressed:
		return f.Checkpoint
	case manifest.Failed:
		return joinWords(f.Reason, f.Text)
	case manifest.Rejected:
		return f.Text
	case manifest.Cancelled:
		return f.Reason
	}
	return ""
}

// wordsOf are the author's own words in an event: data for whoever reads them.
func wordsOf(f manifest.Fact) string {
	switch f := f.(type) {
	case manifest.Declined:
		return manifest.Display(joinWords(f.Reason, f.Text), 200)
	case manifest.Asked:
		if f.Amendment != nil {
			return changeWords(*f.Amendment)
		}
	case manifest.Answered:
		if f.Yes {
			return "yes"
		}
		return manifest.Display("no: "+f.Reason, 200)
	case manifest.Progressed:
		return manifest.Display(f.Checkpoint, 200)
	case manifest.Failed:
		return manifest.Display(joinWords(f.Reason, f.Text), 300)
	case manifest.Rejected:
		return manifest.Display(f.Text, 200)
	case manifest.Cancelled:
		return manifest.Display(f.Reason, 200)
	case manifest.Disputed:
		return manifest.Display(f.Claim, 200)
	}
	return ""
}

// Since asks what is new in a task.
type Since struct {
	Task  string      `json:"task"`
	After journal.Seq `json:"after"`
}

// Changes is a task as it is after something happened.
type Changes struct {
	Seq  journal.Seq `json:"seq"`
	Task TaskView    `json:"task"`
}

// Watch answers once something was written after a place, or after twenty
// seconds; while a file of the task is on its way after one, because of its
// progress nothing is written. Without a task it says only how far the journal
// goes.
func (g *Gateway) Watch(ctx context.Context, by Caller, in Since) (out Changes, err error) {
	if in.After > 0 {
		patience := 20 * time.Second
		if before, err := g.Task(ctx, by, Ref{in.Task}); in.Task != "" && err == nil && len(before.Transfers) > 0 {
			patience = time.Second
		}
		waited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if _, err := g.Journal.Wait(waited, in.After); err != nil && waited.Err() == nil {
			return out, err
		}
	}
	out.Seq = g.Journal.Head()
	if in.Task == "" {
		return out, nil
	}
	out.Task, err = g.Task(ctx, by, Ref{in.Task})
	return out, err
}

// FileView is one file of a delivery.
type FileView struct {
	Name      string `json:"name"`
	Digest    string `json:"digest"`
	MediaType string `json:"mediaType"`
	Size      int64  `json:"sizeBytes"`
	Here      bool   `json:"here"`
}
