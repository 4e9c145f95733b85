package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/card/sandbox"
)

// Sandbox keeps what the sandbox has; it implements sandbox.Store. It reads no table of
// any other part.
type Sandbox struct{ *Store }

var _ sandbox.Store = Sandbox{}

const sandboxColumns = `s.id, s.checkout, s.purpose, s.provider, s.account, s.plan, s.description, s.return_url,
	s.cents, CASE WHEN s.paid_at IS NOT NULL THEN 'paid' WHEN s.expires_at <= now() THEN 'expired' ELSE 'open' END,
	s.declined, s.expires_at, coalesce(s.payment_id, ''), coalesce(s.cost_id, ''), s.cost_cents, s.card,
	coalesce((SELECT b.id FROM sandbox_subscription b WHERE b.session_id = s.id), ''),
	(SELECT coalesce(sum(cents), 0)::bigint FROM sandbox_return WHERE session_id = s.id AND kind = 'refund'
		AND failed_at IS NULL),
	(SELECT coalesce(sum(cents), 0)::bigint FROM sandbox_return WHERE session_id = s.id AND kind = 'dispute'
		AND won_at IS NULL),
	EXISTS (SELECT FROM sandbox_return WHERE session_id = s.id AND lost_at IS NOT NULL)`

// oneSession reads the session of a condition, or returns sandbox.ErrNone.
func oneSession(ctx context.Context, from reader, where string, args ...any) (s sandbox.Session, err error) {
	rows, err := from.Query(ctx, `SELECT `+sandboxColumns+` FROM sandbox_session s WHERE `+where, args...)
	if err != nil {
		return s, fmt.Errorf("read a session: %w", err)
	}
	s, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (s sandbox.Session, err error) {
		return s, row.Scan(&s.ID, &s.Checkout, &s.Purpose, &s.Provider, &s.Account, &s.Plan, &s.Description,
			&s.ReturnURL, &s.Total, &s.State, &s.Declined, &s.Expires, &s.PaymentID, &s.CostID, &s.Cost, &s.Card,
			&s.Subscription, &s.Refunded, &s.Disputed, &s.Lost)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return s, sandbox.ErrNone
	}
	if err != nil {
		return s, fmt.Errorf("read a session: %w", err)
	}
	return s, nil
}

// MakeSession implements sandbox.Store.
func (s Sandbox) MakeSession(
	ctx context.Context, made sandbox.Session, lifetime time.Duration,
) (first sandbox.Session, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO sandbox_session (id, checkout, purpose, provider, account, description,
				return_url, cents, expires_at, plan) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now() + $9, $10)
			ON CONFLICT (checkout) DO NOTHING`, made.ID, made.Checkout, made.Purpose, made.Provider, made.Account,
			made.Description, made.ReturnURL, made.Total, lifetime, made.Plan); err != nil {
			return fmt.Errorf("keep a session: %w", err)
		}
		first, err = oneSession(ctx, tx, `s.checkout = $1`, made.Checkout)
		return err
	})
	return first, err
}

// Session implements sandbox.Store.
func (s Sandbox) Session(ctx context.Context, id string) (sandbox.Session, error) {
	return oneSession(ctx, s.pool, `s.id = $1`, id)
}

// SessionOfPayment implements sandbox.Store.
func (s Sandbox) SessionOfPayment(ctx context.Context, paymentID string) (sandbox.Session, error) {
	return oneSession(ctx, s.pool, `s.payment_id = $1`, paymentID)
}

// onSession does something under the lock of a session.
func (s Sandbox) onSession(ctx context.Context, id string, do func(pgx.Tx, sandbox.Session) error) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM sandbox_session WHERE id = $1 FOR UPDATE`, id); err != nil {
			return fmt.Errorf("lock a session: %w", err)
		}
		found, err := oneSession(ctx, tx, `s.id = $1`, id)
		if err != nil {
			return err
		}
		return do(tx, found)
	})
}

const addEvent = `INSERT INTO sandbox_event (id, type, object) VALUES ($1, $2, $3)`

