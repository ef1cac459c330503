package gateway

import (
	"bytes"
	"context"
	"errors"
	"time"

	"sealbridge/gateway/artifact"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Work by an agent that comes by itself, in its owner's session (isolation
// claimed, X6). Nothing is run here: the agent starts, tells
// and returns. Its run is reserved and charged like any other (B1); the clock of
// its working time is the job that would run a program.

// atWork finds a task that the caller works on.
func (t *turn) atWork(by Caller, ref string) (taskRow, error) {
	if err := by.agent(); err != nil {
		return taskRow{}, err
	}
	row, err := t.find(by, ref)
	if err == nil && !row.Session {
		err = spec.Refuse(spec.NotPermitted, "", "only the agent that works on a task")
	}
	return row, err
}

// working is the same for a task whose run is under way.
func (t *turn) working(by Caller, ref string) (taskRow, error) {
	row, err := t.atWork(by, ref)
	switch {
	case err != nil:
	case row.Recovery != "":
		err = spec.Refuse(spec.Unavailable, "", "R4b: in recovery: "+row.Recovery)
	case row.Task.Ended() || row.Task.State() != task.Working || row.RunAt.IsZero():
		err = spec.Refuse(spec.IllegalTransition, "", "start_task comes first, and the task has not ended")
	}
	return row, err
}

// inWork does one step of an agent at work and shows the task afterwards.
func (g *Gateway) inWork(ctx context.Context, step func(*turn) (taskRow, error)) (out AgentTask, err error) {
	err = g.turn(ctx, func(t *turn) error {
		row, err := step(t)
		if err == nil {
			out, err = t.agentTask(row)
		}
		return err
	})
	return out, err
}

// OfferAnswer is an agent's word on work that is offered to it.
type OfferAnswer struct {
	Task   string
	Accept bool
	Reason string
}

// AnswerOffer takes an agent's no as a no; its yes waits for its owner's, who is
// asked in any case (G1).
func (g *Gateway) AnswerOffer(ctx context.Context, by Caller, in OfferAnswer) (AgentTask, error) {
	return g.inWork(ctx, func(t *turn) (taskRow, error) {
		row, err := t.atWork(by, in.Task)
		if err != nil {
			return row, err
		}
		if row.Task.Ended() || row.Task.State() != task.Proposed {
			return row, spec.Refuse(spec.IllegalTransition, "", "the offer was decided")
		}
		if in.Accept {
			return row, t.note(row.Key.String(), map[string]string{"willing": by.Agent})
		}
		_, err = t.say(&row, manifest.Declined{Reason: "agent-declined", Text: cut(in.Reason, 1000)})
		return row, err
	})
}

// StartWork starts an agent's run: all that is free of the budget is reserved,
// and from now on working time counts (B4). A second time it changes nothing.
func (g *Gateway) StartWork(ctx context.Context, by Caller, in Ref) (AgentTask, error) {
	return g.inWork(ctx, func(t *turn) (taskRow, error) {
		row, err := t.atWork(by, in.Task)
		switch {
		case err != nil:
			return row, err
		case row.Task.Ended():
			return row, spec.Refuse(spec.IllegalTransition, "", "the task has ended")
		case row.Task.State() == task.Working && !row.RunAt.IsZero():
			return row, nil
		case row.Task.State() == task.Proposed:
			return row, spec.Refuse(spec.GateOpen, "", "the owner is asked")
		case row.Task.State() == task.Delivered:
			return row, spec.Refuse(spec.IllegalTransition, "", "delivered: it is the requester's turn")
		case !fetched(row, row.Task.Manifest().IO.InputArtifacts):
			return row, spec.Refuse(spec.Unavailable, "", "the input files are on their way")
		}
		if row.Task.State() == task.Accepted {
			if _, err := t.say(&row, manifest.Started{}); err != nil {
				return row, err
			}
		}
		row.Told = manifest.Meters{}
		left, ok, err := t.reserveRun(&row, Agent{Session: true, Model: row.accepted().Model})
		if err != nil || !ok {
			return row, err
		}
		return row, t.oweAt(jobRun, row.Key.String(), t.now.Add(left), nil)
	})
}

// Told is what an agent says while it works. Tokens are those of its run so far, a claim (B6).
type Told struct {
	Task                      string
	Text                      string
	InputTokens, OutputTokens int64
}

// maxCheckpoints of a task leave room for its ending among the events of one side (B9).
const maxCheckpoints = 1_000

// Checkpoint passes an agent's word on to the requester. Tokens that pass what
// is left end the task, as its contract says (B5).
func (g *Gateway) Checkpoint(ctx context.Context, by Caller, in Told) (AgentTask, error) {
	return g.inWork(ctx, func(t *turn) (taskRow, error) {
		row, err := t.working(by, in.Task)
		if err != nil {
			return row, err
		}
		if h := row.Task.Head(manifest.Worker); h != nil && h.Seq > maxCheckpoints {
			return row, spec.Refuse(spec.Quota, "", "1,000 checkpoints of a task")
		}
		if over, err := t.told(&row, in); err != nil || over {
			return row, err
		}
		u := t.usage(row)
		u.Meters = t.sofar(row)
		_, err = t.say(&row, manifest.Progressed{Checkpoint: cut(in.Text, 2000), Usage: u, Waiting: "nobody"})
		return row, err
	})
}

// told takes an agent's figures where they do not fall, and says whether they pass what was reserved.
func (t *turn) told(row *taskRow, in Told) (over bool, err error) {
	if row.accepted().Model != modelOwn { // its calls are counted one by one
		return false, nil
	}
	if n := max(in.InputTokens, in.OutputTokens); n > maxTokens || min(in.InputTokens, in.OutputTokens) < 0 {
		return false, spec.Refuse(spec.Malformed, "/usage", "B6: 0 to 2^53")
	}
	row.Told.InputTokens = max(row.Told.InputTokens, in.InputTokens)
	row.Told.OutputTokens = max(row.Told.OutputTokens, in.OutputTokens)
	meter, err := t.passed(row, row.Told)
	if err != nil || meter == "" {
		return false, errors.Join(err, t.putRow(*row))
	}
	return true, errors.Join(t.endSession(row), t.exhausted(row, meter))
}

// passed is a meter of which the run under way used more, as its agent says, than
// there is, with what both owners have agreed to since it began; "" where there is none.
func (t *turn) passed(row *taskRow, used manifest.Meters) (policy.Meter, error) {
	if row.accepted().Model != modelOwn {
		return "", nil
	}
	if _, err := t.grow(row); err != nil {
		return "", err
	}
	l, err := t.ledger(t.meterAccounts(row.Key))
	for _, m := range []policy.Meter{policy.InputTokens, policy.OutputTokens} {
		if err == nil && m.Of(used) > l.Of(policy.MeterOf(row.Key, m)).Holds[runHold(row.Runs)] {
			return m, nil
		}
	}
	return "", err
}

// sofar is what was charged, and what the run under way has used as far as we know.
func (t *turn) sofar(row taskRow) manifest.Meters {
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return manifest.Meters{}
	}
	of := func(m policy.Meter, more int64) int64 {
		b := l.Of(policy.MeterOf(row.Key, m))
		return b.Committed + min(more, b.Reserved())
	}
	return manifest.Meters{InputTokens: of(policy.InputTokens, row.Told.InputTokens), OutputTokens: of(policy.OutputTokens, row.Told.OutputTokens),
		ToolInvocations: of(policy.ToolInvocations, 0), WallClockSeconds: of(policy.WallClockSeconds, t.worked(row))}
}

