package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// insertSnapshot adds what moved on a day to the last balance before it.
const insertSnapshot = `INSERT INTO balance_snapshot (day, account_kind, owner_id, book, asset, moved, balance)
	SELECT $1::date, m.account_kind, m.owner_id, m.book, m.asset, m.moved, m.moved + coalesce(last.balance, 0)
	FROM (SELECT account_kind, coalesce(owner_id, '00000000-0000-0000-0000-000000000000') AS owner_id, book, asset,
			sum(amount)::bigint AS moved
		FROM ledger_leg WHERE at >= $1::date::timestamptz AND at < ($1::date + 1)::timestamptz GROUP BY 1, 2, 3, 4) m
	LEFT JOIN LATERAL (SELECT balance FROM balance_snapshot b
		WHERE b.account_kind = m.account_kind AND b.owner_id = m.owner_id AND b.book = m.book AND b.asset = m.asset
			AND b.day < $1::date
		ORDER BY b.day DESC LIMIT 1) last ON true`

// snapshotDrift compares the snapshots with the rows: what moved on each day, and each
// balance with everything that moved up to it.
const snapshotDrift = `WITH recorded AS (
		SELECT at::date AS day, account_kind, coalesce(owner_id, '00000000-0000-0000-0000-000000000000') AS owner_id, book,
			asset, sum(amount) AS moved
		FROM ledger_leg WHERE at < ((SELECT max(day) FROM seal) + 1)::timestamptz GROUP BY 1, 2, 3, 4, 5),
	kept AS (
		SELECT *, sum(moved) OVER (PARTITION BY account_kind, owner_id, book, asset ORDER BY day) AS due
			FROM balance_snapshot)
	SELECT format('account %s %s %s %s on %s: moved %s, recorded %s, balance %s of %s',
		account_kind, owner_id, book, asset, day, k.moved, r.moved, k.balance, k.due)
	FROM recorded r FULL JOIN kept k USING (day, account_kind, owner_id, book, asset)
	WHERE r.moved IS DISTINCT FROM k.moved OR k.balance <> k.due`

// snapshot stores the balances at the end of a day that is being sealed.
func snapshot(ctx context.Context, tx pgx.Tx, day time.Time) error {
	if _, err := tx.Exec(ctx, insertSnapshot, day); err != nil {
		return fmt.Errorf("insert balances: %w", err)
	}
	return nil
}
