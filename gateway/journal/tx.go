package journal

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Tx is one turn or one view. It must not be used after its function returned.
type Tx struct {
	ctx      context.Context
	sql      *sql.Tx
	head     Seq
	readOnly bool
	broken   bool // the whole transaction is lost, not this turn alone
}

var errReadOnly = errors.New("a view cannot write")

// alone runs f in a savepoint, so that its failure takes nothing else back.
func (tx *Tx) alone(f func(*Tx) error) (err error) {
	if _, err := tx.sql.Exec("SAVEPOINT turn"); err != nil {
		tx.broken = true
		return disk(err)
	}
	before := tx.head
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("turn panicked: %v", p)
		}
		if err != nil {
			tx.head = before
			if _, e := tx.sql.Exec("ROLLBACK TO turn"); e != nil {
				tx.broken = true // SQLite took the transaction back by itself, as on a full disk
			}
		}
		if !tx.broken {
			if _, e := tx.sql.Exec("RELEASE turn"); e != nil && err == nil {
				tx.broken, err = true, disk(e)
			}
		}
	}()
	return disk(f(tx))
}

func (tx *Tx) exec(query string, args ...any) error {
	if tx.readOnly {
		return errReadOnly
	}
	_, err := tx.sql.ExecContext(tx.ctx, query, args...)
	return disk(err)
}

// Record is one thing that happened. Its digest covers the one before, so that
// no record can be changed, left out or moved unseen.
type Record struct {
	Seq          Seq
	Kind, Key    string
	At           time.Time
	Body         []byte
	Digest, Prev [32]byte
}

// sum is the chain rule: the body goes in by its digest, so that an old body can leave and the chain still holds.
func (r Record) sum() [32]byte {
	h := sha256.New()
	h.Write(r.Prev[:])
	body := sha256.Sum256(r.Body)
	var n [8]byte
	for _, part := range [][]byte{[]byte(r.Kind), []byte(r.Key), body[:]} {
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write(part)
	}
	binary.BigEndian.PutUint64(n[:], uint64(r.At.UnixNano()))
	h.Write(n[:])
	binary.BigEndian.PutUint64(n[:], uint64(r.Seq))
	h.Write(n[:])
	return [32]byte(h.Sum(nil))
}

// Append adds a record; Seq, Prev and Digest are filled in.
func (tx *Tx) Append(r Record) (Seq, error) {
	if tx.head > 0 {
		var prev []byte
		if err := tx.sql.QueryRowContext(tx.ctx, "SELECT digest FROM records WHERE seq = ?", tx.head).Scan(&prev); err != nil {
			return 0, disk(err)
		}
		r.Prev = [32]byte(prev)
	}
	r.Seq = tx.head + 1
	r.Digest = r.sum()
	if r.Body == nil {
		r.Body = []byte{}
	}
	err := tx.exec("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", r.Seq, r.Kind, r.Key, r.At.UnixNano(), r.Body, r.Digest[:], r.Prev[:])
	if err != nil {
		return 0, err
	}
	tx.head = r.Seq
	return r.Seq, nil
}

