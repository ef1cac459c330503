package journal

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// Table is rows of one Go type, kept as JSON. Rows are what holds now; what
// must not be lost is a [Record], from which [Journal.Rebuild] makes them again.
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
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, false, fmt.Errorf("%w: %s %s: %w", ErrCorrupt, t.name, key, err)
	}
	return v, true, nil
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
			return nil, fmt.Errorf("%w: %s %s: %w", ErrCorrupt, t.name, r.Key, err)
		}
		out = append(out, r)
	}
	return out, disk(rows.Err())
}
