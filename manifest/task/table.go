package task

import (
	"slices"

	"sealbridge/manifest"
	"sealbridge/spec"
)

// State is where a task stands while nobody has ended it.
type State string

const (
	None      State = ""
	Proposed  State = "proposed"  // next: worker
	Accepted  State = "accepted"  // next: worker
	Working   State = "working"   // next: worker
	Delivered State = "delivered" // next: requester
)

// author says who may say a kind.
type author int

const (
	requester author = iota
	worker
	either
)

func (a author) is(r manifest.Role) bool {
	return a == either || a == requester && r == manifest.Requester || a == worker && r == manifest.Worker
}

// effect is what a row does to the task beside what the kind itself records.
type effect int

const (
	same  effect = iota // the state stays
	moves               // the state becomes row.to
	ends                // an ending beside the state (H4)
)

// row is one line of the table of section 6: who may say a kind in which
// states of the author's own view, under which further condition, and what
// follows. after marks the two rows that hold after an ending.
type row struct {
	kind   manifest.Kind
	who    author
	in     []State
	when   func(view, entry) error // nil: always
	effect effect
	to     State
	late   bool // may be said from the deadline on (H8)
	after  bool // may be said after an ending in the author's view
}

var (
	underWay = []State{Accepted, Working, Delivered}
	anywhere = []State{Proposed, Accepted, Working, Delivered}
)

// table is the one place where the history's law stands (section 6). Whatever
// has no row is illegal-transition.
func table() []row {
	return []row{
		{kind: manifest.KindProposed, who: requester, in: []State{None}, effect: moves, to: Proposed},
		{kind: manifest.KindAccepted, who: worker, in: []State{Proposed}, effect: moves, to: Accepted},
		{kind: manifest.KindDeclined, who: worker, in: []State{Proposed}, effect: ends},
		{kind: manifest.KindGranted, who: requester, in: underWay},
		{kind: manifest.KindStarted, who: worker, in: []State{Accepted}, effect: moves, to: Working},
		{kind: manifest.KindProgressed, who: worker, in: []State{Working}},
		{kind: manifest.KindDelegated, who: worker, in: []State{Working}, when: childAllowed},
		{kind: manifest.KindAsked, who: either, in: underWay, when: mayAsk},
		{kind: manifest.KindAnswered, who: either, in: underWay, when: mayAnswer},
		{kind: manifest.KindDelivered, who: worker, in: []State{Working}, when: nextRevision, effect: moves, to: Delivered},
		{kind: manifest.KindRejected, who: requester, in: []State{Delivered}, when: againAllowed, effect: moves, to: Working},
		{kind: manifest.KindRejected, who: requester, in: []State{Delivered}, when: finally, effect: ends},
		{kind: manifest.KindCompleted, who: requester, in: []State{Delivered}, when: ofDelivery, effect: ends},
		{kind: manifest.KindFailed, who: worker, in: []State{Accepted, Working}, effect: ends},
		{kind: manifest.KindCancelled, who: requester, in: anywhere, effect: ends},
		{kind: manifest.KindTimedOut, who: requester, in: anywhere, when: deadlinePassed, effect: ends, late: true},
		{kind: manifest.KindStopped, who: worker, in: anywhere, when: mayStop, late: true, after: true},
		{kind: manifest.KindDisputed, who: either, in: anywhere, when: mayDispute, late: true, after: true},
	}
}

var rows = table()

// find is the row that n fits in view v, or why there is none.
func find(v view, n entry) (row, error) {
	if n.Bad != "" {
		return row{}, illegal(n.Bad)
	}
	err := illegal("no row for this kind, author and state")
	for _, r := range rows {
		if r.kind != n.Kind || !r.who.is(v.author) || !slices.Contains(r.in, v.state()) {
			continue
		}
		if err = v.fits(r, n); err == nil {
			return r, nil
		}
	}
	return row{}, err
}

// fits holds one row's conditions against the author's view.
func (v view) fits(r row, n entry) error {
	switch {
	case v.ended() && !r.after:
		return illegal("after an ending")
	case v.state() != None && v.late(n) && !r.late:
		return illegal("H8: from the deadline on")
	case r.when != nil:
		return r.when(v, n)
	}
	return nil
}

func illegal(rule string) error { return spec.Refuse(spec.IllegalTransition, "", rule) }
