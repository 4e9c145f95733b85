package plan

import (
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/probe"
)

// Planned is a probe with what it costs.
type Planned struct {
	Plan probe.Plan
	Cost money.NanoUSD
}

// Hour is what was planned for an offer in an hour. Past is the offer's past from then on,
// to be kept with the probes.
type Hour struct {
	Offer  probe.Offer
	Probes []Planned
	Past   Past
}

// Fleet is what all offers share. It is not safe for concurrent use.
type Fleet struct {
	// Week is the cover of the last 168 hours. Plan counts the probes that it makes there.
	Week *cover.Week
	// Prior weighs the shapes of probes that an offer is owed where the week has no room.
	Prior map[cover.Shape]int64
	// BudgetADay is what all probes of a UTC day may cost, and Spent what those of today
	// cost already. Plan adds to Spent.
	BudgetADay, Spent money.NanoUSD
}

// left returns what may still be spent within the hour of a UTC day. Each hour releases a
// twenty-fourth of the budget, so that a day's money is not gone by noon.
func (f *Fleet) left(hour time.Time) money.NanoUSD {
	released := f.BudgetADay / 24 * money.NanoUSD(hour.UTC().Hour()+1)
	return max(released-f.Spent, 0)
}

// slot is the hour that is planned, and from when.
type slot struct{ begin, from time.Time }

func (s slot) end() time.Time { return s.begin.Add(time.Hour) }
