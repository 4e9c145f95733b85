// Package earning makes earning lines: what providers have earned, one line for each
// served request.
//
// A line is made from a usage event alone. Its payout is the billable tokens, images
// or milliseconds of audio times the payout rates that the event pins for their unit,
// rounded down. (Specification part 8: a served request credits the provider tokens
// times payout price.) billing-ledger computes the same payout from the rates on its
// own hold, and package reconcile checks that the two agree.
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

// EvidenceSource says whose count a line rests on.
type EvidenceSource string

// The evidence sources. Two sources count one request differently. The first that
// settlement hears stands, unless the ledger settled the request by the other.
const (
	// Hub is the journal of the hub that served.
	Hub EvidenceSource = "hub"
	// Gateway is what the gateway relayed of a request that its hub did not report.
	Gateway EvidenceSource = "gateway"
	// WorkReceipt is what the provider signed that it sent, where neither hub nor
	// gateway reported the request.
	WorkReceipt EvidenceSource = "receipt"
	// Ledger is billing-ledger's word alone, for a request whose usage never came.
	// It is not a second evidence source.
	Ledger EvidenceSource = "ledger"
)

// Line is what one provider earned with one request.
type Line struct {
	RequestID      ids.RequestID
	ProviderID     ids.ProviderID
	PriceVersionID ids.PriceVersionID
	ModelID        string
	Attempt        uint32
	// Tokens counts in Unit, the unit of the pinned rates.
	Tokens         money.Tokens
	Unit           money.Unit
	Payout         money.NanoUSD
	EvidenceSource EvidenceSource
	// Settled reports whether the ledger settled the request as this line says.
	Settled bool
}

// Contradicts reports whether two lines of one request cannot both be honest, because
// one hub reported it with two payouts.
func (l Line) Contradicts(first Line) bool {
	return l.EvidenceSource == Hub && first.EvidenceSource == Hub && l.Payout != first.Payout
}

// Day is the UTC day on which the request was made. Together with the request's id it
// identifies the line.
func (l Line) Day() time.Time { return l.RequestID.Day() }

// ErrCounts is the error of usage that has a count which its unit does not have.
var ErrCounts = errors.New("usage counts what its unit does not")

// ErrIncomplete is the error of usage in which the request, the provider, the price
// version, the model, the attempt or the evidence source is missing, or has a value that
// the store cannot hold.
var ErrIncomplete = errors.New("usage is incomplete")

// NewLine makes the line of usage under the pinned rates. It fails for usage that can
// never become a line: names are missing (ErrIncomplete), the rates break the catalog's
// invariants, the counts are of another unit (ErrCounts), or the payout is out of range.
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
	if !rates.Unit.CountsPrompt() && usage.Tokens.Prompt != 0 || !rates.Unit.CountsCompletion() &&
		usage.Tokens.Completion != 0 {
		return Line{}, ErrCounts
	}
	payout, err := rates.Payout(usage.Tokens)
	if err != nil {
		return Line{}, fmt.Errorf("payout: %w", err)
	}
	usage.Payout, usage.Unit = payout, rates.Unit
	return usage, nil
}

// Total is the sum of a provider's lines of one day. Filled and FilledPayout count the
// lines among them that rest on the ledger's word alone and that no usage has confirmed.
type Total struct {
	Day          time.Time
	ProviderID   ids.ProviderID
	Payout       money.NanoUSD
	Lines        int64
	Filled       int64
	FilledPayout money.NanoUSD
}

// Rejected is an event that could not become a line, and why. It is kept for a person
// to look at.
type Rejected struct {
	Reason    string
	RequestID string
	Payload   []byte
}

// Batch is what a batch of events comes to. Rulings are lines by the ledger's own word.
// Each request is in Lines at most once, and in Rulings at most once.
type Batch struct {
	Lines    []Line
	Rulings  []Line
	Rejected []Rejected
}

// Outcome names the requests that already had a line with other content. One hub
// reported each request in Differing with two payouts, and the first stands. Each request
// in Corrected now counts as the ledger settled it.
type Outcome struct {
	Differing, Corrected []ids.RequestID
}
