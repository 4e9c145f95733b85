package posting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// Month is what settlement says of a month of plans that is over: its pool, and what
// providers earned up to a sealed day of the next month.
type Month struct {
	Month   ledger.Month
	Through time.Time
	// Pool and Earned are whole, and Providers is how many have earned anything.
	Pool, Earned money.NanoUSD
	Providers    int64
}

// Closed is a closed month.
type Closed struct {
	Month
	// Paid is what providers are paid, now or when what is held of their earnings ends.
	Paid money.NanoUSD
	At   time.Time
	// Shares are those of a close. A closed month that is read again has none here.
	Shares []ledger.Share
}

// The errors of months.
var (
	// ErrMonthOpen is the error for a month that is not closed.
	ErrMonthOpen = errors.New("the month is not closed")
	// ErrNotReleased is the error for a request of which nothing was held when its month was
	// closed, or is released since.
	ErrNotReleased = errors.New("nothing was held at the close of its month and released since")
)

// Close divides the pool that the books have among the shares that they have, unless
// settlement counted otherwise.
func (m Month) Close(pool money.NanoUSD, shares []ledger.Share) (Closed, error) {
	divided, err := ledger.DividePool(pool, shares)
	if err != nil {
		return Closed{}, err
	}
	var earned money.NanoUSD
	for _, s := range divided {
		earned += s.Earned
	}
	c := Closed{Month: m, Paid: min(pool, earned), Shares: divided}
	c.Pool, c.Earned, c.Providers = pool, earned, int64(len(divided))
	return c, m.Check(c)
}

// Check returns ErrDiffers with both counts, unless a closed month is what settlement says.
func (m Month) Check(c Closed) error {
	if m.Pool == c.Pool && m.Earned == c.Earned && m.Providers == c.Providers && m.Through.Equal(c.Through) {
		return nil
	}
	return fmt.Errorf("%w: a pool of %s, %s earned by %d providers up to %s", ErrDiffers, c.Pool, c.Earned, c.Providers,
		c.Through.Format(time.DateOnly))
}

// Released is what was held of a request when its month was closed, and is released.
type Released struct {
	Request  ids.RequestID
	Provider ids.ProviderID
	Month    ledger.Month
	Earned   money.NanoUSD
	// Waits is what waits of the provider's share, this request's included.
	Waits ledger.Withheld
	Owed  money.NanoUSD
}

// Entry returns the entry by which it is paid.
func (r Released) Entry(id ids.EntryID) (ledger.Entry, error) {
	paid, _, err := r.Waits.End(r.Earned)
	if err != nil {
		return ledger.Entry{}, err
	}
	return ledger.PlanShare(heldFact(id, r.Month, r.Provider, r.Request), r.Provider, r.Month, r.Earned, paid, r.Owed)
}

// heldFact is the fact that a request's held earnings of a month end.
func heldFact(id ids.EntryID, month ledger.Month, provider ids.ProviderID, request ids.RequestID) ledger.Fact {
	return ledger.Fact{ID: id, BusinessID: fmt.Sprintf("%s/%s/held/%s", month, provider, request)}
}

// Forfeited is what is held of a request's earnings by a plan, and is forfeited.
type Forfeited struct {
	Request  ids.RequestID
	Provider ids.ProviderID
	Month    ledger.Month
	Earned   money.NanoUSD
	// Unpaid is the part of a closed month's pool that waits for it. It is revenue then.
	Unpaid money.NanoUSD
}

// Entries returns line 25, and plan_unclaimed where something waits.
func (f Forfeited) Entries(newID func() (ids.EntryID, error)) ([]ledger.Entry, error) {
	var entries []ledger.Entry
	add := func(make func(ledger.Fact) (ledger.Entry, error)) error {
		id, err := newID()
		if err != nil {
			return fmt.Errorf("make an entry id: %w", err)
		}
		e, err := make(heldFact(id, f.Month, f.Provider, f.Request))
		entries = append(entries, e)
		return err
	}
	err := add(func(fact ledger.Fact) (ledger.Entry, error) {
		return ledger.PlanForfeit(fact, f.Provider, f.Month, f.Earned)
	})
	if err == nil && f.Unpaid > 0 {
		err = add(func(fact ledger.Fact) (ledger.Entry, error) { return ledger.PlanUnclaim(fact, f.Month, f.Unpaid) })
	}
	return entries, err
}

