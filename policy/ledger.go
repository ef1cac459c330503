package policy

import (
	"errors"
	"maps"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// AccountKind says what runs out.
type AccountKind string

const (
	MeterAccount    AccountKind = "meter"     // one of a contract's four meters (B1)
	DayTasks        AccountKind = "day-tasks" // tasks with one contact on one day (B8)
	DayInput        AccountKind = "day-input" // input tokens on one day
	DayOutput       AccountKind = "day-output"
	DayCalls        AccountKind = "day-calls"
	OpenTasks       AccountKind = "open-tasks"       // tasks under way at once with one contact
	OpenProposals   AccountKind = "open-proposals"   // proposals of one contact that wait for us (B9)
	StandingUses    AccountKind = "standing-uses"    // of one standing yes (G6)
	StandingTotal   AccountKind = "standing-total"   // what its contracts agreed together, a meter each
	UnacceptedBytes AccountKind = "unaccepted-bytes" // of contracts of one contact that wait for us (B9)
	UnacceptedFiles AccountKind = "unaccepted-files" // bytes of the files that they name (B9)
	OpenHosts       AccountKind = "open-hosts"       // uses of one decision about one host (X1)
	CapabilityCount AccountKind = "uses"             // uses of a grant, over all descendants (C5)
)

// Meter is one of the four things that a budget counts.
type Meter string

const (
	InputTokens      Meter = "input_tokens"
	OutputTokens     Meter = "output_tokens"
	ToolInvocations  Meter = "tool_calls"
	WallClockSeconds Meter = "time"
)

// Meters lists the four, in the order of manifest.Meters.
func Meters() []Meter {
	return []Meter{InputTokens, OutputTokens, ToolInvocations, WallClockSeconds}
}

// Of is the figure of one meter.
func (m Meter) Of(ms manifest.Meters) int64 {
	switch m {
	case InputTokens:
		return ms.InputTokens
	case OutputTokens:
		return ms.OutputTokens
	case ToolInvocations:
		return ms.ToolInvocations
	case WallClockSeconds:
		return ms.WallClockSeconds
	}
	return 0
}

// Account names one thing that runs out. It is comparable; the members that do
// not belong to its kind are zero.
type Account struct {
	Kind    AccountKind
	Task    manifest.TaskKey // of a meter or a grant's uses
	Meter   Meter            // of a meter
	Contact signing.DID      // owner of the other side: of a day, of what is open
	Side    manifest.Role    // ours: requester for what we ask of the contact, worker for what it asks of us
	Day     string           // 2026-11-30, where the owner is
	Name    string           // of a host or a capability
}

// String is the account's name in a table: unique, and the same for ever.
func (a Account) String() string {
	b := []byte(a.Kind)
	for _, s := range []string{a.Task.Owner.String(), a.Task.ID.String(), string(a.Meter), a.Contact.String(),
		string(a.Side), a.Day, a.Name} {
		b = append(b, '|')
		b = append(b, s...)
	}
	return string(b)
}

// HoldID names one reservation: a call id, a child's digest or a task's key.
type HoldID string

// Balance is one account. Committed + the sum of Holds never passes Limit (B2).
type Balance struct {
	Limit     int64            `json:"limit"`
	Committed int64            `json:"committed"`
	Holds     map[HoldID]int64 `json:"holds,omitempty"`
}

// Reserved is what the holds keep back together.
func (b Balance) Reserved() int64 {
	var sum int64
	for _, n := range b.Holds {
		sum += n
	}
	return sum
}

// Free is what can still be reserved; an account that was never opened has nothing.
func (b Balance) Free() int64 { return b.Limit - b.Committed - b.Reserved() }

// Ledger is a value: Apply returns another one and leaves this as it was. It
// holds the accounts that were read for one decision ([Accounts]).
type Ledger struct{ of map[Account]Balance }

// With returns l with one account set, as it was read from the journal.
func (l Ledger) With(a Account, b Balance) Ledger {
	of := maps.Clone(l.of)
	if of == nil {
		of = map[Account]Balance{}
	}
	of[a] = b
	return Ledger{of}
}

// Of is the balance of an account; zero for one that is not there: nothing may be spent from it.
func (l Ledger) Of(a Account) Balance { return l.of[a] }

// Has says whether the account was ever opened.
func (l Ledger) Has(a Account) bool { _, ok := l.of[a]; return ok }

// All is a copy of every account.
func (l Ledger) All() map[Account]Balance { return maps.Clone(l.of) }

// Op is what a Move does.
type Op string

const (
	SetLimit Op = "limit"   // open the account or change its limit; never below what is committed and reserved (H10)
	Reserve  Op = "reserve" // keep Amount back under Hold
	Commit   Op = "commit"  // end Hold: Amount was used, the rest comes back
	Release  Op = "release" // end Hold: nothing was used
)

// Move changes one account.
type Move struct {
	Op      Op      `json:"op"`
	Account Account `json:"account"`
	Hold    HoldID  `json:"hold,omitempty"`
	Amount  int64   `json:"amount,omitempty"`
}

var (
	errHoldThere = errors.New("the reservation is there already")
	errHoldGone  = errors.New("no such reservation")
	errNegative  = errors.New("negative or too large a figure")
	errOver      = errors.New("more than is left")
	errOp        = errors.New("unknown move")
)

// maxFigure bounds every figure, so that no sum of two can overflow.
const maxFigure = 1 << 53

// Apply makes all the moves, in order, or none (B1). A negative or overflowing
// figure changes nothing (B6); a hold ends once.
func (l Ledger) Apply(ms ...Move) (Ledger, error) {
	of := maps.Clone(l.of)
	if of == nil {
		of = map[Account]Balance{}
	}
	for _, m := range ms {
		b, err := of[m.Account].apply(m)
		if err != nil {
			return l, &spec.Error{Reason: m.reason(err), Limit: m.Account.words(), Err: err}
		}
		of[m.Account] = b
	}
	return Ledger{of}, nil
}

// apply makes one move on a balance, or returns an error.
func (b Balance) apply(m Move) (Balance, error) {
	if m.Amount < 0 || m.Amount > maxFigure {
		return b, errNegative
	}
	held, there := b.Holds[m.Hold]
	switch m.Op {
	case SetLimit:
		if m.Amount < b.Committed+b.Reserved() {
			return b, errOver
		}
		b.Limit = m.Amount
		return b, nil
	case Reserve:
		if m.Hold == "" || there {
			return b, errHoldThere
		}
		if m.Amount > b.Free() {
			return b, errOver
		}
		b.Holds = maps.Clone(b.Holds)
		if b.Holds == nil {
			b.Holds = map[HoldID]int64{}
		}
		b.Holds[m.Hold] = m.Amount
		return b, nil
	case Commit, Release:
		if !there {
			return b, errHoldGone
		}
		if m.Op == Release && m.Amount != 0 {
			return b, errNegative
		}
		if m.Amount > held+b.Free() {
			return b, errOver
		}
		b.Holds = maps.Clone(b.Holds)
		delete(b.Holds, m.Hold)
		if len(b.Holds) == 0 {
			b.Holds = nil
		}
		b.Committed += m.Amount
		return b, nil
	}
	return b, errOp
}

// reason is the word for what a move may not do.
func (m Move) reason(err error) spec.Reason {
	switch {
	case errors.Is(err, errNegative):
		return spec.Malformed
	case errors.Is(err, errHoldThere), errors.Is(err, errHoldGone):
		return spec.Conflict
	case errors.Is(err, errOp):
		return spec.Internal
	case m.Account.Kind == MeterAccount:
		return spec.BudgetExhausted
	case m.Account.Kind == CapabilityCount:
		return spec.CapabilityExhausted
	}
	return spec.Quota
}

// words names the account to a stranger: kind and meter, nobody's rules.
func (a Account) words() string {
	if a.Kind == MeterAccount {
		return string(a.Meter)
	}
	return string(a.Kind)
}
