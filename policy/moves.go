package policy

import (
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
)

// Accounts lists what must be read from the journal before deciding: the
// meters of the task, and what counts per contact.
func Accounts(c Case) []Account {
	key, contact, day := c.parties()
	var out []Account
	for _, m := range Meters() {
		out = append(out, MeterOf(key, m))
	}
	out = append(out, ContactAccount(OpenTasks, contact, c.Role, ""))
	for _, k := range waitingKinds {
		out = append(out, ContactAccount(k, contact, c.Role, ""))
	}
	for _, k := range dayKinds {
		out = append(out, ContactAccount(k, contact, c.Role, day))
	}
	return append(out, standingAccounts(c.Consents)...)
}

// waitingKinds count what a contact has proposed and nobody has accepted yet (B9).
var waitingKinds = []AccountKind{OpenProposals, UnacceptedBytes, UnacceptedFiles}

var dayKinds = []AccountKind{DayTasks, DayInput, DayOutput, DayCalls}

// MeterOf is the account of one of a task's meters.
func MeterOf(key manifest.TaskKey, m Meter) Account {
	return Account{Kind: MeterAccount, Task: key, Meter: m}
}

// ContactAccount is an account of one contact on one side; day is "" where none counts.
func ContactAccount(k AccountKind, contact signing.DID, side manifest.Role, day string) Account {
	return Account{Kind: k, Contact: contact, Side: side, Day: day}
}

// Day is the day of an instant where the owner is, as accounts name it; nil is UTC.
func Day(at time.Time, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return at.In(zone).Format(time.DateOnly)
}

// TaskHold is the name of a task's one reservation in an account of its contact.
func TaskHold(k manifest.TaskKey) HoldID {
	return HoldID(k.Owner.String() + " " + k.ID.String())
}

// parties are the task's key, the other side's owner and the day that the task
// counts for: that of our own word that took it on.
func (c Case) parties() (manifest.TaskKey, signing.DID, string) {
	m, key := c.Task.Manifest(), c.Task.Key()
	if p, ok := c.Event.Body.Fact.(manifest.Proposed); ok && c.Task.IsZero() {
		m = proposal(p)
		key = manifest.TaskKey{Owner: m.Requester.OwnerDid, ID: m.TaskID}
	}
	contact := m.Requester.OwnerDid
	if c.Role == manifest.Requester && m.Worker != nil {
		contact = m.Worker.OwnerDid
	}
	day := c.Event.At.Time()
	switch {
	case c.Role == manifest.Requester && !c.Task.IsZero():
		day = c.Task.ProposedAt().Time()
	case c.Role == manifest.Worker && c.Task.Accepted() != nil:
		day = c.Task.Accepted().At.Time()
	}
	return key, contact, Day(day, c.Zone)
}

// Moves are what an event that is said already costs this gateway by law: for a
// home that gets its own chain back (R4b), where nothing is left to decide.
func Moves(c Case) []Move {
	l, bad := read(c)
	if bad != nil {
		return nil
	}
	return l.moves()
}

// moves are what the event costs this gateway by law. Those that end a
// reservation are there only if the ledger has it, so that none ends twice.
func (l *law) moves() []Move {
	var out []Move
	key, contact, _ := l.parties()
	hold := TaskHold(key)
	switch f := l.fact.(type) {
	case manifest.Proposed:
		if l.Role == manifest.Worker {
			return l.flood(contact, hold)
		}
	case manifest.Accepted:
		out = l.unwait(out, contact, hold)
		if l.Role == manifest.Worker {
			out = setLimits(out, key, l.contract.Limits)
		}
	case manifest.Asked:
		switch {
		case l.Role != manifest.Worker || !l.own:
		case f.Child != nil:
			if m, err := f.Child.Contract(); err == nil {
				out = l.reserveShare(out, f.Child.Digest(), m.Budget.Limits())
			}
		case f.Amendment.Budget != nil:
			out = setLimits(out, key, stricter(l.limits(task.Ask{}), *f.Amendment.Budget)) // H10
		}
	case manifest.Delegated:
		if l.Role == manifest.Worker {
			out = l.reserveShare(out, f.Child, f.Reserved)
		}
	case manifest.Answered:
		if l.Role == manifest.Worker {
			out = l.answered(out, key, f)
		}
	case manifest.Declined, manifest.Failed, manifest.Completed, manifest.Cancelled, manifest.TimedOut:
		out = l.settle(l.unwait(out, contact, hold))
	case manifest.Rejected:
		if !f.Again {
			out = l.settle(out)
		}
	}
	return out
}

