package penalty

import (
	"context"
	"slices"

	"svc.internal/pkg/ids"
)

// Bounds of a page.
const (
	defaultPageSize = 50
	maxPageSize     = 200
	// maxOffset bounds how far a list is paged through.
	maxOffset = 1_000_000
)

// Page is one page of penalties, newest first.
type Page struct {
	List  []Penalty
	Total int
	// Number counts from 1. Length is how many penalties a page has.
	Number, Length int
}

// OfProvider is one page of a provider's penalties. Zero stands for the first page and for
// the default length of 50. It fails with invalid_value.
func (k *Keeper) OfProvider(ctx context.Context, id ids.ProviderID, number, length int) (Page, error) {
	return page(number, length, func(offset, limit int) ([]Penalty, int, error) {
		return k.store.OfProvider(ctx, id, offset, limit)
	})
}

// InState is one page of the penalties in a state; an empty state stands for all states.
// It fails with invalid_value.
func (k *Keeper) InState(ctx context.Context, s State, number, length int) (Page, error) {
	if s != "" && !slices.Contains(States(), s) {
		return Page{}, invalid("state", "is not a penalty's state")
	}
	return page(number, length, func(offset, limit int) ([]Penalty, int, error) {
		return k.store.InState(ctx, s, offset, limit)
	})
}

func page(number, length int, read func(offset, limit int) ([]Penalty, int, error)) (Page, error) {
	if length < 0 || length > maxPageSize {
		return Page{}, invalid("page_size", "is at most %d", maxPageSize)
	}
	if length == 0 {
		length = defaultPageSize
	}
	if number < 0 || number > maxOffset/length+1 {
		return Page{}, invalid("page", "is out of range")
	}
	number = max(number, 1)
	list, total, err := read((number-1)*length, length)
	if err != nil {
		return Page{}, err
	}
	return Page{List: list, Total: total, Number: number, Length: length}, nil
}
