package journal

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"
)

// Tx is one turn or one view. It must not be used after its function returned,
// nor by two goroutines at once.
type Tx struct {
	ctx      context.Context
	sql      *sql.Tx
	tip      tip
	gens     *atomic.Int64 // the journal's; nil in a view
	cache    *cache
	said     statements
	readOnly bool
	folding  bool  // within Rebuild
	failed   error // the engine's first: the turn cannot be kept, whatever f makes of it
	broken   bool  // the whole transaction is lost, not this turn alone
}

// Newest is the time of the newest record, this turn's own among them; zero
// before the first. Whoever must not run backwards begins here (T4).
func (tx *Tx) Newest() time.Time { return tx.tip.at }

var (
	errReadOnly = errors.New("a view cannot write")
	errFolding  = errors.New("a fold cannot append")
)

// exec writes. After a first error nothing more is written: SQLite may have
// left the transaction, and would keep what follows on its own.
func (tx *Tx) exec(query string, args ...any) error {
	if tx.readOnly {
		return errReadOnly
	}
	if tx.failed == nil {
		_, err := tx.prepared(query).ExecContext(tx.ctx, args...)
		tx.failed = disk(err)
	}
	return tx.failed
}

// query reads.
func (tx *Tx) query(query string, args ...any) (*sql.Rows, error) {
	rows, err := tx.prepared(query).QueryContext(tx.ctx, args...)
	return rows, disk(err)
}

// scan reads the first row into to; [sql.ErrNoRows] where there is none.
func (tx *Tx) scan(query string, args []any, to ...any) error {
	return disk(tx.prepared(query).QueryRowContext(tx.ctx, args...).Scan(to...))
}

func (tx *Tx) prepared(query string) *sql.Stmt { return tx.sql.StmtContext(tx.ctx, tx.said[query]) }

// statements are prepared once for each connection: parsing one takes longer
// than running it.
type statements map[string]*sql.Stmt

var queries []string

// q is a query that [Open] prepares; all of them are variables of the package.
func q(query string) string {
	queries = append(queries, query)
	return query
}

func prepared(db *sql.DB) (statements, error) {
	said := statements{}
	for _, query := range queries {
		s, err := db.Prepare(query)
		if err != nil {
			return nil, disk(err)
		}
		said[query] = s
	}
	return said, nil
}
