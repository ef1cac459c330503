package journal

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
)

var (
	openedGet = q("SELECT n FROM opened")
	savepoint = q("SAVEPOINT turn")
	rollback  = q("ROLLBACK TO turn")
	release   = q("RELEASE turn")
)

func (j *Journal) advance(to tip) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if to.seq > j.tip.seq && j.moved != nil {
		j.tip = to
		close(j.moved)
		j.moved = make(chan struct{})
	}
}

// run is the one writer.
func (j *Journal) run() {
	defer close(j.done)
	for {
		select {
		case t := <-j.turns:
			j.flush(j.gather(t))
		case <-j.quit:
			for {
				select {
				case t := <-j.turns:
					t.err <- ErrClosed
				default:
					return
				}
			}
		}
	}
}

func (j *Journal) gather(first *turn) []*turn {
	group := []*turn{first}
	for len(group) < maxGroup {
		select {
		case t := <-j.turns:
			group = append(group, t)
		default:
			return group
		}
	}
	return group
}

// flush runs the turns one after another, each in a savepoint, and commits them together.
func (j *Journal) flush(group []*turn) {
	for len(group) > 0 {
		group = j.commit(group)
	}
}

// commit flushes turns and returns those it did not come to: where the engine
// takes back the whole transaction under a turn, as on a full disk, the turns
// before it get its error and the ones behind it a flush of their own.
func (j *Journal) commit(group []*turn) (left []*turn) {
	tx, err := j.write.Begin()
	if err != nil {
		answer(group, disk(err))
		return nil
	}
	if err := j.ours(tx); err != nil {
		tx.Rollback()
		answer(group, err)
		return nil
	}
	at := j.newest()
	var kept []*turn
	for i, t := range group {
		if err := t.ctx.Err(); err != nil {
			t.err <- err
			continue
		}
		w := &Tx{ctx: context.Background(), sql: tx, tip: at, gens: &j.gens, cache: &j.cache, said: j.said[0]}
		err := w.alone(t.f)
		if w.broken {
			tx.Rollback()
			answer(append(kept, t), err)
			return group[i+1:]
		}
		if err != nil {
			t.err <- err
			continue
		}
		at = w.tip
		kept = append(kept, t)
	}
	if err := disk(tx.Commit()); err != nil { // the driver has taken it back
		answer(kept, err)
		return nil
	}
	j.advance(at)
	answer(kept, nil)
	return nil
}

// ours fails once the file was opened anew: the last one to open it writes,
// and nobody else. Unlike a lock this cannot be left behind by a crash. The
// home's lock keeps a second process away; this keeps the chain whole where
// there was none.
func (j *Journal) ours(tx *sql.Tx) error {
	var n int64
	if err := tx.Stmt(j.said[0][openedGet]).QueryRow().Scan(&n); err != nil {
		return disk(err)
	}
	if n != j.opened {
		return ErrTaken
	}
	return nil
}

func answer(group []*turn, err error) {
	for _, t := range group {
		t.err <- err
	}
}

// alone runs f in a savepoint, so that its failure takes nothing else back.
func (tx *Tx) alone(f func(*Tx) error) (err error) {
	if _, err := tx.prepared(savepoint).Exec(); err != nil {
		tx.broken = true
		return disk(err)
	}
	if err = tx.call(f); err != nil {
		if _, e := tx.prepared(rollback).Exec(); e != nil {
			tx.broken = true
			return err
		}
	}
	if _, e := tx.prepared(release).Exec(); e != nil {
		tx.broken = true
		return cmp.Or(err, disk(e))
	}
	return err
}

// call runs f; a panic, or an error of the engine that f let pass, is an error of f.
func (tx *Tx) call(f func(*Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("turn panicked: %v", p)
		}
	}()
	return cmp.Or(f(tx), tx.failed)
}
