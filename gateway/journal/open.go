package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"modernc.org/sqlite" // the engine: pure Go, one file, one fsync a commit
)

const (
	layout      = 1          // of the schema; another one is refused
	application = 0x53424a31 // "SBJ1", in the header: another program's database is refused
	busy        = 5000       // ms that SQLite waits for a lock; ours are held for one flush

	// result codes of SQLite (sqlite.org/rescode.html), without the extension
	codeCorrupt = 11
	codeFull    = 13
	codeNotADB  = 26
)

var memories atomic.Int64 // names databases in memory apart

func (j *Journal) connect(path string) (err error) {
	pragmas := fmt.Sprintf("_pragma=busy_timeout(%d)&_pragma=synchronous(FULL)", busy)
	if path == "" { // one connection: a shared cache locks whole tables
		dsn := fmt.Sprintf("file:memory%d?mode=memory&cache=shared&%s&_txlock=immediate", memories.Add(1), pragmas)
		if j.write, err = sql.Open("sqlite", dsn); err != nil {
			return err
		}
		j.write.SetMaxOpenConns(1)
		j.read = j.write
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // SQLite would let others read it
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	j.dsn = "file:" + strings.NewReplacer("?", "%3f", "#", "%23", "%", "%25").Replace(path) + "?_pragma=journal_mode(WAL)&" + pragmas
	if j.write, err = sql.Open("sqlite", j.dsn+"&_txlock=immediate"); err != nil {
		return err
	}
	j.write.SetMaxOpenConns(1)
	if j.read, err = sql.Open("sqlite", j.dsn+"&_pragma=query_only(1)"); err != nil {
		return err
	}
	j.read.SetMaxOpenConns(readers)
	j.read.SetMaxIdleConns(readers)
	return nil
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
CREATE TABLE opened (n INTEGER NOT NULL) STRICT;
INSERT INTO opened VALUES (0);
PRAGMA application_id = %d;
PRAGMA user_version = %d;`

// prepare makes the schema or checks it, reads back what the promises rest on,
// and takes the file over.
func (j *Journal) prepare(file bool) error {
	var app, version, tables int
	for query, to := range map[string]*int{"PRAGMA application_id": &app, "PRAGMA user_version": &version, "SELECT count(*) FROM sqlite_master": &tables} {
		if err := j.write.QueryRow(query).Scan(to); err != nil {
			return disk(err)
		}
	}
	switch {
	case app == 0 && version == 0 && tables == 0:
		if _, err := j.write.Exec("BEGIN IMMEDIATE;" + fmt.Sprintf(schema, application, layout) + "COMMIT;"); err != nil {
			return disk(err)
		}
	case app != application || version != layout:
		return fmt.Errorf("%w: application %#x, layout %d", ErrLayout, app, version)
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
	if err := j.write.QueryRow("UPDATE opened SET n = n + 1 RETURNING n").Scan(&j.opened); err != nil {
		return disk(err)
	}
	var gens, at int64
	var digest []byte
	if err := j.write.QueryRow("SELECT coalesce(max(gen), 0) FROM jobs").Scan(&gens); err != nil {
		return disk(err)
	}
	switch err := j.write.QueryRow("SELECT seq, at, digest FROM records ORDER BY seq DESC LIMIT 1").Scan(&j.tip.seq, &at, &digest); {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return disk(err)
	case len(digest) != 32:
		return fmt.Errorf("%w: record %d has no digest", ErrCorrupt, j.tip.seq)
	default:
		j.tip.at, j.tip.digest = time.Unix(0, at).UTC(), [32]byte(digest)
	}
	j.gens.Store(gens)
	for i, db := range []*sql.DB{j.write, j.read} {
		var err error
		if j.said[i], err = prepared(db); err != nil {
			return err
		}
	}
	return nil
}

// disk gives the errors of the engine that a caller can act on their names.
func disk(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case codeFull:
		return fmt.Errorf("%w: %w", ErrFull, err)
	case codeCorrupt:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case codeNotADB:
		return fmt.Errorf("%w: %w", ErrLayout, err)
	}
	return err
}

// Backup writes a consistent copy to path, which must not exist; turns go on
// beside it. A copy that fails is removed.
func (j *Journal) Backup(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			os.Remove(path)
		}
	}()
	from := j.write
	if j.read != j.write { // a connection of its own: the writer is not held up, and readers must not write
		if from, err = sql.Open("sqlite", j.dsn); err != nil {
			return err
		}
		defer from.Close()
	}
	if j.isClosed() {
		return ErrClosed
	}
	if _, err := from.ExecContext(ctx, "VACUUM INTO ?", path); err != nil {
		return disk(err)
	}
	return f.Sync()
}
