package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/refund"
)

// Refunds keeps refunds; it implements refund.Store.
type Refunds struct{ Positions }

const refundColumns = `r.refund_id, r.provider_id, r.state, r.asked_at, r.due_at, r.ended_at`

func scanRefund(row pgx.CollectableRow) (r refund.Refund, err error) {
	var ended nullTime
	err = row.Scan(&r.ID, &r.Provider, &r.State, &r.AskedAt, &r.DueAt, &ended)
	r.EndedAt = ended.at
	return r, err
}

const refundPartColumns = `p.part_id, p.refund_id, r.provider_id, coalesce(p.chain_id, 0), p.depositor,
	coalesce(p.checkout_id::text, ''), coalesce(p.cents, 0), p.state, p.action, p.attempt,
	p.card_attempt`

func refundPartFields(p *refund.Part) (fields []any, settle func()) {
	var depositor []byte
	return []any{&p.ID, &p.Refund, &p.Provider, &p.Chain, &depositor, &p.Checkout, &p.Cents, &p.State, &p.Action,
		&p.Attempt, &p.CardAttempt}, func() { copy(p.Depositor[:], depositor) }
}

// Ask implements refund.Store.
func (s Refunds) Ask(ctx context.Context, id refund.ID, provider ids.ProviderID) (r refund.Refund, err error) {
	err = s.locked(ctx, provider, func(tx pgx.Tx) error {
		var open bool
		if r, open, err = openRefund(ctx, tx, provider); err != nil || open {
			return err
		}
		if err := blocked(ctx, tx, provider); err != nil {
			return err
		}
		if err := recent(ctx, tx, provider); err != nil {
			return err
		}
		h, err := s.holdings(ctx, tx, provider)
		if err != nil {
			return err
		}
		if len(h.Positions) == 0 && h.Card.Free == 0 {
			return refund.NotAllowed("there is no collateral to refund")
		}
		if _, err := tx.Exec(ctx, `INSERT INTO collateral_refund (refund_id, provider_id) VALUES ($1, $2)`, id,
			provider); err != nil {
			return err
		}
		if err := insertRefundParts(ctx, tx, id, h.Positions); err != nil {
			return err
		}
		if err := s.assess(ctx, tx, provider); err != nil {
			return err
		}
		r, _, err = openRefund(ctx, tx, provider)
		crash.At("settlement.refund.before_commit")
		return err
	})
	if err != nil {
		return refund.Refund{}, knownFault("ask for a refund", err)
	}
	return r, nil
}

