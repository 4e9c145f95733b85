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

// usesRead bounds the uses of which accounts are counted. Beyond it an account is not seen, so that
// figures are withheld.
const usesRead = 100_000

// Stats makes and reads the sums of what gateways reported; see passbook.FoldStore and
// stats.Store.
type Stats struct{ *Store }

// Due asks for the first report by the index on its time; see passbook.FoldStore.
func (s Stats) Due(ctx context.Context) (bool, error) {
	return s.foldDue(ctx, `SELECT until_at < now() - $1::interval
			OR (SELECT recorded_at FROM request_report WHERE (recorded_at, request_id) > (f.until_at, f.last)
				ORDER BY recorded_at, request_id LIMIT 1) IS NOT NULL
		FROM stats_fold f`)
}

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
		uses, err := readUses(ctx, tx, stats.UsesOf(reports))
		if err != nil {
			return err
		}
		return addTally(ctx, tx, stats.SumUp(reports, uses), until, last)
	})
	return done, err
}

// selectReports reads reports by the index request_report_recorded, and of each its hold and
// that of the request that it went on as, by their keys.
const selectReports = `SELECT w.request_id, w.recorded_at, coalesce(h.model_id, ''),
		coalesce(h.account_id, '00000000-0000-0000-0000-000000000000'), coalesce(h.unit = 0, false),
		coalesce(h.input_rate + h.output_rate > 0, false)
			AND NOT EXISTS (SELECT FROM playground_account p WHERE p.account_id = h.account_id), w.outcome,
		w.committed_attempt, w.attempts, coalesce(n.model_id <> h.model_id, false), w.stream, w.first_content_ms,
		w.total_ms, coalesce(w.metered_prompt, 0), coalesce(w.metered_completion, w.relayed_tokens)
	FROM (SELECT * FROM request_report WHERE (recorded_at, request_id) > ($1, $2) AND recorded_at < $3
		ORDER BY recorded_at, request_id LIMIT $4) w
	LEFT JOIN hold h ON h.request_id = w.request_id
	LEFT JOIN hold n ON n.request_id = w.continued_as
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
		var request, account [16]byte
		err = row.Scan(&request, &r.RecordedAt, &r.Model, &account, &r.ByTokens, &r.Paid, &r.Outcome, &r.Committed,
			&r.Attempts, &r.NextModel, &r.Stream, &r.FirstContentMS, &r.TotalMS, &r.Prompt, &r.Completion)
		r.Request, r.Account = ids.RequestID(request), ids.AccountID(account)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read reports: %w", err)
	}
	return reports, nil
}

// useArgs are uses in columns. Uses of which there is nothing to say are left out on request.
func useArgs(uses map[stats.UseKey]*stats.Use, withEmpty bool) []any {
	var at []time.Time
	var models []string
	var providers, accounts [][16]byte
	var served, failed []int64
	for k, u := range uses {
		if *u == (stats.Use{}) && !withEmpty {
			continue
		}
		at, models = append(at, k.At), append(models, k.Model)
		providers, accounts = append(providers, k.Provider), append(accounts, k.Account)
		served, failed = append(served, u.Served), append(failed, u.Failed)
	}
	return []any{at, models, providers, accounts, served, failed}
}

const useKeys = `unnest($1::timestamptz[], $2::text[], $3::uuid[], $4::uuid[]`

// readUses fills in what the accounts did before. The lock of the fold keeps it so.
func readUses(
	ctx context.Context, tx pgx.Tx, uses map[stats.UseKey]*stats.Use,
) (map[stats.UseKey]*stats.Use, error) {
	rows, err := tx.Query(ctx, `SELECT u.at, u.model_id, u.provider_id, u.account_id, u.served, u.failed
		FROM `+useKeys+`) AS k (at, model_id, provider_id, account_id)
		JOIN stats_use u USING (at, model_id, provider_id, account_id)`, useArgs(uses, true)[:4]...)
	if err != nil {
		return nil, fmt.Errorf("read what accounts did: %w", err)
	}
	var k stats.UseKey
	var u stats.Use
	var provider, account [16]byte
	_, err = pgx.ForEachRow(rows, []any{&k.At, &k.Model, &provider, &account, &u.Served, &u.Failed}, func() error {
		k.At, k.Provider, k.Account = k.At.UTC(), ids.ProviderID(provider), ids.AccountID(account)
		read := u
		uses[k] = &read
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what accounts did: %w", err)
	}
	return uses, nil
}

const addSum = `INSERT INTO stats_sum AS s (span, at, model_id, provider_id, requests, judged, succeeded, retried,
		tokens, ttft, speed)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
	ON CONFLICT (span, at, model_id, provider_id) DO UPDATE SET requests = s.requests + excluded.requests,
		judged = s.judged + excluded.judged, succeeded = s.succeeded + excluded.succeeded,
		retried = s.retried + excluded.retried, tokens = s.tokens + excluded.tokens,
		ttft = add_histograms(s.ttft, excluded.ttft), speed = add_histograms(s.speed, excluded.speed)`

const setUses = `INSERT INTO stats_use (at, model_id, provider_id, account_id, served, failed)
	SELECT * FROM ` + useKeys + `, $5::integer[], $6::integer[])
	ON CONFLICT (at, model_id, provider_id, account_id) DO UPDATE SET served = excluded.served, failed = excluded.failed
	WHERE (stats_use.served, stats_use.failed) <> (excluded.served, excluded.failed)`

// countAccounts counts the accounts of a day, up to those that figures need. Uses are deleted sooner
// than days.
const countAccounts = `UPDATE stats_sum SET accounts = (SELECT least(count(DISTINCT account_id), $2) FROM (
		SELECT account_id FROM stats_use WHERE at >= $1 AND at < $1 + interval '1 day' AND model_id <> '' AND served > 0
		LIMIT $3) AS u)
	WHERE span = 1440 AND at = $1 AND accounts < $2`

// addTally adds sums and uses and moves the fold on.
func addTally(ctx context.Context, tx pgx.Tx, t *stats.Tally, until time.Time, last [16]byte) error {
	batch := &pgx.Batch{}
	for k, s := range t.Sums {
		batch.Queue(addSum, k.Span, k.At, k.Model, [16]byte(k.Provider), s.Requests, s.Judged, s.Succeeded, s.Retried,
			s.Tokens, histogramToArray(&s.FirstContent), histogramToArray(&s.Speed))
	}
	batch.Queue(setUses, useArgs(t.Uses, false)...)
	for k := range t.Sums {
		if k.Span == stats.Day {
			batch.Queue(countAccounts, k.At, stats.LeastAccounts, usesRead)
		}
	}
	batch.Queue(`UPDATE stats_fold SET until_at = $1, last = $2`, until, last)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("add %d sums: %w", len(t.Sums), err)
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

// PruneStats deletes up to limit sums of each span and uses that are older than they are
// kept, and returns the largest number that it deleted of one kind.
func (s *Store) PruneStats(ctx context.Context, limit int) (int, error) {
	largest, err := s.pruneExpired(ctx, "what accounts did", `DELETE FROM stats_use WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM stats_use WHERE at < now() - $2::interval ORDER BY at LIMIT $1 FOR UPDATE SKIP LOCKED))`,
		limit, stats.UsesKept)
	if err != nil {
		return 0, err
	}
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