// Pay implements sandbox.Store.
func (s Sandbox) Pay(ctx context.Context, id string, c card.Charge, e sandbox.Event) error {
	return s.onSession(ctx, id, func(tx pgx.Tx, found sandbox.Session) error {
		switch found.State {
		case sandbox.Paid:
			return nil
		case sandbox.Expired:
			return sandbox.ErrNotNow
		case sandbox.Open:
		}
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE sandbox_session SET payment_id = $2, cost_id = $3, cost_cents = $4, paid_at = now(),
			declined = false, card = $5 WHERE id = $1`, id, c.PaymentID, c.CostID, c.Cost, c.Fingerprint)
		batch.Queue(addEvent, e.ID, e.Type, e.Object)
		if found.Purpose == string(card.PlanPurpose) {
			beginSubscription(batch, id, "sbx_sub_"+id, "sbx_in_"+id, "sbx_evt_"+id)
		}
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("pay a session: %w", err)
		}
		return nil
	})
}

// Decline implements sandbox.Store.
func (s Sandbox) Decline(ctx context.Context, id string) error {
	return s.onSession(ctx, id, func(tx pgx.Tx, found sandbox.Session) error {
		if found.State != sandbox.Open {
			return sandbox.ErrNotNow
		}
		if _, err := tx.Exec(ctx, `UPDATE sandbox_session SET declined = true WHERE id = $1`, id); err != nil {
			return fmt.Errorf("decline a session: %w", err)
		}
		return nil
	})
}

const sandboxReturn = `SELECT r.id, r.kind, r.session_id, s.payment_id, s.checkout, r.cents, coalesce(r.key, ''),
		r.won_at IS NOT NULL, r.failed_at IS NOT NULL, r.lost_at IS NOT NULL
	FROM sandbox_return r JOIN sandbox_session s ON s.id = r.session_id WHERE `

func oneReturn(ctx context.Context, from reader, where string, args ...any) (sandbox.Return, error) {
	rows, err := from.Query(ctx, sandboxReturn+where, args...)
	if err != nil {
		return sandbox.Return{}, fmt.Errorf("read a return: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[sandbox.Return])
	if errors.Is(err, pgx.ErrNoRows) {
		return sandbox.Return{}, sandbox.ErrNone
	}
	if err != nil {
		return sandbox.Return{}, fmt.Errorf("read a return: %w", err)
	}
	return r, nil
}

// Return implements sandbox.Store.
func (s Sandbox) Return(ctx context.Context, r sandbox.Return, e sandbox.Event) (first sandbox.Return, err error) {
	err = s.onSession(ctx, r.SessionID, func(tx pgx.Tx, found sandbox.Session) error {
		first, err = oneReturn(ctx, tx, `r.session_id = $1 AND CASE WHEN $2 = '' THEN r.kind = 'dispute' ELSE r.key = $2 END`,
			r.SessionID, r.Key)
		switch {
		case !errors.Is(err, sandbox.ErrNone):
			return err
		case found.State != sandbox.Paid:
			return sandbox.ErrNotNow
		case r.Amount <= 0 || r.Amount > found.Total-found.Refunded-found.Disputed:
			return sandbox.ErrTooMuch
		}
		var key *string
		if r.Key != "" {
			key = &r.Key
		}
		batch := &pgx.Batch{}
		batch.Queue(`INSERT INTO sandbox_return (id, session_id, kind, cents, key) VALUES ($1, $2, $3, $4, $5)`,
			r.ID, r.SessionID, r.Kind, r.Amount, key)
		batch.Queue(addEvent, e.ID, e.Type, e.Object)
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("keep a return: %w", err)
		}
		first, err = oneReturn(ctx, tx, `r.id = $1`, r.ID)
		return err
	})
	return first, err
}

// Win implements sandbox.Store.
func (s Sandbox) Win(ctx context.Context, session, event string) error {
	return s.endDispute(ctx, session, event, "charge.dispute.funds_reinstated", true)
}

// Lose implements sandbox.Store.
func (s Sandbox) Lose(ctx context.Context, session, event string) error {
	return s.endDispute(ctx, session, event, "charge.dispute.closed", false)
}

// endDispute ends the dispute of a session, once.
func (s Sandbox) endDispute(ctx context.Context, session, event, kind string, won bool) error {
	return s.onSession(ctx, session, func(tx pgx.Tx, _ sandbox.Session) error {
		r, err := oneReturn(ctx, tx, `r.session_id = $1 AND r.kind = 'dispute'`, session)
		switch {
		case errors.Is(err, sandbox.ErrNone), won && r.Lost, !won && r.Won:
			return sandbox.ErrNotNow
		case err != nil || r.Won || r.Lost:
			return err
		}
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE sandbox_return SET won_at = CASE WHEN $2 THEN now() END,
			lost_at = CASE WHEN NOT $2 THEN now() END WHERE id = $1`, r.ID, won)
		batch.Queue(addEvent, event, kind, r.ID)
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("end a dispute: %w", err)
		}
		return nil
	})
}

