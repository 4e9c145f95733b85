package batch

import (
	"time"

	"svc.internal/pkg/ids"
)

// Cause is why a provider is blocked.
type Cause string

// The causes. The first may mend itself, because settlement's own lines are mended from the ledger's books; the others
// are about a sealed day, which does not change.
const (
	// LinesDiffer: requests are not what settlement's own lines say.
	LinesDiffer Cause = "lines"
	// SumsDiffer: the changes of an account do not sum to what it moved.
	SumsDiffer Cause = "sums"
	// BalanceDiffers: an account does not begin with what it ended with.
	BalanceDiffers Cause = "balance"
	// HeldDiffers: more is held than there is, or less than nothing.
	HeldDiffers Cause = "held"
	// BatchesDiffer: the ledger has an earnings batch that settlement did not attempt.
	BatchesDiffer Cause = "batches"
)

// Difference is what a witness says against the ledger's list of a provider's day.
type Difference struct {
	Provider ids.ProviderID
	Cause    Cause
	Count    int64
}

// Findings are what the witnesses say of a day.
type Findings struct {
	// Requests is how many requests the day has, and Filled how many of them rest on the ledger's word alone.
	Requests, Filled int64
	Differences      []Difference
	// Since is how long ago the day was collected, by the database's clock.
	Since time.Duration
	// Allowed reports whether an operator has let the day go.
	Allowed bool
}

// maxFilledPercent is the share of filled lines beyond which a day waits for an operator.
const maxFilledPercent = 1

// Outcome is what becomes of a day that is collected.
type Outcome string

// The outcomes.
const (
	// Committed: the day's batches stand.
	Committed Outcome = "committed"
	// TooManyFilled: the day waits for an operator.
	TooManyFilled Outcome = "too_many_filled"
	// LinesMissing: the day waits for settlement's own lines, which come or are mended within minutes.
	LinesMissing Outcome = "lines_missing"
)

// Judge says whether a day is committed now. Lines that differ are given time to be mended.
func (f Findings) Judge(patience time.Duration) Outcome {
	for _, d := range f.Differences {
		if d.Cause == LinesDiffer && f.Since < patience {
			return LinesMissing
		}
	}
	if !f.Allowed && f.Filled*100 > f.Requests*maxFilledPercent {
		return TooManyFilled
	}
	return Committed
}
