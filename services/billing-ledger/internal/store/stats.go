package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/stats"
)

// statsTimeout bounds a statement that reads sums, for which no request waits.
const statsTimeout = 10 * time.Second

// FoldedUntil reads how far the sums are; see stats.Store.
func (s Stats) FoldedUntil(ctx context.Context) (time.Time, error) {
	var at time.Time
	if err := s.pool.QueryRow(ctx, `SELECT until_at FROM stats_fold`).Scan(&at); err != nil {
		return at, fmt.Errorf("read how far the sums are: %w", err)
	}
	return at.UTC(), nil
}

// Accounts counts the accounts of a window; see stats.Store.
func (s Stats) Accounts(ctx context.Context, w stats.Window) (int, error) {
	var accounts int
	err := s.readSums(ctx, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT count(DISTINCT account_id) FROM (SELECT account_id FROM stats_use
			WHERE at >= $1 AND at < $2 AND model_id <> '' AND served > 0 LIMIT $3) AS u`,
			w.From, w.Until, usesRead).Scan(&accounts)
		if err != nil {
			return fmt.Errorf("count accounts: %w", err)
		}
		return nil
	})
	return accounts, err
}

// selectGroups withholds what is of fewer than $3 accounts.
const selectGroups = `WITH shown AS MATERIALIZED (SELECT model_id, provider_id FROM stats_use
		WHERE at >= $1 AND at < $2 AND served > 0 GROUP BY model_id, provider_id HAVING count(DISTINCT account_id) >= $3)
	SELECT s.model_id, s.provider_id, s.requests, s.judged, s.succeeded, s.retried, s.tokens, s.ttft, s.speed
	FROM stats_sum s JOIN shown USING (model_id, provider_id) WHERE s.span = 60 AND s.at >= $1 AND s.at < $2`

// Groups reads the sums of a window; see stats.Store.
func (s Stats) Groups(ctx context.Context, w stats.Window, accounts int, add func(*stats.Group)) error {
	return s.readSums(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, selectGroups, w.From, w.Until, accounts)
		if err != nil {
			return fmt.Errorf("read sums: %w", err)
		}
		var group stats.Group
		var provider [16]byte
		var ttft, speed []pgtype.Int4
		_, err = pgx.ForEachRow(rows, append([]any{&group.Model, &provider}, sumColumns(&group.Sum, &ttft, &speed)...),
			func() error {
				group.Provider = ids.ProviderID(provider)
				group.Sum.FirstContent, group.Sum.Speed = histogramOf(ttft), histogramOf(speed)
				add(&group)
				return nil
			})
		if err != nil {
			return fmt.Errorf("read sums: %w", err)
		}
		return nil
	})
}

// OfService reads the sums of the whole service; see stats.Store.
func (s Stats) OfService(ctx context.Context, span stats.Span, from time.Time) (map[time.Time]*stats.Sum, error) {
	sums := map[time.Time]*stats.Sum{}
	err := s.readSums(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT at, requests, judged, succeeded, retried, tokens, ttft, speed
			FROM stats_sum WHERE span = $1 AND at >= $2 AND model_id = '' AND (span <> 1440 OR accounts >= $3)`,
			span, from, stats.LeastAccounts)
		if err != nil {
			return fmt.Errorf("read sums of the service: %w", err)
		}
		var at time.Time
		var sum stats.Sum
		var ttft, speed []pgtype.Int4
		_, err = pgx.ForEachRow(rows, append([]any{&at}, sumColumns(&sum, &ttft, &speed)...), func() error {
			read := sum
			read.FirstContent, read.Speed = histogramOf(ttft), histogramOf(speed)
			sums[at.UTC()] = &read
			return nil
		})
		if err != nil {
			return fmt.Errorf("read sums of the service: %w", err)
		}
		return nil
	})
	return sums, err
}

// readSums reads in a transaction of bounded time, by the keys of the tables.
func (s Stats) readSums(ctx context.Context, read func(pgx.Tx) error) error {
	return pg.InTx(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx,
			`SELECT set_config('statement_timeout', $1, true), set_config('enable_seqscan', 'off', true)`,
			fmt.Sprint(statsTimeout.Milliseconds())); err != nil {
			return fmt.Errorf("set the statement timeout: %w", err)
		}
		return read(tx)
	})
}

// sumColumns are where the columns from requests to speed of a row go.
func sumColumns(s *stats.Sum, ttft, speed *[]pgtype.Int4) []any {
	return []any{&s.Requests, &s.Judged, &s.Succeeded, &s.Retried, &s.Tokens, ttft, speed}
}

func histogramOf(array []pgtype.Int4) (h stats.Histogram) {
	for i := range min(len(array), stats.Buckets) {
		h[i] = int64(array[i].Int32)
	}
	return h
}
