package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/quote"
)

// Quotes keeps what sources said of prices; it implements quote.Store.
type Quotes struct{ *Store }

// keepQuotes is how long what was said is kept. A deposit or payout has its own copy.
const keepQuotes = 90 * 24 * time.Hour

// maxSaid bounds what is read of an hour.
const maxSaid = 10_000

// Add implements quote.Store.
func (s Quotes) Add(ctx context.Context, token, source string, rate money.NanoUSD) error {
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO quote (token, source, rate) VALUES ($1, $2, $3)`, token, source, rate)
	batch.Queue(`DELETE FROM quote WHERE token = $1 AND at < clock_timestamp() - $2::interval`, token, keepQuotes)
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("store a price: %w", err)
	}
	return nil
}

// Said implements quote.Store.
func (s Quotes) Said(ctx context.Context, token string, within time.Duration) ([]quote.Said, time.Time, error) {
	var now time.Time
	if err := s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return nil, time.Time{}, fmt.Errorf("read prices: %w", err)
	}
	rows, err := s.pool.Query(ctx, `SELECT source, rate, at FROM quote WHERE token = $1 AND at >= $2
		ORDER BY at DESC LIMIT $3`, token, now.Add(-within), maxSaid)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read prices: %w", err)
	}
	said, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (q quote.Said, err error) {
		err = row.Scan(&q.Source, &q.Rate, &q.At)
		return q, err
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read prices: %w", err)
	}
	return said, now, nil
}
