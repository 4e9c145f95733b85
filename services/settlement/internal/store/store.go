// Package store keeps settlement's rows in PostgreSQL: earning lines and their
// corrections, which are only ever added, and events set aside for a person.
package store

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/crash"
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
	                     $7::bigint[], $8::bigint[], $9::bigint[], $10::text[])
	AS u(day, request_id, provider_id, attempt, model_id, price_version_id,
	     prompt_tokens, completion_tokens, payout_nano_usd, witness)
), added AS (
	INSERT INTO earning_line (day, request_id, provider_id, attempt, model_id, price_version_id,
	                          prompt_tokens, completion_tokens, payout_nano_usd, witness)
	SELECT day, request_id, provider_id, attempt, model_id, price_version_id,
	       prompt_tokens, completion_tokens, payout_nano_usd, witness
	FROM incoming ORDER BY day, request_id
	ON CONFLICT (day, request_id) DO NOTHING
	RETURNING request_id
)
SELECT i.request_id
FROM incoming i JOIN earning_line l USING (day, request_id)
WHERE i.request_id NOT IN (SELECT request_id FROM added) AND l.witness = 'hub' AND i.witness = 'hub'
  AND (l.provider_id, l.attempt, l.payout_nano_usd) IS DISTINCT FROM (i.provider_id, i.attempt, i.payout_nano_usd)`

// What the ledger says takes the place of a line that rests on another witness
// and differs in money. It says it once.
const insertCorrections = `
INSERT INTO earning_correction (day, request_id, was_witness, was_provider_id, was_payout_nano_usd,
                                witness, provider_id, prompt_tokens, completion_tokens, payout_nano_usd)
SELECT l.day, l.request_id, l.witness, l.provider_id, l.payout_nano_usd,
       i.witness, i.provider_id, i.prompt_tokens, i.completion_tokens, i.payout_nano_usd
FROM unnest($1::date[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::uuid[],
            $7::bigint[], $8::bigint[], $9::bigint[], $10::text[])
     AS i(day, request_id, provider_id, attempt, model_id, price_version_id,
          prompt_tokens, completion_tokens, payout_nano_usd, witness)
JOIN earning_line l USING (day, request_id)
WHERE l.witness <> i.witness AND (l.provider_id, l.payout_nano_usd) <> (i.provider_id, i.payout_nano_usd)
ORDER BY l.day, l.request_id
ON CONFLICT (day, request_id) DO NOTHING
RETURNING request_id`

const insertRejected = `
INSERT INTO quarantine (reason, request_id, payload)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[])`

// Add records a batch in one transaction. Lines are unique by day and request:
// one that stands already is not changed.
func (s *Store) Add(ctx context.Context, b earning.Batch) (earning.Outcome, error) {
	var out earning.Outcome
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		out = earning.Outcome{}
		if len(b.Rejected) > 0 {
			if _, err := tx.Exec(ctx, insertRejected, rejectedColumns(b.Rejected)...); err != nil {
				return fmt.Errorf("insert quarantined events: %w", err)
			}
		}
		var err error
		if out.Differing, err = insert(ctx, tx, insertLines, b.Lines); err != nil {
			return fmt.Errorf("insert earning lines: %w", err)
		}
		if out.Corrected, err = insert(ctx, tx, insertCorrections, b.Rulings); err != nil {
			return fmt.Errorf("insert corrections: %w", err)
		}
		if len(b.Lines) > 0 {
			crash.At("settlement.line.before_commit")
		}
		return nil
	})
	return out, err
}

// insert runs one of the statements on lines and reads the requests it names.
func insert(ctx context.Context, tx pgx.Tx, statement string, lines []earning.Line) ([]ids.RequestID, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, statement, lineColumns(lines)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (ids.RequestID, error) {
		var id [16]byte
		err := row.Scan(&id)
		return id, err
	})
}

func lineColumns(lines []earning.Line) []any {
	n := len(lines)
	days, models := make([]time.Time, n), make([]string, n)
	requests, providers, versions := make([][16]byte, n), make([][16]byte, n), make([][16]byte, n)
	attempts := make([]int32, n)
	prompts, completions, payouts := make([]int64, n), make([]int64, n), make([]int64, n)
	witnesses := make([]string, n)
	for i, l := range lines {
		days[i], models[i], attempts[i] = l.Day(), l.ModelID, int32(l.Attempt)
		requests[i], providers[i], versions[i] = l.RequestID, l.ProviderID, l.PriceVersionID
		prompts[i], completions[i], payouts[i] = l.Tokens.Prompt, l.Tokens.Completion, int64(l.Payout)
		witnesses[i] = string(l.Witness)
	}
	return []any{days, requests, providers, attempts, models, versions, prompts, completions, payouts, witnesses}
}

func rejectedColumns(rejected []earning.Rejected) []any {
	reasons, requests, payloads := make([]string, len(rejected)), make([]string, len(rejected)), make([][]byte, len(rejected))
	for i, r := range rejected {
		reasons[i], requests[i] = r.Reason, r.RequestID
		payloads[i] = r.Payload[:min(len(r.Payload), maxPayloadBytes)]
	}
	return []any{reasons, requests, payloads}
}

// A correction takes a line from one provider's sum and adds another.
const selectTotals = `
SELECT day, provider_id, sum(payout)::bigint, sum(lines)::bigint FROM (
	SELECT day, provider_id, sum(payout_nano_usd) AS payout, count(*) AS lines
	FROM earning_line WHERE day >= $1 GROUP BY day, provider_id
	UNION ALL SELECT day, was_provider_id, -was_payout_nano_usd, -1 FROM earning_correction WHERE day >= $1
	UNION ALL SELECT day, provider_id, payout_nano_usd, 1 FROM earning_correction WHERE day >= $1
) AS part GROUP BY day, provider_id HAVING sum(lines) <> 0 OR sum(payout) <> 0`

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
