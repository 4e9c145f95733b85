package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/subscription"
)

// Subscriptions keeps subscriptions; it implements subscription.Store. A transaction locks the
// wallet of the account first, so that all of an account's subscriptions and plans change one
// after the other, and reads the time behind that lock.
type Subscriptions struct{ *Store }

var _ subscription.Store = Subscriptions{}

// cent is what a cent is in nano-USD.
const cent = money.USD / 100

const subscriptionColumns = `b.id, b.account_id, b.plan_id, b.price_cents, b.checkout_id::text,
	coalesce(b.object_id, ''), c.processor, b.state, b.period_start, b.period_end, b.cancel_at_period_end,
	c.state = 'expired', coalesce(b.cause, '')`

func scanSubscription(row pgx.CollectableRow) (b subscription.Subscription, err error) {
	var start, end *time.Time
	err = row.Scan(&b.ID, &b.Account, &b.Plan, &b.Price, &b.Checkout, &b.Object, &b.Processor, &b.State, &start, &end,
		&b.Cancel, &b.PageOver, &b.Cause)
	b.Price *= cent
	if start != nil && end != nil {
		b.PeriodStart, b.PeriodEnd = *start, *end
	}
	return b, err
}

// selectSubscriptions reads subscriptions b by what stands behind WHERE.
func selectSubscriptions(
	ctx context.Context, from reader, where string, args ...any,
) ([]subscription.Subscription, error) {
	rows, err := from.Query(ctx, `SELECT `+subscriptionColumns+`
		FROM subscription b JOIN checkout c ON c.id = b.checkout_id WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read subscriptions: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanSubscription)
	if err != nil {
		return nil, fmt.Errorf("read subscriptions: %w", err)
	}
	return list, nil
}

// firstSubscription returns the first of the subscriptions, or subscription.ErrNone.
func firstSubscription(
	ctx context.Context, from reader, where string, args ...any,
) (subscription.Subscription, error) {
	list, err := selectSubscriptions(ctx, from, where+` LIMIT 1`, args...)
	if err == nil && len(list) == 0 {
		err = subscription.ErrNone
	}
	if err != nil {
		return subscription.Subscription{}, err
	}
	return list[0], nil
}

// Current implements subscription.Store.
func (s Subscriptions) Current(ctx context.Context, account ids.AccountID) (subscription.Subscription, error) {
	return firstSubscription(ctx, s.pool,
		`b.account_id = $1 ORDER BY b.state = 'ended', b.created_at DESC, b.period_end DESC NULLS LAST`, account)
}

// Price implements subscription.Store.
func (s Subscriptions) Price(ctx context.Context, plan string) (price money.NanoUSD, err error) {
	err = s.pool.QueryRow(ctx, `SELECT cents FROM plan_price WHERE plan_id = $1`, plan).Scan(&price)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, subscription.ErrNotSold
	case err != nil:
		return 0, fmt.Errorf("read the price of a plan: %w", err)
	}
	return price * cent, nil
}

// underWallet runs do in a transaction that has the lock on the wallet of an account, with the
// time behind that lock.
func (s Subscriptions) underWallet(
	ctx context.Context, account ids.AccountID, do func(pgx.Tx, time.Time) ([]ids.EntryID, error),
) error {
	_, err := s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) {
		if err := durably(ctx, tx); err != nil {
			return nil, err
		}
		locked, err := tx.Exec(ctx, `SELECT FROM wallet WHERE account_id = $1 FOR UPDATE`, account)
		if err != nil {
			return nil, fmt.Errorf("lock wallet: %w", err)
		}
		if locked.RowsAffected() == 0 {
			return nil, subscription.ErrNone
		}
		var now time.Time
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
			return nil, fmt.Errorf("read the database's clock: %w", err)
		}
		return do(tx, now)
	})
	return err
}

// operatorsPlan reports whether an operator's plan is in force for an account.
func operatorsPlan(ctx context.Context, tx pgx.Tx, account ids.AccountID, now time.Time) (taken bool, err error) {
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM account_plan WHERE account_id = $1 AND from_at <= $2
		AND (until_at IS NULL OR until_at > $2) AND subscription_id IS NULL)`, account, now).Scan(&taken); err != nil {
		return false, fmt.Errorf("look for an operator's plan: %w", err)
	}
	return taken, nil
}