// Records returns up to limit records after a place, oldest first.
func (tx *Tx) Records(after Seq, limit int) ([]Record, error) {
	return tx.records("WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)
}

// RecordsOf returns all records of a key, oldest first.
func (tx *Tx) RecordsOf(key string) ([]Record, error) {
	return tx.records("WHERE key = ? ORDER BY seq", key)
}

func (tx *Tx) records(where string, args ...any) (out []Record, err error) {
	rows, err := tx.sql.QueryContext(tx.ctx, "SELECT seq, kind, key, at, body, digest, prev FROM records "+where, args...)
	if err != nil {
		return nil, disk(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r Record
		var at int64
		var digest, prev []byte
		if err := rows.Scan(&r.Seq, &r.Kind, &r.Key, &at, &r.Body, &digest, &prev); err != nil {
			return nil, err
		}
		if len(digest) != 32 || len(prev) != 32 {
			return nil, fmt.Errorf("%w: record %d", ErrCorrupt, r.Seq)
		}
		r.At, r.Digest, r.Prev = time.Unix(0, at).UTC(), [32]byte(digest), [32]byte(prev)
		out = append(out, r)
	}
	return out, disk(rows.Err())
}

// Verify walks the chain and names the first record that does not fit.
func (j *Journal) Verify(ctx context.Context) error {
	var prev [32]byte
	var last Seq
	for {
		var page []Record
		err := j.View(ctx, func(tx *Tx) (err error) { page, err = tx.Records(last, 500); return err })
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			if r.Seq != last+1 || r.Prev != prev || r.sum() != r.Digest {
				return fmt.Errorf("%w: record %d does not follow %d", ErrCorrupt, r.Seq, last)
			}
			last, prev = r.Seq, r.Digest
		}
	}
	if head := j.Head(); last < head {
		return fmt.Errorf("%w: ends at record %d of %d", ErrCorrupt, last, head)
	}
	return nil
}

// Rebuild empties the tables and folds every record again, in order.
func (j *Journal) Rebuild(ctx context.Context, fold func(*Tx, Record) error) error {
	return j.Turn(ctx, func(tx *Tx) error {
		if err := tx.exec("DELETE FROM rows"); err != nil {
			return err
		}
		for last := Seq(0); ; {
			page, err := tx.Records(last, 500)
			if err != nil || len(page) == 0 {
				return err
			}
			for _, r := range page {
				if err := fold(tx, r); err != nil {
					return fmt.Errorf("folding record %d: %w", r.Seq, err)
				}
				last = r.Seq
			}
		}
	})
}

// Table is rows of one Go type, kept as JSON.
type Table[V any] struct{ name string }

// NewTable names a table; nothing is made before the first Put.
func NewTable[V any](name string) Table[V] { return Table[V]{name} }

// Get returns the row at key; ok is false where there is none.
func (t Table[V]) Get(tx *Tx, key string) (v V, ok bool, err error) {
	var raw []byte
	err = tx.sql.QueryRowContext(tx.ctx, "SELECT val FROM rows WHERE tab = ? AND key = ?", t.name, key).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return v, false, nil
	}
	if err != nil {
		return v, false, disk(err)
	}
	return v, true, json.Unmarshal(raw, &v)
}

// Put writes the row at key, in a group that [Table.Group] lists.
func (t Table[V]) Put(tx *Tx, key, group string, v V) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return tx.exec("INSERT INTO rows VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET grp = excluded.grp, val = excluded.val", t.name, key, group, raw)
}

// Delete removes the row at key, if there is one.
func (t Table[V]) Delete(tx *Tx, key string) error {
	return tx.exec("DELETE FROM rows WHERE tab = ? AND key = ?", t.name, key)
}

// Row is one row with its key.
type Row[V any] struct {
	Key string
	V   V
}

// Group returns the rows of a group, by key.
func (t Table[V]) Group(tx *Tx, group string) ([]Row[V], error) {
	return t.rows(tx, "tab = ? AND grp = ? ORDER BY key", t.name, group)
}

// All returns every row, by key.
func (t Table[V]) All(tx *Tx) ([]Row[V], error) { return t.rows(tx, "tab = ? ORDER BY key", t.name) }

// Count is the number of rows in a group.
func (t Table[V]) Count(tx *Tx, group string) (n int, err error) {
	err = tx.sql.QueryRowContext(tx.ctx, "SELECT count(*) FROM rows WHERE tab = ? AND grp = ?", t.name, group).Scan(&n)
	return n, disk(err)
}

func (t Table[V]) rows(tx *Tx, where string, args ...any) (out []Row[V], err error) {
	rows, err := tx.sql.QueryContext(tx.ctx, "SELECT key, val FROM rows WHERE "+where, args...)
	if err != nil {
		return nil, disk(err)
	}
	defer rows.Close()
	for rows.Next() {
		var r Row[V]
		var raw []byte
		if err := rows.Scan(&r.Key, &raw); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &r.V); err != nil {
			return nil, fmt.Errorf("%w: %s %s: %v", ErrCorrupt, t.name, r.Key, err)
		}
		out = append(out, r)
	}
	return out, disk(rows.Err())
}