// answered puts the limits of the contract in force, or back those that a
// refused ask of ours had drawn tighter.
func (l *law) answered(out []Move, key manifest.TaskKey, f manifest.Answered) []Move {
	a, ok := l.Task.Ask(f.Ask)
	if ok && !f.Yes && a.By == manifest.Worker && !a.Child.IsZero() {
		for _, m := range Meters() {
			out = l.release(out, MeterOf(key, m), ChildHold(a.Child))
		}
		return out
	}
	if !ok || a.Amendment == nil || a.Amendment.Budget == nil {
		return out
	}
	if f.Yes {
		return setLimits(out, key, *a.Amendment.Budget)
	}
	if a.By == manifest.Worker {
		return setLimits(out, key, l.limits(a))
	}
	return out
}

// limits are those of the contract in force, drawn tighter by each open ask of
// our own but one (H10).
func (l *law) limits(but task.Ask) manifest.Meters {
	m := l.Task.Limits()
	for _, a := range l.Task.Asks() {
		if a.By == manifest.Worker && a.Status == task.AskOpen && !l.Task.Lapsed(a) && a.Event != but.Event &&
			a.Amendment != nil && a.Amendment.Budget != nil {
			m = stricter(m, *a.Amendment.Budget)
		}
	}
	return m
}

func stricter(a, b manifest.Meters) manifest.Meters {
	return manifest.Meters{
		InputTokens: min(a.InputTokens, b.InputTokens), OutputTokens: min(a.OutputTokens, b.OutputTokens),
		ToolInvocations: min(a.ToolInvocations, b.ToolInvocations), WallClockSeconds: min(a.WallClockSeconds, b.WallClockSeconds),
	}
}

func setLimits(out []Move, key manifest.TaskKey, m manifest.Meters) []Move {
	for _, meter := range Meters() {
		out = append(out, Move{Op: SetLimit, Account: MeterOf(key, meter), Amount: meter.Of(m)})
	}
	return out
}

// flood counts a proposal among those of its contact that wait for us (B9).
func (l *law) flood(contact signing.DID, hold HoldID) (out []Move) {
	files := int64(0)
	for _, ref := range l.m.IO.InputArtifacts {
		files += ref.SizeBytes
	}
	for _, x := range []struct {
		kind          AccountKind
		limit, amount int64
	}{{OpenProposals, MaxOpenProposals, 1}, {UnacceptedBytes, MaxUnacceptedBytes, int64(len(l.payload.Bytes()))}, {UnacceptedFiles, MaxUnacceptedFileBytes, files}} {
		a := ContactAccount(x.kind, contact, l.Role, "")
		out = append(out, Move{Op: SetLimit, Account: a, Amount: x.limit}, Move{Op: Reserve, Account: a, Hold: hold, Amount: x.amount})
	}
	return out
}

// unwait takes a proposal from among those that wait.
func (l *law) unwait(out []Move, contact signing.DID, hold HoldID) []Move {
	for _, k := range waitingKinds {
		out = l.release(out, ContactAccount(k, contact, l.Role, ""), hold)
	}
	return out
}

// release ends a reservation that is there.
func (l *law) release(out []Move, a Account, hold HoldID) []Move {
	if _, held := l.Ledger.Of(a).Holds[hold]; held {
		return append(out, Move{Op: Release, Account: a, Hold: hold})
	}
	return out
}

// settle ends what the task holds of its contact: the place among the open
// tasks comes back, a day is charged what was used, and the task itself.
func (l *law) settle(out []Move) []Move {
	key, contact, day := l.parties()
	hold := TaskHold(key)
	out = l.release(out, ContactAccount(OpenTasks, contact, l.Role, ""), hold)
	for _, k := range dayKinds {
		a := ContactAccount(k, contact, l.Role, day)
		held, ok := l.Ledger.Of(a).Holds[hold]
		if !ok {
			continue
		}
		out = append(out, Move{Op: Commit, Account: a, Hold: hold, Amount: min(held, l.used(k, held))})
	}
	return out
}

// used is what a day is charged for the task; all that was held where nobody said less.
func (l *law) used(k AccountKind, held int64) int64 {
	u := l.Task.Usage()
	if f, ok := l.fact.(manifest.Failed); ok {
		u = &f.Usage
	}
	switch {
	case u == nil || k == DayTasks:
		return held
	case k == DayInput:
		return u.InputTokens
	case k == DayOutput:
		return u.OutputTokens
	case k == DayCalls:
		return u.ToolInvocations
	}
	return held
}
