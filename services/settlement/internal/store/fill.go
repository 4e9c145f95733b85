package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/earning"
	"svc.internal/services/settlement/internal/fill"
)

// columns is a batch of lines as lineColumns turns it.
const columns = `
FROM unnest($1::date[], $2::uuid[], $3::uuid[], $4::int[], $5::text[], $6::uuid[],
            $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::smallint[])
     AS i(day, request_id, provider_id, attempt, model_id, price_version_id,
          prompt_tokens, completion_tokens, payout_nano_usd, witness, unit)`

// Nearly all lines stand already, so they are looked for before anything is
// locked or written.
const insertFilled = `
INSERT INTO earning_line (day, request_id, provider_id, attempt, model_id, price_version_id,
                          prompt_tokens, completion_tokens, payout_nano_usd, witness, unit)
SELECT i.day, i.request_id, i.provider_id, i.attempt, i.model_id, i.price_version_id,
       i.prompt_tokens, i.completion_tokens, i.payout_nano_usd, 'ledger', i.unit` + columns + `
WHERE NOT EXISTS (SELECT FROM earning_line l WHERE l.day = i.day AND l.request_id = i.request_id)
ORDER BY i.day, i.request_id
ON CONFLICT (day, request_id) DO NOTHING
RETURNING request_id`

// Usage that says what a filled line says confirms it.
const insertConfirmations = `
INSERT INTO earning_confirmation (day, request_id, witness)
SELECT i.day, i.request_id, i.witness` + columns + `
JOIN earning_line l USING (day, request_id)
WHERE l.witness = 'ledger' AND (l.provider_id, l.payout_nano_usd) = (i.provider_id, i.payout_nano_usd)
ORDER BY i.day, i.request_id
ON CONFLICT (day, request_id) DO NOTHING`

// Fill adds the lines that are missing, and corrects those that rest on another
// witness than the ledger's and differ from it in money; see fill.Book. Each
// line's Witness is that by which the ledger settled.
func (s *Store) Fill(ctx context.Context, lines []earning.Line) (fill.Outcome, error) {
	var out fill.Outcome
	err := pg.Retry(ctx, func() error {
		var filled []ids.RequestID
		out = fill.Outcome{}
		batch := &pgx.Batch{}
		batch.Queue(secure)
		batch.Queue(insertFilled, lineColumns(lines)...).Query(collect(&filled))
		batch.Queue(insertCorrections, lineColumns(lines)...).Query(collect(&out.Corrected))
		err := s.pool.SendBatch(ctx, batch).Close()
		out.Filled = len(filled)
		return err
	})
	if err != nil {
		return fill.Outcome{}, fmt.Errorf("insert what is missing of %d earning lines: %w", len(lines), err)
	}
	return out, nil
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
