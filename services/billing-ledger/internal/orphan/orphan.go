// Package orphan reviews holds whose time is over although something was
// served: their hub has told nothing, because it and its journal are gone, or
// because what it told was lost.
//
// A review makes the usage event that the hub owes from what the gateway
// relayed, or, where no gateway tells what, from the receipt that the provider
// signed (Request.Judge says which are credible). It publishes it where hubs
// publish theirs, so that billing-ledger and settlement both take it, or the
// hub's own, whichever stands first in the stream. It charges no more than the
// smallest credible evidence: the output that was delivered, within the hold; the
// prompt only when the hub itself had told what it bills.
//
// A receipt that comes when the hold was given back, up to MaxLate later, is
// reviewed too: its usage meets a hold that is closed, and the platform pays.
//
// The stream may lose what it holds, and the two readers may then hear of the
// evidence sources in another order. So a reviewed request is published again with
// growing gaps (1 minute doubling to 4 hours, MaxPublications in all, over a
// day), once it is settled as what the ledger settled it by, which overrules
// what settlement may have heard first.
package orphan

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/usage"
)

// MaxPublications bounds how often one request's usage is published; the table
// orphan_review asserts the same.
const MaxPublications = 13

const (
	firstGap = time.Minute
	maxGap   = 4 * time.Hour
)

// Gap is the pause after the n-th publication, n from 1.
func Gap(n int) time.Duration { return min(firstGap<<min(max(n-1, 0), 16), maxGap) }

// unknownHub stands for a hub that an older gateway did not name.
const unknownHub = "unknown"

// Case is an open hold whose time is over, with the gateway's evidence of what
// was served.
type Case struct {
	Request ids.RequestID
	Model   string
	Price   ids.PriceVersionID
	Rates   money.Rates
	// Bound is what the hold covers.
	Bound  money.Tokens
	Pinned bool

	Attempt  int32
	Hub      string
	Provider ids.ProviderID
	// EvidenceSource says who tells: usage.Gateway, also where it is empty, or
	// usage.WorkReceipt. Epoch is the receipt's, 0 without one.
	EvidenceSource usage.EvidenceSource
	Epoch          int64
	// Relayed tokens and bytes were written to the consumer; by a receipt alone,
	// sent by the provider.
	RelayedTokens, RelayedBytes int64
	// WorkReceipt is what the provider signed that it sent, beside what the gateway
	// tells; nil when it did not.
	WorkReceipt *usage.Relayed
	// Metered is what the hub told that it bills; nil when it did not finish.
	Metered           *money.Tokens
	RouteMode         string
	RequestedProvider string
	FallbackReason    string
	FirstContentMS    int64
	ToldAt            time.Time

	// Publication counts this one, from 1.
	Publication int
}

// Event is the usage of the case. A token is at least one byte of the JSON that
// carried it, which guards against a count that contradicts itself.
func (c Case) Event() usage.Event {
	e := usage.Event{
		Request: c.Request, Attempt: c.Attempt, Hub: c.Hub, Provider: c.Provider, Epoch: c.Epoch, Model: c.Model,
		Price: c.Price, Rates: c.Rates,
		EvidenceSource: usage.Gateway, Ending: "platform_lost", ClaimState: "absent",
		Billable:            money.Tokens{Completion: max(min(c.RelayedTokens, c.RelayedBytes, c.Bound.Completion), 0)},
		RecountedCompletion: c.RelayedTokens, DeliveredBytes: c.RelayedBytes,
		RouteMode: c.RouteMode, RequestedProvider: c.RequestedProvider, FallbackReason: c.FallbackReason,
		FirstContentMS: c.FirstContentMS, EndedAt: c.ToldAt.UTC().Truncate(time.Microsecond),
	}
	if c.Metered != nil {
		e.Ending = "completed"
		e.Billable.Completion = min(e.Billable.Completion, c.Metered.Completion)
		e.Billable.Prompt = min(c.Metered.Prompt, c.Bound.Prompt)
	}
	if c.EvidenceSource != "" {
		e.EvidenceSource = c.EvidenceSource
	}
	if c.WorkReceipt != nil {
		e.Billable.Completion = min(e.Billable.Completion, max(min(c.WorkReceipt.Tokens, c.WorkReceipt.Bytes), 0))
	}
	if !usage.ValidHub(e.Hub) {
		e.Hub = unknownHub
	}
	if e.RouteMode == "" {
		e.RouteMode = "auto"
		if c.Pinned {
			e.RouteMode = "explicit"
		}
	}
	return e
}

// Publication is a usage event to be published, with the number of times that
// its request's usage was, this one included.
type Publication struct {
	Event  usage.Event
	Number int
}

// ID is the publication's own, so that a server that remembers an earlier one
// does not swallow it.
func (p Publication) ID() string {
	return fmt.Sprintf("%s/%s/%d", p.Event.Request, p.Event.EvidenceSource, p.Number)
}

// Store finds and counts what is to be published.
type Store interface {
	// OpenReviews takes up to limit open holds that are over and have evidence,
	// counts a publication of each and moves the time of each forward by its
	// gap. Those that were published MaxPublications times are closed as
	// expired, and counted in failed.
	OpenReviews(ctx context.Context, limit int) (cases []Case, failed int, err error)
	// SettledReviews takes up to limit reviewed requests that are settled, or
	// whose hold is closed and of which a receipt tells, and that are due
	// again, and counts a publication of each.
	SettledReviews(ctx context.Context, limit int) ([]Publication, error)
}

// Reviewer publishes what reviews find. Each publication is counted before it
// is made: one that fails is made up for by the next.
type Reviewer struct {
	Store   Store
	Publish func(ctx context.Context, all []Publication) error
	Log     *slog.Logger
}

// Open reviews up to limit open holds and returns with how many it has dealt.
func (r *Reviewer) Open(ctx context.Context, limit int) (int, error) {
	cases, failed, err := r.Store.OpenReviews(ctx, limit)
	if err != nil {
		return 0, err
	}
	if failed > 0 {
		r.Log.ErrorContext(ctx, "served requests could not be settled from their evidence and are given up", "requests",
			failed)
	}
	all := make([]Publication, len(cases))
	for i, c := range cases {
		all[i] = Publication{Event: c.Event(), Number: c.Publication}
		r.Log.WarnContext(ctx, "the hub reports no usage; that of another evidence source is published",
			"request_id", c.Request.String(), "hub_id", all[i].Event.Hub,
			"evidence_source", string(all[i].Event.EvidenceSource), "publication", c.Publication)
	}
	return len(cases) + failed, r.publish(ctx, all)
}

// Settled publishes up to limit settled requests again and returns how many.
func (r *Reviewer) Settled(ctx context.Context, limit int) (int, error) {
	all, err := r.Store.SettledReviews(ctx, limit)
	if err != nil {
		return 0, err
	}
	return len(all), r.publish(ctx, all)
}

func (r *Reviewer) publish(ctx context.Context, all []Publication) error {
	if len(all) == 0 {
		return nil
	}
	if err := r.Publish(ctx, all); err != nil {
		return fmt.Errorf("publish reviewed usage: %w", err)
	}
	return nil
}
