package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/card"
)

// Cards keeps payments by card; it implements card.Store. A transaction locks a checkout
// or a payment first, then the earnings of its provider, posts, and adds changes last.
type Cards struct{ *Store }

const checkoutColumns = `c.id, c.purpose, c.provider_id, c.account_id, coalesce(c.plan_id, ''), c.cents, c.fee_cents,
	c.processor, c.livemode, c.return_url, coalesce(c.session_id, ''), coalesce(c.url, ''), c.state,
	c.created_at, c.expires_at, c.paid_at`

// checkoutFields returns what checkoutColumns are scanned into; done is called then.
func checkoutFields(c *card.Checkout) (fields []any, done func()) {
	var paid *time.Time
	return []any{&c.ID, &c.Purpose, &c.Provider, &c.Account, &c.Plan, &c.Amount, &c.Fee, &c.Processor, &c.Livemode,
			&c.ReturnURL, &c.SessionID, &c.URL, &c.State, &c.Created, &c.Expires, &paid}, func() {
			if paid != nil {
				c.Paid = *paid
			}
		}
}

func scanCheckout(row pgx.CollectableRow) (card.Checkout, error) {
	var c card.Checkout
	fields, done := checkoutFields(&c)
	err := row.Scan(fields...)
	done()
	return c, err
}

// oneCheckout reads a checkout, or returns card.ErrNoCheckout.
func oneCheckout(ctx context.Context, from reader, id card.CheckoutID) (card.Checkout, error) {
	rows, err := from.Query(ctx, `SELECT `+checkoutColumns+` FROM checkout c WHERE c.id = $1`, id)
	if err != nil {
		return card.Checkout{}, fmt.Errorf("read a checkout: %w", err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanCheckout)
	if errors.Is(err, pgx.ErrNoRows) {
		return card.Checkout{}, card.ErrNoCheckout
	}
	if err != nil {
		return card.Checkout{}, fmt.Errorf("read a checkout: %w", err)
	}
	return c, nil
}

// Checkout implements card.Store.
func (s Cards) Checkout(ctx context.Context, id card.CheckoutID) (card.Checkout, error) {
	return oneCheckout(ctx, s.pool, id)
}

// Open implements card.Store. Checkouts of one provider, or of one consumer, are opened one after
// the other, so that their number is exact.
func (s Cards) Open(ctx context.Context, c card.Checkout, lifetime time.Duration) (card.Checkout, error) {
	var opened card.Checkout
	err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
		if err := durably(ctx, tx); err != nil {
			return err
		}
		payer := [16]byte(c.Provider)
		if c.Purpose != card.Collateral {
			payer = c.Account
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('checkout'), hashtext($1::uuid::text))`,
			payer); err != nil {
			return fmt.Errorf("lock the checkouts of a payer: %w", err)
		}
		if opened, err = oneCheckout(ctx, tx, c.ID); !errors.Is(err, card.ErrNoCheckout) {
			return err
		}
		var open int
		if err := tx.QueryRow(ctx, `SELECT CASE WHEN $2 THEN (SELECT count(*) FROM checkout
				WHERE provider_id = $1 AND state = 'created' AND expires_at > now())
			ELSE (SELECT count(*) FROM checkout WHERE account_id = $1 AND purpose <> 'collateral' AND state = 'created'
				AND expires_at > now()) END`, payer, c.Purpose == card.Collateral).Scan(&open); err != nil {
			return fmt.Errorf("count open checkouts: %w", err)
		}
		if open >= card.MaxOpen {
			return card.ErrTooMany
		}
		// Another payer's checkout may have the id since it was looked for.
		_, err = tx.Exec(ctx, `INSERT INTO checkout (id, purpose, provider_id, account_id, cents, fee_cents, processor,
				livemode, return_url, expires_at, plan_id)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now() + $10, nullif($11, '')) ON CONFLICT (id) DO NOTHING`,
			c.ID, c.Purpose, c.Provider, c.Account, c.Amount, c.Fee, c.Processor, c.Livemode, c.ReturnURL, lifetime, c.Plan)
		if isForeign(err, "checkout_account_id_fkey") {
			return card.ErrNoAccount
		}
		if err != nil {
			return fmt.Errorf("keep a checkout: %w", err)
		}
		opened, err = oneCheckout(ctx, tx, c.ID)
		return err
	})
	return opened, err
}

// OfAccount implements card.Store.
func (s Cards) OfAccount(
	ctx context.Context, account ids.AccountID, before card.CheckoutID, limit int,
) ([]card.Checkout, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+checkoutColumns+` FROM checkout c
		WHERE c.account_id = $1 AND c.purpose <> 'collateral' AND ($2::uuid IS NULL OR (c.created_at, c.id) <
			(SELECT b.created_at, b.id FROM checkout b WHERE b.id = $2 AND b.account_id = $1))
		ORDER BY c.created_at DESC, c.id DESC LIMIT $3`, account, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list checkouts: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanCheckout)
	if err != nil {
		return nil, fmt.Errorf("list checkouts: %w", err)
	}
	return list, nil
}

// durably makes a transaction survive a crash once it is acknowledged, whatever the
// server's default.
func durably(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
		THEN set_config('synchronous_commit', 'on', true) END`); err != nil {
		return fmt.Errorf("make a transaction durable: %w", err)
	}
	return nil
}

// SetSession implements card.Store.
func (s Cards) SetSession(ctx context.Context, id card.CheckoutID, session card.Session) (card.Checkout, error) {
	if _, err := s.pool.Exec(ctx, `UPDATE checkout SET session_id = $2, url = $3, expires_at = $4,
			due_at = now() + $5::interval
		WHERE id = $1 AND session_id IS NULL`, id, session.ID, session.URL, session.Expires,
		card.CheckoutInterval); err != nil {
		if pg.IsUnique(err, "checkout_session_id_key") {
			return card.Checkout{}, card.ErrReused
		}
		return card.Checkout{}, fmt.Errorf("note the session of a checkout: %w", err)
	}
	c, err := s.Checkout(ctx, id)
	if err == nil && c.SessionID != session.ID {
		return card.Checkout{}, card.ErrReused
	}
	return c, err
}

// lockCheckout locks a checkout and reads it then.
func lockCheckout(ctx context.Context, tx pgx.Tx, id card.CheckoutID) (card.Checkout, error) {
	if err := durably(ctx, tx); err != nil {
		return card.Checkout{}, err
	}
	if _, err := tx.Exec(ctx, `SELECT FROM checkout WHERE id = $1 FOR UPDATE`, id); err != nil {
		return card.Checkout{}, fmt.Errorf("lock a checkout: %w", err)
	}
	return oneCheckout(ctx, tx, id)
}

// addChange adds a change to a batch, as its last statement: it takes a lock for which all
// others wait.
func addChange(
	batch *pgx.Batch, kind card.ChangeKind, checkout card.CheckoutID, reference string, cents card.Cents,
	entry ids.EntryID,
) {
	batch.Queue(`INSERT INTO card_change (kind, checkout_id, reference, cents, entry_id) VALUES ($1, $2, $3, $4, $5)`,
		kind, checkout, reference, cents, entry)
}

// isForeign reports whether a row refers to what there is not.
func isForeign(err error, constraint string) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "23503" && pe.ConstraintName == constraint
}
