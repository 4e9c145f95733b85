package earning

import (
	"context"
	"fmt"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// AccrualPage is the largest number of rows in a page.
const AccrualPage = 10_000

// AccrualCursor is the place of a row in the order of all rows: by the UTC day of the
// requests, then by provider. The zero provider comes before all others.
type AccrualCursor struct {
	Day      time.Time
	Provider ids.ProviderID
}

// Accrual is what one provider was credited for the requests of one day.
type Accrual struct {
	AccrualCursor
	Payout   money.NanoUSD
	Requests int64
}

// AccrualStore sums settled requests.
type AccrualStore interface {
	// Accruals returns at most limit rows after a place.
	Accruals(ctx context.Context, after AccrualCursor, limit int) ([]Accrual, error)
}

// ListAccruals returns one page of the days from first on, and the token of the next
// page, which is empty after the last.
func ListAccruals(ctx context.Context, store AccrualStore, first, token string) ([]Accrual, string, error) {
	after, err := start(first, token)
	if err != nil {
		return nil, "", err
	}
	rows, err := store.Accruals(ctx, after, AccrualPage+1)
	if err != nil {
		return nil, "", fmt.Errorf("list accruals: %w", err)
	}
	if len(rows) <= AccrualPage {
		return rows, "", nil
	}
	rows = rows[:AccrualPage]
	return rows, rows[AccrualPage-1].token(), nil
}

func start(first, token string) (AccrualCursor, error) {
	day, err := time.Parse(time.DateOnly, first)
	if err != nil {
		return AccrualCursor{}, fault.New(fault.Invalid, fault.InvalidValue, "first_day must be a day like 2006-01-02").On(
			"first_day")
	}
	if token == "" {
		return AccrualCursor{Day: day}, nil
	}
	after, err := parseToken(token)
	if err != nil || after.Day.Before(day) {
		return AccrualCursor{}, fault.New(fault.Invalid, fault.InvalidValue,
			"page_token is not one of this list").On("page_token")
	}
	return after, nil
}

func (p AccrualCursor) token() string { return p.Day.Format(time.DateOnly) + "/" + p.Provider.String() }

func parseToken(token string) (AccrualCursor, error) {
	day, provider, _ := strings.Cut(token, "/")
	var p AccrualCursor
	var err error
	if p.Day, err = time.Parse(time.DateOnly, day); err != nil {
		return AccrualCursor{}, err
	}
	p.Provider, err = ids.ParseProvider(provider)
	return p, err
}
