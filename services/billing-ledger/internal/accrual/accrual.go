// Package accrual sums what providers were credited, for comparison with what
// settlement has recorded.
package accrual

import (
	"context"
	"fmt"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// PageSize is the most rows of a page.
const PageSize = 10_000

// Cursor is where a row stands in the order of all rows: by the UTC day of the
// requests, then by provider. The zero provider stands before all others.
type Cursor struct {
	Day      time.Time
	Provider ids.ProviderID
}

// Accrual is what one provider was credited for the requests of one day.
type Accrual struct {
	Cursor
	Payout   money.NanoUSD
	Requests int64
}

// Store sums settled requests.
type Store interface {
	// Accruals returns at most limit rows that stand after a place.
	Accruals(ctx context.Context, after Cursor, limit int) ([]Accrual, error)
}

// List returns one page of the days from first on, and the token of the next
// page, empty after the last.
func List(ctx context.Context, store Store, first, token string) ([]Accrual, string, error) {
	after, err := start(first, token)
	if err != nil {
		return nil, "", err
	}
	rows, err := store.Accruals(ctx, after, PageSize+1)
	if err != nil {
		return nil, "", fmt.Errorf("list accruals: %w", err)
	}
	if len(rows) <= PageSize {
		return rows, "", nil
	}
	rows = rows[:PageSize]
	return rows, rows[PageSize-1].token(), nil
}

func start(first, token string) (Cursor, error) {
	day, err := time.Parse(time.DateOnly, first)
	if err != nil {
		return Cursor{}, fault.New(fault.Invalid, fault.InvalidValue, "first_day must be a day like 2006-01-02").On(
			"first_day")
	}
	if token == "" {
		return Cursor{Day: day}, nil
	}
	after, err := parseToken(token)
	if err != nil || after.Day.Before(day) {
		return Cursor{}, fault.New(fault.Invalid, fault.InvalidValue, "page_token is not one of this list").On("page_token")
	}
	return after, nil
}

func (p Cursor) token() string { return p.Day.Format(time.DateOnly) + "/" + p.Provider.String() }

func parseToken(token string) (Cursor, error) {
	day, provider, _ := strings.Cut(token, "/")
	var p Cursor
	var err error
	if p.Day, err = time.Parse(time.DateOnly, day); err != nil {
		return Cursor{}, err
	}
	p.Provider, err = ids.ParseProvider(provider)
	return p, err
}
