package gateway

import (
	"context"
	"errors"
	"slices"
	"sort"
	"strings"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Seq is a place in the journal, for doors that do not know the journal.
type Seq = journal.Seq

// AgentTask is a task as its agent may see it. A worker's agent sees what is
// asked of it once its owner said yes (G13); a requester's agent sees a
// delivery once it was released (G14). Theirs are words of the other side (M9).
type AgentTask struct {
	TaskView
	Seq        journal.Seq // of the newest record: what the view is as of
	Created    time.Time
	Updated    time.Time
	Type       string
	Goal       string
	Criteria   []manifest.Criterion
	Inputs     []manifest.ArtifactRef
	Output     jcs.Value // JSON Schema of the result
	Limits     manifest.Meters
	Used       *manifest.Meters // as the worker states it; nil before it said so
	Checkpoint string           // the worker's newest
	Delivery   *AgentDelivery
	Reason     string        // why it ended, or came back
	Ready      bool          // the input files are here
	Running    bool          // its agent has started, and working time counts
	Left       time.Duration // of the working time, while it runs
	ByPerson   bool          // our owner decided on the delivery
}

// AgentDelivery is the newest delivery: its content only once it was released.
type AgentDelivery struct {
	Digest   signing.Digest
	Revision int64
	At       time.Time
	Report   *manifest.Report
	Released *manifest.Delivery
}

// AgentTask shows one task to its agent.
func (g *Gateway) AgentTask(ctx context.Context, by Caller, in Ref) (out AgentTask, err error) {
	if err := by.agent(); err != nil {
		return out, err
	}
	err = g.view(ctx, func(t *turn) error {
		row, err := t.find(by, in.Task)
		if err == nil {
			out, err = t.agentTask(row)
		}
		return err
	})
	return out, err
}

func (t *turn) agentTask(row taskRow) (v AgentTask, err error) {
	if v.TaskView, err = t.taskView(row, true); err != nil {
		return v, err
	}
	v.Artifacts = []FileView{}
	recs, err := t.RecordsOf(row.Key.String())
	if err != nil {
		return v, err
	}
	v.Created, v.Updated = row.At, row.At
	for _, r := range recs {
		if telling(r) {
			v.Seq, v.Updated = r.Seq, r.At
		}
	}
	m := row.Task.Manifest()
	if row.Task.IsZero() {
		if err := jcs.Decode(row.Proposal, &m); err != nil {
			return v, err
		}
	}
	v.Type, v.Limits = m.Task.TaskType, m.Budget.Limits()
	if !row.Task.IsZero() {
		v.Limits = row.Task.Limits()
	}
	v.Ready, v.Running = fetched(row, m.IO.InputArtifacts), !row.RunAt.IsZero()
	if row.Session && v.Running {
		if l, err := t.ledger(t.meterAccounts(row.Key)); err == nil {
			held := l.Of(policy.MeterOf(row.Key, policy.WallClockSeconds)).Holds[runHold(row.Runs)]
			v.Left = max(0, min(row.RunAt.Add(time.Duration(held)*time.Second).Sub(t.now), row.Task.Deadline().Sub(t.now)))
		}
	}
	if u := row.Task.Usage(); u != nil {
		v.Used = &u.Meters
	}
	if row.Role == manifest.Requester || row.Task.Accepted() != nil {
		v.Goal, v.Criteria, v.Inputs, v.Output = m.Task.Description, m.Task.AcceptanceCriteria, m.IO.InputArtifacts, m.IO.OutputSchema
	}
	for _, h := range v.History {
		switch h.Kind {
		case manifest.KindProgressed:
			v.Checkpoint = h.whole
		case manifest.KindDeclined, manifest.KindFailed, manifest.KindCancelled, manifest.KindRejected:
			v.Reason = h.whole
		}
	}
	d := row.Task.Delivery()
	if d == nil {
		return v, nil
	}
	v.Delivery = &AgentDelivery{Digest: d.Digest, Revision: d.Revision, At: v.Updated, Report: row.Report}
	for _, h := range v.History {
		if h.Kind == manifest.KindDelivered {
			v.Delivery.At = h.At
		}
		if h.Kind == manifest.KindCompleted {
			v.ByPerson = t.decided(row, manifest.DeliveryGate)
		}
	}
	if row.Released || row.Role == manifest.Worker {
		full, err := t.deliveryOf(row)
		if err != nil {
			return v, err
		}
		v.Delivery.Released = &full
	}
	return v, nil
}

// decided says whether our owner said yes at a gate of the task.
func (t *turn) decided(row taskRow, g manifest.Gate) bool {
	rows, err := asks.Group(t.Tx, row.Key.String())
	return err == nil && slices.ContainsFunc(rows, func(r journal.Row[askRow]) bool { return r.V.Ask.Gate == g && r.V.State == stateAllowed })
}

// MyTasks asks for a page of an agent's own tasks, newest first.
type MyTasks struct {
	Open  bool   // only what has not ended
	After string // the last id of the page before
	Limit int
}

// MyTasks lists the tasks that an agent asked for; more says that there is another page.
func (g *Gateway) MyTasks(ctx context.Context, by Caller, in MyTasks) (out []TaskView, more bool, err error) {
	if err := by.agent(); err != nil {
		return nil, false, err
	}
	out = []TaskView{}
	err = g.view(ctx, func(t *turn) error {
		keys, err := t.mine(by, !in.Open)
		if err != nil {
			return err
		}
		sort.Slice(keys, func(i, k int) bool { return idOf(keys[i]) > idOf(keys[k]) }) // our ids are ULIDs: by time
		for _, key := range keys {
			row, err := t.row(key)
			if err != nil {
				return err
			}
			if in.After != "" && row.Key.ID.String() >= in.After || !by.sees(row) {
				continue
			}
			if len(out) == in.Limit {
				more = true
				return nil
			}
			v, err := t.taskView(row, false)
			if err != nil {
				return err
			}
			if in.Open && v.Outcome != "" { // it ended, and only mail is still owed
				continue
			}
			out = append(out, v)
		}
		return nil
	})
	return out, more, err
}

// idOf is the task's part of a key.
func idOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

func (t *turn) mine(by Caller, ended bool) (keys []string, err error) {
	groups := []string{by.Agent + "/" + groupOpen}
	if ended {
		groups = append(groups, by.Agent+"/"+groupEnded)
	}
	for _, g := range groups {
		rows, err := mine.Group(t.Tx, g)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			keys = append(keys, r.Key)
		}
	}
	return keys, nil
}

