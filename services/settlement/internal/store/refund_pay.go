package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/refund"
	"svc.internal/services/settlement/internal/slash"
)

// Pay implements refund.Store.
func (s Refunds) Pay(ctx context.Context, r refund.Refund, payments []refund.Payment) (begun bool, err error) {
	err = s.locked(ctx, r.Provider, func(tx pgx.Tx) error {
		begun = false
		var due bool
		if err := tx.QueryRow(ctx, `SELECT state = 'asked' AND due_at <= clock_timestamp() FROM collateral_refund
			WHERE refund_id = $1`, r.ID).Scan(&due); err != nil || !due {
			return err
		}
		if err := blocked(ctx, tx, r.Provider); err != nil {
			if fault.Is(err, fault.RefundBlocked) {
				return nil
			}
			return err
		}
		h, err := s.holdings(ctx, tx, r.Provider)
		if err != nil || h.Card.Stale {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE collateral_refund SET state = 'paying', paying_at = clock_timestamp(),
			look_at = clock_timestamp() WHERE refund_id = $1`, r.ID); err != nil {
			return err
		}
		taken, err := insertPayments(ctx, tx, r.ID, payments, h.Card.Free)
		if err != nil {
			return err
		}
		if taken > 0 {
			if err := changeCard(ctx, tx, r.Provider, `free_nano_usd = free_nano_usd - $2`, int64(taken)); err != nil {
				return err
			}
		}
		if err := wakeRefundParts(ctx, tx, r.ID); err != nil {
			return err
		}
		begun = true
		crash.At("settlement.refund.before_paying")
		return s.assess(ctx, tx, r.Provider)
	})
	if err != nil {
		return false, fmt.Errorf("begin to pay refund %s: %w", r.ID, err)
	}
	return begun, nil
}

// insertPayments makes parts of payments by card, of at most what is free together, and returns their sum.
func insertPayments(
	ctx context.Context, tx pgx.Tx, id refund.ID, payments []refund.Payment, free money.NanoUSD,
) (taken money.NanoUSD, err error) {
	for _, p := range payments[:min(len(payments), refund.MaxCardParts)] {
		cents := min(p.Cents, int64((free-taken)/slash.Cent))
		if cents <= 0 {
			continue
		}
		if _, err := tx.Exec(ctx, `INSERT INTO collateral_refund_part (part_id, refund_id, checkout_id, cents, state)
			VALUES (gen_random_uuid(), $1, $2, $3, 'opened')`, id, p.Checkout, cents); err != nil {
			return 0, err
		}
		taken += money.NanoUSD(cents) * slash.Cent
	}
	return taken, nil
}

// End implements refund.Store.
func (s Refunds) End(ctx context.Context, r refund.Refund) error {
	err := s.locked(ctx, r.Provider, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE collateral_refund r SET state = 'paid', ended_at = clock_timestamp()
			WHERE refund_id = $1 AND state IN ('paying', 'repaying') AND NOT EXISTS (SELECT FROM collateral_refund_part p
				WHERE p.refund_id = r.refund_id AND p.state NOT IN ('done', 'cancelled', 'reversed'))`, r.ID)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return s.assess(ctx, tx, r.Provider)
	})
	if err != nil {
		return fmt.Errorf("end refund %s: %w", r.ID, err)
	}
	return nil
}

