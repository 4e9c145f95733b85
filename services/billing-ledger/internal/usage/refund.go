package usage

import (
	"errors"
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// RefundCause is why a request is refunded. It decides who bears the refund.
type RefundCause string

// The causes.
const (
	ProviderFault RefundCause = "provider_fault"
	Goodwill      RefundCause = "goodwill"
)

// The reasons for which a refund is refused.
var (
	// ErrNothingCharged: the request is not settled, or it cost its consumer nothing.
	ErrNothingCharged = errors.New("nothing was charged for the request")
	// ErrRefunded: the request was refunded for another cause, or a part was given back
	// because its answer broke off.
	ErrRefunded = errors.New("the request was refunded for another cause")
	// ErrPaidInPart: the consumer paid less than the provider earned. The provider cannot
	// return the difference, so the refund must be goodwill.
	ErrPaidInPart = errors.New("the consumer paid less than the provider earned")
	// ErrVendorServed: a vendor served the request and is owed its price all the same, so the
	// refund must be goodwill.
	ErrVendorServed = errors.New("a vendor served the request, and is owed its price all the same")
)

// Refundable is a settled request with its charge and its payout.
type Refundable struct {
	Request         ids.RequestID
	Account         ids.AccountID
	Provider        ids.ProviderID
	Charged, Payout money.NanoUSD
	// Vendor reports that the provider is a vendor.
	Vendor bool
}

// Earnings are a provider's unpaid earnings. Held is how much of the accrued ones is held
// for other requests.
type Earnings struct{ Accrued, Payable, Held money.NanoUSD }

// RefundEntry returns the entry that refunds a request: all of its charge, and once,
// whoever bears it.
//
// When the provider was at fault, it gives its payout back from its unpaid earnings: from
// what is accrued and not held, then from what is payable. What it was already paid
// becomes its debt to the platform. Otherwise the platform bears the charge, and the
// provider keeps its payout.
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
	case c.Vendor:
		return ledger.Entry{}, ErrVendorServed
	case c.Payout > c.Charged:
		return ledger.Entry{}, ErrPaidInPart
	}
	return ledger.RequestRefund(fact, c.Account, c.Provider, c.Charged, c.Payout, has.take(c.Payout))
}

// Kind returns the kind of entry for a cause.
func (c RefundCause) Kind() ledger.EntryKind {
	if c == Goodwill {
		return ledger.GoodwillRefunded
	}
	return ledger.RequestRefunded
}

// take returns where an amount comes from: the latest earnings first, except held ones.
func (e Earnings) take(amount money.NanoUSD) ledger.Clawback {
	var from ledger.Clawback
	from.Accrued = min(amount, max(e.Accrued-e.Held, 0))
	from.Payable = min(amount-from.Accrued, max(e.Payable, 0))
	from.Receivable = amount - from.Accrued - from.Payable
	return from
}
