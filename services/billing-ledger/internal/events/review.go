package events

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/money/moneypb"
	"svc.internal/pkg/usageseal"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Reviews publishes the usage of reviewed requests beside the usage of the hubs.
type Reviews struct {
	Bus Bus
	// Key seals the events.
	Key usageseal.Key
}

// Publish returns when the server has accepted all events. Events that it accepted before
// a failure do no harm.
func (r Reviews) Publish(ctx context.Context, all []orphan.Publication) error {
	if err := r.Bus.EnsureStream(ctx, bus.UsageStream); err != nil {
		return err
	}
	futures := make([]*bus.Future, 0, len(all))
	for _, p := range all {
		data, err := proto.Marshal(usageToProto(p.Event))
		if err != nil {
			return fmt.Errorf("encode usage: %w", err)
		}
		future, err := r.Bus.PublishStreamAsync(ctx, bus.SubjectUsageLedger, p.ID(), r.Key.Seal(data), nil)
		if err != nil {
			return err
		}
		futures = append(futures, future)
	}
	for _, future := range futures {
		if _, err := future.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// usageToProto is the inverse of usageFromProto.
func usageToProto(e usage.Event) *eventsv1.UsageEvent {
	return &eventsv1.UsageEvent{
		RequestId: e.Request.String(), Attempt: uint32(e.Attempt), HubId: e.Hub, ProviderId: e.Provider.String(),
		Epoch:   e.Epoch,
		ModelId: e.Model, PriceVersionId: e.Price.String(), Rates: moneypb.FromRates(e.Rates),
		Ending:               named(endings, e.Ending),
		BillablePromptTokens: e.Billable.Prompt, BillableCompletionTokens: e.Billable.Completion,
		ClaimState: named(claimStates, e.ClaimState), ClaimedPromptTokens: e.Claimed.Prompt,
		ClaimedCompletionTokens:   e.Claimed.Completion,
		RecountedCompletionTokens: e.RecountedCompletion, DeliveredBytes: e.DeliveredBytes,
		EstimatedPromptTokens: e.EstimatedPrompt,
		Route: &eventsv1.Route{
			Mode: named(routeModes, e.RouteMode), RequestedProviderId: e.RequestedProvider,
			FallbackReason: named(fallbacks, e.FallbackReason),
		},
		DispatchedAt: timestamp(e.DispatchedAt), EndedAt: timestamp(e.EndedAt), FirstContentMs: e.FirstContentMS,
		EvidenceSource: evidenceSourceToProto(e.EvidenceSource), Settled: e.Settled,
		ConnectionMode: eventsv1.ConnectionMode(e.Mode),
		Vendor:         e.Vendor, ClaimedCachedPromptTokens: e.CachedPrompt,
	}
}

// named returns the value that is stored under a name; zero for none.
func named[E comparable](names map[E]string, name string) E {
	for e, n := range names {
		if n == name {
			return e
		}
	}
	var none E
	return none
}

func evidenceSourceToProto(w usage.EvidenceSource) eventsv1.EvidenceSource {
	switch w {
	case usage.Gateway:
		return eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY
	case usage.WorkReceipt:
		return eventsv1.EvidenceSource_EVIDENCE_SOURCE_WORK_RECEIPT
	case usage.Hub:
	}
	return eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
