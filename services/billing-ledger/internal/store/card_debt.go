package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
)

// unheld locks the wallet of an account, and returns what of it no hold sets aside, at least 0.
func unheld(ctx context.Context, tx pgx.Tx, id ids.AccountID) (money.NanoUSD, error) {
	has, err := readNeeds(ctx, tx, posting.Needs{Account: id})
	return max(has.Unheld, 0), err
}

// creditReversed posts line 22 for what went back of a payment of credit, and freezes the account.
// What was spent is a debt.
func creditReversed(
	ctx context.Context, tx pgx.Tx, p lockedPayment, r card.Return, newID func() (ids.EntryID, error),
) ([]ids.EntryID, func() error, error) {
	free, err := unheld(ctx, tx, p.account)
	if err != nil {
		return nil, nil, err
	}
	id, err := newID()
	if err != nil {
		return nil, nil, err
	}
	e, err := ledger.CardReversal(ledger.Fact{ID: id, BusinessID: r.ID}, p.account, r.Amount.Nano(), free)
	if err != nil {
		return nil, nil, err
	}
	posted, err := post(ctx, tx, []ledger.Entry{e}, nil)
	if err != nil {
		return nil, nil, err
	}
	return posted, func() error {
		if owed := r.Amount.Nano() - free; owed > 0 {
			if _, err := tx.Exec(ctx, `INSERT INTO card_debt (reversal_id, account_id, owed) VALUES ($1, $2, $3)`, r.ID,
				p.account, owed); err != nil {
				return fmt.Errorf("keep a debt: %w", err)
			}
			if _, err := freeze(ctx, tx, p.account, account.ByDebt, r.ID); err != nil {
				return err
			}
		}
		return disputed(ctx, tx, p, r)
	}, nil
}

// disputed freezes the account of a payment in a dispute. The caller has the lock on the wallet.
func disputed(ctx context.Context, tx pgx.Tx, p lockedPayment, r card.Return) error {
	if r.Kind == card.DisputeObject {
		if _, err := freeze(ctx, tx, p.account, account.ByDispute, r.ID); err != nil {
			return err
		}
	}
	return followCauses(ctx, tx, p.account, "card "+string(r.Kind))
}

// debt is a debt under the lock on its payment.
type debt struct {
	owed, paid, lost, undone money.NanoUSD
	payments                 int
	old                      bool
}

func (d debt) left() money.NanoUSD { return d.owed - d.paid - d.lost - d.undone }

// readDebt reads the debt of a reversal; one of nothing where there is none.
func readDebt(ctx context.Context, tx pgx.Tx, reversal string) (d debt, err error) {
	err = tx.QueryRow(ctx, `SELECT owed, paid, lost, undone, payments, at <= now() - $2::interval FROM card_debt
		WHERE reversal_id = $1`, reversal, card.DebtLostAfter).Scan(&d.owed, &d.paid, &d.lost, &d.undone, &d.payments, &d.old)
	if errors.Is(err, pgx.ErrNoRows) {
		return debt{}, nil
	}
	if err != nil {
		return d, fmt.Errorf("read a debt: %w", err)
	}
	return d, nil
}

// keepDebt keeps what became of a debt.
func keepDebt(ctx context.Context, tx pgx.Tx, reversal string, d debt) error {
	if _, err := tx.Exec(ctx, `UPDATE card_debt SET paid = $2, lost = $3, undone = $4, payments = $5,
		due_at = CASE WHEN $6 THEN NULL ELSE now() + $7::interval END WHERE reversal_id = $1`, reversal, d.paid, d.lost,
		d.undone, d.payments, d.left() == 0, card.DebtInterval); err != nil {
		return fmt.Errorf("keep a debt: %w", err)
	}
	return nil
}

// TakeDebts implements card.Store.
func (s Cards) TakeDebts(ctx context.Context, limit int) ([]string, error) {
	rows, err := s.pool.Query(ctx, `WITH due AS (
			SELECT reversal_id FROM card_debt WHERE due_at <= (SELECT now()) ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
		)
		UPDATE card_debt d SET due_at = now() + $2::interval FROM due WHERE d.reversal_id = due.reversal_id
		RETURNING d.reversal_id`, limit, card.DebtInterval)
	if err != nil {
		return nil, fmt.Errorf("take debts: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("take debts: %w", err)
	}
	return list, nil
}

// lockReversal locks the payment of a reversal, or returns card.ErrNotPaid.
func lockReversal(ctx context.Context, tx pgx.Tx, reversal string) (p lockedPayment, err error) {
	var payment string
	if err := tx.QueryRow(ctx, `SELECT payment_id FROM card_reversal WHERE id = $1`, reversal).Scan(&payment); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return p, card.ErrNotPaid
		}
		return p, fmt.Errorf("read a reversal: %w", err)
	}
	return lockPayment(ctx, tx, payment)
}

// RepayDebt implements card.Store.
func (s Cards) RepayDebt(ctx context.Context, reversal string, newID func() (ids.EntryID, error)) error {
	_, err := s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) { return repayDebt(ctx, tx, reversal, newID) })
	return err
}

