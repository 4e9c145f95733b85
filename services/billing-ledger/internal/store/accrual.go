package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Accruals sums the providers' credits by day and provider, after a place in that order;
// see accrual.Store. Orphan work counts as well: an entry credited its provider instead
// of the line. Vendors are left out, because nothing accrues to them.
func (s *Store) Accruals(ctx context.Context, after earning.AccrualCursor, limit int) ([]earning.Accrual, error) {
	rows, err := s.pool.Query(ctx, `SELECT day, provider_id, sum(payout)::bigint, count(*)
		FROM usage_settlement
		WHERE day >= $1 AND (day, provider_id) > ($1, $2) AND NOT vendor
		GROUP BY day, provider_id ORDER BY day, provider_id LIMIT $3`,
		after.Day, [16]byte(after.Provider), limit)
	if err != nil {
		return nil, fmt.Errorf("sum accruals: %w", err)
	}
	var (
		out              []earning.Accrual
		day              time.Time
		provider         [16]byte
		payout, requests int64
	)
	_, err = pgx.ForEachRow(rows, []any{&day, &provider, &payout, &requests}, func() error {
		out = append(out, earning.Accrual{
			AccrualCursor: earning.AccrualCursor{Day: day, Provider: ids.ProviderID(provider)},
			Payout:        nano(payout), Requests: requests,
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sum accruals: %w", err)
	}
	return out, nil
}

// settledDays is the number of days after its making within which SettledAfter lists a
// request: the default of how long a request is kept once it has ended, because a review
// may settle a request weeks after it was made. It lets the planner leave out all other
// partitions.
const settledDays = 35

// SettledAfter lists settled requests in the order of settling, by the
// database's clock; see earning.SettledStore.
func (s *Store) SettledAfter(
	ctx context.Context, after earning.SettledCursor, age time.Duration, limit int,
) ([]earning.Settled, error) {
	rows, err := s.pool.Query(ctx, `SELECT settled_at, request_id, provider_id, price_version_id, model_id, attempt,
			prompt_tokens, completion_tokens, unit, input_rate, output_rate, payout_input_rate, payout_output_rate,
			payout, evidence_source
		FROM usage_settlement
		WHERE settled_at >= $1 AND (settled_at, request_id) > ($1, $2) AND NOT vendor
			AND settled_at <= now() - $3::interval
			AND day BETWEEN ($1 AT TIME ZONE 'UTC')::date - $4::integer AND (now() AT TIME ZONE 'UTC')::date + 1
		ORDER BY settled_at, request_id LIMIT $5`,
		after.At, [16]byte(after.Request), age, settledDays, limit)
	if err != nil {
		return nil, fmt.Errorf("list settled requests: %w", err)
	}
	settled, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (earning.Settled, error) {
		var r earning.Settled
		var request, provider, price [16]byte
		var payout int64
		var source string
		err := row.Scan(&r.At, &request, &provider, &price, &r.Model, &r.Attempt,
			&r.Billable.Prompt, &r.Billable.Completion, &r.Rates.Unit, &r.Rates.Input, &r.Rates.Output,
			&r.Rates.PayoutInput, &r.Rates.PayoutOutput, &payout, &source)
		r.Request, r.Provider, r.Price = request, ids.ProviderID(provider), price
		r.Payout, r.EvidenceSource = money.NanoUSD(payout), usage.EvidenceSource(source)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("list settled requests: %w", err)
	}
	return settled, nil
}
