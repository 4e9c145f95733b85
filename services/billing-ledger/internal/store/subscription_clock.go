package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/subscription"
)

// tick does what the clock does to a subscription, whose wallet is locked.
func tick(
	ctx context.Context, tx pgx.Tx, b subscription.Subscription, now time.Time,
) (subscription.Subscription, error) {
	for {
		trigger, cause, moves := b.Tick(now)
		if !moves {
			return b, lookAgain(ctx, tx, b, now)
		}
		to, err := b.State.After(trigger)
		if err != nil {
			return b, err
		}
		if to == subscription.Ended {
			return endSubscriptionRow(ctx, tx, b, cause, now)
		}
		if _, err := tx.Exec(ctx, `UPDATE subscription SET state = $2 WHERE id = $1`, b.ID, to); err != nil {
			return b, fmt.Errorf("move a subscription: %w", err)
		}
		b.State = to
	}
}

// pagePause is the pause between two looks at a page that is over, until the card worker has said
// whether it was paid.
const pagePause = 5 * time.Minute

// lookAgain has the clock looked at when the next change is due.
func lookAgain(ctx context.Context, tx pgx.Tx, b subscription.Subscription, now time.Time) error {
	due := now.Add(pagePause)
	switch {
	case b.State == subscription.Active, b.State == subscription.PastDue && b.Cancel:
		due = b.PeriodEnd
	case b.State == subscription.PastDue:
		due = b.PeriodEnd.Add(subscription.Grace)
	}
	if _, err := tx.Exec(ctx, `UPDATE subscription SET due_at = $2 WHERE id = $1 AND state <> 'ended'`, b.ID,
		due); err != nil {
		return fmt.Errorf("have a subscription looked at: %w", err)
	}
	return nil
}

// endSubscriptionRow ends a subscription and its plan. The card processor is told at once, or, of
// one that was not paid in time, when it has tried the card for long enough.
func endSubscriptionRow(
	ctx context.Context, tx pgx.Tx, b subscription.Subscription, cause subscription.Cause, now time.Time,
) (subscription.Subscription, error) {
	tell := now
	if cause == subscription.Unpaid {
		tell = b.PeriodEnd.Add(subscription.RetryFor)
	}
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE subscription SET state = 'ended', cause = $2, ended_at = $3, due_at = NULL, tell_at = $4
		WHERE id = $1`, b.ID, cause, now, tell)
	batch.Queue(`UPDATE account_plan SET until_at = greatest(from_at, $3) WHERE subscription_id = $1 AND account_id = $2
		AND until_at > $3`, b.ID, b.Account, now)
	if err := sendAll(ctx, tx, batch); err != nil {
		return b, fmt.Errorf("end a subscription: %w", err)
	}
	b.State, b.Cause = subscription.Ended, cause
	return b, nil
}

// TakeDue implements subscription.Store.
func (s Subscriptions) TakeDue(ctx context.Context, limit int) ([]subscription.Subscription, error) {
	return s.take(ctx, `WITH due AS (
			SELECT id FROM subscription WHERE due_at <= (SELECT now()) ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
		), b AS (
			UPDATE subscription s SET due_at = now() + interval '1 minute' FROM due WHERE s.id = due.id RETURNING s.*
		) `, limit)
}

// take takes subscriptions by statements that end with one named b.
func (s Subscriptions) take(ctx context.Context, with string, limit int) ([]subscription.Subscription, error) {
	rows, err := s.pool.Query(ctx, with+`SELECT `+subscriptionColumns+` FROM b JOIN checkout c ON c.id = b.checkout_id`,
		limit)
	if err != nil {
		return nil, fmt.Errorf("take subscriptions: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanSubscription)
	if err != nil {
		return nil, fmt.Errorf("take subscriptions: %w", err)
	}
	return list, nil
}

// Tick implements subscription.Store.
func (s Subscriptions) Tick(ctx context.Context, b subscription.Subscription) error {
	return s.underWallet(ctx, b.Account, func(tx pgx.Tx, now time.Time) ([]ids.EntryID, error) {
		b, err := firstSubscription(ctx, tx, `b.id = $1 AND b.state <> 'ended'`, b.ID)
		if errors.Is(err, subscription.ErrNone) {
			return nil, nil
		}
		if err == nil {
			_, err = tick(ctx, tx, b, now)
		}
		return nil, err
	})
}

// TakeTells implements subscription.Store. What goes on under another subscription is not ended.
func (s Subscriptions) TakeTells(ctx context.Context, limit int) ([]subscription.Subscription, error) {
	return s.take(ctx, `WITH due AS (
			SELECT id FROM subscription WHERE tell_at <= (SELECT now()) ORDER BY tell_at LIMIT $1 FOR UPDATE SKIP LOCKED
		), taken AS (
			UPDATE subscription s SET tell_at = CASE WHEN s.object_id IS NOT NULL AND NOT EXISTS (SELECT FROM subscription o
				WHERE o.checkout_id = s.checkout_id AND o.state <> 'ended' AND o.id <> s.id)
				THEN now() + interval '1 minute' END
			FROM due WHERE s.id = due.id RETURNING s.*
		), b AS (SELECT * FROM taken WHERE tell_at IS NOT NULL) `, limit)
}

// Told implements subscription.Store.
func (s Subscriptions) Told(ctx context.Context, b subscription.Subscription) error {
	if _, err := s.pool.Exec(ctx, `UPDATE subscription SET tell_at = NULL
		WHERE id = $1 AND state = $2 AND cancel_at_period_end = $3`, b.ID, b.State, b.Cancel); err != nil {
		return fmt.Errorf("note what a card processor was told: %w", err)
	}
	return nil
}
