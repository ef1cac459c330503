package journal

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
)

// Tx is one turn or one view. It must not be used after its function returned,
// nor by two goroutines at once.
type Tx struct {
	ctx      context.Context
	sql      *sql.Tx
	head     Seq
	gens     *atomic.Int64 // the journal's; nil in a view
	readOnly bool
	folding  bool  // within Rebuild
	failed   error // the engine's first: the turn cannot be kept, whatever f makes of it
	broken   bool  // the whole transaction is lost, not this turn alone
}

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
		_, err := tx.sql.ExecContext(tx.ctx, query, args...)
		tx.failed = disk(err)
	}
	return tx.failed
}
