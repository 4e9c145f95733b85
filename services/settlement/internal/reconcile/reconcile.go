// Package reconcile compares what settlement recorded as earned with what
// billing-ledger credited, per provider and UTC day.
//
// Both sides hear the same usage events at their own pace, so a difference may be usage
// under way. A difference that stays is drift. Watch calls a difference persistent once
// one of its sides has not moved from one comparison to the next. A side that hears of
// usage moves. A side that hears of none while the other is ahead has lost usage or
// stands still.
package reconcile

import (
	"cmp"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Sum is what one side has for one provider and day.
type Sum struct {
	Payout   money.NanoUSD
	Requests int64
}

// Slot is one provider's day; Day is midnight UTC.
type Slot struct {
	Day        time.Time
	ProviderID ids.ProviderID
}

// Difference is a slot on which the two sides differ. Filled counts its lines that rest
// on the ledger's word alone.
type Difference struct {
	Slot
	Lines    Sum
	Accruals Sum
	Filled   int64
}

// Report is the outcome of one comparison.
type Report struct {
	ComparedAt  time.Time
	Compared    int
	Lines       money.NanoUSD
	Accruals    money.NanoUSD
	Differences []Difference
	// Filled is the part of Lines that rests on the ledger's word alone. It equals
	// the accruals by construction, so it proves nothing.
	Filled Sum
}

// Equal reports whether the two sides agree on everything.
func (r Report) Equal() bool { return len(r.Differences) == 0 }

// Compare finds every slot on which lines and accruals differ in money or in
// number, ordered by day and provider. filled is the part of the lines that was
// filled in from the ledger.
func Compare(lines, filled, accruals map[Slot]Sum, now time.Time) Report {
	report := Report{ComparedAt: now}
	note := func(slot Slot) {
		report.Compared++
		if lines[slot] != accruals[slot] {
			report.Differences = append(report.Differences, Difference{slot, lines[slot], accruals[slot], filled[slot].Requests})
		}
	}
	for _, sum := range filled {
		report.Filled.Payout += sum.Payout
		report.Filled.Requests += sum.Requests
	}
	for slot, sum := range lines {
		report.Lines += sum.Payout
		note(slot)
	}
	for slot, sum := range accruals {
		report.Accruals += sum.Payout
		if _, both := lines[slot]; !both {
			note(slot)
		}
	}
	slices.SortFunc(report.Differences, func(a, b Difference) int {
		return cmp.Or(a.Day.Compare(b.Day), slices.Compare(a.ProviderID[:], b.ProviderID[:]))
	})
	return report
}

// Watch separates differences that persist from usage under way. It is not safe for
// concurrent use.
type Watch struct {
	last map[Slot]Difference
}

// Persistent takes the next report. It returns the differences that the report before
// also had and of which one side has not moved since.
func (w *Watch) Persistent(report Report) []Difference {
	seen := make(map[Slot]Difference, len(report.Differences))
	var persistent []Difference
	for _, d := range report.Differences {
		if last, seen := w.last[d.Slot]; seen && (last.Lines == d.Lines || last.Accruals == d.Accruals) {
			persistent = append(persistent, d)
		}
		seen[d.Slot] = d
	}
	w.last = seen
	return persistent
}
