// Package events has billing-ledger's messages: usage and receipts from the hubs, notices
// of what is settled to the hubs, changed keys to the gateways, and the catalog's models.
package events

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/money/moneypb"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/billing-ledger/internal/usage"
)

// decodeUsage reads a usage event. A reject, when there is one, has as much of the event
// as could be read.
func decodeUsage(payload []byte) (usage.Delivery, *usage.Reject) {
	m := &eventsv1.UsageEvent{}
	if err := proto.Unmarshal(payload, m); err != nil {
		return usage.Delivery{}, &usage.Reject{Reason: usage.Undecodable, Detail: "not a usage event", Payload: payload}
	}
	e, err := usageFromProto(m)
	if err == nil {
		err = e.Validate()
	}
	if err == nil {
		return usage.Delivery{Event: e, Ticket: m.GetTicket(), Payload: payload}, nil
	}
	reject := &usage.Reject{Reason: usage.Invalid, Request: e.Request, Detail: clip(err.Error()), Payload: payload}
	if usage.ValidHub(e.Hub) {
		reject.Hub = e.Hub
	}
	return usage.Delivery{}, reject
}

func clip(s string) string { return s[:min(len(s), usage.MaxDetail)] }

func usageFromProto(m *eventsv1.UsageEvent) (usage.Event, error) {
	e := usage.Event{
		Attempt: int32(min(m.GetAttempt(), 1<<30)), Hub: m.GetHubId(), Epoch: m.GetEpoch(), Model: m.GetModelId(),
		Rates:    moneypb.ToRates(m.GetRates()),
		Ending:   endings[m.GetEnding()],
		Billable: money.Tokens{Prompt: m.GetBillablePromptTokens(), Completion: m.GetBillableCompletionTokens()},

		ClaimState:          claimStates[m.GetClaimState()],
		Claimed:             money.Tokens{Prompt: m.GetClaimedPromptTokens(), Completion: m.GetClaimedCompletionTokens()},
		RecountedCompletion: m.GetRecountedCompletionTokens(),
		DeliveredBytes:      m.GetDeliveredBytes(), EstimatedPrompt: m.GetEstimatedPromptTokens(),
		RouteMode:         routeModes[m.GetRoute().GetMode()],
		RequestedProvider: m.GetRoute().GetRequestedProviderId(),
		FallbackReason:    fallbacks[m.GetRoute().GetFallbackReason()],
		DispatchedAt:      instant(m.GetDispatchedAt()), EndedAt: instant(m.GetEndedAt()),
		FirstContentMS: m.GetFirstContentMs(), Vendor: m.GetVendor(),
		EvidenceSource: evidenceSources[m.GetEvidenceSource()], Settled: m.GetSettled(),
	}
	e.Mode = modeFromProto(m.GetConnectionMode(), e.EvidenceSource)
	if e.Vendor { // cached tokens of other providers change no amount
		e.CachedPrompt = m.GetClaimedCachedPromptTokens()
	}
	if mac := m.GetLedgerMac(); len(mac) == len(e.MAC) {
		copy(e.MAC[:], mac)
	}
	var err error
	if e.Request, err = ids.ParseRequest(m.GetRequestId()); err != nil {
		return e, fmt.Errorf("request id: %w", err)
	}
	if e.Provider, err = ids.ParseProvider(m.GetProviderId()); err != nil {
		return e, fmt.Errorf("provider id: %w", err)
	}
	if e.Price, err = ids.ParsePriceVersion(m.GetPriceVersionId()); err != nil {
		return e, fmt.Errorf("price version id: %w", err)
	}
	return e, nil
}

// modeFromProto returns a mode by its number. A hub that is older than the field reached all
// of its providers by WebSocket. Gateways and receipts do not say how a provider was reached.
func modeFromProto(m eventsv1.ConnectionMode, source usage.EvidenceSource) int16 {
	if m == eventsv1.ConnectionMode_CONNECTION_MODE_UNSPECIFIED && source == usage.Hub {
		m = eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET
	}
	return int16(min(max(m, 0), math.MaxInt16))
}

// instant returns a time to the microsecond, which is the database's precision, and zero
// for a time that the database cannot store.
func instant(ts *timestamppb.Timestamp) time.Time {
	if ts == nil || ts.CheckValid() != nil {
		return time.Time{}
	}
	return ts.AsTime().Truncate(time.Microsecond)
}

// The stored names of the enumerations in events. A value that is not here has the empty
// name, which Validate refuses where a name is needed.
var (
	endings = map[eventsv1.Ending]string{
		eventsv1.Ending_ENDING_COMPLETED:     "completed",
		eventsv1.Ending_ENDING_CLIENT_GONE:   "client_gone",
		eventsv1.Ending_ENDING_PROVIDER_LOST: "provider_lost",
		eventsv1.Ending_ENDING_TRUNCATED:     "truncated",
		eventsv1.Ending_ENDING_ENGINE_ERROR:  "engine_error",
		eventsv1.Ending_ENDING_WALL_LIMIT:    "wall_limit",
		eventsv1.Ending_ENDING_PLATFORM_LOST: "platform_lost",
	}
	claimStates = map[eventsv1.ClaimState]string{
		eventsv1.ClaimState_CLAIM_STATE_ABSENT: "absent",
		eventsv1.ClaimState_CLAIM_STATE_VALID:  "valid",
		eventsv1.ClaimState_CLAIM_STATE_ABSURD: "absurd",
	}
	routeModes = map[eventsv1.RouteMode]string{
		eventsv1.RouteMode_ROUTE_MODE_AUTO:     "auto",
		eventsv1.RouteMode_ROUTE_MODE_EXPLICIT: "explicit",
	}
	fallbacks = map[eventsv1.FallbackReason]string{
		eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_UNAVAILABLE: "requested_provider_unavailable",
		eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_FAILED:      "requested_provider_failed",
	}
	evidenceSources = map[eventsv1.EvidenceSource]usage.EvidenceSource{
		eventsv1.EvidenceSource_EVIDENCE_SOURCE_UNSPECIFIED:  usage.Hub, // a hub that is older than the field
		eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB:          usage.Hub,
		eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY:      usage.Gateway,
		eventsv1.EvidenceSource_EVIDENCE_SOURCE_WORK_RECEIPT: usage.WorkReceipt,
	}
)

// RouteMode returns the stored name of how a request was routed.
func RouteMode(m eventsv1.RouteMode) string { return routeModes[m] }

// FallbackReason returns the stored name of why a pin was not followed.
func FallbackReason(r eventsv1.FallbackReason) string { return fallbacks[r] }
