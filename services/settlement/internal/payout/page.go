package payout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/paging"
)

// Page is one page of payouts, newest first.
type Page = paging.Page[Payout]

// OfProvider is one page of a provider's payouts. Zero stands for the first page and for the default length of 50. It
// fails with invalid_value.
func (k *Keeper) OfProvider(ctx context.Context, id ids.ProviderID, number, length int) (Page, error) {
	return paging.Read(number, length, func(offset, limit int) ([]Payout, int, error) {
		return k.deps.Store.OfProvider(ctx, id, offset, limit)
	})
}

// InState is one page of the payouts in a state; an empty state stands for all. It fails with invalid_value.
func (k *Keeper) InState(ctx context.Context, s State, number, length int) (Page, error) {
	if s != "" && !slices.Contains(States(), s) {
		return Page{}, invalid("state", "is not a payout's state")
	}
	return paging.Read(number, length, func(offset, limit int) ([]Payout, int, error) {
		return k.deps.Store.InState(ctx, s, offset, limit)
	})
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, "%s %s", field, fmt.Sprintf(format, args...)).On(field)
}

// AdvanceOpen moves open payouts on, at most limit of them, those first that were not looked at for longest. One that
// fails keeps no other from it.
func (k *Keeper) AdvanceOpen(ctx context.Context, limit int) error {
	open, err := k.deps.Store.Open(ctx, limit)
	if err != nil {
		return err
	}
	var faults []error
	for _, id := range open {
		if _, err := k.Advance(ctx, id); err != nil {
			faults = append(faults, fmt.Errorf("payout %s: %w", id, err))
		}
	}
	return errors.Join(faults...)
}
