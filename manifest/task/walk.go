package task

import (
	"sealbridge/manifest"
	"sealbridge/signing"
)

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
	if w.stop || w.n >= w.path.len() {
		return nil
	}
	return w.path.at(w.n)
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
			t.heads[s] = ws[s].path.at(n - 1).Digest
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
	if err == nil && w.n > 0 && n.At.Time().Before(w.path.at(w.n-1).At.Time()) {
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
	case other.at(i).Seq < before:
		return 0, illegal("H1: seen runs backwards")
	}
	return other.at(i).Seq, nil
}
