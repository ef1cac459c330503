package task

import (
	"slices"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// chain holds one side's events, every branch, in the order of seq, then digest.
type chain []entry

// index finds an event by its digest, the newest first: seen and prev name recent ones.
func (c chain) index(d signing.Digest) int {
	for i := len(c) - 1; i >= 0; i-- {
		if c[i].Digest == d {
			return i
		}
	}
	return -1
}

// top is the highest seq that is held.
func (c chain) top() int64 {
	if len(c) == 0 {
		return 0
	}
	return c[len(c)-1].Seq
}

// with is c and one more event, in its place.
func (c chain) with(n entry) chain {
	i, _ := slices.BinarySearchFunc(c, n, func(a, b entry) int {
		if a.Seq != b.Seq {
			return int(a.Seq - b.Seq)
		}
		return strings.Compare(a.Digest.String(), b.Digest.String())
	})
	return slices.Insert(slices.Clone(c), i, n)
}

// forkAt is the lowest seq that two events share; 0 for none.
func (c chain) forkAt() int64 {
	for i := 1; i < len(c); i++ {
		if c[i].Seq == c[i-1].Seq {
			return c[i].Seq
		}
	}
	return 0
}

// pathTo is the branch that ends in the event at index i.
func (c chain) pathTo(i int) chain {
	out := make(chain, c[i].Seq)
	for i >= 0 && out != nil {
		out[c[i].Seq-1] = c[i]
		if c[i].Seq == 1 {
			return out
		}
		i = c.index(c[i].Prev)
	}
	return nil
}

// branch is the part of a chain that may count (H6): all of it without a fork;
// with one, what lies before it, or the branch that the other side's own events
// have seen, as far as they have. Where the other side forks too, only what it
// said before its fork is asked.
func (c chain) branch(other chain) chain {
	k := c.forkAt()
	if k == 0 {
		return c
	}
	ok, pin := other.forkAt(), -1
	for _, o := range other {
		if ok != 0 && o.Seq >= ok || o.Seen.IsZero() {
			continue
		}
		if i := c.index(o.Seen); i >= 0 && (pin < 0 || c[i].Seq > c[pin].Seq) {
			pin = i
		}
	}
	if pin >= 0 && c[pin].Seq >= k {
		return c.pathTo(pin)
	}
	n := slices.IndexFunc(c, func(e entry) bool { return e.Seq == k })
	return c[:n]
}

// Break is why one side's chain counts only in part (H6). It is named by digests only.
type Break struct {
	Author  manifest.Role
	Seq     int64             // of the event, or of the events that share it
	Fork    bool              // two events with one seq; else one that is illegal in its author's view
	Kind    manifest.Kind     // of an illegal event
	Cause   string            // the rule
	Digests [2]signing.Digest // of a fork both, of an illegal event the first
}

func (c chain) fork(by manifest.Role) *Break {
	k := c.forkAt()
	if k == 0 {
		return nil
	}
	i := slices.IndexFunc(c, func(e entry) bool { return e.Seq == k })
	return &Break{Author: by, Seq: k, Fork: true, Cause: "H6: two events with one seq",
		Digests: [2]signing.Digest{c[i].Digest, c[i+1].Digest}}
}

// walk is the place in one branch up to which the count has come.
type walk struct {
	role manifest.Role
	path chain
	n    int   // events counted
	seen int64 // seq of the other side that the last of them had seen
	stop bool
	brk  *Break
}

func (w *walk) next() *entry {
	if w.stop || w.n >= len(w.path) {
		return nil
	}
	return &w.path[w.n]
}

// refold counts a set of events from its beginning. It is a function of the
// set alone, so every order of arrival gives the same task (L1).
func (t Task) refold(m manifest.TaskManifest) Task {
	t.f = start(m, t.digest)
	var ws [2]walk
	for s, r := range roles {
		c, o := t.chains[s], t.chains[1-s]
		ws[s] = walk{role: r, path: c.branch(o), brk: c.fork(r)}
	}
	for t.step(&ws, false) || t.step(&ws, true) {
	}
	return t.keep(&ws)
}

// keep takes over what a walk has come to.
func (t Task) keep(ws *[2]walk) Task {
	for s := range ws {
		t.counted[s], t.seen[s], t.breaks[s] = int64(ws[s].n), ws[s].seen, ws[s].brk
		t.heads[s] = signing.Digest{}
		if n := ws[s].n; n > 0 {
			t.heads[s] = ws[s].path[n-1].Digest
		}
	}
	return t
}

var roles = [2]manifest.Role{manifest.Requester, manifest.Worker}

// step counts one more event of either side. An event that encloses what broke
// the other chain waits until that is counted, unless nothing else moves (forced).
func (t *Task) step(ws *[2]walk, forced bool) bool {
	for s := range ws {
		w, o := &ws[s], &ws[1-s]
		n := w.next()
		if n == nil {
			continue
		}
		seen, err := seenIn(*n, o.path, w.seen)
		if err == nil && seen > int64(o.n) {
			if !o.stop {
				continue // it waits for the other side's event
			}
			err = illegal("H1: has seen what does not count")
		}
		if len(n.Enclosed) > 0 && !forced && o.next() != nil && err == nil {
			continue
		}
		t.count(w, *n, seen, err, len(n.Enclosed) > 0 && o.brk != nil)
		return true
	}
	return false
}

// count judges one event and applies it, or breaks its chain there.
func (t *Task) count(w *walk, n entry, seen int64, err error, broken bool) {
	var r row
	if err == nil && w.n > 0 && n.At.Time().Before(w.path[w.n-1].At.Time()) {
		err = illegal("H1: at runs backwards")
	}
	if err == nil {
		r, err = find(view{f: &t.f, author: w.role, seen: seen, broken: broken}, n)
	}
	if err != nil {
		w.stop = true
		if w.brk == nil || w.brk.Seq > n.Seq {
			w.brk = &Break{Author: w.role, Seq: n.Seq, Kind: n.Kind, Cause: causeOf(err), Digests: [2]signing.Digest{n.Digest}}
		}
		return
	}
	t.f = t.f.apply(r, w.role, n, t.digest)
	w.n++
	w.seen = seen
}

// seenIn is the seq of what n has seen; an error if seen runs backwards or
// names another branch than the one that counts.
func seenIn(n entry, other chain, before int64) (int64, error) {
	if n.Seen.IsZero() {
		if before > 0 {
			return 0, illegal("H1: seen runs backwards")
		}
		return 0, nil
	}
	i := other.index(n.Seen)
	switch {
	case i < 0:
		return 0, illegal("H1: seen names what does not count")
	case other[i].Seq < before:
		return 0, illegal("H1: seen runs backwards")
	}
	return other[i].Seq, nil
}
