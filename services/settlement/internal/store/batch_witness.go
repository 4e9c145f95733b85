package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/settlement/internal/batch"
)

// ownLines joins the requests of the day $1 with settlement's own lines, whose days lie between $2 and $3.
const ownLines = `FROM batch_line l LEFT JOIN earning e
		ON e.day = l.request_day AND e.request_id = l.request_id AND e.day BETWEEN $2 AND $3
	WHERE l.day = $1 AND l.kind IN ('payg', 'plan', 'orphan')`

// differs is the condition under which settlement's own line says something else.
const differs = `(e.settled IS NOT TRUE OR e.provider_id <> l.provider_id OR e.payout_nano_usd <> l.amount)`

// alone is the condition under which a line rests on the ledger's word alone.
const alone = `e.evidence_source = 'ledger' AND NOT EXISTS (SELECT FROM earning_confirmation c
	WHERE c.day = l.request_day AND c.request_id = l.request_id)`

// moves are the kinds that move accounts.
const moves = `('payg', 'plan', 'orphan', 'refund', 'reversal', 'entry')`

// comparisons say who differs on the day $1, why, and in how many lines or accounts.
var comparisons = []string{
	`SELECT provider_id, 'sums', count(*) FROM (
		SELECT provider_id, account, month, sum(amount) AS amount FROM batch_line
		WHERE day = $1 AND kind IN ` + moves + ` GROUP BY provider_id, account, month) l
	FULL JOIN (SELECT * FROM batch_balance WHERE day = $1 AND account LIKE '_:%') b USING (provider_id, account, month)
	WHERE coalesce(l.amount, 0) <> coalesce(b.moved, 0) GROUP BY provider_id`,
	`SELECT provider_id, 'balance', count(*) FROM batch_balance WHERE day = $1 AND account LIKE '_:%'
		AND balance <> moved + batch_balance_at(provider_id, account, month, $1::date - 1) GROUP BY provider_id`,
	`SELECT provider_id, 'held', count(*) FROM batch_balance b WHERE day = $1 AND account = 'held' AND (balance < 0
		OR balance > batch_balance_at(provider_id, CASE month WHEN '' THEN 'l:provider:accrued'
			ELSE 'l:provider:plan_held' END, month, $1)) GROUP BY provider_id`,
	`SELECT provider_id, 'batches', count(*) FROM batch_line l WHERE day = $1 AND kind = 'entry'
		AND entry_kind = 'earnings_batch' AND account = 'l:provider:accrued'
		AND NOT EXISTS (SELECT FROM batch_attempt a JOIN batch_share s ON s.day = a.day AND s.provider_id = a.provider_id
			WHERE a.provider_id = l.provider_id AND a.amount = -l.amount
				AND l.business_id = to_char(a.day, 'YYYY-MM-DD') || '/' || a.provider_id || '/' || s.chain_id)
	GROUP BY provider_id`,
}

// Examine asks the witnesses about a day; see batch.Store.
func (s Batches) Examine(ctx context.Context, day time.Time) (f batch.Findings, err error) {
	err = s.inDay(ctx, func(tx pgx.Tx) error {
		f, err = examine(ctx, tx, day)
		return err
	})
	return f, err
}

func examine(ctx context.Context, tx pgx.Tx, day time.Time) (f batch.Findings, err error) {
	first, last, err := requestDays(ctx, tx, day)
	if err != nil {
		return f, err
	}
	if err := requests(ctx, tx, &f, day, first, last); err != nil {
		return f, err
	}
	if err := tx.QueryRow(ctx, `SELECT clock_timestamp() - collected_at,
		EXISTS (SELECT FROM batch_allowance a WHERE a.day = d.day) FROM batch_day d WHERE day = $1`, day).
		Scan(&f.Since, &f.Allowed); err != nil {
		return f, fmt.Errorf("read a day: %w", err)
	}
	for _, sql := range comparisons {
		more, err := differences(ctx, tx, sql, day)
		if err != nil {
			return f, err
		}
		f.Differences = append(f.Differences, more...)
	}
	return f, nil
}

// requests counts the requests of a day, those that rest on the ledger's word alone, and those of each provider that
// settlement's own lines contradict.
func requests(ctx context.Context, tx pgx.Tx, f *batch.Findings, day, first, last time.Time) error {
	rows, err := tx.Query(ctx, `SELECT l.provider_id, count(*), count(*) FILTER (WHERE `+alone+`),
		count(*) FILTER (WHERE `+differs+`) `+ownLines+` GROUP BY l.provider_id ORDER BY l.provider_id`, day, first, last)
	if err != nil {
		return fmt.Errorf("compare the requests of a day: %w", err)
	}
	d := batch.Difference{Cause: batch.LinesDiffer}
	var all, filled int64
	_, err = pgx.ForEachRow(rows, []any{&d.Provider, &all, &filled, &d.Count}, func() error {
		f.Requests += all
		f.Filled += filled
		if d.Count > 0 {
			f.Differences = append(f.Differences, d)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("compare the requests of a day: %w", err)
	}
	return nil
}

// requestDays returns the days on which the requests of a day were made.
func requestDays(ctx context.Context, tx pgx.Tx, day time.Time) (first, last time.Time, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce(min(request_day), $1), coalesce(max(request_day), $1) FROM batch_line
		WHERE day = $1 AND kind IN ('payg', 'plan', 'orphan')`, day).Scan(&first, &last)
	if err != nil {
		return first, last, fmt.Errorf("read the days of requests: %w", err)
	}
	return first, last, nil
}

func differences(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]batch.Difference, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("ask a witness: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d batch.Difference, err error) {
		var cause string
		err = row.Scan(&d.Provider, &cause, &d.Count)
		d.Cause = batch.Cause(cause)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("ask a witness: %w", err)
	}
	return list, nil
}

// block keeps whom the findings name, and unblocks whose lines are mended since an earlier day.
func block(ctx context.Context, tx pgx.Tx, day time.Time, f batch.Findings) error {
	if err := mend(ctx, tx); err != nil {
		return err
	}
	for _, d := range f.Differences {
		if _, err := tx.Exec(ctx, `INSERT INTO batch_block (day, provider_id, cause, differences)
			VALUES ($1, $2, $3, $4)`, day, [16]byte(d.Provider), string(d.Cause), d.Count); err != nil {
			return fmt.Errorf("block a provider: %w", err)
		}
	}
	return nil
}

// openBlocks are the blocks that are not lifted.
const openBlocks = `batch_block b WHERE NOT b.lifted`

func mend(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT b.day, b.provider_id FROM `+openBlocks+` AND b.cause = 'lines'`)
	if err != nil {
		return fmt.Errorf("list blocks: %w", err)
	}
	type slot struct {
		day      time.Time
		provider [16]byte
	}
	open, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b slot, err error) {
		return b, row.Scan(&b.day, &b.provider)
	})
	if err != nil {
		return fmt.Errorf("list blocks: %w", err)
	}
	for _, b := range open {
		first, last, err := requestDays(ctx, tx, b.day)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO batch_unblock (day, provider_id, cause, actor, reason)
			SELECT $1, $4, 'lines', 'platform', 'settlement''s own lines are mended'
			WHERE NOT EXISTS (SELECT `+ownLines+` AND l.provider_id = $4 AND `+differs+`)`,
			b.day, first, last, b.provider); err != nil {
			return fmt.Errorf("lift a block: %w", err)
		}
	}
	return nil
}
