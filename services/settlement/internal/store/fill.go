package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/earning"
	"svc.internal/services/settlement/internal/fill"
	"svc.internal/services/settlement/internal/reconcile"
)

// columns is a batch of lines as lineColumns turns it.
const columns = `
FROM unnest($1::date[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::uuid[],
            $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::smallint[])
     AS i(day, request_id, provider_id, attempt, model_id, price_version_id,
          prompt_tokens, completion_tokens, payout_nano_usd, evidence_source, unit)`

// Nearly all lines stand already, so they are looked for before anything is
// locked or written.
const insertFilled = `
INSERT INTO earning_line (day, request_id, provider_id, attempt, model_id, price_version_id,
                          prompt_tokens, completion_tokens, payout_nano_usd, evidence_source, unit)
SELECT i.day, i.request_id, i.provider_id, i.attempt, i.model_id, i.price_version_id,
       i.prompt_tokens, i.completion_tokens, i.payout_nano_usd, 'ledger', i.unit` + columns + `
WHERE NOT EXISTS (SELECT FROM earning_line l WHERE l.day = i.day AND l.request_id = i.request_id)
ORDER BY i.day, i.request_id
ON CONFLICT (day, request_id) DO NOTHING
RETURNING request_id`

// Usage that says what a filled line says confirms it.
const insertConfirmations = `
INSERT INTO earning_confirmation (day, request_id, evidence_source)
SELECT i.day, i.request_id, i.evidence_source` + columns + `
JOIN earning_line l USING (day, request_id)
WHERE l.evidence_source = 'ledger' AND (l.provider_id, l.payout_nano_usd) = (i.provider_id, i.payout_nano_usd)
ORDER BY i.day, i.request_id
ON CONFLICT (day, request_id) DO NOTHING`

// insertRulings overrules what counts of a line that the ledger has spoken of
// before. Of two that do it at once only one gets the number.
const insertRulings = `
INSERT INTO earning_ruling (day, request_id, ruling, settled, evidence_source,
                            provider_id, attempt, model_id, price_version_id,
                            prompt_tokens, completion_tokens, payout_nano_usd, unit)
SELECT e.day, e.request_id, e.rulings + 1, true, i.evidence_source,
       i.provider_id, i.attempt, i.model_id, i.price_version_id,
       i.prompt_tokens, i.completion_tokens, i.payout_nano_usd, i.unit` + columns + `
JOIN earning e USING (day, request_id)
WHERE e.overruled AND (NOT e.settled OR
      (e.provider_id, e.attempt, e.model_id, e.price_version_id, e.prompt_tokens, e.completion_tokens,
       e.payout_nano_usd, e.unit)
   <> (i.provider_id, i.attempt, i.model_id, i.price_version_id, i.prompt_tokens, i.completion_tokens,
       i.payout_nano_usd, i.unit))
ORDER BY e.day, e.request_id
ON CONFLICT (day, request_id, ruling) DO NOTHING
RETURNING request_id`

// Fill adds the lines that are missing, and has the ledger's word take the place
// of whatever else counts of the others; see fill.Store. Each line's EvidenceSource is
// that by which the ledger settled.
func (s *Store) Fill(ctx context.Context, lines []earning.Line) (fill.Outcome, error) {
	var out fill.Outcome
	err := pg.Retry(ctx, func() error {
		var filled []ids.RequestID
		out = fill.Outcome{}
		batch := &pgx.Batch{}
		batch.Queue(secure)
		batch.Queue(insertFilled, lineColumns(lines)...).Query(collect(&filled))
		batch.Queue(insertCorrections, lineColumns(lines)...).Query(collect(&out.Corrected))
		batch.Queue(insertRulings, lineColumns(lines)...).Query(collect(&out.Corrected))
		err := s.pool.SendBatch(ctx, batch).Close()
		out.Filled = len(filled)
		return err
	})
	if err != nil {
		return fill.Outcome{}, fmt.Errorf("insert what is missing of %d earning lines: %w", len(lines), err)
	}
	return out, nil
}

// A request's id begins with its time, so the order of ids is that of days.
const selectSuspects = `
SELECT l.request_id
FROM unnest($1::date[], $2::uuid[]) AS s(day, provider_id)
JOIN earning_line l USING (day, provider_id)
WHERE l.request_id > $3
  AND NOT EXISTS (SELECT FROM earning_correction c WHERE c.day = l.day AND c.request_id = l.request_id)
  AND NOT EXISTS (SELECT FROM earning_ruling r WHERE r.day = l.day AND r.request_id = l.request_id)
ORDER BY l.request_id LIMIT $4`

// Suspects lists requests of some slots in the order of their ids; see fill.Store.
func (s *Store) Suspects(
	ctx context.Context, slots []reconcile.Slot, after ids.RequestID, limit int,
) ([]ids.RequestID, error) {
	days, providers := make([]time.Time, len(slots)), make([][16]byte, len(slots))
	for i, slot := range slots {
		days[i], providers[i] = slot.Day, slot.ProviderID
	}
	rows, err := s.pool.Query(ctx, selectSuspects, days, providers, [16]byte(after), limit)
	var suspects []ids.RequestID
	if err == nil {
		err = collect(&suspects)(rows)
	}
	if err != nil {
		return nil, fmt.Errorf("list the earning lines of %d slots: %w", len(slots), err)
	}
	return suspects, nil
}

// Only a line that the ledger has never spoken of is excluded.
const insertHeldOut = `
INSERT INTO earning_ruling (day, request_id, ruling, settled)
SELECT l.day, l.request_id, 1, false
FROM unnest($1::date[], $2::uuid[]) AS i(day, request_id)
JOIN earning_line l USING (day, request_id)
WHERE NOT EXISTS (SELECT FROM earning_correction c WHERE c.day = l.day AND c.request_id = l.request_id)
ORDER BY l.day, l.request_id
ON CONFLICT (day, request_id, ruling) DO NOTHING
RETURNING request_id`

// heldAtOnce bounds a transaction of Exclude.
const heldAtOnce = 1_000

// Exclude has the lines of some requests count for nothing; see fill.Store.
func (s *Store) Exclude(ctx context.Context, requests []ids.RequestID) ([]ids.RequestID, error) {
	var held []ids.RequestID
	for part := range slices.Chunk(requests, heldAtOnce) {
		days, requests := make([]time.Time, len(part)), make([][16]byte, len(part))
		for i, id := range part {
			days[i], requests[i] = id.Day(), id
		}
		var now []ids.RequestID
		err := pg.Retry(ctx, func() error {
			now = nil
			batch := &pgx.Batch{}
			batch.Queue(secure)
			batch.Queue(insertHeldOut, days, requests).Query(collect(&now))
			return s.pool.SendBatch(ctx, batch).Close()
		})
		if err != nil {
			return held, fmt.Errorf("hold out %d earning lines: %w", len(part), err)
		}
		held = append(held, now...)
	}
	return held, nil
}

// confirm notes which filled lines usage has confirmed. The ledger's own word
// confirms nothing.
func (s *Store) confirm(ctx context.Context, lines []earning.Line) error {
	lines = slices.DeleteFunc(lines, func(l earning.Line) bool { return l.Settled })
	if len(lines) == 0 {
		return nil
	}
	_, err := s.pool.Exec(ctx, insertConfirmations, lineColumns(lines)...)
	return err
}
