package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Refund refunds a settled request, once. A repeat for the same cause returns the first
// entry. A repeat for another cause is refund.ErrRefunded.
func (s *Store) Refund(
	ctx context.Context, id ids.EntryID, request ids.RequestID, cause usage.RefundCause, memo string,
) (ids.EntryID, error) {
	return s.refund(ctx, id, request, cause, memo, refundHooks{
		allow: func(usage.Refundable) error { return nil }, also: func(pgx.Tx) error { return nil },
	})
}

// refundHooks are what a caller adds to a refund: allow refuses a request, and also writes more
// in the same transaction, the first time.
type refundHooks struct {
	allow func(usage.Refundable) error
	also  func(pgx.Tx) error
}

func (s *Store) refund(
	ctx context.Context, id ids.EntryID, request ids.RequestID, cause usage.RefundCause, memo string, by refundHooks,
) (ids.EntryID, error) {
	posted := id
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		charge, err := readCharge(ctx, tx, request)
		if err != nil {
			return err
		}
		if err := by.allow(charge); err != nil {
			return err
		}
		// Two refunds of one request wait for each other here.
		if _, err := tx.Exec(ctx, `SELECT FROM wallet WHERE account_id = $1 FOR UPDATE`,
			[16]byte(charge.Account)); err != nil {
			return fmt.Errorf("lock wallet: %w", err)
		}
		first, err := refundedBefore(ctx, tx, request, cause)
		if err != nil || !first.IsZero() {
			posted = first
			return err
		}
		if err := lockEarnings(ctx, tx, charge.Provider); err != nil {
			return err
		}
		if cause == usage.ProviderFault {
			// Earnings that the provider gives back are not held any more.
			if err := endHeld(ctx, tx, request, earning.Refunded, request.String()); err != nil {
				return err
			}
		}
		has, err := readEarnings(ctx, tx, charge.Provider)
		if err != nil {
			return err
		}
		entry, err := usage.RefundEntry(id, charge, cause, has, memo)
		if err != nil {
			return err
		}
		if _, err := post(ctx, tx, []ledger.Entry{entry}, nil); err != nil {
			return err
		}
		posted = id
		return by.also(tx)
	})
	return posted, err
}

func readCharge(ctx context.Context, tx pgx.Tx, request ids.RequestID) (usage.Refundable, error) {
	c := usage.Refundable{Request: request}
	var account, provider [16]byte
	err := tx.QueryRow(ctx,
		`SELECT account_id, provider_id, charged, payout, vendor FROM usage_settlement WHERE day = $1 AND request_id = $2`,
		request.Day(), [16]byte(request)).Scan(&account, &provider, &c.Charged, &c.Payout, &c.Vendor)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, usage.ErrNothingCharged
	}
	if err != nil {
		return c, fmt.Errorf("read the settled request: %w", err)
	}
	c.Account, c.Provider = account, provider
	return c, nil
}

func refundedBefore(
	ctx context.Context, tx pgx.Tx, request ids.RequestID, cause usage.RefundCause,
) (ids.EntryID, error) {
	var id [16]byte
	var kind string
	err := tx.QueryRow(ctx,
		`SELECT id, kind FROM entry WHERE business_id = $1
			AND kind IN ('request_refund', 'goodwill_refund', 'broken_answer')`,
		request.String()).Scan(&id, &kind)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ids.EntryID{}, nil
	case err != nil:
		return ids.EntryID{}, fmt.Errorf("look for a refund: %w", err)
	case ledger.EntryKind(kind) != cause.Kind():
		return ids.EntryID{}, usage.ErrRefunded
	}
	return id, nil
}

// readEarnings reads a provider's balance, as the last snapshot and what was recorded
// since, and how much of it is held. The earnings are locked.
func readEarnings(ctx context.Context, tx pgx.Tx, provider ids.ProviderID) (usage.Earnings, error) {
	var e usage.Earnings
	err := tx.QueryRow(ctx, `SELECT coalesce(sum(balance) FILTER (WHERE kind = 'l:provider:accrued'), 0)::bigint,
			coalesce(sum(balance) FILTER (WHERE kind = 'l:provider:payable'), 0)::bigint,
			(SELECT coalesce(sum(payout), 0)::bigint FROM held_earning WHERE provider_id = $1 AND book = '' AND ended_as IS NULL)
		FROM (
			SELECT k.kind, last.balance FROM (VALUES ('l:provider:accrued'), ('l:provider:payable')) AS k (kind)
			CROSS JOIN LATERAL (SELECT b.balance FROM balance_snapshot b
				WHERE b.account_kind = k.kind AND b.owner_id = $1 AND b.book = '' AND b.asset = 'usd' ORDER BY b.day DESC
					LIMIT 1) last
			UNION ALL
			SELECT l.account_kind, l.amount FROM ledger_leg l
			WHERE l.account_kind IN ('l:provider:accrued', 'l:provider:payable') AND l.owner_id = $1 AND l.asset = 'usd'
				AND l.at >= coalesce(((SELECT max(day) FROM seal) + 1)::timestamp AT TIME ZONE 'UTC', '-infinity')
		) legs`, [16]byte(provider)).Scan(&e.Accrued, &e.Payable, &e.Held)
	if err != nil {
		return usage.Earnings{}, fmt.Errorf("read earnings: %w", err)
	}
	return e, nil
}
