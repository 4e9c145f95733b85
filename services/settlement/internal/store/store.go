// Package store keeps settlement's rows in PostgreSQL: earning lines and their
// corrections, rulings and confirmations, which are only ever added, and events
// set aside for a person.
package store

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/clock"
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

// Migrations make the schema, with the functions and views beside them.
//
//go:embed migrations/*.sql functions/*.sql views/*.sql
var Migrations embed.FS

// Store reads and writes settlement's tables.
type Store struct {
	pool *pgxpool.Pool
	lull *pg.Lull
}

// New returns a store on a pool opened for Schema and Role.
func New(pool *pgxpool.Pool) *Store { return &Store{pool, pg.NewLull(pool)} }

// Still is for one loop that looks for work; see pg.Lull.
func (s *Store) Still(rest time.Duration) *clock.Still { return s.lull.Loop(rest) }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reach the database: %w", err)
	}
	return nil
}

// The statements of a batch are planned once for a connection, as in every
// transaction of many in a row, in a way that stays right when the tables grow. What
// a batch acknowledges survives a crash, whatever the server's default.
const secure = `
SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
       CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
            THEN set_config('synchronous_commit', 'on', true) END`

// Adding a line that stands already changes nothing.
const insertLines = `
INSERT INTO earning_line (day, request_id, provider_id, attempt, model_id, price_version_id,
                          prompt_tokens, completion_tokens, payout_nano_usd, evidence_source, unit)
SELECT * FROM unnest($1::date[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::uuid[],
                     $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::smallint[])
    AS u(day, request_id, provider_id, attempt, model_id, price_version_id,
         prompt_tokens, completion_tokens, payout_nano_usd, evidence_source, unit)
ORDER BY day, request_id
ON CONFLICT (day, request_id) DO NOTHING
RETURNING request_id`

// What stands already and is not the same. Lines never change, so it does not
// matter when they are compared.
const selectDiffering = `
SELECT i.request_id
FROM unnest($1::date[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::uuid[],
            $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::smallint[])
    AS i(day, request_id, provider_id, attempt, model_id, price_version_id,
         prompt_tokens, completion_tokens, payout_nano_usd, evidence_source, unit)
JOIN earning_line l USING (day, request_id)
WHERE l.evidence_source = 'hub' AND i.evidence_source = 'hub'
  AND (l.provider_id, l.attempt, l.payout_nano_usd) IS DISTINCT FROM (i.provider_id, i.attempt, i.payout_nano_usd)`

// What the ledger says takes the place of a line that says anything else,
// whoever is the evidence source of either. It says it once: where a correction or a
// ruling stands, only the ledger's books themselves overrule it (insertRulings).
// Usage of the stream may be delivered again long after.
const insertCorrections = `
INSERT INTO earning_correction (day, request_id, was_evidence_source, was_provider_id, was_payout_nano_usd,
                                evidence_source, provider_id, attempt, model_id, price_version_id,
                                prompt_tokens, completion_tokens, payout_nano_usd, unit)
SELECT l.day, l.request_id, l.evidence_source, l.provider_id, l.payout_nano_usd,
       i.evidence_source, i.provider_id, i.attempt, i.model_id, i.price_version_id,
       i.prompt_tokens, i.completion_tokens, i.payout_nano_usd, i.unit` + columns + `
JOIN earning_line l USING (day, request_id)
WHERE (l.provider_id, l.attempt, l.model_id, l.price_version_id, l.prompt_tokens, l.completion_tokens,
       l.payout_nano_usd, l.unit)
   <> (i.provider_id, i.attempt, i.model_id, i.price_version_id, i.prompt_tokens, i.completion_tokens,
       i.payout_nano_usd, i.unit)
  AND NOT EXISTS (SELECT FROM earning_ruling r WHERE r.day = l.day AND r.request_id = l.request_id)
ORDER BY l.day, l.request_id
ON CONFLICT (day, request_id) DO NOTHING
RETURNING request_id`

const insertRejected = `
INSERT INTO quarantine (reason, request_id, payload)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[])`

// Add records a batch in one transaction and, when all of its lines are new, one
// round trip. Lines are unique by day and request: a line that stands already is
// not changed.
func (s *Store) Add(ctx context.Context, b earning.Batch) (earning.Outcome, error) {
	if len(b.Lines) > 0 {
		crash.At("settlement.line.before_commit")
	}
	var out earning.Outcome
	var added []ids.RequestID
	err := pg.Retry(ctx, func() error {
		out, added = earning.Outcome{}, nil
		// What a batch sends outside of a transaction is one by itself.
		batch := &pgx.Batch{}
		batch.Queue(secure)
		if len(b.Lines) > 0 {
			batch.Queue(insertLines, lineColumns(b.Lines)...).Query(collect(&added))
		}
		if len(b.Rulings) > 0 {
			batch.Queue(insertCorrections, lineColumns(b.Rulings)...).Query(collect(&out.Corrected))
		}
		if len(b.Rejected) > 0 {
			batch.Queue(insertRejected, rejectedColumns(b.Rejected)...)
		}
		return s.pool.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return earning.Outcome{}, fmt.Errorf("insert %d earning lines, %d corrections, %d quarantined events: %w",
			len(b.Lines), len(b.Rulings), len(b.Rejected), err)
	}
	stood := known(b.Lines, added)
	if len(stood) == 0 {
		return out, nil
	}
	if out.Differing, err = s.differing(ctx, stood); err != nil {
		return earning.Outcome{}, fmt.Errorf("compare earning lines: %w", err)
	}
	if err := s.confirm(ctx, stood); err != nil {
		return earning.Outcome{}, fmt.Errorf("confirm earning lines: %w", err)
	}
	return out, nil
}

// known are the lines whose request stood already.
func known(lines []earning.Line, added []ids.RequestID) []earning.Line {
	if len(added) == len(lines) {
		return nil
	}
	isNew := make(map[ids.RequestID]bool, len(added))
	for _, id := range added {
		isNew[id] = true
	}
	stood := make([]earning.Line, 0, len(lines)-len(added))
	for _, line := range lines {
		if !isNew[line.RequestID] {
			stood = append(stood, line)
		}
	}
	return stood
}

// differing names the lines whose request stood already with other content.
func (s *Store) differing(ctx context.Context, stood []earning.Line) ([]ids.RequestID, error) {
	rows, err := s.pool.Query(ctx, selectDiffering, lineColumns(stood)...)
	if err != nil {
		return nil, err
	}
	var differing []ids.RequestID
	err = collect(&differing)(rows)
	return differing, err
}

// collect reads request ids.
func collect(into *[]ids.RequestID) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var id [16]byte
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			*into = append(*into, id)
			return nil
		})
		return err
	}
}

