package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/ledger"
)

const payouts = `
SELECT asked.id, asked.business_id, p.owner_id, p.amount, asked.at, coalesce(done.kind, ''), coalesce(t.asset, ''),
	coalesce(-t.amount, t.amount, 0), coalesce(done.quote_rate, 0), coalesce(done.quote_source, ''), done.quote_at
FROM entry asked JOIN posting p ON p.entry_id = asked.id AND p.account_kind = 'l:provider:payout_in_flight'
LEFT JOIN entry done ON done.kind IN ('payout_confirmed', 'payout_failed') AND done.business_id = asked.business_id
LEFT JOIN posting t ON t.entry_id = done.id AND t.account_kind = 'a:crypto' AND t.asset <> 'usd'
WHERE asked.kind = 'payout_requested' AND (asked.at >= $1 OR done.id IS NULL) AND asked.id > $2
	AND NOT EXISTS (SELECT FROM entry r WHERE r.reverses = asked.id)
ORDER BY asked.id LIMIT $3`

// Payouts implements earning.PayoutStore.
func (s *Store) Payouts(
	ctx context.Context, since time.Time, after ids.EntryID, limit int,
) ([]earning.Payout, error) {
	rows, err := s.pool.Query(ctx, payouts, since, [16]byte(after), limit)
	if err != nil {
		return nil, fmt.Errorf("list payouts: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p earning.Payout, err error) {
		var entry, provider [16]byte
		var units int64
		var quote ledger.Quote
		var at *time.Time
		err = row.Scan(&entry, &p.ID, &provider, &p.Amount, &p.At, &p.End, &p.Sum.Token, &units, &quote.Rate, &quote.Source,
			&at)
		p.Entry, p.Provider, p.Sum.Units = entry, ids.ProviderID(provider), ledger.Units(max(units, -units))
		if at != nil {
			quote.Token, quote.At = p.Sum.Token, *at
			p.Sum.Quote = &quote
		}
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("list payouts: %w", err)
	}
	return list, nil
}
