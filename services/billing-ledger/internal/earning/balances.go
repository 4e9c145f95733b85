package earning

import (
	"context"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Balances are where the earnings of a provider stand.
type Balances struct {
	// Accrued is earned and not batched yet; Held is the part of it that a person is to look
	// at first.
	Accrued, Held money.NanoUSD
	// Pending is earned by plans, in the order of months.
	Pending []Pending
	// Payable may be paid out, InFlight is on its way, and Paid and Converted are all that
	// ever left.
	Payable, InFlight, Paid, Converted money.NanoUSD
	// Owed is what the provider owes.
	Owed money.NanoUSD
	// Collateral was paid by card; Escrow waits for the end of a slash, and Refund is on its
	// way back.
	Collateral, Escrow, Refund money.NanoUSD
}

// Pending is what a provider earned by the plans of a month that is not closed.
type Pending struct {
	Month        string
	Amount, Held money.NanoUSD
}

// BalanceStore reads where earnings stand.
type BalanceStore interface {
	// ProviderBalances returns zeros for a provider of which the ledger knows nothing.
	ProviderBalances(ctx context.Context, provider ids.ProviderID) (Balances, error)
}
