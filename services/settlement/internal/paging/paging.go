// Package paging reads lists page by page, within bounds.
package paging

import "svc.internal/pkg/fault"

const (
	// DefaultLength is the length of a page that names none.
	DefaultLength = 50
	// MaxLength is the length of the longest page.
	MaxLength = 200
	// maxOffset bounds how far a list is paged through.
	maxOffset = 1_000_000
)

// Page is one page of a list.
type Page[T any] struct {
	List []T
	// Total is how many there are on all pages.
	Total int
	// Number counts from 1. Length is how many a page has.
	Number, Length int
}

// Read returns a page. Zero stands for the first page and for DefaultLength. It fails with invalid_value, and as read.
func Read[T any](number, length int, read func(offset, limit int) ([]T, int, error)) (Page[T], error) {
	if length < 0 || length > MaxLength {
		return Page[T]{}, fault.New(fault.Invalid, fault.InvalidValue, "page_size is at most %d", MaxLength).On("page_size")
	}
	if length == 0 {
		length = DefaultLength
	}
	if number < 0 || number > maxOffset/length+1 {
		return Page[T]{}, fault.New(fault.Invalid, fault.InvalidValue, "page is out of range").On("page")
	}
	number = max(number, 1)
	list, total, err := read((number-1)*length, length)
	if err != nil {
		return Page[T]{}, err
	}
	return Page[T]{List: list, Total: total, Number: number, Length: length}, nil
}
