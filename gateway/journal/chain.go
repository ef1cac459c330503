package journal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

const pageSize = 500 // records read at once: bounds memory, and how long a view holds the log back

// Record is one thing that happened. Its digest covers the one before, so that
// no record can be changed, left out or moved unseen.
type Record struct {
	Seq          Seq
	Kind, Key    string
	At           time.Time
	Body         []byte
	Digest, Prev [32]byte
}

// sum is the chain rule. The body goes in by its digest, so that a later layout
// can keep that in place of an old body and the chain still holds.
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

const recordColumns = "SELECT seq, kind, key, at, body, digest, prev FROM records "

var (
	recordAdd    = q("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)")
	recordsAfter = q(recordColumns + "WHERE seq > ? ORDER BY seq LIMIT ?")
	recordsOfKey = q(recordColumns + "WHERE key = ? ORDER BY seq")
)

// Append adds a record; Seq, Prev and Digest are filled in.
func (tx *Tx) Append(r Record) (Seq, error) {
	switch {
	case tx.readOnly:
		return 0, errReadOnly
	case tx.folding:
		return 0, errFolding
	}
	r.Prev, r.Seq = tx.tip.digest, tx.tip.seq+1
	r.Digest = r.sum()
	if r.Body == nil {
		r.Body = []byte{}
	}
	err := tx.exec(recordAdd, r.Seq, r.Kind, r.Key, r.At.UnixNano(), r.Body, r.Digest[:], r.Prev[:])
	if err != nil {
		return 0, err
	}
	tx.tip = tip{r.Seq, r.At.UTC(), r.Digest}
	return r.Seq, nil
}

// Records returns up to limit records after a place, oldest first.
func (tx *Tx) Records(after Seq, limit int) ([]Record, error) {
	return tx.records(recordsAfter, after, limit)
}

// RecordsOf returns all records of a key, oldest first.
func (tx *Tx) RecordsOf(key string) ([]Record, error) {
	return tx.records(recordsOfKey, key)
}

func (tx *Tx) records(query string, args ...any) (out []Record, err error) {
	rows, err := tx.query(query, args...)
	if err != nil {
		return nil, err
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
			return nil, fmt.Errorf("%w: record %d has no digest", ErrCorrupt, r.Seq)
		}
		r.At, r.Digest, r.Prev = time.Unix(0, at).UTC(), [32]byte(digest), [32]byte(prev)
		out = append(out, r)
	}
	return out, disk(rows.Err())
}

// Verify walks the chain up to the newest durable record and names the first
// one that does not fit. It can miss a tail cut while nothing was open: that
// needs a head remembered elsewhere, which [Journal.Head] is compared with.
func (j *Journal) Verify(ctx context.Context) error {
	var prev [32]byte
	var last Seq
	for head := j.Head(); last < head; {
		var page []Record
		err := j.View(ctx, func(tx *Tx) (err error) { page, err = tx.Records(last, pageSize); return err })
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return fmt.Errorf("%w: ends at record %d of %d", ErrCorrupt, last, head)
		}
		for _, r := range page {
			if r.Seq != last+1 || r.Prev != prev || r.sum() != r.Digest {
				return fmt.Errorf("%w: record %d does not follow %d", ErrCorrupt, r.Seq, last)
			}
			last, prev = r.Seq, r.Digest
		}
	}
	return nil
}

// Rebuild empties the tables and folds every record again, in order, in one
// turn: a fold that fails leaves the tables as they were. A fold cannot append.
// Jobs stay.
func (j *Journal) Rebuild(ctx context.Context, fold func(*Tx, Record) error) error {
	return j.Turn(ctx, func(tx *Tx) error {
		if err := tx.exec(rowsClear); err != nil {
			return err
		}
		tx.folding = true
		for last := Seq(0); ; {
			page, err := tx.Records(last, pageSize)
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
