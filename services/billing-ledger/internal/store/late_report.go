package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/usage"
)

// LateReports finds requests for usage.CorrectLateReports. A report is late when its
// request was settled before it arrived, so an hour is more than enough to find it.
func (s *Store) LateReports(ctx context.Context, limit int) ([]usage.LateReport, error) {
	rows, err := s.pool.Query(ctx,
		`SELECT s.request_id, s.account_id, s.unit, s.input_rate, s.output_rate, s.payout_input_rate, s.payout_output_rate,
			s.charged, h.discount, s.completion_tokens, w.relayed_tokens, w.relayed_bytes
		FROM request_report w JOIN usage_settlement s ON s.request_id = w.request_id AND s.day = date '1970-01-01'
			+ (('x' || left(replace(w.request_id::text, '-', ''), 12))::bit(48)::bigint / 86400000)::integer
		JOIN hold h ON h.request_id = w.request_id
		WHERE w.outcome = 'failed' AND w.committed_attempt > 0 AND w.metered_prompt IS NULL
			AND w.recorded_at > now() - interval '1 hour' AND s.evidence_source <> 'gateway' AND s.source = 'payg'
			AND s.charged > round(least(w.relayed_tokens, w.relayed_bytes, s.completion_tokens)
					* s.output_rate::numeric / 1000 * (10000 - h.discount) / 10000)
				+ 1
			AND NOT EXISTS (SELECT FROM entry e WHERE e.business_id = w.request_id::text
				AND e.kind IN ('request_refund', 'goodwill_refund', 'broken_answer'))
		ORDER BY w.recorded_at LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("find late reports: %w", err)
	}
	late, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (usage.LateReport, error) {
		var l usage.LateReport
		var request, account [16]byte
		err := row.Scan(&request, &account, &l.Rates.Unit, &l.Rates.Input, &l.Rates.Output, &l.Rates.PayoutInput,
			&l.Rates.PayoutOutput,
			&l.Charged, &l.Discount, &l.Completion, &l.Relayed.Tokens, &l.Relayed.Bytes)
		l.Request, l.Account = request, account
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("find late reports: %w", err)
	}
	return late, nil
}
