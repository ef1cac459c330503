package task

import (
	"errors"
	"fmt"
	"iter"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// GapError says that an event names one we do not hold yet (H1): wait, ask
// again, do not acknowledge. It is never refused.
type GapError struct {
	Author signing.DID // whose event is missing; zero where the task is unknown: the requester's
	Need   int64       // its seq, or the first missing one
}

func (e *GapError) Error() string { return fmt.Sprintf("event %d of %s is missing", e.Need, e.Author) }

// TransitionError says that an event is illegal in its author's view, or one
// half of a fork (H6): its author's chain breaks there. It stands for
// illegal-transition, or for fork.
type TransitionError struct {
	Author manifest.Role
	Seq    int64
	Kind   manifest.Kind
	Digest signing.Digest
	Fork   bool
	Cause  string // the rule
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("%s's event %d, %s: %s", e.Author, e.Seq, e.Kind, e.Cause)
}

// Unwrap is the word that may leave the gateway.
func (e *TransitionError) Unwrap() error {
	if e.Fork {
		return spec.Refuse(spec.Fork, "", e.Cause)
	}
	return spec.Refuse(spec.IllegalTransition, "", e.Cause)
}

// Apply folds one event. The same event again changes nothing (H5).
//
// A *GapError means that t is unchanged and the event must wait. A
// *TransitionError means that the event broke its author's chain: the returned
// Task has the break in it (H6), and the other side says disputed by Next of
// the task before, whose seen holds fast what it had applied. Any other error
// is a *spec.Error about an event that is not of this task or not of any; t is
// unchanged. An event past a break is held and counts for nothing, without error.
func Apply(t Task, e manifest.Verified) (Task, error) {
	doc, ok := e.Document().(*manifest.Event)
	if !ok {
		return t, spec.Refuse(spec.UnknownType, "/type", "sealbridge/event")
	}
	ev := *doc
	if e.By() != ev.Author {
		return t, spec.Refuse(spec.WrongSigner, "/author", "S6")
	}
	n := entryOf(ev, e.Digest())
	switch b := ev.Body.Fact.(type) {
	case manifest.Proposed:
		if _, err := manifest.OpenManifest(b.Manifest, b.Signature, manifest.Requester, nil); err != nil {
			return t, spec.At("/body", err)
		}
	case manifest.Accepted:
		if t.IsZero() {
			break
		}
		if _, err := manifest.OpenManifest(t.payload, b.Signature, manifest.Worker, nil); err != nil {
			n.Bad = "S6: the worker's signature under the manifest"
		}
	case manifest.Disputed:
		return t.dispute(ev, n, b)
	}
	return t.take(ev, n)
}

// take is Apply without signatures.
func (t Task) take(ev manifest.Event, n entry) (Task, error) {
	u, err := t.admit(ev, n)
	if err != nil {
		return t, err
	}
	role, _ := u.RoleOf(ev.Author)
	s := side(role)
	if _, held := u.chains[s].place(n); held {
		return t, nil // H5
	}
	if err := u.gap(s, n); err != nil {
		return t, err
	}
	if u.chains[s].len() >= MaxEvents {
		return t, spec.Refuse(spec.Quota, "/seq", "10,000 events a side")
	}
	before, alone := u.breaks[s], u.breaks[1-s] == nil && len(n.Enclosed) == 0
	switch {
	case alone && before == nil && n.Prev == u.heads[s]:
		u = u.extend(s, n)
	case alone && before != nil && n.Seq > before.Seq:
		u.chains[s] = u.chains[s].with(n) // past its author's break: held, and nothing counts otherwise
	default:
		u.chains[s] = u.chains[s].with(n)
		u = u.refold(u.Manifest())
	}
	if b := u.breaks[s]; b != nil && (before == nil || *before != *b) {
		return u, &TransitionError{Author: role, Seq: n.Seq, Kind: n.Kind, Digest: n.Digest, Fork: b.Fork, Cause: b.Cause}
	}
	return u, nil
}

// admit opens the task with its first event, or holds the event against the task.
func (t Task) admit(ev manifest.Event, n entry) (Task, error) {
	if t.IsZero() {
		p, ok := ev.Body.Fact.(manifest.Proposed)
		if !ok || ev.Seq != 1 {
			return t, &GapError{Need: 1}
		}
		return open(ev, p)
	}
	_, party := t.RoleOf(ev.Author)
	switch {
	case ev.TaskID != t.key.ID:
		return t, spec.Refuse(spec.NotFound, "/taskId", "M11")
	case ev.ManifestDigest != t.digest:
		return t, spec.Refuse(spec.Conflict, "/manifestDigest", "M11")
	case !party:
		return t, spec.Refuse(spec.WrongSigner, "/author", "S6")
	case (n.Seq == 1) != n.Prev.IsZero() || n.Seq < 1 || n.Seq > MaxEvents:
		return t, spec.Refuse(spec.Malformed, "/seq", "H1")
	}
	if p, ok := ev.Body.Fact.(manifest.Proposed); ok && ev.Seq == 1 && ev.Author == t.agents[0] {
		_, err := open(ev, p) // what would not open the task is refused, whenever it comes
		return t, err
	}
	return t, nil
}

// gap says what the event names that we do not hold (H1).
func (t Task) gap(s int, n entry) error {
	c, o := t.chains[s], t.chains[1-s]
	if n.Seq > 1 {
		i := c.index(n.Prev)
		if i < 0 {
			return &GapError{Author: t.agents[s], Need: min(c.top()+1, n.Seq-1)}
		}
		if c.at(i).Seq != n.Seq-1 {
			return spec.Refuse(spec.Malformed, "/seq", "H1")
		}
	}
	if !n.Seen.IsZero() && o.index(n.Seen) < 0 {
		return &GapError{Author: t.agents[1-s], Need: o.top() + 1}
	}
	return nil
}

// extend counts one more event of an unbroken history: constant work.
func (t Task) extend(s int, n entry) Task {
	t.chains[s] = t.chains[s].then(n)
	var ws [2]walk
	for i, r := range roles {
		ws[i] = walk{role: r, path: t.chains[i], n: int(t.counted[i]), seen: t.seen[i]}
	}
	t.step(&ws, true)
	return t.keep(&ws)
}

// dispute applies what the event encloses before the event itself, so that a
// reader who has not met the break meets both at once (H6).
func (t Task) dispute(ev manifest.Event, n entry, b manifest.Disputed) (Task, error) {
	role, ok := t.RoleOf(ev.Author)
	u := t
	for _, doc := range b.Enclosed {
		s, err := manifest.OpenValue(doc, nil)
		if err != nil {
			continue // no evidence
		}
		doc, isEvent := s.Document().(*manifest.Event)
		if !isEvent {
			continue
		}
		other := *doc
		if !ok || other.Author != t.Agent(role.Other()) || s.By() != other.Author {
			continue
		}
		next, err := u.take(other, entryOf(other, s.Digest()))
		var gap *GapError
		var broke *TransitionError
		switch {
		case errors.As(err, &gap):
			return t, err
		case err == nil || errors.As(err, &broke):
			u = next
			n.Enclosed = append(n.Enclosed, s.Digest())
		}
	}
	v, err := u.take(ev, n)
	var broke *TransitionError
	if err != nil && !errors.As(err, &broke) {
		return t, err
	}
	return v, err
}

// Replay folds what it is given, in any order that Apply can resolve: what is a
// gap waits for the rest. The error is that of the first event that is not of
// this history, or the *GapError of what stayed missing; a break is no error here.
func Replay(es iter.Seq[manifest.Verified]) (Task, error) {
	var t Task
	var waiting []manifest.Verified
	for e := range es {
		waiting = append(waiting, e)
	}
	for len(waiting) > 0 {
		var gaps []manifest.Verified
		var last error
		for _, e := range waiting {
			u, err := Apply(t, e)
			var gap *GapError
			var broke *TransitionError
			switch {
			case errors.As(err, &gap):
				gaps, last = append(gaps, e), err
			case err != nil && !errors.As(err, &broke):
				return t, err
			default:
				t = u
			}
		}
		if len(gaps) == len(waiting) {
			return t, last
		}
		waiting = gaps
	}
	return t, nil
}

func causeOf(err error) string {
	var e *spec.Error
	if errors.As(err, &e) {
		return e.Limit
	}
	return err.Error()
}