func lineColumns(lines []earning.Line) []any {
	n := len(lines)
	days, models := make([]time.Time, n), make([]string, n)
	requests, providers, versions := make([][16]byte, n), make([][16]byte, n), make([][16]byte, n)
	attempts := make([]int32, n)
	prompts, completions, payouts := make([]int64, n), make([]int64, n), make([]int64, n)
	sources, units := make([]string, n), make([]int16, n)
	for i, l := range lines {
		days[i], models[i], attempts[i] = l.Day(), l.ModelID, int32(l.Attempt)
		requests[i], providers[i], versions[i] = l.RequestID, l.ProviderID, l.PriceVersionID
		prompts[i], completions[i], payouts[i] = l.Tokens.Prompt, l.Tokens.Completion, int64(l.Payout)
		sources[i], units[i] = string(l.EvidenceSource), int16(l.Unit)
	}
	return []any{days, requests, providers, attempts, models, versions, prompts, completions, payouts, sources, units}
}

func rejectedColumns(rejected []earning.Rejected) []any {
	reasons, requests, payloads := make([]string, len(rejected)), make([]string, len(rejected)),
		make([][]byte, len(rejected))
	for i, r := range rejected {
		reasons[i], requests[i] = r.Reason, r.RequestID
		payloads[i] = r.Payload[:min(len(r.Payload), maxPayloadBytes)]
	}
	return []any{reasons, requests, payloads}
}

// The lines are summed from their index. The lines that the ledger has spoken of,
// which are few, are taken out again, and what counts of them is put in. Two kinds
// of lines rest on the ledger's word alone, because nobody else has said the same
// here: a line that is filled in and not confirmed, and a line that the ledger
// overruled with another content of the same evidence source.
const selectTotals = `
WITH spoken AS (
	SELECT day, request_id FROM earning_correction WHERE day >= $1
	UNION SELECT day, request_id FROM earning_ruling WHERE day >= $1
), overruled AS (
	SELECT l.day, l.provider_id AS was_provider, l.payout_nano_usd AS was_payout, e.settled, e.provider_id,
		e.payout_nano_usd,
	       CASE WHEN l.evidence_source = 'ledger' OR
	                 e.evidence_source = l.evidence_source
	                 AND (e.provider_id, e.payout_nano_usd) <> (l.provider_id, l.payout_nano_usd)
	            THEN 1 ELSE 0 END AS alone
	FROM spoken JOIN earning_line l USING (day, request_id) JOIN earning e USING (day, request_id)
)
SELECT day, provider_id, sum(payout)::bigint, sum(lines)::bigint, sum(filled)::bigint, sum(filled_payout)::bigint FROM (
	SELECT day, provider_id, sum(payout_nano_usd) AS payout, count(*) AS lines, 0 AS filled, 0 AS filled_payout
	FROM earning_line WHERE day >= $1 GROUP BY day, provider_id
	UNION ALL SELECT day, was_provider, -was_payout, -1, 0, 0 FROM overruled
	UNION ALL SELECT day, provider_id, payout_nano_usd, 1, alone, alone * payout_nano_usd FROM overruled WHERE settled
	UNION ALL SELECT day, provider_id, 0, 0, count(*), sum(payout_nano_usd) FROM earning_line l
		WHERE day >= $1 AND evidence_source = 'ledger'
			AND NOT EXISTS (SELECT FROM earning_confirmation c WHERE c.day = l.day AND c.request_id = l.request_id)
			AND NOT EXISTS (SELECT FROM earning_correction c WHERE c.day = l.day AND c.request_id = l.request_id)
			AND NOT EXISTS (SELECT FROM earning_ruling r WHERE r.day = l.day AND r.request_id = l.request_id)
		GROUP BY day, provider_id
) AS part GROUP BY day, provider_id HAVING sum(lines) <> 0 OR sum(payout) <> 0 OR sum(filled) <> 0`

// Totals sums the lines per provider and day, from the first day on.
func (s *Store) Totals(ctx context.Context, first time.Time) ([]earning.Total, error) {
	rows, err := s.pool.Query(ctx, selectTotals, first)
	if err != nil {
		return nil, fmt.Errorf("sum earning lines: %w", err)
	}
	totals, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (earning.Total, error) {
		var t earning.Total
		var provider [16]byte
		var payout, filled int64
		err := row.Scan(&t.Day, &provider, &payout, &t.Lines, &t.Filled, &filled)
		t.ProviderID, t.Payout, t.FilledPayout = provider, money.NanoUSD(payout), money.NanoUSD(filled)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("sum earning lines: %w", err)
	}
	return totals, nil
}

// What a decision acknowledges survives a crash, whatever the server's default.
const durably = `SELECT CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
	THEN set_config('synchronous_commit', 'on', true) END`
