// Package journal answers one question: what happened, what holds, what is
// owed? Records are chained and never rewritten; tables can be rebuilt from
// them; jobs are what is owed from a time on, once for each kind and key.
//
// A turn runs alone and returns when the flush that holds it is durable. Turns
// that wait together share one flush (group commit). Nobody hears of a turn
// before that, neither its caller nor a watcher. The journal knows none of our
// other words.
package journal

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// What a caller can act on.
var (
	ErrClosed  = errors.New("journal closed")
	ErrFull    = errors.New("disk full")                            // the turn did not happen; with space again, the next one can
	ErrLayout  = errors.New("not a journal of this version")        // the file is another program's, or another layout
	ErrCorrupt = errors.New("journal corrupt")                      // what is there is not what was written
	ErrTaken   = errors.New("journal was opened by another writer") // for good: only the last one to open a file writes
)

const (
	maxGroup = 256 // turns that share a flush: bounds how long the first one waits
	queueLen = 256 // turns that wait; past it callers block, and what we cannot take stays at the relay
	readers  = 4   // views at once; more wait for each other, never for the writer
)

// Seq numbers records from 1, without gaps.
type Seq int64

// Journal is one file with one writer and many readers.
type Journal struct {
	write  *sql.DB // one connection: the writer goroutine's
	read   *sql.DB
	said   [2]statements // of write and read
	cache  cache
	dsn    string // of a file
	turns  chan *turn
	opened int64         // how often the file was opened when we did
	gens   atomic.Int64  // of jobs: a number is given once while the file is open, and past all that are kept
	done   chan struct{} // closed when the writer has ended

	mu     sync.Mutex // guards tip, moved, closed
	tip    tip
	moved  chan struct{} // closed and replaced when head moves
	closed bool
	quit   chan struct{}
}

// tip is the newest record, as the next one has to know it.
type tip struct {
	seq    Seq
	at     time.Time
	digest [32]byte
}

type turn struct {
	ctx context.Context
	f   func(*Tx) error
	err chan error
}

// Open opens or makes the journal at path; "" is the same engine in memory.
func Open(path string) (*Journal, error) {
	j := &Journal{turns: make(chan *turn, queueLen), done: make(chan struct{}), moved: make(chan struct{}), quit: make(chan struct{})}
	if err := j.connect(path); err != nil {
		j.closeDBs()
		return nil, err
	}
	if err := j.prepare(path != ""); err != nil {
		j.closeDBs()
		return nil, err
	}
	go j.run()
	return j, nil
}

// Close lets the flush under way end, refuses the turns that wait, and closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	close(j.quit)
	close(j.moved)
	j.moved = nil
	j.mu.Unlock()
	<-j.done
	return j.closeDBs()
}

func (j *Journal) closeDBs() error {
	var err error
	if j.read != nil && j.read != j.write {
		err = j.read.Close()
	}
	if j.write != nil {
		err = errors.Join(err, j.write.Close())
	}
	return err
}

// Turn runs f alone and returns after the flush that holds it. An error of f,
// or a panic, takes back this turn and no other, and comes back as it is; an
// error of the flush takes back all that shared it. ctx ends the waiting for a
// place; a turn that has begun is seen to its end. f must not call Turn, nor
// View on a journal in memory.
func (j *Journal) Turn(ctx context.Context, f func(*Tx) error) error {
	t := &turn{ctx, f, make(chan error, 1)}
	select {
	case j.turns <- t:
	case <-ctx.Done():
		return ctx.Err()
	case <-j.quit:
		return ErrClosed
	}
	select {
	case err := <-t.err:
		return err
	case <-j.done:
		select {
		case err := <-t.err:
			return err
		default:
			return ErrClosed
		}
	}
}

// View shows f one consistent state; it never waits for the writer of a file.
// In memory there is one connection, so views and flushes take turns.
func (j *Journal) View(ctx context.Context, f func(*Tx) error) error {
	tx, err := j.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: j.read != j.write})
	if err != nil {
		if j.isClosed() {
			return ErrClosed
		}
		return disk(err)
	}
	defer tx.Rollback()
	return f(&Tx{ctx: ctx, sql: tx, tip: j.newest(), cache: &j.cache, said: j.said[1], readOnly: true})
}

func (j *Journal) isClosed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.closed
}

// Head is the newest durable record.
func (j *Journal) Head() Seq {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tip.seq
}

func (j *Journal) newest() tip {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.tip
}

// Wait returns once the newest durable record lies past after.
func (j *Journal) Wait(ctx context.Context, after Seq) (Seq, error) {
	for {
		j.mu.Lock()
		head, moved, closed := j.tip.seq, j.moved, j.closed
		j.mu.Unlock()
		if head > after {
			return head, nil
		}
		if closed {
			return head, ErrClosed
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return head, ctx.Err()
		}
	}
}
