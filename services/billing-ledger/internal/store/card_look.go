package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/card"
)

var _ card.Store = Cards{}

// TakeCheckouts implements card.Store.
func (s Cards) TakeCheckouts(ctx context.Context, every time.Duration, limit int) ([]card.Due, error) {
	rows, err := s.pool.Query(ctx, `WITH due AS (
			SELECT id FROM checkout WHERE due_at <= (SELECT now()) ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
		)
		UPDATE checkout c SET due_at = now() + $2::interval FROM due WHERE c.id = due.id
		RETURNING `+checkoutColumns+`, c.expires_at <= now()`, limit, every)
	if err != nil {
		return nil, fmt.Errorf("take checkouts: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d card.Due, err error) {
		fields, done := checkoutFields(&d.Checkout)
		err = row.Scan(append(fields, &d.Over)...)
		done()
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("take checkouts: %w", err)
	}
	return list, nil
}

// StopLooking implements card.Store.
func (s Cards) StopLooking(ctx context.Context, id card.CheckoutID) error {
	if _, err := s.pool.Exec(ctx, `UPDATE checkout SET due_at = NULL WHERE id = $1`, id); err != nil {
		return fmt.Errorf("end the looks at a checkout: %w", err)
	}
	return nil
}

// KeepEvent implements card.Store.
func (s Cards) KeepEvent(ctx context.Context, e card.Event) (named card.Object, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if err := durably(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO processor_event (id, sha256, object_kind, object_id, due_at, processor)
			VALUES ($1, $2, $3, $4, CASE WHEN $3 = '' THEN NULL ELSE now() END, $5) ON CONFLICT (id) DO NOTHING`,
			e.ID, e.SHA256[:], string(e.Object.Kind), e.Object.ID, e.Processor); err != nil {
			return fmt.Errorf("keep an event: %w", err)
		}
		if err := tx.QueryRow(ctx, `SELECT object_kind, object_id FROM processor_event WHERE id = $1`, e.ID).
			Scan(&named.Kind, &named.ID); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		return nil
	})
	return named, err
}

// TakeEvents implements card.Store.
func (s Cards) TakeEvents(ctx context.Context, limit int) ([]card.Event, error) {
	rows, err := s.pool.Query(ctx, `WITH due AS (
			SELECT id FROM processor_event WHERE due_at <= (SELECT now()) ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
		)
		UPDATE processor_event e SET due_at = now() + least(interval '30 seconds' * 2 ^ least(e.looks, 7), interval '1 hour'),
			looks = e.looks + 1
		FROM due WHERE e.id = due.id RETURNING e.id, e.object_kind, e.object_id, e.processor`, limit)
	if err != nil {
		return nil, fmt.Errorf("take events: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e card.Event, err error) {
		return e, row.Scan(&e.ID, &e.Object.Kind, &e.Object.ID, &e.Processor)
	})
	if err != nil {
		return nil, fmt.Errorf("take events: %w", err)
	}
	return list, nil
}

// EventHandled implements card.Store.
func (s Cards) EventHandled(ctx context.Context, id string) error {
	if _, err := s.pool.Exec(ctx, `UPDATE processor_event SET due_at = NULL WHERE id = $1`, id); err != nil {
		return fmt.Errorf("end an event: %w", err)
	}
	return nil
}

// listOverlap is how far a list reaches back behind the last one, because the processor
// has a clock of its own and may show late what it made.
const listOverlap = time.Hour

// TakeListing implements card.Store.
func (s Cards) TakeListing(
	ctx context.Context, processor string, every time.Duration,
) (since, now time.Time, due bool, err error) {
	if _, err := s.pool.Exec(ctx, `INSERT INTO card_listing (processor) VALUES ($1) ON CONFLICT DO NOTHING`,
		processor); err != nil {
		return since, now, false, fmt.Errorf("take the list: %w", err)
	}
	err = s.pool.QueryRow(ctx, `UPDATE card_listing SET due_at = now() + $2::interval
		WHERE processor = $1 AND due_at <= now() RETURNING through - $3::interval, now()`,
		processor, every, listOverlap).Scan(&since, &now)
	if errors.Is(err, pgx.ErrNoRows) {
		return since, now, false, nil
	}
	if err != nil {
		return since, now, false, fmt.Errorf("take the list: %w", err)
	}
	return since, now, true, nil
}

// Listed implements card.Store.
func (s Cards) Listed(ctx context.Context, processor string, through time.Time) error {
	if _, err := s.pool.Exec(ctx, `UPDATE card_listing SET through = greatest(through, $2) WHERE processor = $1`,
		processor, through); err != nil {
		return fmt.Errorf("note a list: %w", err)
	}
	return nil
}

// Unknown implements card.Store.
func (s Cards) Unknown(ctx context.Context, list []card.Object) ([]card.Object, error) {
	kinds, names := make([]string, len(list)), make([]string, len(list))
	for i, o := range list {
		kinds[i], names[i] = string(o.Kind), o.ID
	}
	rows, err := s.pool.Query(ctx, `SELECT o.kind, o.id FROM unnest($1::text[], $2::text[]) AS o (kind, id)
		WHERE NOT CASE o.kind
			WHEN 'session' THEN EXISTS (SELECT FROM checkout WHERE session_id = o.id AND state = 'paid')
			WHEN 'invoice' THEN EXISTS (SELECT FROM card_payment WHERE invoice_id = o.id)
			WHEN 'lost' THEN NOT EXISTS (SELECT FROM account_freeze WHERE cause = 'dispute' AND ref = o.id
				AND lifted_at IS NULL)
			WHEN 'won' THEN EXISTS (SELECT FROM card_dispute_won WHERE reversal_id = o.id)
			WHEN 'failed' THEN EXISTS (SELECT FROM card_refund_failure WHERE object_id = o.id)
				OR EXISTS (SELECT FROM card_dispute_won WHERE reversal_id = o.id)
			ELSE EXISTS (SELECT FROM card_reversal WHERE id = o.id) OR EXISTS (SELECT FROM card_refund WHERE object_id = o.id)
				OR EXISTS (SELECT FROM card_refund_failure WHERE object_id = o.id)
				OR EXISTS (SELECT FROM plan_return WHERE id = o.id)
			END
			AND (o.kind IN ('won', 'lost', 'failed') OR NOT EXISTS (SELECT FROM card_alarm WHERE object = o.id))`, kinds, names)
	if err != nil {
		return nil, fmt.Errorf("look for objects: %w", err)
	}
	unknown, err := pgx.CollectRows(rows, pgx.RowToStructByPos[card.Object])
	if err != nil {
		return nil, fmt.Errorf("look for objects: %w", err)
	}
	return unknown, nil
}

// Payments implements card.Store.
func (s Cards) Payments(ctx context.Context, provider ids.ProviderID, limit int) ([]card.Payment, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+checkoutColumns+`, b.reversed, b.refunded
		FROM checkout c JOIN card_payment_back b ON b.checkout_id = c.id
		WHERE c.provider_id = $1 AND b.provider_id = $1 ORDER BY c.paid_at, c.id LIMIT $2`, provider, limit)
	if err != nil {
		return nil, fmt.Errorf("list payments: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p card.Payment, err error) {
		fields, done := checkoutFields(&p.Checkout)
		err = row.Scan(append(fields, &p.Reversed, &p.Refunded)...)
		done()
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("list payments: %w", err)
	}
	return list, nil
}

// Changes implements card.Store.
func (s Cards) Changes(ctx context.Context, after int64, limit int) ([]card.Change, error) {
	rows, err := s.pool.Query(ctx, `SELECT h.number, h.kind, h.checkout_id, c.provider_id, h.reference, h.cents,
			c.livemode, h.at, h.entry_id
		FROM card_change h JOIN checkout c ON c.id = h.checkout_id
		WHERE h.number > $1 AND c.purpose = 'collateral' ORDER BY h.number LIMIT $2`, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list changes: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h card.Change, err error) {
		return h, row.Scan(&h.Number, &h.Kind, &h.Checkout, &h.Provider, &h.Reference, &h.Amount, &h.Livemode, &h.At,
			&h.Entry)
	})
	if err != nil {
		return nil, fmt.Errorf("list changes: %w", err)
	}
	return list, nil
}

// Figures counts the alarms that nobody has closed, and returns the age of the oldest event
// that is not handled or refund that has not ended, 0 without one. A refund counts from when its
// attempt was due.
func (s Cards) Figures(ctx context.Context) (alarms int64, lag time.Duration, err error) {
	var oldest float64
	if err := s.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM card_alarm WHERE closed_at IS NULL),
			greatest(0, extract(epoch FROM now() - least(
				(SELECT min(received_at) FROM processor_event WHERE due_at IS NOT NULL),
				(SELECT min(coalesce((SELECT max(x.at) + $1::interval FROM card_refund_failure x WHERE x.refund_id = r.id),
					asked_at)) FROM card_refund r WHERE due_at IS NOT NULL))))::float8`, card.AttemptInterval).
		Scan(&alarms, &oldest); err != nil {
		return 0, 0, fmt.Errorf("read the figures of card payments: %w", err)
	}
	return alarms, time.Duration(oldest * float64(time.Second)), nil
}
