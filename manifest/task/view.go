package task

import (
	"slices"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
)

const (
	// MaxDisputes of one side (H12): a claim is text that both keep for ever.
	MaxDisputes = 5
	// DisputeWindow after the ending, in which disputed may be said (H12).
	DisputeWindow = 30 * 24 * time.Hour
	// MaxLonger is how much an amendment may put off the deadline, in all (H10).
	MaxLonger = 30 * 24 * time.Hour
	// MaxChildren that a worker may ask for in one task: both sides keep every
	// child's manifest with the state.
	MaxChildren = 16
	// MaxEvents of one side, every branch counted (B9).
	MaxEvents = 10000
)

// view is the task as the author of an event saw it (H3): the author's own
// chain whole, the other's up to what the author had seen. It takes from the
// present fold what lies above seen, and nothing is replayed: the turn moves
// only at delivered and rejected, so an author that had not seen the last move
// did not hold the turn.
type view struct {
	f      *fold
	author manifest.Role
	seen   int64 // seq of the other side's newest event in view
	broken bool  // the other chain broke, and the event encloses what broke it
}

// unseen says whether an act of r at seq lies outside the view; 0 is no act.
func (v view) unseen(r manifest.Role, seq int64) bool { return r != v.author && seq > v.seen }

func (v view) state() State {
	s := v.f.State
	if v.author == manifest.Worker {
		switch {
		case v.seen == 0:
			return None
		case v.f.BackAt > v.seen:
			return Delivered
		}
		return s
	}
	if s == Delivered && v.f.TurnAt > v.seen {
		s = Working
	}
	switch {
	case v.f.AcceptedAt > v.seen && s != None:
		return Proposed
	case v.f.StartedAt > v.seen && s == Working:
		return Accepted
	}
	return s
}

// end is r's ending in this view, nil if there is none.
func (v view) end(r manifest.Role) *Ending {
	e := v.f.Ends[side(r)]
	if e == nil || v.unseen(r, e.Seq) {
		return nil
	}
	return e
}

func (v view) ended() bool {
	return v.end(manifest.Requester) != nil || v.end(manifest.Worker) != nil
}

// contract is the one in force in this view. At most one yes of the other side can be unseen.
func (v view) contract() Contract {
	line := v.f.Line
	for len(line) > 1 && v.unseen(line[len(line)-1].By, line[len(line)-1].Seq) {
		line = line[:len(line)-1]
	}
	if len(line) == 0 {
		return Contract{}
	}
	return line[len(line)-1]
}

// late says whether the author's clock had reached the deadline of the contract in its view (H8).
func (v view) late(n entry) bool { return !n.At.Time().Before(v.contract().Deadline.Time()) }

// ask is the ask of that event in this view.
func (v view) ask(of signing.Digest) (Ask, bool) {
	for _, a := range v.f.Asks {
		if a.Event != of || v.unseen(a.By, a.Seq) {
			continue
		}
		if a.By == v.author && a.AnswerSeq > v.seen {
			a.Status, a.AnswerSeq, a.Answer, a.Reason = AskOpen, 0, signing.Digest{}, ""
		}
		return a, true
	}
	return Ask{}, false
}

// delivery is the newest one in this view.
func (v view) delivery() *Delivery {
	n := len(v.f.Deliveries)
	for n > 0 && v.unseen(manifest.Worker, v.f.Deliveries[n-1].Seq) {
		n--
	}
	if n == 0 {
		return nil
	}
	return &v.f.Deliveries[n-1]
}

// mayAsk: an ask names the contract in force, an amendment changes only what
// H10 lets it, and only a worker asks for a child.
func mayAsk(v view, n entry) error {
	c := v.contract()
	switch {
	case n.Of != c.Digest:
		return illegal("H9: the contract in force")
	case n.Amendment == nil && v.author != manifest.Worker:
		return illegal("G11: the worker asks for a child")
	case n.Amendment == nil:
		return v.f.another()
	}
	return v.f.amendable(c, *n.Amendment)
}

// another says whether a worker may ask for a child once more (P1).
func (f *fold) another() error {
	have := 0
	for _, a := range f.Asks {
		if !a.Child.IsZero() {
			have++
		}
	}
	if have >= MaxChildren {
		return illegal("P1: 16 children asked for in a task")
	}
	return nil
}

// amendable holds an amendment against H10.
func (f *fold) amendable(c Contract, a manifest.Amendment) error {
	if a.Budget == nil && a.Deadline == nil && a.MaxRetries == nil && len(a.Withdraw) == 0 {
		return illegal("H10: nothing changes")
	}
	if a.Budget != nil && !limitsFit(*a.Budget) {
		return illegal("H10: budget")
	}
	if a.Deadline != nil && (a.Deadline.Time().After(f.Line[0].Deadline.Time().Add(MaxLonger)) ||
		!a.Deadline.Time().After(f.Created.Time())) {
		return illegal("H10: deadline at most 30 days later in all")
	}
	if a.MaxRetries != nil && (*a.MaxRetries < 0 || *a.MaxRetries > 10) {
		return illegal("H10: maxRetries")
	}
	for i, id := range a.Withdraw {
		if !slices.Contains(f.Grants, id) || slices.Contains(c.Withdrawn, id) || slices.Contains(a.Withdraw[:i], id) {
			return illegal("H10: withdraws what is not granted")
		}
	}
	return nil
}

