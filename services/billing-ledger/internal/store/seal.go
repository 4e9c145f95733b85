package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/seal"
)

// sealTimeout bounds each statement that reads a whole day.
const sealTimeout = time.Hour

// sealedLines are the columns of settled requests in version 1 of a digest. Version 2
// adds the unit, and version 3 the columns of vendors. Days of earlier versions have no rows
// that use the added columns, which verify checks.
const sealedLines = `SELECT day, request_id, account_id, key_id, provider_id, hub_id, attempt, epoch, model_id,
			price_version_id, input_rate, output_rate, payout_input_rate, payout_output_rate, prompt_tokens, completion_tokens,
			list_price, payout, charged, shortfall, source, ending, claim_state, claimed_prompt, claimed_completion,
			recounted_completion, delivered_bytes, estimated_prompt, route_mode, requested_provider, fallback_reason,
			payload_hash, first_content_ms, dispatched_at, ended_at, settled_at, evidence_source`

// sealedPart is one kind of rows of a digest; $1 and $2 are the bounds of its day.
type sealedPart struct {
	kind seal.Kind
	sql  string
}

// sealed returns the rows of a digest of a version with their columns. The order of both
// defines the version. Rows are hashed as the database sends them, so no column may
// change its type.
func sealed(version int16) []sealedPart {
	added := `, unit, vendor, cached_tokens, cached_rate`
	switch version {
	case 1:
		added = ``
	case 2:
		added = `, unit`
	}
	lines := sealedLines + added +
		` FROM usage_settlement WHERE settled_at >= $1 AND settled_at < $2 ORDER BY day, request_id`
	return append([]sealedPart{{seal.Line, lines}}, sealedEntries...)
}

// sealedEntries are the same in all versions.
var sealedEntries = []sealedPart{
	{seal.Entry, `SELECT id, kind, business_id, memo, at, reverses, quote_asset, quote_rate, quote_source, quote_at
		FROM entry WHERE at >= $1 AND at < $2 ORDER BY id`},
	{seal.Posting, `SELECT p.entry_id, p.leg, p.account_kind, p.owner_id, p.book, p.asset, p.amount
		FROM posting p JOIN entry e ON e.id = p.entry_id WHERE e.at >= $1 AND e.at < $2 ORDER BY p.entry_id, p.leg`},
}

// DueDay finds the first day without a seal: the day after the last seal, or the day of
// the first account, before which nothing can be recorded.
func (s *Store) DueDay(ctx context.Context, after time.Duration) (time.Time, bool, error) {
	var day *time.Time
	err := s.pool.QueryRow(ctx, `SELECT due.day FROM (`+unsealedDay+`) due
		WHERE (due.day + 1)::timestamptz + $1::interval <= now()`, after).Scan(&day)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && day == nil:
		return time.Time{}, false, nil
	case err != nil:
		return time.Time{}, false, fmt.Errorf("find the day: %w", err)
	}
	return *day, true, nil
}

// unsealedDay is the first day without a seal.
const unsealedDay = `SELECT coalesce((SELECT max(day) + 1 FROM seal),
	least((SELECT min(created_at) FROM account), (SELECT min(at) FROM entry))::date) AS day`

// CloseDay closes a day and returns the number of a transaction that began after that was
// committed. A transaction that has not seen the day closed has a smaller number.
func (s *Store) CloseDay(ctx context.Context, day time.Time) (seal.Barrier, error) {
	if _, err := s.pool.Exec(ctx, `INSERT INTO closed_day (day) VALUES ($1) ON CONFLICT (day) DO NOTHING`,
		day); err != nil {
		return 0, fmt.Errorf("insert the closed day: %w", err)
	}
	var barrier uint64
	if err := s.pool.QueryRow(ctx, `SELECT pg_current_xact_id()::text::bigint`).Scan(&barrier); err != nil {
		return 0, fmt.Errorf("read the transactions' numbers: %w", err)
	}
	return seal.Barrier(barrier), nil
}

// Passed reports whether no transaction with a number below the barrier runs.
func (s *Store) Passed(ctx context.Context, barrier seal.Barrier) (bool, error) {
	var passed bool
	err := s.pool.QueryRow(ctx, `SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= $1`,
		int64(barrier)).Scan(&passed)
	if err != nil {
		return false, fmt.Errorf("read the transactions' numbers: %w", err)
	}
	return passed, nil
}

// SealDay hashes a closed day, chains it to the day before and sums its balances. Of
// several callers, the later ones wait and find the day sealed.
func (s *Store) SealDay(ctx context.Context, day time.Time) (seal.Day, error) {
	var done seal.Day
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx,
			`SELECT pg_advisory_xact_lock(hashtext('billing.seal')), set_config('statement_timeout', $1, true)`,
			fmt.Sprint(sealTimeout.Milliseconds())); err != nil {
			return fmt.Errorf("wait for another sealer: %w", err)
		}
		before, err := readSeals(ctx, tx, day.AddDate(0, 0, -1), day)
		if err != nil {
			return err
		}
		var previous seal.Root
		for _, b := range before {
			if b.Day.Equal(day) {
				done = b
				return nil
			}
			previous = b.Root
		}
		computed, err := digest(ctx, tx, day, seal.Version)
		if err != nil {
			return err
		}
		done = seal.Chain(computed, previous)
		var tie []byte
		if previous != (seal.Root{}) {
			tie = previous[:]
		}
		if _, err := tx.Exec(ctx, `INSERT INTO seal (day, version, lines, entries, postings, digest, previous, root)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			day, done.Version, done.Lines, done.Entries, done.Postings, done.Digest[:], tie, done.Root[:]); err != nil {
			return fmt.Errorf("insert the seal: %w", err)
		}
		return snapshot(ctx, tx, day)
	})
	return done, err
}

// digest hashes what was recorded on a day, by a version, row by row.
func digest(ctx context.Context, tx pgx.Tx, day time.Time, version int16) (seal.Day, error) {
	d := seal.NewDigest()
	for _, part := range sealed(version) {
		rows, err := tx.Query(ctx, part.sql, pgx.QueryResultFormats{pgx.BinaryFormatCode}, day, day.AddDate(0, 0, 1))
		if err != nil {
			return seal.Day{}, fmt.Errorf("read the day: %w", err)
		}
		for rows.Next() {
			d.Add(part.kind, rows.RawValues())
		}
		if rows.Close(); rows.Err() != nil {
			return seal.Day{}, fmt.Errorf("read the day: %w", rows.Err())
		}
	}
	return d.Day(day, version), nil
}

// readSeals reads the seals of the days from first to last, in their order.
func readSeals(ctx context.Context, tx pgx.Tx, first, last time.Time) ([]seal.Day, error) {
	rows, err := tx.Query(ctx, `SELECT day, version, lines, entries, postings, digest, previous, root FROM seal
		WHERE day BETWEEN $1 AND $2 ORDER BY day`, first, last)
	if err != nil {
		return nil, fmt.Errorf("read seals: %w", err)
	}
	days, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (seal.Day, error) {
		var d seal.Day
		var digest, previous, root []byte
		err := row.Scan(&d.Day, &d.Version, &d.Lines, &d.Entries, &d.Postings, &digest, &previous, &root)
		copy(d.Digest[:], digest)
		copy(d.Previous[:], previous)
		copy(d.Root[:], root)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("read seals: %w", err)
	}
	return days, nil
}
