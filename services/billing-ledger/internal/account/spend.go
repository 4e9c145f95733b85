package account

import (
	"context"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/limit"
)

// SpendLimits are the limits of an account as its owner sees them.
type SpendLimits struct {
	Limits limit.Limits
	// Own are the account's own caps.
	Own limit.Caps
	// Day and Month are the caps that count, each the lower of an operator's and the account's
	// own; nil where there is none.
	Day, Month *limit.Spending
}

// SpendStore keeps what accounts may spend.
type SpendStore interface {
	SpendLimits(ctx context.Context, id ids.AccountID) (SpendLimits, error)
	SetOwnCaps(ctx context.Context, id ids.AccountID, caps limit.Caps) (SpendLimits, error)
}

// Spending answers the owners of accounts.
type Spending struct{ Store SpendStore }

// Get reads the limits of an account.
func (s *Spending) Get(ctx context.Context, id ids.AccountID) (SpendLimits, error) {
	found, err := s.Store.SpendLimits(ctx, id)
	if err != nil {
		return SpendLimits{}, explain(err, "read limits")
	}
	return found, nil
}

// SetCaps replaces an account's own caps. They cannot raise an operator's, because the lower
// one counts.
func (s *Spending) SetCaps(ctx context.Context, id ids.AccountID, caps limit.Caps) (SpendLimits, error) {
	if err := caps.Validate(); err != nil {
		return SpendLimits{}, err
	}
	set, err := s.Store.SetOwnCaps(ctx, id, caps)
	if err != nil {
		return SpendLimits{}, explain(err, "set caps")
	}
	return set, nil
}
