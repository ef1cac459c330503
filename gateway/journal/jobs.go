package journal

import (
	"database/sql"
	"errors"
	"time"
)

const jobColumns = "SELECT kind, key, due, begun, tries, gen, body FROM jobs "

var (
	jobOwe = q(`INSERT INTO jobs VALUES (?, ?, ?, 0, 0, ?, ?)
		ON CONFLICT DO UPDATE SET due = min(due, excluded.due), gen = excluded.gen, body = excluded.body`)
	jobSettle   = q("DELETE FROM jobs WHERE kind = ? AND key = ?")
	jobPostpone = q("UPDATE jobs SET due = ?, begun = 0, tries = tries + 1 WHERE kind = ? AND key = ?")
	jobBegin    = q("UPDATE jobs SET begun = 1 WHERE kind = ? AND key = ?")
	jobNext     = q("SELECT due FROM jobs WHERE begun = 0 AND due > ? ORDER BY due LIMIT 1")
	jobsDue     = q(jobColumns + "WHERE begun = 0 AND due <= ? ORDER BY due, kind, key LIMIT ?")
	jobsOfKind  = q(jobColumns + "WHERE kind = ? ORDER BY key")
	jobGet      = q(jobColumns + "WHERE kind = ? AND key = ?")
)

// Job is something owed from a time on: repeatable, and gone when done. Owing a
// thing twice is owing it once.
type Job struct {
	Kind, Key string
	Due       time.Time
	Body      []byte
	Begun     bool // dispatched, and no end recorded yet
	Tries     int
	Gen       int64 // another one each time it is owed, after its end too: whoever does it can tell that it was owed anew meanwhile
}

// Owe adds a job. One of that kind and key that is there already stays, begun
// or not and with its tries, at the earlier of the two times; its body and its
// Gen are the newer ones.
func (tx *Tx) Owe(jb Job) error {
	if jb.Body == nil {
		jb.Body = []byte{}
	}
	if tx.gens == nil {
		return errReadOnly
	}
	return tx.exec(jobOwe, jb.Kind, jb.Key, jb.Due.UnixNano(), tx.gens.Add(1), jb.Body)
}

// Settle ends a job.
func (tx *Tx) Settle(kind, key string) error {
	return tx.exec(jobSettle, kind, key)
}

// Postpone puts a job off until due and counts the try; it is no longer begun.
func (tx *Tx) Postpone(kind, key string, due time.Time) error {
	return tx.exec(jobPostpone, due.UnixNano(), kind, key)
}

// Begin marks a job as dispatched. After a crash it is still marked: what
// happened in between is unknown.
func (tx *Tx) Begin(kind, key string) error {
	return tx.exec(jobBegin, kind, key)
}

// Due returns up to limit jobs that are due and not begun, earliest first, and
// the earliest time past at when one falls due (zero: none does). A full page
// can have left due ones out: ask again when some are done.
func (tx *Tx) Due(at time.Time, limit int) (due []Job, next time.Time, err error) {
	if due, err = tx.jobs(jobsDue, at.UnixNano(), limit); err != nil {
		return nil, time.Time{}, err
	}
	var n int64
	err = tx.scan(jobNext, []any{at.UnixNano()}, &n)
	if errors.Is(err, sql.ErrNoRows) {
		return due, time.Time{}, nil
	}
	return due, time.Unix(0, n).UTC(), err
}

// Jobs returns every job of a kind, begun or not.
func (tx *Tx) Jobs(kind string) ([]Job, error) { return tx.jobs(jobsOfKind, kind) }

// JobOf returns one job.
func (tx *Tx) JobOf(kind, key string) (Job, bool, error) {
	js, err := tx.jobs(jobGet, kind, key)
	if err != nil || len(js) == 0 {
		return Job{}, false, err
	}
	return js[0], true, nil
}

func (tx *Tx) jobs(query string, args ...any) (out []Job, err error) {
	rows, err := tx.query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var jb Job
		var due int64
		if err := rows.Scan(&jb.Kind, &jb.Key, &due, &jb.Begun, &jb.Tries, &jb.Gen, &jb.Body); err != nil {
			return nil, err
		}
		jb.Due = time.Unix(0, due).UTC()
		out = append(out, jb)
	}
	return out, disk(rows.Err())
}
