package payout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// Bounds of a page.
const (
	defaultPageSize = 50
	maxPageSize     = 200
	// maxOffset bounds how far a list is paged through.
	maxOffset = 1_000_000
)

// Page is one page of payouts, newest first.
type Page struct {
	List  []Payout
	Total int
	// Number counts from 1. Length is how many payouts a page has.
	Number, Length int
}

// OfProvider is one page of a provider's payouts. Zero stands for the first page and for the default length of 50. It
// fails with invalid_value.
func (k *Keeper) OfProvider(ctx context.Context, id ids.ProviderID, number, length int) (Page, error) {
	return page(number, length, func(offset, limit int) ([]Payout, int, error) {
		return k.deps.Store.OfProvider(ctx, id, offset, limit)
	})
}

// InState is one page of the payouts in a state; an empty state stands for all. It fails with invalid_value.
func (k *Keeper) InState(ctx context.Context, s State, number, length int) (Page, error) {
	if s != "" && !slices.Contains(States(), s) {
		return Page{}, invalid("state", "is not a payout's state")
	}
	return page(number, length, func(offset, limit int) ([]Payout, int, error) {
		return k.deps.Store.InState(ctx, s, offset, limit)
	})
}

func page(number, length int, read func(offset, limit int) ([]Payout, int, error)) (Page, error) {
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