// FailRefund implements sandbox.Store.
func (s Sandbox) FailRefund(ctx context.Context, session, event string) error {
	return s.onSession(ctx, session, func(tx pgx.Tx, _ sandbox.Session) error {
		r, err := oneReturn(ctx, tx, `r.id = (SELECT id FROM sandbox_return WHERE session_id = $1 AND kind = 'refund'
			ORDER BY made_at DESC, id DESC LIMIT 1)`, session)
		switch {
		case errors.Is(err, sandbox.ErrNone):
			return sandbox.ErrNotNow
		case err != nil || r.Failed:
			return err
		}
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE sandbox_return SET failed_at = now() WHERE id = $1`, r.ID)
		batch.Queue(addEvent, event, "refund.failed", r.ID)
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("fail a refund: %w", err)
		}
		return nil
	})
}

// Returned implements sandbox.Store.
func (s Sandbox) Returned(ctx context.Context, id string) (sandbox.Return, error) {
	return oneReturn(ctx, s.pool, `r.id = $1`, id)
}

// Made implements sandbox.Store. A cursor is the time, in microseconds, and the id of the
// last object.
func (s Sandbox) Made(
	ctx context.Context, since time.Time, cursor string, limit int,
) (page []card.Object, next string, err error) {
	from, behind := since, ""
	if at, id, ok := strings.Cut(cursor, "/"); ok {
		micros, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, "", fmt.Errorf("read a cursor: %w", err)
		}
		from, behind = time.UnixMicro(micros), id
	}
	rows, err := s.pool.Query(ctx, `SELECT kind, id, at FROM (
			(SELECT 'session' AS kind, id, paid_at AS at FROM sandbox_session
				WHERE paid_at IS NOT NULL AND purpose <> 'plan' AND (paid_at, id) > ($1, $2) ORDER BY paid_at, id LIMIT $3)
			UNION ALL
			(SELECT 'invoice', i.id, s.paid_at FROM sandbox_session s JOIN sandbox_invoice i ON i.session_id = s.id
				WHERE s.paid_at IS NOT NULL AND (s.paid_at, i.id) > ($1, $2) ORDER BY s.paid_at, i.id LIMIT $3)
			UNION ALL
			(SELECT kind, id, made_at FROM sandbox_return WHERE (made_at, id) > ($1, $2) ORDER BY made_at, id LIMIT $3)
			UNION ALL
			(SELECT 'won', id, won_at FROM sandbox_return
				WHERE won_at IS NOT NULL AND (won_at, id) > ($1, $2) ORDER BY won_at, id LIMIT $3)
			UNION ALL
			(SELECT 'lost', id, lost_at FROM sandbox_return
				WHERE lost_at IS NOT NULL AND (lost_at, id) > ($1, $2) ORDER BY lost_at, id LIMIT $3)
			UNION ALL
			(SELECT 'failed', id, failed_at FROM sandbox_return
				WHERE failed_at IS NOT NULL AND (failed_at, id) > ($1, $2) ORDER BY failed_at, id LIMIT $3)
		) made ORDER BY at, id LIMIT $3`, from, behind, limit)
	if err != nil {
		return nil, "", fmt.Errorf("list what was made: %w", err)
	}
	var o card.Object
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&o.Kind, &o.ID, &at}, func() error {
		page = append(page, o)
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("list what was made: %w", err)
	}
	if len(page) == limit {
		next = strconv.FormatInt(at.UnixMicro(), 10) + "/" + o.ID
	}
	return page, next, nil
}

// TakeEvents implements sandbox.Store.
func (s Sandbox) TakeEvents(ctx context.Context, limit int) ([]sandbox.Event, error) {
	rows, err := s.pool.Query(ctx, `WITH due AS (
			SELECT id FROM sandbox_event WHERE due_at <= (SELECT now()) ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
		)
		UPDATE sandbox_event e SET tries = e.tries + 1,
			due_at = CASE WHEN e.tries + 1 < $2 THEN now() + least(interval '10 seconds' * 2 ^ e.tries, interval '1 hour') END
		FROM due WHERE e.id = due.id RETURNING e.id, e.type, e.object, e.tries`, limit, sandbox.MaxTries)
	if err != nil {
		return nil, fmt.Errorf("take events: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sandbox.Event])
	if err != nil {
		return nil, fmt.Errorf("take events: %w", err)
	}
	return list, nil
}

// EventSent implements sandbox.Store.
func (s Sandbox) EventSent(ctx context.Context, id string) error {
	if _, err := s.pool.Exec(ctx, `UPDATE sandbox_event SET due_at = NULL WHERE id = $1`, id); err != nil {
		return fmt.Errorf("end an event: %w", err)
	}
	return nil
}

// beginSubscription begins what a paid session is for: a subscription with a paid first invoice.
func beginSubscription(batch *pgx.Batch, session, subscription, invoice, event string) {
	batch.Queue(`INSERT INTO sandbox_subscription (id, session_id, period_end, due_at)
		VALUES ($1, $2, now() + interval '1 month', now() + interval '1 month')`, subscription, session)
	batch.Queue(`INSERT INTO sandbox_invoice (id, subscription_id, number, period_start, period_end)
		VALUES ($1, $2, 1, now(), now() + interval '1 month')`, invoice, subscription)
	batch.Queue(`UPDATE sandbox_invoice SET session_id = $2, tries = 1 WHERE id = $1`, invoice, session)
	batch.Queue(addEvent, event, "invoice.paid", invoice)
}
