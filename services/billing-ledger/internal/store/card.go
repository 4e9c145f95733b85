package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
)

// Cards keeps payments by card; it implements card.Store. A transaction locks a checkout
// or a payment first, then the earnings of its provider, posts, and adds changes last.
type Cards struct{ *Store }

var _ card.Store = Cards{}

const checkoutColumns = `c.id, c.purpose, c.provider_id, c.account_id, c.cents, c.fee_cents, c.processor, c.livemode,
	c.return_url, coalesce(c.session_id, ''), coalesce(c.url, ''), c.state, c.created_at, c.expires_at, c.paid_at`

// checkoutFields returns what checkoutColumns are scanned into; done is called then.
func checkoutFields(c *card.Checkout) (fields []any, done func()) {
	var paid *time.Time
	return []any{&c.ID, &c.Purpose, &c.Provider, &c.Account, &c.Amount, &c.Fee, &c.Processor, &c.Livemode, &c.ReturnURL,
			&c.SessionID, &c.URL, &c.State, &c.Created, &c.Expires, &paid}, func() {
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

// oneCheckout reads the checkout of a query, or returns card.ErrNoCheckout.
func oneCheckout(ctx context.Context, from reader, sql string, args ...any) (card.Checkout, error) {
	rows, err := from.Query(ctx, sql, args...)
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

const selectCheckout = `SELECT ` + checkoutColumns + ` FROM checkout c WHERE c.id = $1`

// Checkout implements card.Store.
func (s Cards) Checkout(ctx context.Context, id card.CheckoutID) (card.Checkout, error) {
	return oneCheckout(ctx, s.pool, selectCheckout, id)
}

// Open implements card.Store. Checkouts of one provider are opened one after the other, so
// that their number is exact.
func (s Cards) Open(ctx context.Context, c card.Checkout, lifetime time.Duration) (card.Checkout, error) {
	var opened card.Checkout
	err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
		if err := durably(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('checkout'), hashtext($1::uuid::text))`,
			c.Provider); err != nil {
			return fmt.Errorf("lock the checkouts of a provider: %w", err)
		}
		if opened, err = oneCheckout(ctx, tx, selectCheckout, c.ID); !errors.Is(err, card.ErrNoCheckout) {
			return err
		}
		var open int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM checkout WHERE provider_id = $1 AND state = 'created'
			AND expires_at > now()`, c.Provider).Scan(&open); err != nil {
			return fmt.Errorf("count open checkouts: %w", err)
		}
		if open >= card.MaxOpen {
			return card.ErrTooMany
		}
		// Another provider's checkout may have the id since it was looked for.
		_, err = tx.Exec(ctx, `INSERT INTO checkout (id, purpose, provider_id, account_id, cents, fee_cents, processor,
				livemode, return_url, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now() + $10)
			ON CONFLICT (id) DO NOTHING`,
			c.ID, c.Purpose, c.Provider, c.Account, c.Amount, c.Fee, c.Processor, c.Livemode, c.ReturnURL, lifetime)
		if isForeign(err, "checkout_account_id_fkey") {
			return card.ErrNoAccount
		}
		if err != nil {
			return fmt.Errorf("keep a checkout: %w", err)
		}
		opened, err = oneCheckout(ctx, tx, selectCheckout, c.ID)
		return err
	})
	return opened, err
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
	return oneCheckout(ctx, tx, selectCheckout, id)
}

// Pay implements card.Store.
func (s Cards) Pay(
	ctx context.Context, id card.CheckoutID, charge card.Charge, newID func() (ids.EntryID, error),
) (late *card.Alarm, err error) {
	_, err = s.tryPosting(ctx, func(tx pgx.Tx) (posted []ids.EntryID, err error) {
		late, posted, err = pay(ctx, tx, id, charge, newID)
		return posted, err
	})
	return late, err
}

