// Package orphan reviews holds whose lease is over although something was served: their
// hub has reported nothing, because the hub and its usage journal are lost, or because
// the usage was lost on its way.
//
// Evidence that something was served is a gateway's report of a committed attempt with
// output, or its renewal during such an attempt. A report of a transcript or of vectors,
// which have no tokens to count, is evidence when the hub had metered the answer. A hold
// with evidence waits for its hub until OrphanAfter (10 minutes by default) after the
// gateway's last report or renewal. Then it is reviewed.
//
// A review makes the usage event that the hub owes from what the gateway relayed. Where
// no gateway says what was served, it uses the receipt that the provider signed (see
// Request.Judge). It publishes the event where hubs publish their usage events, with
// evidence source GATEWAY, or WORK_RECEIPT where the event rests on the receipt. So
// billing-ledger and settlement both take either this event or the hub's own, whichever
// is first in the NATS stream. A review charges no more than the smallest credible
// evidence: the output that was relayed, within the hold and at most what the hub had
// metered, and the prompt only when the hub had metered it. The ending is completed when
// the hub had finished, and otherwise platform_lost. Output that the gateway relayed
// after its last report or renewal is not charged.
//
// A receipt that arrives up to MaxLate after its hold was given back is reviewed too,
// once its hub has had its time to report. The usage then meets a closed hold, so the
// platform pays.
//
// The NATS stream may lose messages, and the two readers may then see the evidence
// sources in another order. So a reviewed request is published again at growing
// intervals: 1 minute, doubling up to 4 hours, MaxPublications in all, over about a day.
// While its hold is open, the publication has the gateway's count. Once it is settled,
// the publication has the settled count and says so (Event.Settled), which overrules what
// settlement may have read first. A review that settles nothing ends with the hold
// expired.
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
// orphan_review enforces the same bound.
const MaxPublications = 13

const (
	firstGap = time.Minute
	maxGap   = 4 * time.Hour
)

// Gap returns the pause after the n-th publication; n begins at 1.
func Gap(n int) time.Duration { return min(firstGap<<min(max(n-1, 0), 16), maxGap) }

// unknownHub stands for a hub that an older gateway did not name.
const unknownHub = "unknown"

// Case is an open hold whose lease is over, with the evidence of what was served.
type Case struct {
	Request ids.RequestID
	Model   string
	Price   ids.PriceVersionID
	Rates   money.Rates
	// Bound is the usage that the hold covers.
	Bound  money.Tokens
	Pinned bool

	Attempt  int32
	Hub      string
	Provider ids.ProviderID
	// Vendor reports that the provider is a vendor.
	Vendor bool
	// EvidenceSource is usage.Gateway, also where it is empty, or usage.WorkReceipt.
	// Epoch is the receipt's, 0 without a receipt.
	EvidenceSource usage.EvidenceSource
	Epoch          int64
	// RelayedTokens and RelayedBytes were written to the consumer. With a receipt alone,
	// they were sent by the provider.
	RelayedTokens, RelayedBytes int64
	// WorkReceipt is what the provider signed that it sent, beside the gateway's count;
	// nil without a receipt.
	WorkReceipt *usage.Relayed
	// Metered is the usage that the hub said it bills; nil when the hub did not finish.
	Metered           *money.Tokens
	RouteMode         string
	RequestedProvider string
	FallbackReason    string
	FirstContentMS    int64
	ToldAt            time.Time

	// Publication is the number of this publication, from 1.
	Publication int
}

// Event returns the usage of the case. A token is at least one byte of the JSON that
// carried it, which bounds a count that contradicts itself.
func (c Case) Event() usage.Event {
	e := usage.Event{
		Request: c.Request, Attempt: c.Attempt, Hub: c.Hub, Provider: c.Provider, Epoch: c.Epoch, Model: c.Model,
		Price: c.Price, Rates: c.Rates, Vendor: c.Vendor,
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

// Publication is a usage event to be published. Number is how often the request's usage
// is published, this time included.
type Publication struct {
	Event  usage.Event
	Number int
}

// ID is unique for each publication, because a NATS server that remembers an earlier
// publication under the same id would drop this one as a duplicate.
func (p Publication) ID() string {
	return fmt.Sprintf("%s/%s/%d", p.Event.Request, p.Event.EvidenceSource, p.Number)
}

// Store finds the events to publish and counts their publications.
type Store interface {
	// OpenReviews takes up to limit open holds that are over and have evidence, counts a
	// publication of each, and moves the lease of each forward by its gap. It closes as
	// expired the holds that were published MaxPublications times, and counts them in
	// failed.
	OpenReviews(ctx context.Context, limit int) (cases []Case, failed int, err error)
	// SettledReviews takes up to limit reviewed requests that are due again and that are
	// settled, or whose hold is closed and which have a receipt. It counts a publication
	// of each.
	SettledReviews(ctx context.Context, limit int) ([]Publication, error)
}

// Reviewer publishes reviews. It counts each publication before it makes it, so a
// publication that fails is made up for by the next.
type Reviewer struct {
	Store   Store
	Publish func(ctx context.Context, all []Publication) error
	Log     *slog.Logger
}

// Open reviews up to limit open holds and returns how many it handled.
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