// worked is the working time of the run under way, begun seconds whole.
func (t *turn) worked(row taskRow) int64 {
	if row.RunAt.IsZero() {
		return 0
	}
	return int64((t.now.Sub(row.RunAt) + time.Second - 1) / time.Second)
}

// endSession charges a run and stops its clock; one that does not run stays as it is.
func (t *turn) endSession(row *taskRow) error {
	if row.RunAt.IsZero() {
		return nil
	}
	used := row.Told
	used.WallClockSeconds = t.worked(*row)
	if err := t.commitRun(row, used, false); err != nil {
		return err
	}
	return t.Settle(jobRun, row.Key.String())
}

// sessionOver is the job of a run whose working time is used up: both owners may
// have agreed to more since it began.
func (t *turn) sessionOver(row *taskRow) error {
	got, err := t.grow(row)
	if err != nil {
		return err
	}
	if more := got[policy.WallClockSeconds]; more > 0 && !row.RunAt.IsZero() {
		if err := t.Settle(jobRun, row.Key.String()); err != nil {
			return err
		}
		return t.oweAt(jobRun, row.Key.String(), t.now.Add(min(time.Duration(more)*time.Second, row.Task.Deadline().Sub(t.now))), nil)
	}
	if err := t.endSession(row); err != nil {
		return err
	}
	return t.exhausted(row, policy.WallClockSeconds)
}

