// Package price defines the price versions of a model: immutable sets of rates that follow
// one another without a gap. The last is in force.
//
// A change of a price, or of its unit, makes a new version. A request that was admitted
// under an earlier version keeps that version, because the hold pins its id and rates.
package price

import (
	"errors"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// resolution is how exactly the store keeps an instant.
const resolution = time.Microsecond

// Version is one immutable set of prices.
type Version struct {
	ID        ids.PriceVersionID
	Rates     money.Rates
	ValidFrom time.Time
}

// Coming are prices that are scheduled to take the place of a version. The zero value is none.
type Coming struct {
	From  time.Time
	Rates money.Rates
}

// First returns the first version of a model.
func First(rates money.Rates, now time.Time, id ids.PriceVersionID) Version {
	return Version{ID: id, Rates: rates, ValidFrom: now.UTC().Truncate(resolution)}
}

// Succeed returns the version that is in force once rates are wanted: v itself if it has
// these rates, and otherwise a new version with this id. The new version begins after v
// even if the clock that set v was ahead of this one.
func (v Version) Succeed(rates money.Rates, now time.Time, id ids.PriceVersionID) Version {
	if v.Rates == rates {
		return v
	}
	next := First(rates, now, id)
	if earliest := v.ValidFrom.Add(resolution); next.ValidFrom.Before(earliest) {
		next.ValidFrom = earliest
	}
	return next
}

// Texts are the prices in US dollars, as decimal numbers. Prices per 1M tokens have
// at most six decimals, and prices per image or minute at most nine. Empty means zero.
type Texts struct {
	Input        string
	Output       string
	PayoutInput  string
	PayoutOutput string
	// PayoutCachedInput is of gateway models only.
	PayoutCachedInput string
}

// Parse reads rates for a unit and checks the catalog's invariants on them. Its
// fault names the field.
func Parse(unit money.Unit, t Texts) (money.Rates, error) {
	rates := money.Rates{Unit: unit}
	for _, f := range []struct {
		name string
		text string
		to   *money.PicoUSD
	}{
		{"input_price", t.Input, &rates.Input},
		{"output_price", t.Output, &rates.Output},
		{"payout_input_price", t.PayoutInput, &rates.PayoutInput},
		{"payout_output_price", t.PayoutOutput, &rates.PayoutOutput},
		{"payout_cached_input_price", t.PayoutCachedInput, &rates.PayoutCachedInput},
	} {
		rate, err := unit.ParseRate(f.text)
		if err != nil {
			return money.Rates{}, fault.New(fault.Invalid, fault.InvalidValue, "%s: %v", f.name, err).On(f.name)
		}
		*f.to = rate
	}
	return rates, Check(rates)
}

// Check returns the first of the catalog's invariants that rates break. Its fault names the field.
func Check(rates money.Rates) error {
	err := rates.Validate()
	var broken *money.RateError
	if errors.As(err, &broken) {
		return fault.New(fault.Invalid, fault.InvalidValue, "%v", broken).On(broken.Field)
	}
	return err
}
