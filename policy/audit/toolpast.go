package audit

import (
	"errors"
	"slices"
	"sort"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
)

// past gives task and trust as they stood at an instant, by the clocks of those
// who signed. Its states are kept, so that looking back costs nothing.
type past struct {
	times  []time.Time
	tasks  []task.Task
	taken  []time.Time // of revocations, in order
	trusts []manifest.Trust
}

func (a *audit) past() *past {
	p := &past{times: []time.Time{{}}, tasks: []task.Task{{}}, taken: []time.Time{{}}, trusts: []manifest.Trust{a.trusts[len(a.trusts)-1]}}
	es := slices.Clone(a.events)
	sort.SliceStable(es, func(i, j int) bool { return es[i].e.At.Before(es[j].e.At) })
	t, waiting := task.Task{}, []*event(nil)
	for _, ev := range es {
		waiting = append(waiting, ev)
		for again := true; again; {
			left := len(waiting)
			waiting = slices.DeleteFunc(waiting, func(w *event) bool {
				next, err := task.Apply(t, w.doc.by)
				var gap *task.GapError
				if errors.As(err, &gap) {
					return false // two clocks disagree about what came first
				}
				t = next
				return true
			})
			again = len(waiting) > 0 && len(waiting) < left
		}
		p.times, p.tasks = append(p.times, ev.e.At.Time()), append(p.tasks, t)
	}
	var rs []*document
	for d := range a.evidence() {
		if _, ok := d.signed.Document().(*manifest.Revocation); ok && !d.by.IsZero() {
			rs = append(rs, d)
		}
	}
	takenAt := func(d *document) time.Time { return d.signed.Document().(*manifest.Revocation).At.Time() }
	sort.SliceStable(rs, func(i, j int) bool { return takenAt(rs[i]).Before(takenAt(rs[j])) })
	for _, d := range rs {
		if next, err := p.trusts[len(p.trusts)-1].Apply(d.by); err == nil {
			p.taken, p.trusts = append(p.taken, takenAt(d)), append(p.trusts, next)
		}
	}
	return p
}

func newest[T any](times []time.Time, of []T, at time.Time) T {
	i := sort.Search(len(times), func(i int) bool { return times[i].After(at) })
	return of[max(0, i-1)]
}

func (p *past) task(at time.Time) task.Task { return newest(p.times, p.tasks, at) }

// trust is what was taken back before the second of an instant.
func (p *past) trust(at time.Time) manifest.Trust {
	return newest(p.taken, p.trusts, at.Truncate(time.Second).Add(-1))
}

// during are the states of the task at an instant, newest first: what was said
// in the same second came before a call or after it, and no time tells which.
func (p *past) during(at time.Time) []task.Task {
	out := []task.Task{p.task(at)}
	second := at.Truncate(time.Second)
	last := sort.Search(len(p.times), func(i int) bool { return !p.times[i].Before(second.Add(time.Second)) })
	for i := last - 1; i > 0 && !p.times[i].Before(second); i-- {
		out = append(out, p.tasks[i-1])
	}
	return out
}
