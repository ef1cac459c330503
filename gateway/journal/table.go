package journal

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
)

var (
	rowGet    = q("SELECT val FROM rows WHERE tab = ? AND key = ?")
	rowPut    = q("INSERT INTO rows VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET grp = excluded.grp, val = excluded.val")
	rowDelete = q("DELETE FROM rows WHERE tab = ? AND key = ?")
	rowGroup  = q("SELECT key, val FROM rows WHERE tab = ? AND grp = ? ORDER BY key")
	rowAll    = q("SELECT key, val FROM rows WHERE tab = ? ORDER BY key")
	rowCount  = q("SELECT count(*) FROM rows WHERE tab = ? AND grp = ?")
	rowsClear = q("DELETE FROM rows")
)

// Table is rows of one Go type, kept as JSON. Rows are what holds now; what
// must not be lost is a [Record], from which [Journal.Rebuild] makes them again.
type Table[V any] struct{ name string }

// NewTable names a table; nothing is made before the first Put.
func NewTable[V any](name string) Table[V] { return Table[V]{name} }

// Get returns the row at key; ok is false where there is none. The value may be
// shared with others who read the same bytes: its maps and slices must not be
// written to.
func (t Table[V]) Get(tx *Tx, key string) (v V, ok bool, err error) {
	var raw sql.RawBytes
	rows, err := tx.query(rowGet, t.name, key)
	if err != nil {
		return v, false, err
	}
	defer rows.Close()
	if !rows.Next() {
		return v, false, disk(rows.Err())
	}
	if err := rows.Scan(&raw); err != nil {
		return v, false, disk(err)
	}
	v, err = t.decode(tx, key, raw)
	return v, err == nil, err
}

// decode reads the bytes of a row, unless that was done before.
func (t Table[V]) decode(tx *Tx, key string, raw []byte) (v V, err error) {
	id := t.name + "\x00" + key
	if had, ok := tx.cache.get(id, raw); ok {
		if v, ok := had.(V); ok {
			return v, nil
		}
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("%w: %s %s: %w", ErrCorrupt, t.name, key, err)
	}
	tx.cache.put(id, bytes.Clone(raw), v)
	return v, nil
}

// Put writes the row at key, in a group that [Table.Group] lists. The caller
// gives v away: its maps and slices must not be written to afterwards.
func (t Table[V]) Put(tx *Tx, key, group string, v V) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tx.cache.put(t.name+"\x00"+key, raw, v)
	return tx.exec(rowPut, t.name, key, group, raw)
}

// Delete removes the row at key, if there is one.
func (t Table[V]) Delete(tx *Tx, key string) error {
	return tx.exec(rowDelete, t.name, key)
}

// Row is one row with its key.
type Row[V any] struct {
	Key string
	V   V
}

// Group returns the rows of a group, by key.
func (t Table[V]) Group(tx *Tx, group string) ([]Row[V], error) {
	return t.rows(tx, rowGroup, t.name, group)
}

// All returns every row, by key.
func (t Table[V]) All(tx *Tx) ([]Row[V], error) { return t.rows(tx, rowAll, t.name) }

// Count is the number of rows in a group.
func (t Table[V]) Count(tx *Tx, group string) (n int, err error) {
	return n, tx.scan(rowCount, []any{t.name, group}, &n)
}

func (t Table[V]) rows(tx *Tx, query string, args ...any) (out []Row[V], err error) {
	rows, err := tx.query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var raw sql.RawBytes
	for rows.Next() {
		var r Row[V]
		if err := rows.Scan(&r.Key, &raw); err != nil {
			return nil, err
		}
		if r.V, err = t.decode(tx, r.Key, raw); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, disk(rows.Err())
}
