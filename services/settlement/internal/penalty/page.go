package penalty

import (
	"context"
	"slices"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/paging"
)

// Page is one page of penalties, newest first.
type Page = paging.Page[Penalty]

// OfProvider is one page of a provider's penalties. Zero stands for the first page and for
// the default length of 50. It fails with invalid_value.
func (k *Keeper) OfProvider(ctx context.Context, id ids.ProviderID, number, length int) (Page, error) {
	return paging.Read(number, length, func(offset, limit int) ([]Penalty, int, error) {
		return k.store.OfProvider(ctx, id, offset, limit)
	})
}

// InState is one page of the penalties in a state; an empty state stands for all states.
// It fails with invalid_value.
func (k *Keeper) InState(ctx context.Context, s State, number, length int) (Page, error) {
	if s != "" && !slices.Contains(States(), s) {
		return Page{}, invalid("state", "is not a penalty's state")
	}
	return paging.Read(number, length, func(offset, limit int) ([]Penalty, int, error) {
		return k.store.InState(ctx, s, offset, limit)
	})
}
