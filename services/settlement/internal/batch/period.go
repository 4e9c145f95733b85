package batch

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"svc.internal/pkg/money"
)

const (
	// PeriodDays is the number of days of the longest period, today included. Of no older day that has no batch the
	// lines are summed.
	PeriodDays = 30
	// MaxDays bounds the days that are listed one by one, today included.
	MaxDays = 92
)

// Parts are what a provider earned on some days. A refund, or the end of a held earning, counts on the day
// on which it happens, not on the day of the earning. So a part may be below zero.
type Parts struct {
	// Unbatched is of days that no batch has yet. It is not divided into the other parts.
	Unbatched money.NanoUSD
	// Settled is earned by credit, and Pending by plans. Held may be of either, and is in neither.
	Settled, Held, Pending money.NanoUSD
}

func (p *Parts) add(other Parts) {
	p.Unbatched += other.Unbatched
	p.Settled += other.Settled
	p.Held += other.Held
	p.Pending += other.Pending
}

// DayParts are the parts of one day.
type DayParts struct {
	Day time.Time
	Parts
}

// Period has the parts of some whole days and of today so far.
type Period struct {
	Since time.Time
	Parts
}

// PeriodOf sums the parts of the last length days, today included.
func PeriodOf(days []DayParts, today time.Time, length int) Period {
	p := Period{Since: today.AddDate(0, 0, 1-length)}
	for _, d := range days {
		if !d.Day.Before(p.Since) {
			p.add(d.Parts)
		}
	}
	return p
}

// ByDay has each of the last length days, today included, the oldest first, with zero parts where nothing was earned.
// through is the last day that is batched; zero before the first. A day that no batch has is left out when it is not
// one of the last PeriodDays, because its lines are not summed.
func ByDay(days []DayParts, through, today time.Time, length int) []DayParts {
	known := make(map[int64]Parts, len(days)) // by Unix time, because equal times may differ in their location
	for _, d := range days {
		known[d.Day.Unix()] = d.Parts
	}
	summed := today.AddDate(0, 0, 1-PeriodDays)
	out := make([]DayParts, 0, length)
	for day := today.AddDate(0, 0, 1-length); !day.After(today); day = day.AddDate(0, 0, 1) {
		parts, earned := known[day.Unix()]
		if earned || !day.After(through) || !day.Before(summed) {
			out = append(out, DayParts{Day: day, Parts: parts})
		}
	}
	return out
}

// planForfeit is the ledger's kind of an entry that forfeits held earnings of plans.
const planForfeit = "plan_forfeit"

// PartsOf reads the parts of a day from its statement. Batches, payouts and the close of a month count in
// no part, because they move what was earned before.
func PartsOf(statement []byte) (Parts, error) {
	var stated struct {
		Sums []struct {
			Kind      Kind   `json:"kind"`
			EntryKind string `json:"entry_kind"`
			Account   string `json:"account"`
			Amount    string `json:"amount_nano_usd"`
		} `json:"sums"`
	}
	if err := json.Unmarshal(statement, &stated); err != nil {
		return Parts{}, fmt.Errorf("read a statement: %w", err)
	}
	var p Parts
	for _, s := range stated.Sums {
		n, err := strconv.ParseInt(s.Amount, 10, 64)
		if err != nil {
			return Parts{}, fmt.Errorf("read a statement's sum: %w", err)
		}
		amount, of := money.NanoUSD(n), &p.Settled
		if s.Account == PlanHeld {
			of = &p.Pending
		}
		switch s.Kind {
		case Payg, Plan, Orphan, Refund, Reversal:
			*of += amount
		case Held:
			p.Held += amount
			*of -= amount
		case Released, HeldRefunded, Forfeited, HeldReversed:
			p.Held -= amount
			*of += amount
		case Entry:
			if s.EntryKind == planForfeit {
				*of += amount
			}
		}
	}
	return p, nil
}
