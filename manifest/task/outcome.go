package task

import (
	"time"

	"sealbridge/manifest"
)

// The words of an outcome that no event says.
const (
	OutcomeBroken   = "broken"
	OutcomeTimedOut = "timed_out"
)

// Ended says whether a side said an ending. The requester's is final; a
// worker's is final once the requester has acknowledged it (H4).
func (t Task) Ended() bool { return t.f.Ends[0] != nil || t.f.Ends[1] != nil }

// Outcome is H4: completed, rejected, cancelled, timed_out, declined, failed,
// broken, or "" while the task is open at that instant.
func (t Task) Outcome(at time.Time) string {
	for _, e := range t.f.Ends {
		if e != nil {
			return string(e.Kind)
		}
	}
	switch {
	case t.Broken():
		return OutcomeBroken
	case t.f.State != None && !at.Before(t.Deadline()):
		return OutcomeTimedOut
	}
	return ""
}

// NextActor says whose word is waited for (H7); "" after an end. After a break
// it is the requester's, who can still end the task.
func (t Task) NextActor() manifest.Role {
	switch {
	case t.IsZero() || t.Ended():
		return ""
	case t.Broken():
		if t.breaks[0] != nil {
			return ""
		}
		return manifest.Requester
	case t.f.State == Delivered:
		return manifest.Requester
	}
	return manifest.Worker
}
