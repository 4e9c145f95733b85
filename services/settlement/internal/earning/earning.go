// Package earning has the lines of what providers have earned.
//
// A line is made from a usage event alone: the payout is the billable tokens,
// images or milliseconds of audio at the payout rates that the event pins for
// their unit, rounded down. billing-ledger computes the same from the rates on its own hold; that the two agree is what
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

// EvidenceSource is on whose count a line rests.
type EvidenceSource string

// The evidence sources. Two of one request differ by nature; the first that is heard
// of stands, unless the ledger settled by the other.
const (
	// Hub is the journal of the hub that served.
	Hub EvidenceSource = "hub"
	// Gateway is what the gateway relayed of a request whose hub told nothing.
	Gateway EvidenceSource = "gateway"
	// WorkReceipt is what the provider signed that it sent, where neither tells.
	WorkReceipt EvidenceSource = "receipt"
	// Ledger is billing-ledger's word alone, of a request whose usage never
	// came. It is not a second evidence source.
	Ledger EvidenceSource = "ledger"
)

// Line is what one provider earned with one request.
type Line struct {
	RequestID      ids.RequestID
	ProviderID     ids.ProviderID
	PriceVersionID ids.PriceVersionID
	ModelID        string
	Attempt        uint32
	// Tokens counts in Unit, which is that of the pinned rates.
	Tokens         money.Tokens
	Unit           money.Unit
	Payout         money.NanoUSD
	EvidenceSource EvidenceSource
	// Settled says that the ledger settled the request so.
	Settled bool
}

// Contradicts reports whether two lines of one request cannot both be honest: one
// hub tells two stories.
func (l Line) Contradicts(first Line) bool {
	return l.EvidenceSource == Hub && first.EvidenceSource == Hub && l.Payout != first.Payout
}

// Day is the UTC day on which the request was made; with the request's id it
// identifies the line.
func (l Line) Day() time.Time { return l.RequestID.Day() }

// ErrCounts is returned for usage that counts what its unit does not.
var ErrCounts = errors.New("usage counts what its unit does not")

// ErrIncomplete is returned for usage that names no request, provider, model,
// attempt or known evidence source, or one that the store cannot hold.
var ErrIncomplete = errors.New("usage is incomplete")

// NewLine makes the line of usage under the pinned rates. It fails on what can
// never become a line: missing names, rates that break the catalog's
// invariants, counts of another unit, and amounts out of range.
func NewLine(usage Line, rates money.Rates) (Line, error) {
	if usage.RequestID.IsZero() || usage.ProviderID.IsZero() || usage.PriceVersionID.IsZero() ||
		usage.ModelID == "" || strings.ContainsRune(usage.ModelID, 0) || usage.Attempt == 0 || usage.Attempt > math.MaxInt32 {
		return Line{}, ErrIncomplete
	}
	if usage.EvidenceSource != Hub && usage.EvidenceSource != Gateway && usage.EvidenceSource != WorkReceipt {
		return Line{}, ErrIncomplete
	}
	if err := rates.Validate(); err != nil {
		return Line{}, fmt.Errorf("pinned rates: %w", err)
	}
	if !rates.Unit.CountsPrompt() && usage.Tokens.Prompt != 0 || !rates.Unit.CountsCompletion() && usage.Tokens.Completion != 0 {
		return Line{}, ErrCounts
	}
	payout, err := rates.Payout(usage.Tokens)
	if err != nil {
		return Line{}, fmt.Errorf("payout: %w", err)
	}
	usage.Payout, usage.Unit = payout, rates.Unit
	return usage, nil
}

// Total is the sum of a provider's lines of one day. Filled and FilledPayout are
// of those of them that rest on the ledger's word alone and that no usage has
// confirmed.
type Total struct {
	Day          time.Time
	ProviderID   ids.ProviderID
	Payout       money.NanoUSD
	Lines        int64
	Filled       int64
	FilledPayout money.NanoUSD
}

// Rejected is an event that could not become a line, with the reason, kept for
// a person to look at.
type Rejected struct {
	Reason    string
	RequestID string
	Payload   []byte
}

// Batch is what came of a batch of events. Each request stands at most once in
// Lines, and at most once in Rulings, which are the ledger's own word.
type Batch struct {
	Lines    []Line
	Rulings  []Line
	Rejected []Rejected
}

// Outcome names the requests whose line stood already with other content:
// Differing is one hub with two stories, of which the first stands; Corrected
// now counts as the ledger settled it.
type Outcome struct {
	Differing, Corrected []ids.RequestID
}
