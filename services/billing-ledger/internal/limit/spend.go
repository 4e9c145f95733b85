package limit

import (
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
)

// MaxSpend bounds a budget or a cap.
const MaxSpend = 1_000_000 * money.USD

// Period is how often what may be spent begins anew, in UTC; weeks are those of ISO 8601.
type Period string

// The periods. Ever is one window for ever.
const (
	Ever  Period = "none"
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
)

// Valid reports whether the period is one of those above.
func (p Period) Valid() bool { return p == Ever || p == Day || p == Week || p == Month }

// Budget is what a key may spend in each window of a period.
type Budget struct {
	Amount money.NanoUSD
	Period Period
}

// Validate refuses budgets without a meaning.
func (b Budget) Validate() error {
	if !b.Period.Valid() {
		return fault.New(fault.Invalid, fault.InvalidValue, "budget_period must be none, day, week or month").On(
			"budget_period")
	}
	return within(b.Amount, "budget_usd")
}

func within(amount money.NanoUSD, field string) error {
	if amount < 0 || amount > MaxSpend {
		return fault.New(fault.Invalid, fault.InvalidValue, "%s must be between 0 and %s", field, MaxSpend).On(field)
	}
	return nil
}

// Caps are what an account may spend in a day and in a month; nil for no cap.
type Caps struct{ Day, Month *money.NanoUSD }

// Validate refuses caps without a meaning.
func (c Caps) Validate() error {
	for field, amount := range map[string]*money.NanoUSD{"day_cap_usd": c.Day, "month_cap_usd": c.Month} {
		if amount == nil {
			continue
		}
		if err := within(*amount, field); err != nil {
			return err
		}
	}
	return nil
}

// Spending is what may be spent in the window of now, and what is.
type Spending struct {
	Budget
	// Spent was charged, Held is the most that requests under way may cost.
	Spent, Held money.NanoUSD
	// ResetsAt is when the next window begins; zero for never.
	ResetsAt time.Time
}

// Left is what further requests may cost.
func (s Spending) Left() money.NanoUSD { return max(s.Amount-s.Spent-s.Held, 0) }
