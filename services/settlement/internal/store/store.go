// Package store keeps settlement's rows in PostgreSQL: earning lines, which
// are only ever added, and events set aside for a person.
package store

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/earning"
)

// Schema and Role are settlement's own in a shared database.
const (
	Schema = "settlement"
	Role   = "svc_settlement"
)

// maxPayloadBytes bounds what is kept of a rejected event.
const maxPayloadBytes = 64 << 10

// Migrations make the schema.
//
//go:embed migrations/*.sql
var Migrations embed.FS

// Store reads and writes settlement's tables.
type Store struct{ pool *pgxpool.Pool }

// New returns a store on a pool opened for Schema and Role.
func New(pool *pgxpool.Pool) *Store { return &Store{pool} }

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reach the database: %w", err)
	}
	return nil
}

// Adding a line that stands already changes nothing and says whether what
// stands is the same.
const insertLines = `
WITH incoming AS (
	SELECT * FROM unnest($1::date[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::uuid[],
	                     $7::bigint[], $8::bigint[], $9::bigint[])
	AS u(day, request_id, provider_id, attempt, model_id, price_version_id,
	     prompt_tokens, completion_tokens, payout_nano_usd)
), added AS (
	INSERT INTO earning_line (day, request_id, provider_id, attempt, model_id, price_version_id,
	                          prompt_tokens, completion_tokens, payout_nano_usd)
	SELECT day, request_id, provider_id, attempt, model_id, price_version_id,
	       prompt_tokens, completion_tokens, payout_nano_usd
	FROM incoming ORDER BY day, request_id
	ON CONFLICT (day, request_id) DO NOTHING
	RETURNING request_id
)
SELECT i.request_id
FROM incoming i JOIN earning_line l USING (day, request_id)
WHERE i.request_id NOT IN (SELECT request_id FROM added)
  AND (l.provider_id, l.attempt, l.payout_nano_usd) IS DISTINCT FROM (i.provider_id, i.attempt, i.payout_nano_usd)`

const insertRejected = `
INSERT INTO quarantine (reason, request_id, payload)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[])`

// Add records lines and rejected events in one transaction. Lines are unique
// by day and request: of those that stand already it returns the ids whose
// content differs, and changes none. Each request may stand once in lines.
func (s *Store) Add(ctx context.Context, lines []earning.Line, rejected []earning.Rejected) ([]ids.RequestID, error) {
	var differing []ids.RequestID
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		differing = nil
		if len(rejected) > 0 {
			if _, err := tx.Exec(ctx, insertRejected, rejectedColumns(rejected)...); err != nil {
				return fmt.Errorf("insert quarantined events: %w", err)
			}
		}
		if len(lines) == 0 {
			return nil
		}
		rows, err := tx.Query(ctx, insertLines, lineColumns(lines)...)
		if err != nil {
			return fmt.Errorf("insert earning lines: %w", err)
		}
		raw, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		if err != nil {
			return fmt.Errorf("insert earning lines: %w", err)
		}
		for _, id := range raw {
			differing = append(differing, id)
		}
		return nil
	})
	return differing, err
}

func lineColumns(lines []earning.Line) []any {
	n := len(lines)
	days, models := make([]time.Time, n), make([]string, n)
	requests, providers, versions := make([][16]byte, n), make([][16]byte, n), make([][16]byte, n)
	attempts := make([]int32, n)
	prompts, completions, payouts := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, l := range lines {
		days[i], models[i], attempts[i] = l.Day(), l.ModelID, int32(l.Attempt)
		requests[i], providers[i], versions[i] = l.RequestID, l.ProviderID, l.PriceVersionID
		prompts[i], completions[i], payouts[i] = l.Tokens.Prompt, l.Tokens.Completion, int64(l.Payout)
	}
	return []any{days, requests, providers, attempts, models, versions, prompts, completions, payouts}
}

func rejectedColumns(rejected []earning.Rejected) []any {
	reasons, requests, payloads := make([]string, len(rejected)), make([]string, len(rejected)), make([][]byte, len(rejected))
	for i, r := range rejected {
		reasons[i], requests[i] = r.Reason, r.RequestID
		payloads[i] = r.Payload[:min(len(r.Payload), maxPayloadBytes)]
	}
	return []any{reasons, requests, payloads}
}

const selectTotals = `
SELECT day, provider_id, sum(payout_nano_usd)::bigint, count(*)
FROM earning_line WHERE day >= $1 GROUP BY day, provider_id`

// Totals sums the lines per provider and day, from the first day on.
func (s *Store) Totals(ctx context.Context, first time.Time) ([]earning.Total, error) {
	rows, err := s.pool.Query(ctx, selectTotals, first)
	if err != nil {
		return nil, fmt.Errorf("sum earning lines: %w", err)
	}
	totals, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (earning.Total, error) {
		var t earning.Total
		var provider [16]byte
		var payout int64
		err := row.Scan(&t.Day, &provider, &payout, &t.Lines)
		t.ProviderID, t.Payout = provider, money.NanoUSD(payout)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("sum earning lines: %w", err)
	}
	return totals, nil
}