// Returned is an agent's delivery. Files come as bytes: no path is read here (K3).
type Returned struct {
	Told
	Output   jcs.Value
	Evidence []manifest.Evidence
	Files    []ReturnedFile
}

// ReturnedFile is one file of it.
type ReturnedFile struct {
	Name string
	Data []byte
}

// ReturnResult delivers what an agent made. A result that the contract's schema
// does not take is refused and the run goes on: the agent can mend it.
func (g *Gateway) ReturnResult(ctx context.Context, by Caller, in Returned) (AgentTask, error) {
	refs := []manifest.ArtifactRef{}
	err := g.view(ctx, func(t *turn) error { // before a byte is kept
		row, err := t.working(by, in.Task)
		if err == nil {
			if why := checkOutput(row.Task.Manifest().IO.OutputSchema, in.Output); why != "" {
				err = spec.Refuse(spec.VerificationFailed, "/output", why)
			}
		}
		return err
	})
	for i := 0; i < len(in.Files) && err == nil; i++ {
		f := in.Files[i]
		if err = manifest.CheckArtifactName(f.Name); err == nil {
			var ref manifest.ArtifactRef
			ref, err = g.Files.Put(ctx, f.Name, "", bytes.NewReader(f.Data), artifact.MaxSize)
			refs = append(refs, ref)
		}
		err = spec.At("/files/"+itoa(i), err)
	}
	if err != nil {
		return AgentTask{}, err
	}
	return g.inWork(ctx, func(t *turn) (taskRow, error) {
		row, err := t.working(by, in.Task)
		if err != nil {
			return row, err
		}
		if over, err := t.told(&row, in.Told); err != nil || over {
			return row, err
		}
		if err := t.endSession(&row); err != nil {
			return row, err
		}
		return row, t.deliver(&row, runner.Result{}, result{Output: in.Output, Evidence: in.Evidence}, refs, Agent{Session: true, Model: row.accepted().Model})
	})
}

// GiveUp ends a task that its agent cannot do.
func (g *Gateway) GiveUp(ctx context.Context, by Caller, in Told) (AgentTask, error) {
	return g.inWork(ctx, func(t *turn) (taskRow, error) {
		row, err := t.atWork(by, in.Task)
		if err != nil {
			return row, err
		}
		if s := row.Task.State(); row.Task.Ended() || s != task.Accepted && s != task.Working {
			return row, spec.Refuse(spec.IllegalTransition, "", "only accepted work that has not ended")
		}
		if !row.RunAt.IsZero() {
			if over, err := t.told(&row, in); err != nil || over {
				return row, err
			}
		}
		if err := t.endSession(&row); err != nil {
			return row, err
		}
		_, err = t.say(&row, manifest.Failed{Reason: "agent-failed", Text: cut(in.Text, 2000), Usage: t.usage(row)})
		return row, err
	})
}

// ReadInput reads a part of an input file of a task that the caller works on.
func (g *Gateway) ReadInput(ctx context.Context, by Caller, in FileRef) (out FilePart, err error) {
	var refs []manifest.ArtifactRef
	err = g.view(ctx, func(t *turn) error {
		row, err := t.atWork(by, in.Task)
		if err != nil {
			return err
		}
		if row.Task.Accepted() == nil {
			return spec.Refuse(spec.GateOpen, "", "G13: the owner is asked")
		}
		refs = row.Task.Manifest().IO.InputArtifacts
		if !fetched(row, refs) {
			return spec.Refuse(spec.Unavailable, "", "the input files are on their way")
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	return g.readPart(refs, in)
}
