package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/money"
)

// Limit is a limit of a plan that is on.
type Limit struct {
	Kind   Kind
	Period string
	Cap    int64
	// Tiers are those that the limit is for: an allowance covers them. Draws are the tiers of which
	// requests count.
	Tiers, Draws []Tier
}

// Offer is a plan that is sold.
type Offer struct {
	Plan string
	// Price is that of a month.
	Price  money.NanoUSD
	Limits []Limit
}

// Name is the plan's id as a title.
func (o Offer) Name() string {
	words := strings.Split(o.Plan, "-")
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, " ")
}

// Covers returns the tiers of which the plan covers models that are priced by a unit, as admission
// decides it: allowances cover, images only where they have a limit or a list price, and audio only
// in an allowance of list price.
func (o Offer) Covers(unit money.Unit) []Tier {
	tiers := func(kinds ...Kind) (all []Tier) {
		for _, l := range o.Limits {
			if slices.Contains(kinds, l.Kind) {
				all = append(all, l.Tiers...)
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	switch unit {
	case money.AudioMinute:
		return tiers(ListPrice)
	case money.Image:
		counted := tiers(Images, ListPrice)
		return slices.DeleteFunc(tiers(Tokens, ListPrice), func(t Tier) bool { return !slices.Contains(counted, t) })
	case money.Token:
	}
	return tiers(Tokens, ListPrice)
}

// MaxOffers bounds the plans that are sold.
const MaxOffers = 100

// OfferStore reads what is sold.
type OfferStore interface {
	// Offers returns up to limit plans that are sold, the cheapest first.
	Offers(ctx context.Context, limit int) ([]Offer, error)
}

const (
	// offersFor is how long what was read is shown.
	offersFor = time.Minute
	// offersKept is how long it is shown while nothing newer can be read. It is read again after
	// offersPause at the earliest then.
	offersKept  = time.Hour
	offersPause = 5 * time.Second
	// offersWait bounds a reading, because all other callers wait for it.
	offersWait = time.Second
)

// Offers shows the plans that are sold. It is safe for concurrent use. Anybody may ask, so the
// database is asked by one caller at a time, and once a minute.
type Offers struct {
	store OfferStore
	clock clock.Clock
	// turn is held while the fields below are read or written.
	turn chan struct{}
	last []Offer
	at   time.Time // zero until the first reading
	// failed is when a reading failed last; zero where the last one did not.
	failed time.Time
}

// NewOffers makes Offers that have read nothing yet.
func NewOffers(store OfferStore, clk clock.Clock) *Offers {
	return &Offers{store: store, clock: clk, turn: make(chan struct{}, 1)}
}

// List returns the plans that are sold, the cheapest first. The caller must not change them.
func (o *Offers) List(ctx context.Context) ([]Offer, error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the plans that are sold: %w", ctx.Err())
	}
	now := o.clock.Now()
	pausing := !o.failed.IsZero() && now.Sub(o.failed) < offersPause
	if o.young(now, offersFor) || pausing && o.young(now, offersKept) {
		return o.last, nil
	}
	// A caller who leaves must not end the reading for all others.
	reading, stop := context.WithTimeout(context.WithoutCancel(ctx), offersWait)
	defer stop()
	list, err := o.store.Offers(reading, MaxOffers)
	o.failed = now
	switch {
	case err == nil:
		o.last, o.at, o.failed = list, now, time.Time{}
	case o.young(now, offersKept):
	default:
		return nil, fmt.Errorf("list the plans that are sold: %w", err)
	}
	return o.last, nil
}

// young reports whether the last reading is younger than a time. It is not, where the clock was set
// back.
func (o *Offers) young(now time.Time, bound time.Duration) bool {
	age := now.Sub(o.at)
	return !o.at.IsZero() && age >= 0 && age < bound
}
