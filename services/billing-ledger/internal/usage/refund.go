package usage

import (
	"errors"
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// RefundCause is why a request is refunded, and with that who bears it.
type RefundCause string

// The causes.
const (
	ProviderFault RefundCause = "provider_fault"
	Goodwill      RefundCause = "goodwill"
)

// What a refund can be refused for.
var (
	// ErrNothingCharged is a request that is not settled, or that cost its
	// consumer nothing.
	ErrNothingCharged = errors.New("nothing was charged for the request")
	// ErrRefunded is a request that was refunded for another cause, or given back
	// in part because its answer broke off.
	ErrRefunded = errors.New("the request was refunded for another cause")
	// ErrPaidInPart is a request whose consumer paid less than its provider
	// earned: the provider cannot make that good, so it is goodwill.
	ErrPaidInPart = errors.New("the consumer paid less than the provider earned")
)

// Refundable is a settled request with what it cost and earned.
type Refundable struct {
	Request         ids.RequestID
	Account         ids.AccountID
	Provider        ids.ProviderID
	Charged, Payout money.NanoUSD
}

// Earnings are what a provider has earned and not been paid. Held is how much of
// what is accrued is held for other requests.
type Earnings struct{ Accrued, Payable, Held money.NanoUSD }

// RefundEntry is the entry that refunds a request: all of it, and once, whoever
// bears it.
//
// When the provider was at fault it gives back its payout, from what it has
// earned and not been paid, and what it has been paid already becomes its debt
// to the platform. Otherwise the platform bears the charge, and the provider
// keeps what it earned.
func RefundEntry(id ids.EntryID, c Refundable, cause RefundCause, has Earnings, memo string) (ledger.Entry, error) {
	if c.Charged <= 0 {
		return ledger.Entry{}, ErrNothingCharged
	}
	fact := ledger.Fact{ID: id, BusinessID: c.Request.String(), Memo: memo}
	switch {
	case cause == Goodwill:
		return ledger.GoodwillRefund(fact, c.Account, c.Charged)
	case cause != ProviderFault:
		return ledger.Entry{}, fmt.Errorf("%q is no cause of a refund", cause)
	case c.Payout > c.Charged:
		return ledger.Entry{}, ErrPaidInPart
	}
	return ledger.RequestRefund(fact, c.Account, c.Provider, c.Charged, c.Payout, has.take(c.Payout))
}

// Kind is the kind of the entries of a cause.
func (c RefundCause) Kind() ledger.EntryKind {
	if c == Goodwill {
		return ledger.GoodwillRefunded
	}
	return ledger.RequestRefunded
}

// take is where an amount comes from: the latest earnings first, but for those
// that are held.
func (e Earnings) take(amount money.NanoUSD) ledger.Clawback {
	var from ledger.Clawback
	from.Accrued = min(amount, max(e.Accrued-e.Held, 0))
	from.Payable = min(amount-from.Accrued, max(e.Payable, 0))
	from.Receivable = amount - from.Accrued - from.Payable
	return from
}
