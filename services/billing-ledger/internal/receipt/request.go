package receipt

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Found is a request as operators find it by its id alone.
type Found struct {
	Account ids.AccountID
	Key     ids.KeyID
	// KeyPrefix is what is shown of the key.
	KeyPrefix string
	Receipt   *Receipt
	// Refund is nil while nothing was given back.
	Refund *Refund
}

// Refund is the entry that gave an account back what a request had cost, or a part of it.
type Refund struct {
	Entry  ids.EntryID
	Kind   string
	Amount money.NanoUSD
	Memo   string
	At     time.Time
}

// OperatorStore finds requests of whichever account.
type OperatorStore interface {
	Store
	// Owner returns the account, the key and what is shown of the key of a request; false for a
	// request that never existed.
	Owner(ctx context.Context, request ids.RequestID) (Found, bool, error)
	// RefundOfRequest returns what was given back of a request, or nil.
	RefundOfRequest(ctx context.Context, request ids.RequestID) (*Refund, error)
}

// Find finds a request by its id alone, which operators may do and consumers may not.
func Find(ctx context.Context, store OperatorStore, request ids.RequestID) (Found, error) {
	f, ok, err := store.Owner(ctx, request)
	if err != nil {
		return Found{}, fmt.Errorf("find the owner of a request: %w", err)
	}
	if !ok {
		return Found{}, NotFound()
	}
	if f.Receipt, err = get(ctx, store, request, f.Account); err != nil {
		return Found{}, err
	}
	if f.Refund, err = store.RefundOfRequest(ctx, request); err != nil {
		return Found{}, fmt.Errorf("look for a refund: %w", err)
	}
	return f, nil
}