// Mentions asks what happened in an agent's own tasks after a place.
type Mentions struct {
	After journal.Seq
	Mark  string // of the place, as it was given; "" where After is 0
	With  string // only with this contact; "" with anybody
	Limit int    // tasks in one answer
}

// Mentioned are the tasks in which something happened, as they are now, oldest
// change first. Next is the place to ask from once these have been handled:
// asking from an older place brings them again.
type Mentioned struct {
	Tasks []AgentTask
	Next  journal.Seq
	Mark  string // of Next: a journal put back from a backup goes on otherwise, and there it is another
}

const (
	scanPage  = 200   // records looked at in one view
	inboxBack = 5_000 // records that an inbox without a place looks back: what ended lately is in it
)

// Mentions answers at once with what happened after a place, or waits for it
// until ctx ends: then there are no tasks, and that is no error. A place that
// this journal has not reached, or reached with another record, is stale.
func (g *Gateway) Mentions(ctx context.Context, by Caller, in Mentions) (out Mentioned, err error) {
	if err := by.agent(); err != nil {
		return out, err
	}
	if in.After > g.Journal.Head() {
		return out, spec.Refuse(spec.Stale, "/cursor", "a place that this gateway has not reached")
	}
	out.Next, out.Mark = in.After, in.Mark
	for {
		more := false
		err := g.view(context.WithoutCancel(ctx), func(t *turn) (err error) {
			if mark, err := t.mark(out.Next); err != nil || mark != out.Mark {
				return errors.Join(err, spec.Refuse(spec.Stale, "/cursor", "a place in another journal"))
			}
			if more, err = t.mentioned(by, in, &out); err == nil {
				out.Mark, err = t.mark(out.Next)
			}
			return err
		})
		if err != nil || len(out.Tasks) > 0 {
			return out, err
		}
		if more {
			continue
		}
		if _, err := g.Journal.Wait(ctx, out.Next); err != nil {
			if ctx.Err() != nil {
				return out, nil
			}
			return out, err
		}
	}
}

// telling says whether a record changes what an agent sees: mail that was only confirmed does not.
func telling(r journal.Record) bool { return r.Kind != recAck && r.Kind != recReceipt }

// mark names the record at a place.
func (t *turn) mark(at journal.Seq) (string, error) {
	if at == 0 {
		return "", nil
	}
	recs, err := t.Records(at-1, 1)
	if err != nil || len(recs) == 0 {
		return "", err
	}
	return hexOf(recs[0].Digest[:6]), nil
}

