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
	"fmt"
	"strings"
	"sync"

	_ "modernc.org/sqlite" // the engine: pure Go, one file, one fsync a commit
)

var (
	ErrClosed  = errors.New("journal closed")
	ErrFull    = errors.New("disk full")
	ErrLayout  = errors.New("not a journal of this version")
	ErrCorrupt = errors.New("journal corrupt")
)

const (
	layout   = 1   // of the SQLite schema; another one is refused
	maxGroup = 256 // turns that share a flush: bounds how long the first one waits
	queueLen = 256 // turns that wait; past it callers block, and what we cannot take stays at the relay
)

// Seq numbers records from 1, without gaps.
type Seq int64

// Journal is one file with one writer and many readers.
type Journal struct {
	write *sql.DB // one connection: the writer goroutine's
	read  *sql.DB
	turns chan *turn
	done  chan struct{} // closed when the writer has ended

	mu     sync.Mutex // guards head, moved, closed
	head   Seq
	moved  chan struct{} // closed and replaced when head moves
	closed bool
	quit   chan struct{}
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

var memoryNames struct {
	sync.Mutex
	n int
}

func (j *Journal) connect(path string) (err error) {
	const pragmas = "_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)"
	dsn := "file:" + strings.NewReplacer("?", "%3f", "#", "%23", "%", "%25").Replace(path) + "?_pragma=journal_mode(WAL)&" + pragmas
	if path == "" {
		memoryNames.Lock()
		memoryNames.n++
		dsn = fmt.Sprintf("file:memory%d?mode=memory&cache=shared&%s", memoryNames.n, pragmas)
		memoryNames.Unlock()
	}
	if j.write, err = sql.Open("sqlite", dsn+"&_txlock=immediate"); err != nil {
		return err
	}
	j.write.SetMaxOpenConns(1)
	if path == "" { // one connection: a shared cache locks whole tables
		j.read = j.write
		return nil
	}
	j.read, err = sql.Open("sqlite", dsn+"&_pragma=query_only(1)")
	if err == nil {
		j.read.SetMaxOpenConns(4)
	}
	return err
}

const schema = `
CREATE TABLE records (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL,
	body BLOB NOT NULL, digest BLOB NOT NULL, prev BLOB NOT NULL) STRICT;
CREATE INDEX records_key ON records (key, seq);
CREATE TABLE rows (tab TEXT NOT NULL, key TEXT NOT NULL, grp TEXT NOT NULL, val BLOB NOT NULL, PRIMARY KEY (tab, key)) STRICT, WITHOUT ROWID;
CREATE INDEX rows_grp ON rows (tab, grp, key);
CREATE TABLE jobs (kind TEXT NOT NULL, key TEXT NOT NULL, due INTEGER NOT NULL, begun INTEGER NOT NULL, tries INTEGER NOT NULL, gen INTEGER NOT NULL,
	body BLOB NOT NULL, PRIMARY KEY (kind, key)) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_due ON jobs (begun, due);
PRAGMA user_version = 1;`

// prepare makes the schema or checks it, and reads back what the promises rest on.
func (j *Journal) prepare(file bool) error {
	var version, tables int
	if err := j.write.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return fmt.Errorf("%w: %v", ErrLayout, err)
	}
	if err := j.write.QueryRow("SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return err
	}
	switch {
	case version == 0 && tables == 0:
		if _, err := j.write.Exec("BEGIN IMMEDIATE;" + schema + "COMMIT;"); err != nil {
			return disk(err)
		}
	case version != layout:
		return fmt.Errorf("%w: layout %d", ErrLayout, version)
	}
	if file {
		var mode string
		var sync int
		if err := j.write.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
			return fmt.Errorf("%w: journal_mode %q %v", ErrLayout, mode, err)
		}
		if err := j.write.QueryRow("PRAGMA synchronous").Scan(&sync); err != nil || sync != 2 {
			return fmt.Errorf("%w: synchronous %d %v", ErrLayout, sync, err)
		}
	}
	return j.write.QueryRow("SELECT coalesce(max(seq), 0) FROM records").Scan(&j.head)
}

// disk gives the errors that a caller can act on their names.
func disk(err error) error {
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "database or disk is full"), strings.Contains(err.Error(), "no space left"):
		return fmt.Errorf("%w: %v", ErrFull, err)
	case strings.Contains(err.Error(), "malformed"):
		return fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	return err
}

// Close waits for the turns that were taken and closes the file.
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

// Turn runs f alone and returns after the flush that holds it. An error of f
// takes back this turn and no other; an error of the flush takes back all that
// shared it.
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
func (j *Journal) View(ctx context.Context, f func(*Tx) error) error {
	tx, err := j.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: j.read != j.write})
	if err != nil {
		if j.isClosed() {
			return ErrClosed
		}
		return disk(err)
	}
	defer tx.Rollback()
	return f(&Tx{ctx: ctx, sql: tx, readOnly: true})
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
	return j.head
}

// Wait returns once the newest durable record lies past after.
func (j *Journal) Wait(ctx context.Context, after Seq) (Seq, error) {
	for {
		j.mu.Lock()
		head, moved, closed := j.head, j.moved, j.closed
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

func (j *Journal) advance(head Seq) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if head > j.head && j.moved != nil {
		j.head = head
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
	tx, err := j.write.Begin()
	if err != nil {
		answer(group, disk(err))
		return
	}
	head := j.Head()
	var kept []*turn
	for _, t := range group {
		if err := t.ctx.Err(); err != nil {
			t.err <- err
			continue
		}
		w := &Tx{ctx: context.Background(), sql: tx, head: head}
		if err := w.alone(t.f); err != nil {
			t.err <- err
			if w.broken {
				tx.Rollback()
				answer(kept, err)
				return
			}
			continue
		}
		head = w.head
		kept = append(kept, t)
	}
	if err := disk(tx.Commit()); err != nil {
		tx.Rollback()
		answer(kept, err)
		return
	}
	j.advance(head)
	answer(kept, nil)
}

func answer(group []*turn, err error) {
	for _, t := range group {
		t.err <- err
	}
}

// Backup writes a consistent copy to path, which must not exist.
func (j *Journal) Backup(ctx context.Context, path string) error {
	_, err := j.read.ExecContext(ctx, "VACUUM INTO ?", path)
	return disk(err)
}
