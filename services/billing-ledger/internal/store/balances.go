package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/earning"
)

// ProviderBalances reads where the earnings of a provider stand, on one view of the data;
// see earning.BalanceStore.
func (s *Store) ProviderBalances(ctx context.Context, provider ids.ProviderID) (b earning.Balances, err error) {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		b = earning.Balances{}
		if err := tx.QueryRow(ctx, `SELECT provider_balance('l:provider:accrued', $1, ''),
				provider_balance('l:provider:payable', $1, ''), provider_balance('l:provider:payout_in_flight', $1, ''),
				-provider_balance('a:provider_receivable', $1, ''), provider_balance('l:provider:collateral', $1, ''),
				provider_balance('l:provider:slash_escrow', $1, ''),
				provider_balance('l:provider:collateral_refund_pending', $1, ''),
				(SELECT coalesce(sum(payout), 0)::bigint FROM held_earning
					WHERE provider_id = $1 AND book = '' AND ended_as IS NULL),
				(SELECT coalesce(-sum(amount), 0)::bigint FROM posting WHERE account_kind = 'l:provider:payout_in_flight'
					AND owner_id = $1 AND entry_kind = 'payout_confirmed'),
				(SELECT coalesce(-sum(amount), 0)::bigint FROM posting WHERE account_kind = 'l:provider:payable'
					AND owner_id = $1 AND entry_kind = 'earnings_credit')`, [16]byte(provider)).
			Scan(&b.Accrued, &b.Payable, &b.InFlight, &b.Owed, &b.Collateral, &b.Escrow, &b.Refund, &b.Held, &b.Paid,
				&b.Converted); err != nil {
			return fmt.Errorf("read balances: %w", err)
		}
		rows, err := tx.Query(ctx, `SELECT m.book, provider_balance('l:provider:plan_held', $1, m.book),
				(SELECT coalesce(sum(payout), 0)::bigint FROM held_earning h
					WHERE h.provider_id = $1 AND h.book = m.book AND h.ended_as IS NULL)
			FROM (SELECT DISTINCT book FROM balance_snapshot
					WHERE account_kind = 'l:provider:plan_held' AND owner_id = $1 AND asset = 'usd'
				UNION SELECT DISTINCT book FROM usage_leg WHERE account_kind = 'l:provider:plan_held' AND owner_id = $1
					AND at >= coalesce(((SELECT max(day) FROM seal) + 1)::timestamp AT TIME ZONE 'UTC', '-infinity')) m
			WHERE m.book NOT IN (SELECT month FROM closed_month) ORDER BY m.book`, [16]byte(provider))
		if err != nil {
			return fmt.Errorf("read pending earnings: %w", err)
		}
		b.Pending, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p earning.Pending, err error) {
			return p, row.Scan(&p.Month, &p.Amount, &p.Held)
		})
		if err != nil {
			return fmt.Errorf("read pending earnings: %w", err)
		}
		return nil
	})
	return b, err
}
