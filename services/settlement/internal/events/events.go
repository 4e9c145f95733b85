// Package events hears of served requests on NATS and turns them into earning lines. A
// message may come twice, late or out of order. The primary key of lines makes that
// harmless.
package events

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/money/moneypb"
	"svc.internal/pkg/usageseal"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/settlement/internal/earning"
)

// durable names settlement's consumer of the stream, which its replicas share.
const durable = bus.DurableSettlement

// linger lets single events become batches, because nobody waits for a line. A batch costs a
// transaction, and the server writes the consumer's position to a new file up to twice.
const linger = time.Second

// Ledger stores lines, and events that could not become one.
type Ledger interface {
	Add(ctx context.Context, b earning.Batch) (earning.Outcome, error)
}

// Consumer moves usage events into a Ledger.
type Consumer struct {
	bus    Bus
	ledger Ledger
	log    *slog.Logger
	behind atomic.Bool
	// ring checks who wrote an event. Without one, every event counts as its hub's.
	ring    *usageseal.Ring
	keyWait *keyWait
}

// NewConsumer makes a consumer; Run starts it.
func NewConsumer(conn Bus, ledger Ledger, log *slog.Logger) *Consumer {
	return &Consumer{bus: conn, ledger: ledger, log: log}
}

// Behind reports whether more than one batch of usage waited in the stream when the last
// batch came, or that batch could not be recorded.
func (c *Consumer) Behind() bool { return c.behind.Load() }

// Run consumes until ctx ends and then finishes the batch under way.
func (c *Consumer) Run(ctx context.Context) error {
	if err := c.bus.Consume(ctx, bus.ConsumerConfig{Stream: bus.UsageStream, Durable: durable, Linger: linger},
		c.handle); err != nil {
		return fmt.Errorf("consume usage: %w", err)
	}
	return nil
}

func (c *Consumer) handle(ctx context.Context, batch []bus.Msg) error {
	err := c.record(ctx, batch)
	if err != nil && c.ring != nil {
		c.ring.Failed()
	}
	c.behind.Store(err != nil || batch[len(batch)-1].Pending > bus.MaxBatch)
	return err
}

func (c *Consumer) record(ctx context.Context, batch []bus.Msg) error {
	checked, err := c.check(ctx, batch)
	if err != nil {
		return err
	}
	sorted := sortOut(checked)
	spans := follow(ctx, batch)
	outcome, err := c.ledger.Add(ctx, sorted)
	spans.end(sorted.Lines, err)
	if err != nil {
		return fmt.Errorf("record earnings: %w", err)
	}
	crash.At("settlement.line.committed")
	for _, r := range sorted.Rejected {
		c.log.ErrorContext(ctx, "usage set aside", "request_id", r.RequestID, "reason", r.Reason)
	}
	for _, id := range outcome.Differing {
		c.log.ErrorContext(ctx, "usage repeats a request with another payout; the first stands", "request_id", id.String())
	}
	for _, id := range outcome.Corrected {
		c.log.WarnContext(ctx, "the ledger settled another count than the one heard first; the ledger's counts", "request_id",
			id.String())
	}
	return nil
}

// sortOut decodes a batch into lines, of which each request has one, rulings of the
// ledger, and events that cannot become a line. A request that a vendor served becomes none of
// these, because the ledger owes its cost to the vendor, which settlement does not pay.
func sortOut(all []incoming) earning.Batch {
	b := earning.Batch{Lines: make([]earning.Line, 0, len(all))}
	seen := make(map[ids.RequestID]earning.Line, len(all))
	ruled := make(map[ids.RequestID]bool)
	for _, in := range all {
		event, payload := &eventsv1.UsageEvent{}, in.payload
		line, named, err := lineFrom(event, payload)
		if forged := in.speaks(event); forged != nil {
			b.Rejected = append(b.Rejected, earning.Rejected{Reason: forged.Error(), RequestID: named, Payload: payload})
			continue
		}
		if event.GetVendor() {
			continue
		}
		if err != nil {
			b.Rejected = append(b.Rejected, earning.Rejected{Reason: err.Error(), RequestID: named, Payload: payload})
			continue
		}
		if line.Settled && !ruled[line.RequestID] {
			ruled[line.RequestID] = true
			b.Rulings = append(b.Rulings, line)
		}
		first, repeated := seen[line.RequestID]
		switch {
		case !repeated:
			seen[line.RequestID] = line
			b.Lines = append(b.Lines, line)
		case line.Contradicts(first):
			b.Rejected = append(b.Rejected, earning.Rejected{
				Reason: "repeats a request with another payout", RequestID: named, Payload: payload})
		}
	}
	return b
}

// evidenceSources has no entry for a value that names no evidence source.
var evidenceSources = map[eventsv1.EvidenceSource]earning.EvidenceSource{
	eventsv1.EvidenceSource_EVIDENCE_SOURCE_UNSPECIFIED:  earning.Hub, // from a hub older than the field
	eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB:          earning.Hub,
	eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY:      earning.Gateway,
	eventsv1.EvidenceSource_EVIDENCE_SOURCE_WORK_RECEIPT: earning.WorkReceipt,
}

// lineFrom decodes one event. The text that it returns is the request's id, or empty
// where the id cannot be read.
func lineFrom(event *eventsv1.UsageEvent, payload []byte) (earning.Line, string, error) {
	if err := proto.Unmarshal(payload, event); err != nil {
		event.Reset() // what was read before the fault says nothing
		return earning.Line{}, "", fmt.Errorf("not a usage event: %w", err)
	}
	request, err := ids.ParseRequest(event.GetRequestId())
	if err != nil {
		return earning.Line{}, "", fmt.Errorf("request id: %w", err)
	}
	provider, err := ids.ParseProvider(event.GetProviderId())
	if err != nil {
		return earning.Line{}, request.String(), fmt.Errorf("provider id: %w", err)
	}
	version, err := ids.ParsePriceVersion(event.GetPriceVersionId())
	if err != nil {
		return earning.Line{}, request.String(), fmt.Errorf("price version id: %w", err)
	}
	line, err := earning.NewLine(earning.Line{
		RequestID: request, ProviderID: provider, PriceVersionID: version,
		ModelID: event.GetModelId(), Attempt: event.GetAttempt(),
		Tokens: money.Tokens{Prompt: event.GetBillablePromptTokens(),
			Completion: event.GetBillableCompletionTokens()},
		EvidenceSource: evidenceSources[event.GetEvidenceSource()], Settled: event.GetSettled(),
	}, moneypb.ToRates(event.GetRates()))
	return line, request.String(), err
}
