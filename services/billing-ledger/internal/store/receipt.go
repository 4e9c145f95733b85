package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/receipt"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Receipt joins the rows of a request; see receipt.Store.
func (s *Store) Receipt(ctx context.Context, request ids.RequestID, account ids.AccountID) (*receipt.Receipt, error) {
	r, err := s.readHold(ctx, request, account)
	if errors.Is(err, pgx.ErrNoRows) {
		r, err = s.readCleared(ctx, request, account)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("select hold: %w", err)
	}
	if r.Usage, err = s.readUsage(ctx, request); err != nil {
		return nil, fmt.Errorf("select usage: %w", err)
	}
	if r.Report, err = s.readReport(ctx, request); err != nil {
		return nil, fmt.Errorf("select report: %w", err)
	}
	return r, nil
}

func (s *Store) readHold(ctx context.Context, request ids.RequestID, account ids.AccountID) (*receipt.Receipt, error) {
	r := &receipt.Receipt{Request: request}
	var price [16]byte
	var state, billing string
	err := s.pool.QueryRow(ctx, `SELECT model_id, state, billing_type, price_version_id, pinned, admitted_at,
			unit, input_rate, output_rate, payout_input_rate, payout_output_rate
		FROM hold WHERE request_id = $1 AND account_id = $2`, [16]byte(request), [16]byte(account)).
		Scan(&r.Model, &state, &billing, &price, &r.Pinned, &r.AdmittedAt,
			&r.Rates.Unit, &r.Rates.Input, &r.Rates.Output, &r.Rates.PayoutInput, &r.Rates.PayoutOutput)
	if err != nil {
		return nil, err
	}
	r.Price, r.State, r.Billing = price, hold.State(state), hold.BillingType(billing)
	return r, nil
}

// readCleared reads a request of a cleared day, of which only the settled line is left,
// without the gateway's report. The time inside its id stands for its admission. The line
// of orphan work does not say how the request would have been paid for; nothing was
// charged.
func (s *Store) readCleared(
	ctx context.Context, request ids.RequestID, account ids.AccountID,
) (*receipt.Receipt, error) {
	r := &receipt.Receipt{Request: request, AdmittedAt: request.Time()}
	var price [16]byte
	var source string
	err := s.pool.QueryRow(ctx, `SELECT model_id, source, price_version_id, route_mode = 'explicit',
			unit, input_rate, output_rate, payout_input_rate, payout_output_rate
		FROM usage_settlement WHERE day = $1 AND request_id = $2 AND account_id = $3 AND request_id < kept_from()`,
		request.Day(), [16]byte(request), [16]byte(account)).
		Scan(&r.Model, &source, &price, &r.Pinned,
			&r.Rates.Unit, &r.Rates.Input, &r.Rates.Output, &r.Rates.PayoutInput, &r.Rates.PayoutOutput)
	if err != nil {
		return nil, err
	}
	r.Price, r.State, r.Billing = price, hold.Settled, hold.BillingType(source)
	if usage.Source(source) == usage.Orphan {
		r.State, r.Billing = hold.Expired, hold.PayAsYouGo
	}
	return r, nil
}

func (s *Store) readUsage(ctx context.Context, request ids.RequestID) (*receipt.Usage, error) {
	u := &receipt.Usage{}
	var provider [16]byte
	var charged, discount int64
	err := s.pool.QueryRow(ctx, `SELECT charged, discount, prompt_tokens, completion_tokens, claimed_prompt,
			claimed_completion, recounted_completion, provider_id, attempt, ending, route_mode, requested_provider, fallback_reason,
			first_content_ms, settled_at, coalesce(connection_mode, 1)
		FROM usage_settlement WHERE day = $1 AND request_id = $2`, request.Day(), [16]byte(request)).
		Scan(&charged, &discount, &u.Billable.Prompt, &u.Billable.Completion, &u.Claimed.Prompt, &u.Claimed.Completion,
			&u.RecountedCompletion, &provider, &u.Attempt, &u.Ending, &u.RouteMode, &u.RequestedProvider, &u.FallbackReason,
			&u.FirstContentMS, &u.SettledAt, &u.Mode)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	u.Provider, u.Charged, u.Discount = provider, money.NanoUSD(charged), money.NanoUSD(discount)
	return u, nil
}

func (s *Store) readReport(ctx context.Context, request ids.RequestID) (*hold.RequestReport, error) {
	w := &hold.RequestReport{Request: request}
	var attempts []byte
	var received *time.Time
	var continued *[16]byte
	err := s.pool.QueryRow(ctx, `SELECT outcome, committed_attempt, relayed_tokens, relayed_bytes, http_status, error_code,
			route_mode, requested_provider, fallback_reason, stream, attempts, received_at, first_content_ms, total_ms,
			continued_as
		FROM request_report WHERE request_id = $1`, [16]byte(request)).
		Scan(&w.Outcome, &w.CommittedAttempt, &w.RelayedTokens, &w.RelayedBytes, &w.HTTPStatus, &w.ErrorCode,
			&w.RouteMode, &w.RequestedProvider, &w.FallbackReason, &w.Stream, &attempts, &received, &w.FirstContentMS,
			&w.TotalMS, &continued)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if received != nil {
		w.ReceivedAt = *received
	}
	if continued != nil {
		w.ContinuedAs = *continued
	}
	if err := json.Unmarshal(attempts, &w.Attempts); err != nil {
		return nil, fmt.Errorf("decode attempts: %w", err)
	}
	return w, nil
}
