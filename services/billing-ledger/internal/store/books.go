package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/earning"
)

// What consumers have is in their wallets. Of all other accounts it is what moved on sealed days, and what was recorded
// since.
const sumsOfBooks = `
	WITH open AS (
		SELECT coalesce(((SELECT max(day) FROM seal) + 1)::timestamp AT TIME ZONE 'UTC', '-infinity') AS since
	), moved AS (
		SELECT account_kind, asset, moved AS amount FROM balance_snapshot WHERE account_kind = ANY($1)
			OR account_kind LIKE 'l:provider:%'
		UNION ALL SELECT account_kind, asset, amount FROM ledger_leg WHERE at >= (SELECT since FROM open)
			AND (account_kind = ANY($1) OR account_kind LIKE 'l:provider:%')
	)
	SELECT account_kind, asset, sum(amount)::bigint FROM moved GROUP BY account_kind, asset
	UNION ALL SELECT 'l:consumer:available', 'usd', coalesce(sum(posted), 0)::bigint FROM wallet`

// ofBooks are the kinds that count beside those of consumers and providers.
var ofBooks = []string{"a:crypto", "a:card_clearing", "a:bank", "x:plan_accrual", "l:plan_pool", "l:vendor:payable",
	"s:unmatched_deposit", "s:disputed"}

// Books reads the books as a whole, on one view of the data; see earning.BooksStore.
func (s *Store) Books(ctx context.Context) (b earning.Books, err error) {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		b = earning.Books{Tokens: map[string]int64{}}
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&b.At); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sumsOfBooks, ofBooks)
		if err != nil {
			return err
		}
		var kind, asset string
		var amount int64
		_, err = pgx.ForEachRow(rows, []any{&kind, &asset, &amount}, func() error {
			addToBooks(&b, kind, asset, amount)
			return nil
		})
		return err
	})
	if err != nil {
		return earning.Books{}, fmt.Errorf("read the books: %w", err)
	}
	return b, nil
}

// addToBooks adds the balance of a kind: credits less debits.
func addToBooks(b *earning.Books, kind, asset string, amount int64) {
	switch value := money.NanoUSD(amount); {
	case asset != "usd":
		if kind == "a:crypto" {
			b.Tokens[asset] -= amount
		}
	case kind == "a:crypto":
		b.Crypto -= value
	case kind == "a:card_clearing":
		b.Card -= value
	case kind == "a:bank":
		b.Bank -= value
	case kind == "x:plan_accrual", strings.HasPrefix(kind, "l:provider:"):
		b.Providers += value
	case strings.HasPrefix(kind, "l:consumer:"):
		b.Consumers += value
	default:
		b.Others += value
	}
}