// mentioned walks one page of records; what it skips is not looked at again.
func (t *turn) mentioned(by Caller, in Mentions, out *Mentioned) (more bool, err error) {
	recs, err := t.Records(out.Next, scanPage)
	if err != nil {
		return false, err
	}
	seen := map[string]bool{}
	for _, r := range recs {
		if !seen[r.Key] && len(out.Tasks) == in.Limit {
			return true, nil
		}
		out.Next = r.Seq
		if seen[r.Key] || !telling(r) {
			continue
		}
		seen[r.Key] = true
		if err := t.mention(by, in, r.Key, out); err != nil {
			return false, err
		}
	}
	return len(recs) == scanPage, nil
}

func (t *turn) mention(by Caller, in Mentions, key string, out *Mentioned) error {
	row, ok, err := tasks.Get(t.Tx, key)
	if err != nil || !ok || !by.sees(row) || in.With != "" && t.trust.Contacts[row.Peer].Name != in.With {
		return err
	}
	v, err := t.agentTask(row)
	if err == nil {
		out.Tasks = append(out.Tasks, v)
	}
	return err
}

// Inbox is what an agent that knows no place needs to see: its open tasks, and
// what ended lately. Next is the place to go on from.
func (g *Gateway) Inbox(ctx context.Context, by Caller, in Mentions) (out Mentioned, err error) {
	if err := by.agent(); err != nil {
		return out, err
	}
	out.Next = g.Journal.Head() // before the view, which can only be newer: nothing is skipped
	err = g.view(ctx, func(t *turn) error {
		keys, err := t.mine(by, false)
		if err != nil {
			return err
		}
		for at := max(0, out.Next-inboxBack); at < out.Next; {
			recs, err := t.Records(at, scanPage)
			if err != nil {
				return err
			}
			if len(recs) == 0 {
				break
			}
			for _, r := range recs {
				if at = r.Seq; telling(r) {
					keys = append(keys, r.Key)
				}
			}
		}
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			if err := t.mention(by, in, key, &out); err != nil {
				return err
			}
		}
		sort.SliceStable(out.Tasks, func(i, k int) bool { return out.Tasks[i].Seq < out.Tasks[k].Seq })
		if len(out.Tasks) > in.Limit { // the oldest first; the rest comes from the place after them
			out.Tasks = out.Tasks[:in.Limit]
			out.Next = out.Tasks[in.Limit-1].Seq
		}
		out.Mark, err = t.mark(out.Next)
		return err
	})
	return out, err
}

// Place is where a watcher that knows nothing yet begins: now.
func (g *Gateway) Place(ctx context.Context, by Caller, _ None) (out Mentioned, err error) {
	if err := by.agent(); err != nil {
		return out, err
	}
	out.Next = g.Journal.Head()
	err = g.view(ctx, func(t *turn) (err error) { out.Mark, err = t.mark(out.Next); return err })
	return out, err
}

// FileRef asks for a part of a released file.
type FileRef struct {
	Task, Name string
	Offset     int64
	Limit      int
}

// FilePart is a part of a released file.
type FilePart struct {
	manifest.ArtifactRef
	Offset int64
	Data   []byte
}

// ReadResult reads a part of a file of a released result (V2: the bytes that were checked and accepted).
func (g *Gateway) ReadResult(ctx context.Context, by Caller, in FileRef) (out FilePart, err error) {
	var d manifest.Delivery
	err = g.view(ctx, func(t *turn) error {
		row, err := t.find(by, in.Task)
		if err != nil {
			return err
		}
		if !row.Released {
			return spec.Refuse(spec.GateOpen, "", "the result is not released")
		}
		d, err = t.deliveryOf(row)
		return err
	})
	if err != nil {
		return out, err
	}
	return g.readPart(d.Artifacts, in)
}

// readPart reads a part of one of some files of the store.
func (g *Gateway) readPart(refs []manifest.ArtifactRef, in FileRef) (out FilePart, err error) {
	i := slices.IndexFunc(refs, func(a manifest.ArtifactRef) bool { return a.Name == in.Name })
	if i < 0 {
		return out, spec.Refuse(spec.NotFound, "/file", "there is no file of this name")
	}
	out.ArtifactRef, out.Offset = refs[i], in.Offset
	if in.Offset < 0 || in.Offset > out.SizeBytes || in.Limit < 1 {
		return out, spec.Refuse(spec.Malformed, "/offset", "within the file")
	}
	f, err := g.Files.Open(out.Digest)
	if err != nil {
		return out, err
	}
	defer f.Close()
	out.Data = make([]byte, min(int64(in.Limit), out.SizeBytes-in.Offset))
	if n, err := f.ReadAt(out.Data, in.Offset); n != len(out.Data) {
		return out, errors.Join(spec.Refuse(spec.Unavailable, "", "disk"), err)
	}
	return out, nil
}