// knownFault leaves a fault as it is, and wraps other errors.
func knownFault(doing string, err error) error {
	if _, ok := fault.As(err); ok {
		return err
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// blocked fails with refund_blocked where something open keeps a refund of the provider, whose row is locked.
func blocked(ctx context.Context, tx pgx.Tx, provider ids.ProviderID) error {
	var blocker string
	var cancelling bool
	if err := tx.QueryRow(ctx, `SELECT refund_blocker($1), EXISTS (SELECT FROM collateral_refund r
		JOIN collateral_refund_part p USING (refund_id) WHERE r.provider_id = $1 AND r.state = 'cancelled'
			AND p.state NOT IN ('done', 'cancelled', 'reversed'))`, provider).Scan(&blocker, &cancelling); err != nil {
		return err
	}
	if cancelling {
		blocker = "a refund that is being taken back"
	}
	if blocker != "" {
		return refund.Blocked(blocker)
	}
	return nil
}

// recent fails with refund_blocked where the last refund of the provider, whose row is locked, was asked for within
// refund.Every.
func recent(ctx context.Context, tx pgx.Tx, provider ids.ProviderID) error {
	var wait time.Duration
	if err := tx.QueryRow(ctx, `SELECT coalesce(max(asked_at) + $2::interval - clock_timestamp(), interval '0')
		FROM collateral_refund WHERE provider_id = $1`, provider, refund.Every).Scan(&wait); err != nil {
		return err
	}
	if wait > 0 {
		return refund.TooOften(wait)
	}
	return nil
}

func insertRefundParts(ctx context.Context, tx pgx.Tx, id refund.ID, all []position.Position) error {
	for _, p := range all {
		if _, err := tx.Exec(ctx, `INSERT INTO collateral_refund_part (part_id, refund_id, chain_id, depositor, state)
			VALUES (gen_random_uuid(), $1, $2, $3, 'asked')`, id, p.Chain, p.Depositor[:]); err != nil {
			return err
		}
	}
	return nil
}

// openRefund reads the refund of a provider that is not over; ok is false where there is none.
func openRefund(ctx context.Context, q rowReader, provider ids.ProviderID) (r refund.Refund, ok bool, err error) {
	rows, err := q.Query(ctx, `SELECT `+refundColumns+` FROM collateral_refund r
		WHERE provider_id = $1 AND state IN ('asked', 'paying')`, provider)
	if err != nil {
		return r, false, err
	}
	r, err = pgx.CollectExactlyOneRow(rows, scanRefund)
	if errors.Is(err, pgx.ErrNoRows) {
		return refund.Refund{}, false, nil
	}
	if err != nil {
		return r, false, err
	}
	r.Parts, err = refundParts(ctx, q, r.ID)
	return r, err == nil, err
}

// rowReader is a pool or a transaction.
type rowReader interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func refundParts(ctx context.Context, q rowReader, id refund.ID) ([]refund.Part, error) {
	rows, err := q.Query(ctx, `SELECT `+refundPartColumns+`, p.bank_ref IS NOT NULL, e.tx, coalesce(e.amount, 0)
		FROM collateral_refund_part p JOIN collateral_refund r USING (refund_id)
			LEFT JOIN LATERAL (SELECT tx, amount FROM position_event WHERE chain_id = p.chain_id AND kind = 'refunded'
				AND provider_id = r.provider_id AND depositor = p.depositor AND p.state = 'done' AND at >= r.asked_at
				AND NOT gone
				ORDER BY number LIMIT 1) e ON true
		WHERE refund_id = $1 ORDER BY p.chain_id, p.depositor, p.part_id`, id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p refund.Part, err error) {
		fields, settle := refundPartFields(&p)
		var tx []byte
		err = row.Scan(append(fields, &p.FromBank, &tx, &p.Amount)...)
		settle()
		copy(p.Tx[:], tx)
		return p, err
	})
}

// Last returns the last refunds of a provider, the newest first.
func (s Refunds) Last(ctx context.Context, provider ids.ProviderID, limit int) ([]refund.Refund, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+refundColumns+` FROM collateral_refund r WHERE provider_id = $1
		ORDER BY asked_at DESC LIMIT $2`, provider, limit)
	if err != nil {
		return nil, fmt.Errorf("read the last refunds of %s: %w", provider, err)
	}
	list, err := pgx.CollectRows(rows, scanRefund)
	if err != nil {
		return nil, fmt.Errorf("read the last refunds of %s: %w", provider, err)
	}
	for i := range list {
		if list[i].Parts, err = refundParts(ctx, s.pool, list[i].ID); err != nil {
			return nil, fmt.Errorf("read the last refunds of %s: %w", provider, err)
		}
	}
	return list, nil
}

// Cancel implements refund.Store.
func (s Refunds) Cancel(ctx context.Context, provider ids.ProviderID) (r refund.Refund, err error) {
	err = s.locked(ctx, provider, func(tx pgx.Tx) error {
		var open bool
		if r, open, err = openRefund(ctx, tx, provider); err != nil {
			return err
		}
		switch {
		case !open:
			r, err = lastCancelled(ctx, tx, provider)
			return err
		case r.State != refund.Asked:
			return refund.NotAllowed("the refund is being paid")
		}
		if _, err := tx.Exec(ctx, `UPDATE collateral_refund SET state = 'cancelled', ended_at = clock_timestamp()
			WHERE refund_id = $1`, r.ID); err != nil {
			return err
		}
		if err := wakeRefundParts(ctx, tx, r.ID); err != nil {
			return err
		}
		if err := s.assess(ctx, tx, provider); err != nil {
			return err
		}
		r, err = readRefund(ctx, tx, r.ID)
		return err
	})
	if err != nil {
		return refund.Refund{}, knownFault("cancel a refund", err)
	}
	return r, nil
}

