package passbook

import (
	"context"
	"time"

	"svc.internal/pkg/ids"
)

// Walk says which part of a list is read.
type Walk struct {
	// Behind is the last place that was read; nil before the first.
	Behind *Place
	// OldestFirst turns the order around, which is newest first.
	OldestFirst bool
	// Limit bounds what is read, and is above zero.
	Limit int
}

// Store reads what the Folder made.
type Store interface {
	// Standing reads where an account's credit stands; account.ErrNotFound for no account.
	Standing(ctx context.Context, account ids.AccountID) (Standing, error)
	// AsOf is up to when everything is complete.
	AsOf(ctx context.Context) (time.Time, error)
	// Lines reads lines of an account. Those of requests that cost nothing are left out.
	Lines(ctx context.Context, account ids.AccountID, f Filter, w Walk) ([]Line, error)
	// Sums reads the usage of whole days by group, the most charged first, and days in their
	// order, at most MaxGroups. more reports that there are others.
	Sums(ctx context.Context, account ids.AccountID, f UsageFilter, by Group) (
		sums []Sum, total Counts, more bool, err error)
	// Served reads settled requests of an account.
	Served(ctx context.Context, account ids.AccountID, f UsageFilter, w Walk) ([]Served, error)
}
