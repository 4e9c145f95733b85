package card

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

const (
	// OwnRefundFor is how long after a payment a consumer may ask for its unspent credit back.
	OwnRefundFor = 14 * 24 * time.Hour
	// MaxOwnRefunds bounds the refunds of a payment while its consumer asks for them.
	MaxOwnRefunds = 10
	// MaxBought bounds the payments since another one that a consumer's own refund looks at.
	MaxBought = 1000
)

// ByConsumer is who asks for a consumer's own refunds.
const ByConsumer = "consumer"

// RefundOf is the refund that somebody asks for under an Idempotency-Key: one for each key, for
// ever. The keys of consumers and of operators are apart.
func RefundOf(account ids.AccountID, own bool, key string) RefundID {
	who := "operator"
	if own {
		who = ByConsumer
	}
	return RefundID(named("refund " + account.String() + " " + who + " " + key))
}

// Bought is a payment of credit.
type Bought struct {
	// Charged is what had been charged to the account, ever, when the payment came.
	Charged money.NanoUSD
	// Left is the credit that was bought, less refunds.
	Left Cents
}

// Unspent is what is unspent of the last of some payments of an account, the newest first. charged
// is what was charged to the account, ever, by now. What is charged spends the newest payment
// first, and never credit that nobody has paid for while there is other credit: so a refund never
// turns credit that was given into money.
func Unspent(charged money.NanoUSD, list []Bought) (left money.NanoUSD) {
	var over money.NanoUSD
	for _, b := range list {
		spent := max(charged-b.Charged, 0) + over
		left = max(b.Left.Nano()-spent, 0)
		over = max(spent-b.Left.Nano(), 0)
		charged = b.Charged
	}
	return left
}

// AskTopUp asks for a refund of credit, of the account's own payment. Without an amount all that
// may be given back is. A consumer's own refund has no note, and an operator's needs one.
func (s *Refunds) AskTopUp(ctx context.Context, r Refund) (Refund, error) {
	switch {
	case r.Account.IsZero():
		return Refund{}, invalid("account_id", "is malformed")
	case r.Checkout.IsZero():
		return Refund{}, invalid("checkout_id", "is malformed")
	}
	r.Purpose = TopUp
	return s.Ask(ctx, r)
}

// OfAccount lists the refunds of an account's credit, the newest first, asked for before a refund,
// or all. more reports whether there are more.
func (s *Refunds) OfAccount(
	ctx context.Context, account ids.AccountID, before RefundID, limit int,
) (page []Refund, more bool, err error) {
	if limit < 1 || limit > MaxPage {
		return nil, false, invalid("limit", "must be 1 to %d", MaxPage)
	}
	if page, err = s.Store.RefundsOf(ctx, account, before, limit+1); err != nil {
		return nil, false, err
	}
	if len(page) > limit {
		return page[:limit], true, nil
	}
	return page, false, nil
}

// tooManyRefunds is the fault for a payment that has had all refunds that its consumer may ask for.
func tooManyRefunds() error {
	return fault.New(fault.Exhausted, fault.RateLimitExceeded, "A top-up has at most %d refunds.", MaxOwnRefunds).After(
		OwnRefundFor)
}