func pay(
	ctx context.Context, tx pgx.Tx, id card.CheckoutID, charge card.Charge, newID func() (ids.EntryID, error),
) (late *card.Alarm, posted []ids.EntryID, err error) {
	c, err := lockCheckout(ctx, tx, id)
	if err != nil {
		return nil, nil, err
	}
	to, err := c.State.After(card.WasPaid)
	if err != nil {
		return nil, nil, err
	}
	if c.State == to {
		return nil, nil, samePayment(ctx, tx, id, charge)
	}
	if c.State == card.Expired {
		late = &card.Alarm{Reason: card.AlarmPaidLate, Object: c.SessionID, Detail: "checkout " + id.String()}
		if _, err := raise(ctx, tx, *late); err != nil {
			return nil, nil, err
		}
	}
	entries, err := paidEntries(c, charge, newID)
	if err != nil {
		return nil, nil, err
	}
	if posted, err = post(ctx, tx, entries, nil); err != nil {
		return nil, nil, err
	}
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE checkout SET state = $2, paid_at = now(), due_at = NULL WHERE id = $1`, id, to)
	batch.Queue(`INSERT INTO card_payment (id, checkout_id, cents, cost_id, cost_cents, entry_id)
		VALUES ($1, $2, $3, $4, $5, $6)`, charge.PaymentID, id, charge.Total, charge.CostID, charge.Cost, posted[0])
	addChange(batch, card.ChangePaid, id, c.SessionID, c.Amount, posted[0])
	if err := sendAll(ctx, tx, batch); err != nil {
		return nil, nil, fmt.Errorf("keep a payment: %w", err)
	}
	crash.At("billing.card.paid_before_commit")
	return late, posted, nil
}

// samePayment returns card.ErrPaidTwice unless a paid checkout has that payment.
func samePayment(ctx context.Context, tx pgx.Tx, id card.CheckoutID, charge card.Charge) error {
	var stands string
	if err := tx.QueryRow(ctx, `SELECT id FROM card_payment WHERE checkout_id = $1`, id).Scan(&stands); err != nil {
		return fmt.Errorf("read a payment: %w", err)
	}
	if stands != charge.PaymentID {
		return card.ErrPaidTwice
	}
	return nil
}

// paidEntries returns line 23 and what the processor kept.
func paidEntries(
	c card.Checkout, charge card.Charge, newID func() (ids.EntryID, error),
) ([]ledger.Entry, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	paid, err := ledger.CardCollateral(ledger.Fact{ID: id, BusinessID: c.SessionID}, c.Provider, c.Amount.Nano())
	if err != nil || charge.Cost == 0 {
		return []ledger.Entry{paid}, err
	}
	if id, err = newID(); err != nil {
		return nil, err
	}
	cost, err := ledger.CardCost(ledger.Fact{ID: id, BusinessID: charge.CostID}, charge.Cost.Nano())
	return []ledger.Entry{paid, cost}, err
}

// addChange adds a change to a batch, as its last statement: it takes a lock for which all
// others wait.
func addChange(
	batch *pgx.Batch, kind card.ChangeKind, checkout card.CheckoutID, reference string, cents card.Cents, entry ids.EntryID,
) {
	batch.Queue(`INSERT INTO card_change (kind, checkout_id, reference, cents, entry_id) VALUES ($1, $2, $3, $4, $5)`,
		kind, checkout, reference, cents, entry)
}

// Expire implements card.Store.
func (s Cards) Expire(ctx context.Context, id card.CheckoutID) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		c, err := lockCheckout(ctx, tx, id)
		if err != nil {
			return err
		}
		to, err := c.State.After(card.HasExpired)
		if err != nil || to == c.State {
			return err
		}
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE checkout SET state = $2, due_at = NULL WHERE id = $1`, id, to)
		addChange(batch, card.ChangeExpired, id, id.String(), c.Amount, ids.EntryID{})
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("expire a checkout: %w", err)
		}
		return nil
	})
}

