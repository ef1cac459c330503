package task

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// A world is both gateways, their clocks, and all that is under way: every
// event may reach the other side at any later moment, in chain order (a gap
// waits). The walk is the one of the written model (lifecycle.md): two honest
// tables, authors that may pretend not to have seen, drifting clocks.
type world struct {
	said [2][]said // each side's own chain
	have [2]int    // how many of the other side's events each has applied
	task [2]Task
	late [2]bool // the side's clock has passed the deadline
}

func (w *world) key() string {
	k := fmt.Sprint(w.have, w.late)
	for _, c := range w.said {
		k += "|"
		if len(c) > 0 {
			k += c[len(c)-1].d.String()
		}
	}
	return k
}

type bounds struct {
	retries  int64
	granted  int
	asks     [2]int
	amend    *manifest.Amendment
	disputes bool
	liars    bool
	most     int // events of one side
}

type explorer struct {
	*testing.T
	duo
	b     bounds
	cuts  map[string]Task
	views int
}

func (x *explorer) at(late bool) time.Time {
	if late {
		return deadline
	}
	return t0
}

// cut folds the first i of the requester's events and j of the worker's, in an
// order that respects seen: the whole view of somebody who holds just those.
func (x *explorer) cut(w *world, i, j int) (Task, bool) {
	key := fmt.Sprint(i, j)
	if i > 0 {
		key += w.said[0][i-1].d.String()
	}
	if j > 0 {
		key += w.said[1][j-1].d.String()
	}
	if t, ok := x.cuts[key]; ok {
		return t, true
	}
	var t Task
	n := [2]int{}
	for n[0] < i || n[1] < j {
		moved := false
		for s, most := range [2]int{i, j} {
			if n[s] == most {
				continue
			}
			u, err := take(t, w.said[s][n[s]])
			if isGap(err) {
				continue
			}
			if err != nil {
				x.Fatalf("a view breaks: %v", err)
			}
			t, moved = u, true
			n[s]++
		}
		if !moved {
			return t, false
		}
	}
	x.cuts[key] = t
	return t, true
}

// drafts are all events that side s could sign next: every body that its table
// might allow, with every seen that it could claim.
func (x *explorer) drafts(w *world, s int) []manifest.Event {
	t, r := w.task[s], roles[s]
	if t.IsZero() && r == manifest.Worker {
		return nil
	}
	facts := x.facts(t, r, x.b.amend)
	delete(facts, "child")
	count := map[manifest.Kind]int{}
	for _, e := range w.said[s] {
		count[e.e.Body.Fact.Kind()]++
	}
	if count[manifest.KindGranted] >= x.b.granted {
		delete(facts, "granted")
	}
	if count[manifest.KindProgressed] >= x.b.granted {
		delete(facts, "progressed")
	}
	if count[manifest.KindAsked] >= x.b.asks[s] {
		delete(facts, "asked")
	}
	if !x.b.disputes || count[manifest.KindDisputed] > 0 {
		delete(facts, "disputed")
	}
	var out []manifest.Event
	for _, word := range slices.Sorted(maps.Keys(facts)) {
		e := t.Next(x.agent[s].DID(), manifest.Body{Fact: facts[word]}, x.at(w.late[s]))
		out = append(out, e)
		if !x.b.liars || len(w.said[s]) == 0 {
			continue
		}
		for k := int(t.seen[s]); k < w.have[s]; k++ {
			lie := e
			lie.Seen = nil
			if k > 0 {
				lie.Seen = &w.said[1-s][k-1].d
			}
			out = append(out, lie)
		}
	}
	return out
}

// verdict is whether the event is legal by the cheap view: at its author, at
// the other side whatever that knows more, and by the whole history that its
// author says it had.
func (x *explorer) verdict(w *world, s int, e manifest.Event) bool {
	cheap := legalIn(w.task[s], e)
	if w.have[1-s] == len(w.said[s]) {
		x.views++
		if there := legalIn(w.task[1-s], e); there != cheap && !w.task[1-s].IsZero() {
			x.Errorf("at its author %v, at the other side %v: %s says %v in %s", cheap, there, roles[s], e.Body.Fact.Kind(), w.task[1-s].State())
		}
	}
	seen := 0
	if e.Seen != nil {
		seen = 1 + slices.IndexFunc(w.said[1-s], func(o said) bool { return o.d == *e.Seen })
	}
	i, j := len(w.said[0]), seen
	if s == 1 {
		i, j = seen, len(w.said[1])
	}
	if view, ok := x.cut(w, i, j); ok {
		x.views++
		if whole := legalIn(view, e); whole != cheap {
			x.Errorf("the cheap view says %v, the author's whole view %v: %s says %v with seen %d", cheap, whole, roles[s], e.Body.Fact.Kind(), seen)
		}
	}
	return cheap
}

func legalIn(t Task, e manifest.Event) bool {
	v, err := t.View(e)
	return err == nil && v.Legal() == nil
}

