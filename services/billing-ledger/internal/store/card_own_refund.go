package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/card"
)

// chargedEver is what was ever charged to an account, and was not given back. Whoever reads it to
// keep it has the lock on the wallet. A debt that is paid spends credit like a charge.
func chargedEver(account string) string {
	return `((SELECT coalesce(sum(amount), 0) FROM posting WHERE account_kind = 'l:consumer:available'
			AND owner_id = ` + account + `::uuid AND asset = 'usd' AND entry_kind NOT IN ('request_refund', 'goodwill_refund',
			'broken_answer', 'card_debt_paid'))
		- (SELECT posted FROM wallet WHERE account_id = ` + account + `::uuid))::bigint`
}

// ownUnspent returns what of a payment its consumer may ask back: see card.Unspent. The caller has
// the locks on the payment and on the wallet. A frozen account, and one with a payment that was
// taken back, may ask for nothing.
func ownUnspent(ctx context.Context, tx pgx.Tx, p lockedPayment) (money.NanoUSD, error) {
	var stopped, old bool
	var refunds int
	var charged money.NanoUSD
	if err := tx.QueryRow(ctx, `SELECT a.state = 'frozen' OR EXISTS (SELECT FROM checkout c
				JOIN card_payment b ON b.checkout_id = c.id JOIN card_reversal r ON r.payment_id = b.id
				WHERE c.account_id = a.id AND c.purpose <> 'collateral' AND r.cause = 'dispute'
					AND NOT EXISTS (SELECT FROM card_dispute_won WHERE reversal_id = r.id)),
			p.at <= now() - $3::interval, (SELECT count(*) FROM card_refund WHERE payment_id = p.id), `+chargedEver("$1")+`
		FROM account a, card_payment p WHERE a.id = $1 AND p.id = $2`, p.account, p.id, card.OwnRefundFor).
		Scan(&stopped, &old, &refunds, &charged); err != nil {
		return 0, fmt.Errorf("read what a refund depends on: %w", err)
	}
	switch {
	case stopped:
		return 0, card.ErrNotOwn
	case old:
		return 0, card.ErrTooOld
	case refunds >= card.MaxOwnRefunds:
		return 0, card.ErrTooMany
	}
	list, err := boughtSince(ctx, tx, p)
	if err != nil {
		return 0, err
	}
	return card.Unspent(charged, list), nil
}

// boughtSince returns the payments of credit from one on, the newest first. After more than
// card.MaxBought payments there is none: nothing of it is taken for unspent.
func boughtSince(ctx context.Context, tx pgx.Tx, p lockedPayment) ([]card.Bought, error) {
	rows, err := tx.Query(ctx, `SELECT coalesce(p.charged_before, 0), c.cents - b.refunded FROM checkout c
			JOIN card_payment p ON p.checkout_id = c.id JOIN card_payment_back b ON b.payment_id = p.id
		WHERE c.account_id = $1 AND c.purpose = 'topup' AND p.number >= (SELECT number FROM card_payment WHERE id = $2)
		ORDER BY p.number DESC LIMIT $3`, p.account, p.id, card.MaxBought+1)
	if err != nil {
		return nil, fmt.Errorf("list payments of credit: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[card.Bought])
	if err != nil {
		return nil, fmt.Errorf("list payments of credit: %w", err)
	}
	if len(list) > card.MaxBought {
		return nil, nil
	}
	return list, nil
}
