package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/limit"
)

// SpendLimits reads the limits of an account with its own caps and what is spent; see
// account.SpendStore.
func (s *Store) SpendLimits(ctx context.Context, id ids.AccountID) (account.SpendLimits, error) {
	return readSpendLimits(ctx, s.pool, id)
}

func readSpendLimits(ctx context.Context, q querier, id ids.AccountID) (account.SpendLimits, error) {
	var (
		l                account.SpendLimits
		day, month       limit.Spending
		dayCap, monthCap *money.NanoUSD
		tomorrow, next   time.Time
	)
	err := q.QueryRow(ctx, `SELECT coalesce(l.requests_per_minute, 0), coalesce(l.concurrent_requests, 0),
			l.day_cap, l.month_cap, l.own_day_cap, l.own_month_cap,
			least(l.day_cap, l.own_day_cap), coalesce(d.spent, 0), coalesce(d.held, 0),
			least(l.month_cap, l.own_month_cap), coalesce(m.spent, 0), coalesce(m.held, 0),
			(w.day + interval '1 day') AT TIME ZONE 'UTC', (w.month + interval '1 month') AT TIME ZONE 'UTC'
		FROM account a LEFT JOIN account_limits l ON l.account_id = a.id
		CROSS JOIN LATERAL (SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AS day,
			date_trunc('month', now() AT TIME ZONE 'UTC') AS month) w
		LEFT JOIN spend_counter d ON d.owner_id = a.id AND d.period = 'day' AND d.window_start = w.day::date
		LEFT JOIN spend_counter m ON m.owner_id = a.id AND m.period = 'month' AND m.window_start = w.month::date
		WHERE a.id = $1`, [16]byte(id)).Scan(&l.Limits.RequestsPerMinute, &l.Limits.ConcurrentRequests,
		&l.Limits.Day, &l.Limits.Month, &l.Own.Day, &l.Own.Month,
		&dayCap, &day.Spent, &day.Held, &monthCap, &month.Spent, &month.Held, &tomorrow, &next)
	if errors.Is(err, pgx.ErrNoRows) {
		return account.SpendLimits{}, account.ErrNotFound
	}
	if err != nil {
		return account.SpendLimits{}, fmt.Errorf("select limits: %w", err)
	}
	if dayCap != nil {
		day.Budget, day.ResetsAt = limit.Budget{Amount: *dayCap, Period: limit.Day}, tomorrow
		l.Day = &day
	}
	if monthCap != nil {
		month.Budget, month.ResetsAt = limit.Budget{Amount: *monthCap, Period: limit.Month}, next
		l.Month = &month
	}
	return l, nil
}

// SetOwnCaps replaces an account's own caps; see account.SpendStore. It holds the lock on the
// wallet, so every later admission sees them.
func (s *Store) SetOwnCaps(
	ctx context.Context, id ids.AccountID, caps limit.Caps,
) (set account.SpendLimits, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM wallet WHERE account_id = $1 FOR UPDATE`, [16]byte(id)); err != nil {
			return fmt.Errorf("lock wallet: %w", err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO account_limits (account_id, requests_per_minute, concurrent_requests,
				own_day_cap, own_month_cap)
			SELECT id, 0, 0, $2, $3 FROM account WHERE id = $1
			ON CONFLICT (account_id) DO UPDATE SET own_day_cap = excluded.own_day_cap,
				own_month_cap = excluded.own_month_cap`,
			[16]byte(id), (*int64)(caps.Day), (*int64)(caps.Month)); err != nil {
			return fmt.Errorf("upsert caps: %w", err)
		}
		set, err = readSpendLimits(ctx, tx, id)
		return err
	})
	return set, err
}
