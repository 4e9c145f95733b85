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

// Begin implements subscription.Store.
func (s Subscriptions) Begin(
	ctx context.Context, b subscription.Subscription,
) (stands subscription.Subscription, err error) {
	err = s.underWallet(ctx, b.Account, func(tx pgx.Tx, now time.Time) (_ []ids.EntryID, err error) {
		if taken, err := operatorsPlan(ctx, tx, b.Account, now); err != nil || taken {
			return nil, errors.Join(err, errWhere(taken, subscription.ErrHasPlan))
		}
		if err := endIncomplete(ctx, tx, b.Account, pageIsOver, now); err != nil {
			return nil, err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO subscription (id, account_id, plan_id, price_cents, checkout_id, due_at)
			SELECT $1, $2, $3, $4, $5, c.expires_at FROM checkout c WHERE c.id = $5 AND NOT EXISTS (
				SELECT FROM subscription WHERE account_id = $2 AND state <> 'ended' OR checkout_id = $5)`,
			b.ID, b.Account, b.Plan, int64(b.Price/cent), b.Checkout); err != nil {
			return nil, fmt.Errorf("begin a subscription: %w", err)
		}
		stands, err = firstSubscription(ctx, tx, `b.account_id = $1 ORDER BY b.state = 'ended', b.created_at DESC`, b.Account)
		return nil, err
	})
	return stands, err
}

// errWhere returns an error where it is so.
func errWhere(so bool, err error) error {
	if so {
		return err
	}
	return nil
}

// pageIsOver is the condition of a page that was not paid in time, before the news of that.
const pageIsOver = `c.state <> 'paid' AND c.expires_at <= clock_timestamp()`

// endIncomplete ends a subscription of an account that nobody has paid, if its page is as a
// condition says. A payment that comes nevertheless begins anew.
func endIncomplete(ctx context.Context, tx pgx.Tx, account ids.AccountID, page string, now time.Time) error {
	b, err := firstSubscription(ctx, tx, `b.account_id = $1 AND b.state = 'incomplete' AND `+page, account)
	if errors.Is(err, subscription.ErrNone) {
		return nil
	}
	if err == nil {
		_, err = endSubscriptionRow(ctx, tx, b, subscription.Abandoned, now)
	}
	return err
}

// SetCancel implements subscription.Store.
func (s Subscriptions) SetCancel(
	ctx context.Context, account ids.AccountID, cancel bool,
) (b subscription.Subscription, err error) {
	err = s.underWallet(ctx, account, func(tx pgx.Tx, now time.Time) (_ []ids.EntryID, err error) {
		b, err = firstSubscription(ctx, tx, `b.account_id = $1 AND b.state <> 'ended'`, account)
		switch {
		case err != nil:
			return nil, err
		case b.State == subscription.Incomplete && cancel:
			b, err = endSubscriptionRow(ctx, tx, b, subscription.Abandoned, now)
			return nil, err
		case b.Cancel == cancel:
			return nil, nil
		}
		b.Cancel = cancel
		if err := noteCancel(ctx, tx, b, now); err != nil {
			return nil, err
		}
		b, err = tick(ctx, tx, b, now)
		return nil, err
	})
	return b, err
}

// noteCancel notes whether a subscription ends with its period, and has the card processor told.
func noteCancel(ctx context.Context, tx pgx.Tx, b subscription.Subscription, now time.Time) error {
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE subscription SET cancel_at_period_end = $2, tell_at = now() WHERE id = $1`, b.ID, b.Cancel)
	if !b.PeriodEnd.IsZero() {
		batch.Queue(`UPDATE account_plan SET until_at = greatest(from_at, $3, $4) WHERE subscription_id = $1
			AND account_id = $2 AND until_at > $4`, b.ID, b.Account, b.Until(), now)
	}
	if err := sendAll(ctx, tx, batch); err != nil {
		return fmt.Errorf("note a cancel: %w", err)
	}
	return nil
}
