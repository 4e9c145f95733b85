package kill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// readTimeout bounds one look at the books. closeLook is the pause between two looks.
const (
	readTimeout = 30 * time.Second
	closeLook   = 100 * time.Millisecond
)

// ledger looks into the tables of billing-ledger and settlement.
type ledger struct{ pool *pgxpool.Pool }

// closed waits until nothing of an account is open, or closeBound is over, and returns
// the books of that moment. It waits for a database that is away.
func (l ledger) closed(ctx context.Context, account string) (books, error) {
	ctx, cancel := context.WithTimeout(ctx, closeBound)
	defer cancel()
	ticker := time.NewTicker(closeLook)
	defer ticker.Stop()
	var last books
	read := false
	for {
		b, err := l.read(ctx, account)
		if err == nil {
			last, read = b, true
			if !b.open() {
				return b, nil
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if read {
				return last, nil
			}
			return last, err
		}
	}
}

// read reads everything of an account in one view of the database.
func (l ledger) read(ctx context.Context, account string) (books, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var b books
	err := pgx.BeginTxFunc(ctx, l.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
			var err error
			b, err = readBooks(ctx, tx, account)
			return err
		})
	return b, err
}

func readBooks(ctx context.Context, tx pgx.Tx, account string) (books, error) {
	var b books
	err := tx.QueryRow(ctx, `SELECT w.posted, w.held, (SELECT coalesce(sum(p.amount), 0)::bigint FROM billing.posting p
				WHERE p.entry_kind = 'broken_answer' AND p.owner_id = w.account_id),
			(SELECT count(*) FROM billing.quarantine) + (SELECT count(*) FROM settlement.quarantine)
		FROM billing.wallet w WHERE w.account_id = $1`, account).Scan(&b.posted, &b.held, &b.returned,
		&b.quarantined)
	if err != nil {
		return b, fmt.Errorf("read the wallet: %w", err)
	}
	holds, err1 := tx.Query(ctx, `SELECT state FROM billing.hold WHERE account_id = $1`, account)
	b.holds, err = pgx.CollectRows(holds, pgx.RowTo[string])
	if err := errors.Join(err1, err); err != nil {
		return b, fmt.Errorf("read holds: %w", err)
	}
	lines, err1 := tx.Query(ctx, `SELECT source, ending, hub_id, prompt_tokens, completion_tokens, charged, payout
		FROM billing.usage_settlement WHERE account_id = $1`, account)
	b.lines, err = pgx.CollectRows(lines, func(row pgx.CollectableRow) (line, error) {
		var l line
		err := row.Scan(&l.source, &l.ending, &l.hub, &l.prompt, &l.completion, &l.charged, &l.payout)
		return l, err
	})
	if err := errors.Join(err1, err); err != nil {
		return b, fmt.Errorf("read settlements: %w", err)
	}
	earnings, err1 := tx.Query(ctx, `SELECT e.payout_nano_usd
		FROM settlement.earning e JOIN billing.hold h ON h.request_id = e.request_id WHERE e.settled AND h.account_id = $1`,
		account)
	b.earnings, err = pgx.CollectRows(earnings, pgx.RowTo[int64])
	if err := errors.Join(err1, err); err != nil {
		return b, fmt.Errorf("read earning lines: %w", err)
	}
	return b, nil
}