// lastCancelled returns the provider's last refund if it was cancelled.
func lastCancelled(ctx context.Context, tx pgx.Tx, provider ids.ProviderID) (refund.Refund, error) {
	rows, err := tx.Query(ctx, `SELECT `+refundColumns+` FROM collateral_refund r WHERE provider_id = $1
		ORDER BY asked_at DESC LIMIT 1`, provider)
	if err != nil {
		return refund.Refund{}, err
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanRefund)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && r.State != refund.Cancelled {
		return refund.Refund{}, refund.NotAllowed("no refund is open")
	}
	return r, err
}

// Refund implements refund.Store.
func (s Refunds) Refund(ctx context.Context, id refund.ID) (refund.Refund, error) {
	r, err := readRefund(ctx, s.pool, id)
	if err != nil {
		return refund.Refund{}, knownFault("read a refund", err)
	}
	return r, nil
}

func readRefund(ctx context.Context, q rowReader, id refund.ID) (refund.Refund, error) {
	rows, err := q.Query(ctx, `SELECT `+refundColumns+` FROM collateral_refund r WHERE refund_id = $1`, id)
	if err != nil {
		return refund.Refund{}, err
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanRefund)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, fault.New(fault.NotFound, refund.NotFound, "there is no such refund").On("refund_id")
	}
	if err != nil {
		return r, err
	}
	r.Parts, err = refundParts(ctx, q, id)
	return r, err
}

// wakeRefund has the refund of a provider looked at anew, where one is open or being taken back.
func wakeRefund(ctx context.Context, tx pgx.Tx, provider ids.ProviderID) error {
	if _, err := tx.Exec(ctx, `UPDATE collateral_refund_part p SET due_at = clock_timestamp() FROM collateral_refund r
		WHERE r.refund_id = p.refund_id AND r.provider_id = $1 AND p.state IN ('asked', 'requested')`, provider); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE collateral_refund SET look_at = clock_timestamp()
		WHERE provider_id = $1 AND state IN ('asked', 'paying')`, provider)
	return err
}

func wakeRefundParts(ctx context.Context, tx pgx.Tx, id refund.ID) error {
	_, err := tx.Exec(ctx, `UPDATE collateral_refund_part SET due_at = clock_timestamp()
		WHERE refund_id = $1 AND state NOT IN ('done', 'cancelled', 'reversed')`, id)
	return err
}

// repay has a payment by card paid back again that its card did not take. What a later attempt did stays.
func repay(ctx context.Context, tx pgx.Tx, f position.CardFailure) error {
	tag, err := tx.Exec(ctx, `UPDATE collateral_refund_part SET state = 'posted', card_attempt = $2 + 1, paid_entry = NULL,
			action = '', due_at = clock_timestamp()
		WHERE part_id = $1 AND chain_id IS NULL AND state IN ('card', 'done') AND card_attempt <= $2`, f.Part, f.Attempt)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE collateral_refund r SET state = 'repaying', ended_at = NULL, look_at = clock_timestamp()
		FROM collateral_refund_part p WHERE p.part_id = $1 AND r.refund_id = p.refund_id AND r.state = 'paid'`, f.Part)
	return err
}

// DueRefunds implements refund.Store.
func (s Refunds) DueRefunds(ctx context.Context, pause time.Duration, limit int) ([]refund.Refund, error) {
	rows, err := s.pool.Query(ctx, `
		WITH due AS (
			SELECT refund_id FROM collateral_refund WHERE state IN ('asked', 'paying', 'repaying')
				AND look_at <= (SELECT clock_timestamp()) AND (state <> 'asked' OR due_at <= clock_timestamp())
			ORDER BY look_at LIMIT $2 FOR UPDATE SKIP LOCKED
		)
		UPDATE collateral_refund r SET look_at = clock_timestamp() + $1::interval FROM due
		WHERE r.refund_id = due.refund_id RETURNING `+refundColumns, pause, limit)
	if err != nil {
		return nil, fmt.Errorf("read the refunds that are due: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanRefund)
	if err != nil {
		return nil, fmt.Errorf("read the refunds that are due: %w", err)
	}
	return list, nil
}

// Open returns the refund of a provider that is not over; ok is false where there is none.
func (s Refunds) Open(ctx context.Context, provider ids.ProviderID) (r refund.Refund, ok bool, err error) {
	r, ok, err = openRefund(ctx, s.pool, provider)
	if err != nil {
		return r, false, fmt.Errorf("read the refund of %s: %w", provider, err)
	}
	return r, ok, nil
}
