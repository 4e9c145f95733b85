package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/plan"
)

// Subscribe puts an account on a plan; see plan.Store. It holds the lock on the wallet,
// so no request of the account is admitted meanwhile. It reads the time after taking that
// lock, so two plans never overlap.
func (s *Store) Subscribe(ctx context.Context, account ids.AccountID, name string, until time.Time) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		locked, err := tx.Exec(ctx, `SELECT FROM wallet WHERE account_id = $1 FOR UPDATE`, [16]byte(account))
		if err != nil {
			return fmt.Errorf("lock wallet: %w", err)
		}
		if locked.RowsAffected() == 0 {
			return plan.ErrNoAccount
		}
		var now time.Time
		var known bool
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp(), EXISTS (SELECT FROM plan WHERE id = $1)`, name).Scan(&now,
			&known); err != nil {
			return fmt.Errorf("look for plan: %w", err)
		}
		switch {
		case name != "" && !known:
			return plan.ErrNoPlan
		case !until.IsZero() && !until.After(now):
			return plan.ErrPast
		case name == "":
			ended, err := endPlan(ctx, tx, account, now)
			if err != nil || !ended {
				return err
			}
			return addAct(ctx, tx, setPlan, [16]byte(account), details{"plan": ""})
		}
		did := details{"plan": name, "until": nullTime(until)}
		kept, another, err := moveEnd(ctx, tx, account, name, now, until)
		switch {
		case err != nil:
			return err
		case another:
			return addAct(ctx, tx, setPlan, [16]byte(account), did)
		case kept:
			return nil
		}
		if _, err := endPlan(ctx, tx, account, now); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO account_plan (account_id, plan_id, from_at, until_at) VALUES ($1, $2, $3, $4)`,
			[16]byte(account), name, now, nullTime(until)); err != nil {
			return fmt.Errorf("insert plan: %w", err)
		}
		return addAct(ctx, tx, setPlan, [16]byte(account), did)
	})
}

// moveEnd moves the end of the plan in force, if an operator gave that plan and it has this name.
// kept reports whether the plan stands, and another reports whether its end has moved. What a subscription pays for
// ends where an operator's plan begins.
func moveEnd(
	ctx context.Context, tx pgx.Tx, account ids.AccountID, name string, now, until time.Time,
) (kept, another bool, err error) {
	var same bool
	err = tx.QueryRow(ctx, `SELECT until_at IS NOT DISTINCT FROM $4 FROM account_plan
		WHERE account_id = $1 AND plan_id = $2 AND from_at <= $3 AND (until_at IS NULL OR until_at > $3)
			AND subscription_id IS NULL`,
		[16]byte(account), name, now, nullTime(until)).Scan(&same)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("look for the plan in force: %w", err)
	case same:
		return true, false, nil
	}
	if _, err := tx.Exec(ctx, `UPDATE account_plan SET until_at = $4
		WHERE account_id = $1 AND plan_id = $2 AND from_at <= $3 AND (until_at IS NULL OR until_at > $3)
			AND subscription_id IS NULL`, [16]byte(account), name, now, nullTime(until)); err != nil {
		return false, false, fmt.Errorf("move the end of a plan: %w", err)
	}
	return true, true, nil
}

// endPlan ends the plan in force and reports whether there was one.
func endPlan(ctx context.Context, tx pgx.Tx, account ids.AccountID, now time.Time) (ended bool, err error) {
	tag, err := tx.Exec(ctx, `UPDATE account_plan SET until_at = greatest(from_at, $2)
		WHERE account_id = $1 AND (until_at IS NULL OR until_at > $2)`, [16]byte(account), now)
	if err != nil {
		return false, fmt.Errorf("end a plan: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

// Subscription returns the plan in force; see plan.Store.
func (s *Store) Subscription(ctx context.Context, account ids.AccountID) (*plan.Subscription, error) {
	var sub plan.Subscription
	var until *time.Time
	err := s.pool.QueryRow(ctx, `SELECT plan_id, from_at, until_at FROM account_plan
		WHERE account_id = $1 AND from_at <= now() AND (until_at IS NULL OR until_at > now())`, [16]byte(account)).
		Scan(&sub.Plan, &sub.From, &until)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("select plan: %w", err)
	}
	if until != nil {
		sub.Until = *until
	}
	rows, err := s.pool.Query(ctx, selectCounters, [16]byte(account), sub.Plan)
	if err != nil {
		return nil, fmt.Errorf("select counters: %w", err)
	}
	sub.Counters, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (plan.Counter, error) {
		var c plan.Counter
		var end *time.Time
		err := row.Scan(&c.Kind, &c.Period, &c.Used, &c.Cap, &c.Enabled, &end)
		if end != nil {
			c.WindowEnd = *end
		}
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("select counters: %w", err)
	}
	return &sub, nil
}

// The rate counts the requests that it has not given back yet, as admit does. Its window
// ends when it has given back all of them.
const selectCounters = `SELECT l.kind, l.period, coalesce(CASE
		WHEN l.kind = 'concurrent' THEN g.open
		WHEN l.period = 'minute' AND g.full_at < now() + interval '2 minutes' THEN
			ceil(greatest(extract(epoch FROM g.full_at - now()), 0) * 1000000
			/ ((59999999 + greatest(l.cap, 1)) / greatest(l.cap, 1)))
		ELSE c.used END, 0)::bigint,
	l.cap, l.enabled,
	CASE WHEN l.period = 'minute' THEN greatest(g.full_at, now())
		WHEN l.period <> 'none' THEN (w.start + ('1 ' || l.period)::interval) AT TIME ZONE 'UTC' END
FROM plan_limit l
CROSS JOIN LATERAL (SELECT CASE WHEN l.period <> 'none' THEN date_trunc(l.period, now() AT TIME ZONE 'UTC')
	END AS start) w
LEFT JOIN plan_gate g ON g.account_id = $1
LEFT JOIN plan_counter c ON c.account_id = $1 AND c.kind = l.kind AND c.period = l.period
	AND c.window_start = w.start::date
WHERE l.plan_id = $2 ORDER BY l.kind, l.period`
