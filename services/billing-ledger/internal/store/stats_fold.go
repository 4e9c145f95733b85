package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/passbook"
	"svc.internal/services/billing-ledger/internal/stats"
)

// Stats makes and reads the sums of what gateways reported; see passbook.FoldStore and
// stats.Store.
type Stats struct{ *Store }

// Mark makes a mark; see passbook.FoldStore.
func (s Stats) Mark(ctx context.Context, lag time.Duration) (passbook.Mark, error) {
	return Passbook{Store: s.Store}.Mark(ctx, lag)
}

// Passed reports whether a mark has passed; see passbook.FoldStore.
func (s Stats) Passed(ctx context.Context, m passbook.Mark) (bool, error) {
	return Passbook{Store: s.Store}.Passed(ctx, m)
}

// Fold adds the next reports, at most rows, to the sums. The reports and the place up to
// which they are added change in one transaction, under the lock of that place.
func (s Stats) Fold(ctx context.Context, upTo time.Time, rows int) (passbook.Progress, error) {
	var done passbook.Progress
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		done = passbook.Progress{}
		var until time.Time
		var last [16]byte
		err := tx.QueryRow(ctx, `SELECT until_at, last FROM stats_fold FOR UPDATE SKIP LOCKED`).Scan(&until, &last)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // another replica is at it
		}
		if err != nil {
			return fmt.Errorf("read how far the sums are: %w", err)
		}
		if !until.Before(upTo) {
			return nil
		}
		reports, err := nextReports(ctx, tx, until, last, upTo, rows)
		if err != nil {
			return err
		}
		done.Lines, done.More = len(reports), len(reports) == rows
		until, last = upTo, [16]byte{}
		if done.More {
			end := &reports[len(reports)-1]
			until, last = end.RecordedAt, end.Request
		}
		return addSums(ctx, tx, stats.SumUp(reports), until, last)
	})
	return done, err
}

// selectReports reads reports by the index request_report_recorded, and of each its hold and
// its settled line by their keys. A request may be settled later than it is reported. Then
// its mode is not known.
const selectReports = `SELECT w.request_id, w.recorded_at, coalesce(h.model_id, ''), coalesce(h.unit = 0, false),
		coalesce(s.connection_mode, 0), w.outcome, w.committed_attempt, w.attempts, w.continued_as IS NOT NULL, w.stream,
		w.first_content_ms, w.total_ms, coalesce(w.metered_prompt, 0), coalesce(w.metered_completion, w.relayed_tokens)
	FROM (SELECT * FROM request_report WHERE (recorded_at, request_id) > ($1, $2) AND recorded_at < $3
		ORDER BY recorded_at, request_id LIMIT $4) w
	LEFT JOIN hold h ON h.request_id = w.request_id
	LEFT JOIN usage_settlement s ON s.request_id = w.request_id AND s.day = date '1970-01-01'
		+ (('x' || left(replace(w.request_id::text, '-', ''), 12))::bit(48)::bigint / 86400000)::integer
	ORDER BY w.recorded_at, w.request_id`

func nextReports(
	ctx context.Context, tx pgx.Tx, from time.Time, behind [16]byte, upTo time.Time, limit int,
) ([]stats.Report, error) {
	// A plan from when a table was small would otherwise read all of it later.
	if _, err := tx.Exec(ctx, `SELECT set_config(name, 'off', true)
		FROM unnest(ARRAY['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin']) AS o (name)`); err != nil {
		return nil, fmt.Errorf("keep to the indexes: %w", err)
	}
	rows, err := tx.Query(ctx, selectReports, from, behind, upTo, limit)
	if err != nil {
		return nil, fmt.Errorf("read reports: %w", err)
	}
	reports, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r stats.Report, err error) {
		var request [16]byte
		err = row.Scan(&request, &r.RecordedAt, &r.Model, &r.ByTokens, &r.Mode, &r.Outcome, &r.Committed, &r.Attempts,
			&r.Continued, &r.Stream, &r.FirstContentMS, &r.TotalMS, &r.Prompt, &r.Completion)
		r.Request = ids.RequestID(request)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read reports: %w", err)
	}
	return reports, nil
}

const addSum = `INSERT INTO stats_sum AS s (span, at, model_id, provider_id, mode, requests, judged, succeeded, retried,
		failed_over, tokens, ttft, speed)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
	ON CONFLICT (span, at, model_id, provider_id, mode) DO UPDATE SET requests = s.requests + excluded.requests,
		judged = s.judged + excluded.judged, succeeded = s.succeeded + excluded.succeeded,
		retried = s.retried + excluded.retried, failed_over = s.failed_over + excluded.failed_over,
		tokens = s.tokens + excluded.tokens, ttft = add_histograms(s.ttft, excluded.ttft),
		speed = add_histograms(s.speed, excluded.speed)`

// addSums adds sums and moves the fold on.
func addSums(ctx context.Context, tx pgx.Tx, sums map[stats.Key]*stats.Sum, until time.Time, last [16]byte) error {
	batch := &pgx.Batch{}
	for k, s := range sums {
		batch.Queue(addSum, k.Span, k.At, k.Model, [16]byte(k.Provider), k.Mode, s.Requests, s.Judged, s.Succeeded,
			s.Retried, s.FailedOver, s.Tokens, histogramToArray(&s.FirstContent), histogramToArray(&s.Speed))
	}
	batch.Queue(`UPDATE stats_fold SET until_at = $1, last = $2`, until, last)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("add %d sums: %w", len(sums), err)
	}
	return nil
}

func histogramToArray(h *stats.Histogram) []pgtype.Int4 {
	if h.Total() == 0 {
		return []pgtype.Int4{}
	}
	array := make([]pgtype.Int4, stats.Buckets)
	for i, n := range h {
		array[i] = pgtype.Int4{Int32: int32(n), Valid: n > 0}
	}
	return array
}

// PruneStats deletes up to limit sums of each span that are older than they are kept, and
// returns the largest number that it deleted of a span.
func (s *Store) PruneStats(ctx context.Context, limit int) (int, error) {
	largest := 0
	for span, kept := range stats.Spans {
		n, err := s.pruneExpired(ctx, "sums of requests", `DELETE FROM stats_sum WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM stats_sum WHERE span = $2 AND at < now() - $3::interval ORDER BY at
			LIMIT $1 FOR UPDATE SKIP LOCKED))`, limit, span, kept)
		if err != nil {
			return largest, err
		}
		largest = max(largest, n)
	}
	return largest, nil
}
