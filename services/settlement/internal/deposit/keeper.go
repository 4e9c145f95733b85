package deposit

import (
	"context"
	"slices"
	"strings"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/paging"
	"svc.internal/services/settlement/internal/printable"
	"svc.internal/services/settlement/internal/watch"
)

// maxReason bounds the reason of an end, in characters.
const maxReason = 2_000

// Page is one page of transfers, newest first.
type Page = paging.Page[Transfer]

// Ending is what an operator made of a transfer.
type Ending struct {
	watch.Key
	End End
	// Account is that of a match, and Back the transaction of a return.
	Account ids.AccountID
	Back    chain.Hash
	// Actor is the operator.
	Actor, Reason string
}

// Lists is what people see and do of transfers.
type Lists interface {
	// OfAccount returns transfers of an account, newest first, and how many there are.
	OfAccount(ctx context.Context, account ids.AccountID, offset, limit int) ([]Transfer, int, error)
	// OpenSums returns what is final at the address of an account and waits to be credited, by token.
	OpenSums(ctx context.Context, account ids.AccountID) ([]OpenSum, error)
	// InState returns transfers in a state, or in any, newest first, and how many there are.
	InState(ctx context.Context, state State, offset, limit int) ([]Transfer, int, error)
	// End stores an end of a transfer that is unmatched or denied. done is false where it stands elsewhere. The same end
	// again is done.
	End(ctx context.Context, e Ending) (t Transfer, done bool, err error)
}

// OpenSum is what is final at an address of a token and waits to be credited.
type OpenSum struct {
	Chain     chain.ID
	Token     string
	Amount    chain.Amount
	Units     int64
	Transfers int
}

// Keeper shows transfers, and lets operators end them.
type Keeper struct{ Lists Lists }

// OfAccount is one page of an account's transfers. Zero stands for the first page and the default length.
func (k *Keeper) OfAccount(ctx context.Context, account ids.AccountID, number, length int) (Page, error) {
	return paging.Read(number, length, func(offset, limit int) ([]Transfer, int, error) {
		return k.Lists.OfAccount(ctx, account, offset, limit)
	})
}

// OpenSums returns what is final at the address of an account and waits to be credited, by token.
func (k *Keeper) OpenSums(ctx context.Context, account ids.AccountID) ([]OpenSum, error) {
	return k.Lists.OpenSums(ctx, account)
}

// InState is one page of the transfers in a state; an empty state stands for all.
func (k *Keeper) InState(ctx context.Context, state State, number, length int) (Page, error) {
	if state != "" && !slices.Contains(States(), state) {
		return Page{}, fault.New(fault.Invalid, fault.InvalidValue, "there is no such state").On("state")
	}
	return paging.Read(number, length, func(offset, limit int) ([]Transfer, int, error) {
		return k.Lists.InState(ctx, state, offset, limit)
	})
}

// End ends a transfer that is unmatched or denied.
func (k *Keeper) End(ctx context.Context, e Ending) (Transfer, error) {
	e.Reason = strings.TrimSpace(e.Reason)
	if !printable.Within(e.Reason, maxReason) {
		return Transfer{}, fault.New(fault.Invalid, fault.InvalidValue, "reason must be 1 to %d printable characters",
			maxReason).On("reason")
	}
	t, done, err := k.Lists.End(ctx, e)
	if err == nil && !done {
		err = fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"there is no such transfer that is unmatched or denied")
	}
	return t, err
}