// limitsFit holds the bounds that a manifest's budget has too.
func limitsFit(m manifest.Meters) bool {
	return m.InputTokens >= 0 && m.InputTokens <= 100_000_000 && m.OutputTokens >= 0 && m.OutputTokens <= 100_000_000 &&
		m.ToolInvocations >= 0 && m.ToolInvocations <= 100_000 && m.WallClockSeconds >= 1 && m.WallClockSeconds <= 604_800
}

// mayAnswer: the other side's ask, open in this view, answered once. A yes
// needs that it builds on the contract in force, and of the requester that none
// of its own asks is open (H9), so that the amendments form one line.
func mayAnswer(v view, n entry) error {
	a, ok := v.ask(n.Of)
	switch {
	case !ok || a.By == v.author:
		return illegal("H9: no such ask of the other side")
	case a.Status != AskOpen:
		return illegal("H9: answered once")
	case !n.Yes:
		return nil
	case a.Base != v.contract().Digest:
		return illegal("H9: the ask has lapsed")
	case v.author == manifest.Requester && v.ownOpen():
		return illegal("H9: an ask of its own is open")
	}
	return nil
}

// ownOpen says whether the author waits for an answer; an ask on a contract no longer in force has lapsed.
func (v view) ownOpen() bool {
	base := v.contract().Digest
	for _, a := range v.f.Asks {
		if a.By == v.author && a.Base == base && (a.Status == AskOpen || a.AnswerSeq > v.seen) {
			return true
		}
	}
	return false
}

// childAllowed: delegated names the yes to its child, once (G11).
func childAllowed(v view, n entry) error {
	for _, c := range v.f.Children {
		if c.Manifest == n.Doc {
			return illegal("G11: delegated once")
		}
	}
	for _, a := range v.f.Asks {
		if a.By == manifest.Worker && a.Answer == n.Of && !n.Of.IsZero() {
			if a.Status == AskYes && a.AnswerSeq <= v.seen && a.Child == n.Doc {
				return nil
			}
		}
	}
	return illegal("G11: no yes to this child")
}

func nextRevision(v view, n entry) error {
	last := int64(0)
	if d := v.delivery(); d != nil {
		last = d.Revision
	}
	switch {
	case n.Revision != last+1:
		return illegal("V1: the next revision")
	case n.Of != v.contract().Digest:
		return illegal("H10: the contract in force")
	}
	return nil
}

func ofDelivery(v view, n entry) error {
	if d := v.delivery(); d == nil || d.Digest != n.Of {
		return illegal("V2: the delivery that is there")
	}
	return nil
}

// againAllowed: the turn goes back only while a retry is left (V3).
func againAllowed(v view, n entry) error {
	if !n.Yes {
		return illegal("final")
	}
	if err := ofDelivery(v, n); err != nil {
		return err
	}
	if v.delivery().Revision > v.contract().MaxRetries {
		return illegal("V3: maxRetries")
	}
	return nil
}

func finally(v view, n entry) error {
	if n.Yes {
		return illegal("V3: maxRetries")
	}
	return ofDelivery(v, n)
}

func deadlinePassed(v view, n entry) error {
	if !v.late(n) {
		return illegal("H8: the deadline has not passed")
	}
	return nil
}

// mayStop: the worker's last word, after the requester ended the task, once.
func mayStop(v view, _ entry) error {
	r := v.end(manifest.Requester)
	switch {
	case r == nil || r.Kind != manifest.KindCancelled && r.Kind != manifest.KindTimedOut:
		return illegal("after cancelled or timed_out")
	case v.end(manifest.Worker) != nil || v.f.StoppedAt != 0:
		return illegal("once, without an ending of its own")
	}
	return nil
}

// mayDispute: after an ending, the deadline or a break that it encloses; at
// most five times and within thirty days (H12).
func mayDispute(v view, n entry) error {
	mine := 0
	for _, d := range v.f.Disputes {
		if d.By == v.author {
			mine++
		}
	}
	if mine >= MaxDisputes {
		return illegal("H12: five a side")
	}
	from := v.contract().Deadline.Time()
	if e := v.end(manifest.Requester); e != nil {
		from = e.At.Time()
	} else if e := v.end(manifest.Worker); e != nil {
		from = e.At.Time()
	} else if !v.late(n) && !v.broken {
		return illegal("H12: nothing has ended")
	}
	if n.At.Time().After(from.Add(DisputeWindow)) {
		return illegal("H12: within 30 days")
	}
	return nil
}
