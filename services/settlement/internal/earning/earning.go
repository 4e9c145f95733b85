// Package earning has the lines of what providers have earned.
//
// A line is made from a usage event alone: the payout is the billable tokens
// at the payout rates that the event pins, rounded down. billing-ledger
// computes the same from the rates on its own hold; that the two agree is what
// package reconcile checks. (Specification part 8: a served request credits
// the provider tokens times payout price.)
package earning

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// Line is what one provider earned with one request.
type Line struct {
	RequestID      ids.RequestID
	ProviderID     ids.ProviderID
	PriceVersionID ids.PriceVersionID
	ModelID        string
	Attempt        uint32
	Tokens         money.Tokens
	Payout         money.NanoUSD
}

// Day is the UTC day on which the request was made; with the request's id it
// identifies the line.
func (l Line) Day() time.Time { return l.RequestID.Day() }

// ErrIncomplete is returned for usage that names no request, provider, model
// or attempt, or one that the store cannot hold.
var ErrIncomplete = errors.New("usage is incomplete")

// NewLine makes the line of usage under the pinned rates. It fails on what can
// never become a line: missing names, rates that break the catalog's
// invariants, and amounts out of range.
func NewLine(usage Line, rates money.Rates) (Line, error) {
	if usage.RequestID.IsZero() || usage.ProviderID.IsZero() || usage.PriceVersionID.IsZero() ||
		usage.ModelID == "" || strings.ContainsRune(usage.ModelID, 0) || usage.Attempt == 0 || usage.Attempt > math.MaxInt32 {
		return Line{}, ErrIncomplete
	}
	if err := rates.Validate(); err != nil {
		return Line{}, fmt.Errorf("pinned rates: %w", err)
	}
	payout, err := rates.Payout(usage.Tokens)
	if err != nil {
		return Line{}, fmt.Errorf("payout: %w", err)
	}
	usage.Payout = payout
	return usage, nil
}

// Total is the sum of a provider's lines of one day.
type Total struct {
	Day        time.Time
	ProviderID ids.ProviderID
	Payout     money.NanoUSD
	Lines      int64
}

// Rejected is an event that could not become a line, with the reason, kept for
// a person to look at.
type Rejected struct {
	Reason    string
	RequestID string
	Payload   []byte
}