// MonthStore closes months.
type MonthStore interface {
	// CloseMonth closes a month, once: a repeat returns the closed month. Its errors are
	// ErrDiffers, earning.ErrDayOpen and those of Store.
	CloseMonth(ctx context.Context, m Month, newID func() (ids.EntryID, error)) (Closed, error)
	// MonthPool returns what is in the pool of a month.
	MonthPool(ctx context.Context, month ledger.Month) (money.NanoUSD, error)
	// ClosedMonth returns a closed month, or ErrMonthOpen.
	ClosedMonth(ctx context.Context, month ledger.Month) (Closed, error)
	// MonthShares returns at most limit shares of a closed month behind a provider, by
	// provider, or ErrMonthOpen.
	MonthShares(ctx context.Context, month ledger.Month, after ids.ProviderID, limit int) ([]ledger.Share, error)
	// ShareReleased posts the share of released earnings, or returns ErrNotReleased.
	ShareReleased(ctx context.Context, id ids.EntryID, request ids.RequestID) (ids.EntryID, error)
}

// Months closes months of plans.
type Months struct {
	Store  MonthStore
	Clock  clock.Clock
	Random io.Reader
}

// Close closes a month of plans that is over. The ledger counts for itself, and refuses
// a difference.
func (m *Months) Close(ctx context.Context, said Month) (Closed, error) {
	first, err := time.Parse("2006-01", string(said.Month))
	if err != nil || first.Year() < 2000 {
		return Closed{}, invalid("month", "must be a month since 2000, YYYY-MM")
	}
	if said.Through.Before(first.AddDate(0, 1, 0)) {
		return Closed{}, invalid("through", "must be a day behind the month")
	}
	closed, err := m.Store.CloseMonth(ctx, said, func() (ids.EntryID, error) {
		return ids.NewEntry(m.Clock.Now(), m.Random)
	})
	return closed, explainMonth(err)
}

// Pool returns what is in the pool of a month.
func (m *Months) Pool(ctx context.Context, month ledger.Month) (money.NanoUSD, error) {
	if first, err := time.Parse("2006-01", string(month)); err != nil || first.Year() < 2000 {
		return 0, invalid("month", "must be a month since 2000, YYYY-MM")
	}
	return m.Store.MonthPool(ctx, month)
}

// Get returns a closed month.
func (m *Months) Get(ctx context.Context, month ledger.Month) (Closed, error) {
	closed, err := m.Store.ClosedMonth(ctx, month)
	return closed, explainMonth(err)
}

// SharesPage is the largest number of shares in a page.
const SharesPage = 5_000

// Shares returns a page of the shares of a closed month, and the token of the next page,
// empty after the last.
func (m *Months) Shares(
	ctx context.Context, month ledger.Month, token string,
) (shares []ledger.Share, next string, err error) {
	var after ids.ProviderID
	if token != "" {
		if after, err = ids.ParseProvider(token); err != nil {
			return nil, "", invalid("page_token", "is not one of this list")
		}
	}
	if shares, err = m.Store.MonthShares(ctx, month, after, SharesPage+1); err != nil {
		return nil, "", explainMonth(err)
	}
	if len(shares) > SharesPage {
		shares = shares[:SharesPage]
		next = shares[SharesPage-1].Provider.String()
	}
	return shares, next, nil
}

// ShareReleased pays what was held of a request's earnings when its month was closed, and was
// released since.
func (m *Months) ShareReleased(ctx context.Context, request ids.RequestID) (ids.EntryID, error) {
	id, err := ids.NewEntry(m.Clock.Now(), m.Random)
	if err != nil {
		return ids.EntryID{}, fmt.Errorf("make an entry id: %w", err)
	}
	posted, err := m.Store.ShareReleased(ctx, id, request)
	return posted, explainMonth(err)
}

func explainMonth(err error) error {
	switch {
	case errors.Is(err, earning.ErrDayOpen):
		return fault.Wrap(err, fault.Precondition, fault.DayOpen, "the day is not sealed yet").On("through")
	case errors.Is(err, ErrMonthOpen), errors.Is(err, ErrNotReleased):
		return fault.Wrap(err, fault.Precondition, fault.TransitionNotAllowed, "%v", err)
	}
	return explain(err)
}

func invalid(field, must string) error {
	return fault.New(fault.Invalid, fault.InvalidValue, "%s %s", field, must).On(field)
}