// Reverse implements card.Store.
func (s Cards) Reverse(ctx context.Context, r card.Return, newID func() (ids.EntryID, error)) error {
	_, err := s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) { return reverse(ctx, tx, r, newID) })
	return err
}

func reverse(
	ctx context.Context, tx pgx.Tx, r card.Return, newID func() (ids.EntryID, error),
) ([]ids.EntryID, error) {
	p, err := lockPayment(ctx, tx, r.PaymentID)
	if err != nil {
		return nil, err
	}
	if known, err := knownReversal(ctx, tx, r); known || err != nil {
		return nil, err
	}
	switch {
	case r.Amount > p.left && p.asked > 0:
		return nil, card.ErrRefundUnderWay
	case r.Amount > p.left:
		return nil, card.ErrExceeds
	}
	has, err := readNeeds(ctx, tx, posting.Needs{Provider: p.provider})
	if err != nil {
		return nil, err
	}
	id, err := newID()
	if err != nil {
		return nil, err
	}
	e, err := ledger.CardCollateralReversal(ledger.Fact{ID: id, BusinessID: r.ID}, p.provider, r.Amount.Nano(),
		has.Collateral)
	if err != nil {
		return nil, err
	}
	posted, err := post(ctx, tx, []ledger.Entry{e}, nil)
	if err != nil {
		return nil, err
	}
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO card_reversal (id, payment_id, cause, cents, entry_id) VALUES ($1, $2, $3, $4, $5)`,
		r.ID, r.PaymentID, r.Kind, r.Amount, posted[0])
	addChange(batch, card.ChangeReversed, p.checkout, r.ID, r.Amount, posted[0])
	if err := sendAll(ctx, tx, batch); err != nil {
		return nil, fmt.Errorf("keep a reversal: %w", err)
	}
	crash.At("billing.card.reversed_before_commit")
	return posted, nil
}

// knownReversal reports whether a reversal is kept already. It returns card.ErrReused for
// one that says otherwise.
func knownReversal(ctx context.Context, tx pgx.Tx, r card.Return) (bool, error) {
	var same bool
	err := tx.QueryRow(ctx, `SELECT (payment_id, cents) = ($2, $3) FROM card_reversal WHERE id = $1`,
		r.ID, r.PaymentID, r.Amount).Scan(&same)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read a reversal: %w", err)
	case !same:
		return false, card.ErrReused
	}
	return true, nil
}

// lockedPayment is a payment under its lock, with what is left of it and what of that no
// longer counts because refunds were asked for.
type lockedPayment struct {
	checkout    card.CheckoutID
	provider    ids.ProviderID
	left, asked card.Cents
}

// lockPayment locks a payment and reads it then, or returns card.ErrNotPaid.
func lockPayment(ctx context.Context, tx pgx.Tx, id string) (p lockedPayment, err error) {
	if err := durably(ctx, tx); err != nil {
		return p, err
	}
	if _, err := tx.Exec(ctx, `SELECT FROM card_payment WHERE id = $1 FOR UPDATE`, id); err != nil {
		return p, fmt.Errorf("lock a payment: %w", err)
	}
	err = tx.QueryRow(ctx, `SELECT c.id, c.provider_id,
			p.cents - (SELECT coalesce(sum(cents), 0)::bigint FROM card_refund WHERE payment_id = p.id AND state <> 'reversed')
				- (SELECT coalesce(sum(cents), 0)::bigint FROM card_reversal WHERE payment_id = p.id),
			(SELECT coalesce(sum(cents), 0)::bigint FROM card_refund WHERE payment_id = p.id AND state = 'asked')
		FROM card_payment p JOIN checkout c ON c.id = p.checkout_id WHERE p.id = $1`, id).
		Scan(&p.checkout, &p.provider, &p.left, &p.asked)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, card.ErrNotPaid
	}
	if err != nil {
		return p, fmt.Errorf("read a payment: %w", err)
	}
	return p, nil
}