func repayDebt(
	ctx context.Context, tx pgx.Tx, reversal string, newID func() (ids.EntryID, error),
) ([]ids.EntryID, error) {
	p, err := lockReversal(ctx, tx, reversal)
	if err != nil {
		return nil, err
	}
	free, err := unheld(ctx, tx, p.account)
	if err != nil {
		return nil, err
	}
	d, err := readDebt(ctx, tx, reversal)
	if err != nil || d.left() == 0 {
		return nil, err
	}
	var entries []ledger.Entry
	if amount := min(free, d.left()); amount > 0 {
		id, err := newID()
		if err != nil {
			return nil, err
		}
		d.payments, d.paid = d.payments+1, d.paid+amount
		e, err := ledger.CardDebtPayment(ledger.Fact{ID: id, BusinessID: fmt.Sprintf("%s/%d", reversal, d.payments)},
			p.account, amount)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	if lost := d.left(); d.old && lost > 0 {
		id, err := newID()
		if err != nil {
			return nil, err
		}
		d.lost += lost
		e, err := ledger.CardDebtLoss(ledger.Fact{ID: id, BusinessID: reversal}, p.account, lost)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return endDebt(ctx, tx, p.account, reversal, d, entries)
}

// endDebt posts what became of a debt and keeps it. A debt of which nothing is left freezes no longer, but a
// loss does.
func endDebt(
	ctx context.Context, tx pgx.Tx, id ids.AccountID, reversal string, d debt, entries []ledger.Entry,
) (posted []ids.EntryID, err error) {
	if len(entries) == 0 {
		return nil, nil
	}
	if posted, err = post(ctx, tx, entries, nil); err != nil {
		return nil, err
	}
	if err := keepDebt(ctx, tx, reversal, d); err != nil {
		return nil, err
	}
	if d.left() == 0 {
		if err := lift(ctx, tx, id, reversal, account.ByDebt); err != nil {
			return nil, err
		}
		if d.lost > 0 {
			if _, err := freeze(ctx, tx, id, account.ByLoss, reversal); err != nil {
				return nil, err
			}
		}
		if err := followCauses(ctx, tx, id, "card debt"); err != nil {
			return nil, err
		}
	}
	crash.At("billing.card.debt_before_commit")
	return posted, nil
}

// creditWon returns the entry by which what went back of a payment of credit is here again. It ends what is
// owed and what was lost of it; the rest is credit.
func creditWon(
	ctx context.Context, tx pgx.Tx, p lockedPayment, r card.Return, newID func() (ids.EntryID, error),
) (ledger.Entry, func() error, error) {
	if _, err := unheld(ctx, tx, p.account); err != nil {
		return ledger.Entry{}, nil, err
	}
	d, err := readDebt(ctx, tx, r.ID)
	if err != nil {
		return ledger.Entry{}, nil, err
	}
	id, err := newID()
	if err != nil {
		return ledger.Entry{}, nil, err
	}
	e, err := ledger.CardDisputeWin(ledger.Fact{ID: id, BusinessID: r.ID}, p.account, r.Amount.Nano(), d.left(), d.lost)
	if err != nil {
		return ledger.Entry{}, nil, err
	}
	return e, func() error {
		if d.owed > 0 {
			d.lost, d.undone = 0, d.owed-d.paid
			if err := keepDebt(ctx, tx, r.ID, d); err != nil {
				return err
			}
		}
		if err := lift(ctx, tx, p.account, r.ID, account.ByDispute, account.ByDebt, account.ByLoss); err != nil {
			return err
		}
		return followCauses(ctx, tx, p.account, "card dispute won")
	}, nil
}

// Lose implements card.Store.
func (s Cards) Lose(ctx context.Context, r card.Return) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		p, err := lockPayment(ctx, tx, r.PaymentID)
		if err != nil || p.account.IsZero() || p.purpose == card.Collateral {
			return err
		}
		return endDispute(ctx, tx, p.account, r.ID, "card dispute lost")
	})
}

func endDispute(ctx context.Context, tx pgx.Tx, id ids.AccountID, dispute, memo string) error {
	if _, err := unheld(ctx, tx, id); err != nil {
		return err
	}
	if err := lift(ctx, tx, id, dispute, account.ByDispute); err != nil {
		return err
	}
	return followCauses(ctx, tx, id, memo)
}

// EndDisputes implements card.Store.
func (s Cards) EndDisputes(ctx context.Context, limit int) error {
	rows, err := s.pool.Query(ctx, `SELECT account_id, ref FROM account_freeze WHERE cause = 'dispute'
		AND lifted_at IS NULL AND at <= now() - $1::interval LIMIT $2`, card.DebtLostAfter, limit)
	if err != nil {
		return fmt.Errorf("read old disputes: %w", err)
	}
	type dispute struct {
		Account ids.AccountID
		ID      string
	}
	old, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dispute])
	if err != nil {
		return fmt.Errorf("read old disputes: %w", err)
	}
	for _, d := range old {
		if e := s.inTx(ctx, func(tx pgx.Tx) error {
			return endDispute(ctx, tx, d.Account, d.ID, "nobody has said how a card dispute ended")
		}); e != nil {
			err = errors.Join(err, e)
		}
	}
	return err
}