func (x *explorer) next(w *world, emit func(*world)) {
	for s := range roles {
		for _, e := range x.drafts(w, s) {
			if !x.verdict(w, s, e) || len(w.said[s]) == x.b.most {
				continue
			}
			u := *w
			ev := fake(e)
			var err error
			if u.task[s], err = take(w.task[s], ev); err != nil {
				x.Fatalf("legal, and then not taken: %v", err)
			}
			u.said[s] = append(slices.Clip(w.said[s]), ev)
			x.neverChanges(w, &u)
			emit(&u)
		}
		if o := 1 - s; w.have[s] < len(w.said[o]) {
			u := *w
			ev := w.said[o][w.have[s]]
			var err error
			if u.task[s], err = take(w.task[s], ev); err != nil {
				x.Fatalf("legal when said, refused on arrival (L2): %v's %v: %v", roles[o], ev.e.Body.Fact.Kind(), err)
			}
			u.have[s]++
			x.neverChanges(w, &u)
			emit(&u)
		}
		if !w.late[s] && len(w.said[0]) > 0 {
			u := *w
			u.late[s] = true
			emit(&u)
		}
	}
}

// neverChanges is L3: what the requester shows as ended never changes.
func (x *explorer) neverChanges(w, u *world) {
	if !w.task[0].Ended() || w.task[0].f.Ends[0] == nil {
		return
	}
	if a, b := w.task[0].Outcome(later), u.task[0].Outcome(later); a != b {
		x.Errorf("what the requester showed as %s became %s (L3)", a, b)
	}
}

// check holds one world against L1, L4 and L5.
func (x *explorer) check(w *world) {
	if len(w.said[0]) == 0 {
		return
	}
	all := w.have[0] == len(w.said[1]) && w.have[1] == len(w.said[0])
	if all && !reflect.DeepEqual(w.task[0], w.task[1]) {
		x.Errorf("same events, different task (L1):\n%+v\n%+v", w.task[0].f, w.task[1].f)
	}
	if all {
		whole := w.task[0].refold(w.task[0].Manifest())
		if !reflect.DeepEqual(whole, w.task[0]) {
			x.Errorf("counted one by one and from the beginning differ (L1)")
		}
		x.nextActorCanAct(w)
	}
	if t := w.task[0]; !t.Ended() {
		me := x.agent[0].DID()
		by, over := manifest.Body{Fact: manifest.Cancelled{Reason: "x"}}, manifest.Body{Fact: manifest.TimedOut{}}
		if t.Legal(me, by, x.at(w.late[0])) != nil && t.Legal(me, over, later) != nil {
			x.Errorf("the requester cannot end the task in %s (L4)", t.State())
		}
	}
}

// nextActorCanAct is L4 for whoever's word is waited for, and for the asked.
func (x *explorer) nextActorCanAct(w *world) {
	t := w.task[0]
	if t.Ended() || w.late[0] || w.late[1] {
		return
	}
	s := side(t.NextActor())
	ok := false
	for _, e := range x.drafts(w, s) {
		k := e.Body.Fact.Kind()
		ok = ok || k != manifest.KindCancelled && k != manifest.KindDisputed && legalIn(t, e)
	}
	if !ok {
		x.Errorf("%s cannot act in %s (L4)", roles[s], t.State())
	}
	for _, a := range t.Asks() {
		no := manifest.Body{Fact: manifest.Answered{Ask: a.Event}}
		if a.Status == AskOpen && t.Legal(x.agent[side(a.By.Other())].DID(), no, t0) != nil {
			x.Errorf("an open ask cannot be answered no (L4)")
		}
	}
}

// explore walks every world within the bounds and returns how many there are.
func (x *explorer) explore() int {
	x.duo = newDuo(x.b.retries)
	x.cuts = map[string]Task{}
	first := &world{}
	met := map[string]bool{first.key(): true}
	queue := []*world{first}
	for len(queue) > 0 && !x.Failed() {
		w := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		x.next(w, func(u *world) {
			if k := u.key(); !met[k] {
				met[k] = true
				queue = append(queue, u)
			}
		})
		x.check(w)
	}
	return len(met)
}

// TestEveryWorldWithinTheBounds walks the fold as the written model walks its
// own: L1–L5 hold in every world, and the cheap view is the author's view.
func TestEveryWorldWithinTheBounds(t *testing.T) {
	end := signing.TimeOf(later)
	more := int64(1)
	for _, run := range []struct {
		name  string
		b     bounds
		least int
	}{
		{"one delivery, lying authors", bounds{disputes: true, liars: true, most: 4}, 1000},
		{"a retry and disputes", bounds{retries: 1, disputes: true, most: 5}, 1000},
		{"amended retries, both ask", bounds{asks: [2]int{1, 1}, amend: &manifest.Amendment{MaxRetries: &more}, most: 4}, 1000},
		{"amended deadline, lying authors", bounds{asks: [2]int{0, 1}, amend: &manifest.Amendment{Deadline: &end}, liars: true, most: 4}, 1000},
	} {
		t.Run(run.name, func(t *testing.T) {
			x := &explorer{T: t, b: run.b}
			n := x.explore()
			t.Logf("%d worlds, %d verdicts held against the whole view", n, x.views)
			if n < run.least || x.views < n {
				t.Errorf("%d worlds, %d verdicts: the walk did not walk", n, x.views)
			}
		})
	}
}
