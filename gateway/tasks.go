package gateway

import (
	"context"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"sealbridge/gateway/artifact"
	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
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
	History        []Moment           `json:"history"`
	Released       bool               `json:"released"`
	Breach         string             `json:"breach,omitempty"`
	Recovery       string             `json:"recovery,omitempty"`
	Mine           bool               `json:"mine"` // whether this side acts next
	Counter        *CounterView       `json:"counter,omitempty"`
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
	v = TaskView{TaskID: row.Key.ID.String(), Role: row.Role, Title: manifest.Display(row.Title, 200), With: t.trust.Contacts[row.Peer].Name, Agent: row.Agent,
		Released: row.Released, Breach: row.Breach, Recovery: row.Recovery, Budget: map[string]Balance{}, Gates: []GateView{}, Changes: []ChangeView{}, Artifacts: []FileView{}, History: []Moment{}}
	if row.Task.IsZero() {
		v.State, v.Outcome, v.NextActor, v.Mine = "drafted", row.Dropped, string(manifest.Requester), row.Dropped == ""
		if row.Dropped != "" {
			v.State, v.NextActor = "dropped", ""
		}
		v.ManifestDigest = signing.DigestOf(row.Proposal.Bytes()).String()
	} else {
		v.State, v.Outcome, v.NextActor = string(row.Task.State()), row.Task.Outcome(t.now), string(row.Task.NextActor())
		if v.Outcome != "" {
			v.State = v.Outcome
		}
		v.Mine = v.NextActor == string(row.Role)
		v.ManifestDigest, v.Deadline = row.Task.ManifestDigest().String(), row.Task.Deadline()
		v.Changes = changesOf(row)
		v.Chain = Chain{row.Task.Head(manifest.Requester), row.Task.Head(manifest.Worker), row.PeerHas}
	}
	if v.Counter, err = counterView(row); err != nil {
		return v, err
	}
	if err := t.gatesOf(row, &v); err != nil || !whole || row.Task.IsZero() {
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
	return v, t.historyOf(row, &v)
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
		if row.Role == manifest.Worker {
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
		role, _ := row.Task.RoleOf(e.Author)
		v.History = append(v.History, Moment{Author: role, Seq: e.Seq, Kind: e.Body.Fact.Kind(), At: e.At.Time(), Text: wordsOf(e.Body.Fact), whole: wholeWords(e.Body.Fact),
			Note: noteOf(e.Body.Fact, len(row.Task.Manifest().IO.InputArtifacts)), Digest: s.Digest().String()})
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

// Cancellation ends a task of ours.
type Cancellation struct {
	Task   string `json:"task"`
	Reason string `json:"reason"`
}

// Cancel ends a task that we asked for; a second time it is a harmless repeat (B020).
func (g *Gateway) Cancel(ctx context.Context, by Caller, in Cancellation) (out TaskView, err error) {
	if in.Reason == "" {
		in.Reason = "not needed any more"
	}
	err = g.turn(ctx, func(t *turn) error {
		row, err := t.find(by, in.Task)
		if err != nil {
			return err
		}
		if row.Role != manifest.Requester {
			return spec.Refuse(spec.NotPermitted, "", "H4: the requester ends a task; deny its gate, or block the contact")
		}
		switch {
		case row.Task.IsZero() && row.Dropped == "":
			row.Dropped = "cancelled"
			if err := t.withdraw(row.Key.String(), "the task was cancelled"); err != nil {
				return err
			}
			if err := t.note(row.Key.String(), map[string]string{"dropped": row.Dropped}); err != nil { // whoever watches sees it
				return err
			}
			err = t.putRow(row)
		case !row.Task.IsZero() && row.Task.Outcome(t.now) == "":
			_, err = t.say(&row, manifest.Cancelled{Reason: cut(in.Reason, 1000)})
		}
		if err == nil {
			out, err = t.taskView(row, true)
		}
		return err
	})
	return out, err
}

// Fetch asks for a result, or for quarantined files.
type Fetch struct {
	Task string `json:"task"`
	Ask  string `json:"ask"` // instead of Task: the files of the delivery that this ask is about
	Dir  string `json:"dir"` // a new folder, made here
}

// Fetched is what was handed over.
type Fetched struct {
	Ready  bool      `json:"ready"`
	Task   TaskView  `json:"task"`
	Output jcs.Value `json:"output"`
	Files  []string  `json:"files"`
}

// Result hands over what was released: the bytes that were checked and accepted (V2, V3a).
func (g *Gateway) Result(ctx context.Context, by Caller, in Fetch) (out Fetched, err error) {
	if in.Dir != "" && by != Owner { // V3a: never into a folder that an agent names
		return out, spec.Refuse(spec.NotPermitted, "/dir", "V3a: an agent reads the files of a result, it names no folder")
	}
	var d manifest.Delivery
	err = g.view(ctx, func(t *turn) error {
		row, err := t.find(by, in.Task)
		if err != nil {
			return err
		}
		if out.Task, err = t.taskView(row, false); err != nil || !row.Released {
			return err
		}
		out.Ready = true
		d, err = t.deliveryOf(row)
		return err
	})
	if err != nil || !out.Ready {
		return out, err
	}
	out.Output = d.Output
	return out, g.handOver(ctx, in.Dir, d, &out)
}

// resultFile holds the structured output beside the files of a delivery.
const resultFile = "result.json"

// handOver writes a delivery's files and its result.json into a new folder.
func (g *Gateway) handOver(ctx context.Context, dir string, d manifest.Delivery, out *Fetched) error {
	out.Files = []string{}
	if dir == "" {
		return nil
	}
	files := append([]manifest.ArtifactRef(nil), d.Artifacts...)
	taken := false
	for _, f := range files {
		taken = taken || strings.EqualFold(f.Name, resultFile)
	}
	if !taken {
		ref, err := g.Files.Put(ctx, resultFile, "application/json", strings.NewReader(d.Output.String()), artifact.MaxSize)
		if err != nil {
			return err
		}
		files = append(files, ref)
	}
	if err := g.Files.Release(ctx, dir, files); err != nil {
		return err
	}
	for _, f := range files {
		out.Files = append(out.Files, f.Name)
	}
	return nil
}

// Quarantined hands the person the files of a delivery before the decision (G14).
func (g *Gateway) Quarantined(ctx context.Context, by Caller, in Fetch) (out Fetched, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	var d manifest.Delivery
	if err := g.turn(ctx, func(t *turn) (err error) { d, err = t.opened(in.Ask); return err }); err != nil {
		return out, err
	}
	out.Ready, out.Output = true, d.Output
	return out, g.handOver(ctx, in.Dir, d, &out)
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
// seconds. Without a task it says only how far the journal goes.
func (g *Gateway) Watch(ctx context.Context, by Caller, in Since) (out Changes, err error) {
	if in.After > 0 {
		waited, cancel := context.WithTimeout(ctx, 20*time.Second)
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

// Bundle is exported evidence.
type Bundle struct {
	Task string `json:"taskId"`
	Text string `json:"bundle"`
}

// Export writes the evidence of a task: nothing that is not already signed, but for the asks that we kept (V4).
func (g *Gateway) Export(ctx context.Context, by Caller, in Ref) (out Bundle, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	err = g.view(ctx, func(t *turn) error {
		row, err := t.find(by, in.Task)
		if err == nil {
			out.Task = row.Key.ID.String()
			out.Text, err = t.bundle(row)
		}
		return err
	})
	return out, err
}

// bundle is the evidence of a task as a sealed text.
func (t *turn) bundle(row taskRow) (string, error) {
	if row.Task.IsZero() {
		return "", spec.Refuse(spec.NotFound, "", "nothing was said in this task yet")
	}
	var text strings.Builder
	w := audit.NewWriter(&text)
	docs, err := t.evidence(row)
	if err != nil {
		return "", err
	}
	for _, d := range docs {
		if err := w.Add(d); err != nil {
			return "", err
		}
	}
	heads := manifest.Heads{TaskID: row.Key.ID, ManifestDigest: row.Task.ManifestDigest(), Yours: row.Task.Head(row.Role.Other()), Mine: row.Task.Head(row.Role)}
	if err := w.Seal(heads, row.Task.Agent(row.Role.Other()), t.revocations(), t.g.Agent, t.now); err != nil {
		return "", err
	}
	err = w.Close()
	return text.String(), err
}

// evidence is every document of a task, in the order in which it can be read.
func (t *turn) evidence(row taskRow) (docs []jcs.Value, err error) {
	wires, err := t.events(row.Key.String())
	if err != nil {
		return nil, err
	}
	var requester, worker *signing.Block
	for _, w := range wires {
		s, err := manifest.OpenValue(w, t.g.keys)
		if err != nil {
			return nil, err
		}
		if e, ok := s.Document().(*manifest.Event); ok {
			switch f := e.Body.Fact.(type) {
			case manifest.Proposed:
				requester = &f.Signature
			case manifest.Accepted:
				worker = &f.Signature
			}
		}
	}
	m, err := manifest.Assemble(row.Task.Payload(), requester, worker)
	if err != nil {
		return nil, err
	}
	docs = append(docs, m)
	for _, owner := range []signing.DID{t.g.Owner, row.Peer} {
		ids, err := t.identities(owner)
		if err != nil {
			return nil, err
		}
		docs = append(docs, ids...)
	}
	docs = append(docs, wires...)
	recs, err := t.RecordsOf(row.Key.String())
	if err != nil {
		return nil, err
	}
	for _, r := range recs {
		switch r.Kind {
		case recAsk, recDecision, recAck, recReceipt:
			v, err := jcs.Parse(r.Body)
			if err != nil {
				return nil, err
			}
			docs = append(docs, v)
		}
	}
	return docs, nil
}

// identities are the certificates, box-keys and revocations of an owner, as they came.
func (t *turn) identities(owner signing.DID) (docs []jcs.Value, err error) {
	recs, err := t.RecordsOf(owner.String())
	if err != nil {
		return nil, err
	}
	for _, r := range recs {
		if r.Kind != recDocument {
			continue
		}
		v, err := jcs.Parse(r.Body)
		if err != nil {
			return nil, err
		}
		switch manifest.TypeName(v) {
		case "agent-certificate", "box-key", "revocation":
			docs = append(docs, v)
		}
	}
	return docs, nil
}

// Status is this gateway in figures.
type Status struct {
	Owner       string           `json:"owner"`
	Agent       string           `json:"agent"`
	Name        string           `json:"name"`
	Started     time.Time        `json:"started"`
	Head        journal.Seq      `json:"records"`
	Waiting     int              `json:"waiting"`
	Tasks       int              `json:"openTasks"`
	Contacts    int              `json:"contacts"`
	Outgoing    int              `json:"unacknowledged"`
	Certificate time.Time        `json:"certificateUntil"`
	Agents      []string         `json:"agents"` // that work for others, by the rules in force
	Isolated    bool             `json:"isolated"`
	Enforces    []string         `json:"enforces"`
	Counts      map[string]int64 `json:"counts"`
	Policy      string           `json:"policyDigest"`          // in force (G12)
	PolicyWaits string           `json:"policyWaits,omitempty"` // digest of one that permits more and waits for the owner's yes
}

// Status says what is going on.
func (g *Gateway) Status(ctx context.Context, _ Caller, _ None) (out Status, err error) {
	out = Status{Owner: g.Owner.String(), Agent: g.Agent.DID().String(), Started: g.started, Head: g.Journal.Head(), Counts: map[string]int64{}, Enforces: []string{}}
	if c, err := g.certificateTerms(); err == nil {
		out.Name, out.Certificate = c.DisplayName, c.ExpiresAt.Time()
	}
	if g.Runner != nil {
		out.Isolated, out.Enforces = g.Runner.Isolation().Enforced == "gateway", g.Runner.Enforces(false)
	}
	g.mu.Lock()
	for k, n := range g.counts {
		out.Counts[k] = n
	}
	out.Agents = slices.Sorted(maps.Keys(g.rules.Agents))
	g.mu.Unlock()
	err = g.view(ctx, func(t *turn) error {
		out.Contacts = len(t.trust.Contacts) - 1
		out.Policy = t.law.Digest.String()
		if w := t.law.Waiting; w != nil {
			out.PolicyWaits = w.Digest.String()
		}
		if out.Waiting, err = waiting.Count(t.Tx, ""); err != nil {
			return err
		}
		if out.Tasks, err = tasks.Count(t.Tx, groupOpen); err != nil {
			return err
		}
		sent, err := t.Jobs(jobSend)
		out.Outgoing = len(sent)
		return err
	})
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
