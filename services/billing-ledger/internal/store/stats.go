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

// inWindow are the sums of a window from $1 until $2 whose whole hours are from $3 until $4.
const inWindow = `(span = 60 AND at >= $3 AND at < $4
	OR span = 5 AND (at >= $1 AND at < least($2, $3) OR at >= greatest($1, $4) AND at < $2))`

func windowArgs(w stats.Window) []any {
	hours := w.Hours()
	return []any{w.From, w.Until, hours.From, hours.Until}
}

const selectGroups = `SELECT model_id, provider_id, requests, judged, succeeded, retried, failed_over, tokens,
		ttft, speed
	FROM stats_sum WHERE ` + inWindow

// Groups reads the sums of a window; see stats.Store.
func (s Stats) Groups(ctx context.Context, w stats.Window, add func(*stats.Group)) error {
	return s.readSums(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, selectGroups, windowArgs(w)...)
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

// Requests counts the requests of a window; see stats.Store.
func (s Stats) Requests(ctx context.Context, w stats.Window) (int64, error) {
	var n int64
	err := s.readSums(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT coalesce(sum(requests), 0)::bigint FROM stats_sum WHERE `+inWindow,
			windowArgs(w)...).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count requests: %w", err)
	}
	return n, nil
}

// ByDay sums up days; see stats.Store.
func (s Stats) ByDay(ctx context.Context, from time.Time) (map[time.Time]*stats.Sum, error) {
	days := map[time.Time]*stats.Sum{}
	err := s.readSums(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT at, requests, judged, succeeded, retried, failed_over, tokens, ttft, speed
			FROM stats_sum WHERE span = 1440 AND at >= $1`, from)
		if err != nil {
			return fmt.Errorf("read days: %w", err)
		}
		var day time.Time
		var sum stats.Sum
		var ttft, speed []pgtype.Int4
		_, err = pgx.ForEachRow(rows, append([]any{&day}, sumColumns(&sum, &ttft, &speed)...), func() error {
			sum.FirstContent, sum.Speed = histogramOf(ttft), histogramOf(speed)
			day = day.UTC()
			if days[day] == nil {
				days[day] = &stats.Sum{}
			}
			days[day].Add(&sum)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read days: %w", err)
		}
		return nil
	})
	return days, err
}

// readSums reads in a transaction of bounded time, by the key of stats_sum.
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
	return []any{&s.Requests, &s.Judged, &s.Succeeded, &s.Retried, &s.FailedOver, &s.Tokens, ttft, speed}
}

func histogramOf(array []pgtype.Int4) (h stats.Histogram) {
	for i := range min(len(array), stats.Buckets) {
		h[i] = int64(array[i].Int32)
	}
	return h
}