// DueParts implements refund.Store.
func (s Refunds) DueParts(ctx context.Context, pause time.Duration, limit int) ([]refund.Work, error) {
	rows, err := s.pool.Query(ctx, `
		WITH due AS (
			SELECT part_id FROM collateral_refund_part WHERE due_at <= (SELECT clock_timestamp())
				AND state NOT IN ('done', 'cancelled', 'reversed')
			ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
		), p AS (
			UPDATE collateral_refund_part SET due_at = clock_timestamp() + $1::interval FROM due
			WHERE collateral_refund_part.part_id = due.part_id RETURNING collateral_refund_part.*
		)
		SELECT `+refundPartColumns+`, r.state, c.final_at, coalesce(o.free, 0), coalesce(o.escrow, 0), o.refund_at,
			EXISTS (SELECT FROM collateral_refund_part q WHERE q.refund_id = p.refund_id AND q.part_id <> p.part_id
				AND q.state IN ('posted', 'bank', 'taken_back'))
		FROM p JOIN collateral_refund r USING (refund_id) LEFT JOIN position_cursor c ON c.chain_id = p.chain_id
			LEFT JOIN position o ON o.chain_id = p.chain_id
				AND o.subject = uuid_send(r.provider_id) || decode(repeat('00', 16), 'hex')
				AND o.depositor = p.depositor`, pause, limit)
	if err != nil {
		return nil, fmt.Errorf("read the parts of refunds that are due: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w refund.Work, err error) {
		fields, settle := refundPartFields(&w.Part)
		var final, at nullTime
		err = row.Scan(append(fields, &w.Of, &final, &w.At.Free, &w.At.Escrow, &at, &w.Others)...)
		settle()
		w.Final, w.At.RefundAt = final.at, at.at
		return w, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the parts of refunds that are due: %w", err)
	}
	return list, nil
}

// Begin implements refund.Store.
func (s Refunds) Begin(ctx context.Context, p refund.Part, a refund.Action, attempt int) (bool, error) {
	tag, err := s.pool.Exec(ctx, `UPDATE collateral_refund_part SET action = $4, attempt = $5
		WHERE part_id = $1 AND state = $2 AND action = $3 AND attempt = $6`, p.ID, p.State, p.Action, a, attempt, p.Attempt)
	if err != nil {
		return false, fmt.Errorf("begin to %s a part of a refund: %w", a, err)
	}
	return tag.RowsAffected() == 1, nil
}

// Wait implements refund.Store.
func (s Refunds) Wait(ctx context.Context, p refund.Part, d time.Duration) error {
	if _, err := s.pool.Exec(ctx, `UPDATE collateral_refund_part SET due_at = clock_timestamp() + $2::interval
		WHERE part_id = $1`, p.ID, d); err != nil {
		return fmt.Errorf("let a part of a refund wait: %w", err)
	}
	return nil
}

// Move implements refund.Store.
func (s Refunds) Move(ctx context.Context, p refund.Part, to refund.PartState, entry ids.EntryID) error {
	err := s.locked(ctx, p.Provider, func(tx pgx.Tx) error {
		asked, paid := entryOrNull(ids.EntryID{}), entryOrNull(ids.EntryID{})
		if to == refund.PartPosted {
			asked = entryOrNull(entry)
		} else {
			paid = entryOrNull(entry)
		}
		tag, err := tx.Exec(ctx, `UPDATE collateral_refund_part SET state = $3, action = '',
				asked_entry = coalesce(asked_entry, $4), paid_entry = $5, card_attempt = $6, due_at = clock_timestamp()
			WHERE part_id = $1 AND state = $2 AND card_attempt <= $6`, p.ID, p.State, to, asked, paid, p.CardAttempt)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if p.ByCard() {
			if err := changeCard(ctx, tx, p.Provider, `stale = true, looked_at = NULL`); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `UPDATE collateral_refund SET look_at = clock_timestamp()
			WHERE refund_id = $1 AND state IN ('asked', 'paying', 'repaying')`, p.Refund); err != nil {
			return err
		}
		return s.assess(ctx, tx, p.Provider)
	})
	if err != nil {
		return fmt.Errorf("move a part of a refund to %s: %w", to, err)
	}
	return nil
}

// ConfirmBank implements refund.Store. A part that waits for the bank since the books were told is none of them.
func (s Refunds) ConfirmBank(
	ctx context.Context, id refund.ID, parts []refund.PartID, operator, reference string,
) (refund.Refund, error) {
	tag, err := s.pool.Exec(ctx, `UPDATE collateral_refund_part SET state = 'from_bank', bank_actor = $2, bank_ref = $3,
		due_at = clock_timestamp() WHERE refund_id = $1 AND part_id = ANY($4::uuid[]) AND state = 'bank'`, id, operator,
		reference, parts)
	if err != nil {
		return refund.Refund{}, fmt.Errorf("confirm a refund from the bank: %w", err)
	}
	r, err := readRefund(ctx, s.pool, id)
	if err != nil {
		return r, knownFault("confirm a refund from the bank", err)
	}
	if tag.RowsAffected() > 0 {
		return r, nil
	}
	var confirmed bool
	if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM collateral_refund_part WHERE refund_id = $1
		AND bank_ref = $2)`, id, reference).Scan(&confirmed); err != nil {
		return r, fmt.Errorf("confirm a refund from the bank: %w", err)
	}
	if !confirmed {
		return r, refund.NotAllowed("nothing of the refund waits for the bank")
	}
	return r, nil
}

// List lists refunds in a state, the newest first, and counts all of them. An empty state stands for all.
func (s Refunds) List(ctx context.Context, state refund.State, offset, limit int) ([]refund.Refund, int, error) {
	var total int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM collateral_refund WHERE $1 = '' OR state = $1`, state).Scan(
		&total); err != nil {
		return nil, 0, fmt.Errorf("count refunds: %w", err)
	}
	rows, err := s.pool.Query(ctx, `SELECT `+refundColumns+` FROM collateral_refund r WHERE $1 = '' OR state = $1
		ORDER BY asked_at DESC, refund_id DESC OFFSET $2 LIMIT $3`, state, offset, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("list refunds: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanRefund)
	if err != nil {
		return nil, 0, fmt.Errorf("list refunds: %w", err)
	}
	for i := range list {
		if list[i].Parts, err = refundParts(ctx, s.pool, list[i].ID); err != nil {
			return nil, 0, fmt.Errorf("list refunds: %w", err)
		}
	}
	return list, total, nil
}
