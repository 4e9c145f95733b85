package events

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/money/moneypb"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/registry"
	"svc.internal/services/provider-hub/internal/session"
)

// dispatched is what is known of an attempt before its first byte leaves. It is the
// payload of DISPATCH. A usage event of the relayed part can be made from it alone.
func dispatched(hubID string, o *dispatch.Order, at time.Time) *eventsv1.UsageEvent {
	return &eventsv1.UsageEvent{
		RequestId: o.Request.String(), Attempt: o.Attempt, HubId: hubID, ProviderId: o.Provider.String(),
		Epoch: o.Epoch, ModelId: o.Model, PriceVersionId: o.PriceVersion, Rates: moneypb.FromRates(o.Rates),
		EstimatedPromptTokens: o.EstimatedPrompt,
		Route: &eventsv1.Route{
			Mode:                eventsv1.RouteMode(o.Route.Mode),
			RequestedProviderId: o.Route.RequestedProvider,
			FallbackReason:      eventsv1.FallbackReason(o.Route.Fallback),
		},
		DispatchedAt: timestamppb.New(at), LedgerMac: o.LedgerMAC, Ticket: o.Ticket,
		ConnectionMode: modeOf(o.External), Vendor: o.Vendor,
	}
}

// modeOf says how a provider is reached.
func modeOf(external bool) eventsv1.ConnectionMode {
	if external {
		return eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL
	}
	return eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET
}

// final is the usage event of an attempt, the payload of FINAL.
func final(hubID string, u *dispatch.Usage) ([]byte, error) {
	e := dispatched(hubID, u.Order, u.Dispatched)
	fill(e, u.Served, u.Bill)
	e.EndedAt = timestamppb.New(u.Ended)
	e.FirstContentMs = u.FirstContent.Milliseconds()
	return encode(e)
}

func fill(e *eventsv1.UsageEvent, s meter.Served, b meter.Bill) {
	e.Ending = endingOf(s.Ending)
	e.BillablePromptTokens, e.BillableCompletionTokens = b.Prompt, b.Completion
	e.ClaimState = claimOf(b.Claim)
	e.ClaimedPromptTokens, e.ClaimedCompletionTokens = s.Claim.Prompt, s.Claim.Completion
	e.ClaimedCachedPromptTokens = max(min(s.Claim.Cached, b.Prompt), 0)
	e.RecountedCompletionTokens, e.DeliveredBytes = s.Recount, s.DeliveredBytes
}

func encode(m proto.Message) ([]byte, error) {
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	return data, nil
}

func endingOf(e meter.Ending) eventsv1.Ending {
	switch e {
	case meter.Completed:
		return eventsv1.Ending_ENDING_COMPLETED
	case meter.ClientGone:
		return eventsv1.Ending_ENDING_CLIENT_GONE
	case meter.ProviderLost:
		return eventsv1.Ending_ENDING_PROVIDER_LOST
	case meter.Truncated:
		return eventsv1.Ending_ENDING_TRUNCATED
	case meter.EngineError:
		return eventsv1.Ending_ENDING_ENGINE_ERROR
	case meter.WallLimit:
		return eventsv1.Ending_ENDING_WALL_LIMIT
	case meter.PlatformLost:
		return eventsv1.Ending_ENDING_PLATFORM_LOST
	default:
		return eventsv1.Ending_ENDING_UNSPECIFIED
	}
}

func claimOf(c meter.ClaimState) eventsv1.ClaimState {
	switch c {
	case meter.Absent:
		return eventsv1.ClaimState_CLAIM_STATE_ABSENT
	case meter.Valid:
		return eventsv1.ClaimState_CLAIM_STATE_VALID
	case meter.Absurd:
		return eventsv1.ClaimState_CLAIM_STATE_ABSURD
	default:
		return eventsv1.ClaimState_CLAIM_STATE_UNSPECIFIED
	}
}

func outcomeOf(o dispatch.Outcome) eventsv1.AttemptOutcome {
	switch o {
	case dispatch.Served:
		return eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_SERVED
	case dispatch.Failed:
		return eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_FAILED
	case dispatch.Refused:
		return eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_REFUSED
	case dispatch.Cancelled:
		return eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED
	case dispatch.Busy:
		return eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_BUSY
	default:
		return eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_UNSPECIFIED
	}
}

func attemptOf(r dispatch.Report) *eventsv1.Attempt {
	if r.Probe {
		return &eventsv1.Attempt{
			Probe: true, ProviderId: r.Provider.String(), NodeId: r.Node, Epoch: r.Epoch, ModelId: r.Model,
			Outcome: outcomeOf(r.Outcome), DurationMs: r.Duration.Milliseconds(),
		}
	}
	return &eventsv1.Attempt{
		AccountTag: r.AccountTag, Excused: r.Excused, PromptTokens: r.Prompt, Chat: r.Chat,
		CallerBlockedMs: r.Blocked.Milliseconds(),
		RequestId:       r.Request.String(), Attempt: r.Attempt, ProviderId: r.Provider.String(), NodeId: r.Node,
		Epoch: r.Epoch, ModelId: r.Model, Outcome: outcomeOf(r.Outcome),
		FirstContentMs: r.FirstContent.Milliseconds(), DurationMs: r.Duration.Milliseconds(), CompletionTokens: r.Tokens,
	}
}

func sessionOf(v session.View, of registry.Public, draining bool) *eventsv1.Session {
	s := &eventsv1.Session{
		ProviderId: v.ProviderID.String(), ProviderName: v.ProviderName, NodeId: v.NodeID, Epoch: v.Epoch,
		ConnectionMode: modeOf(v.External), Vendor: v.Vendor,
		Draining:     v.Draining || draining,
		Capabilities: v.Capabilities, MaxRequestBytes: v.MaxRequestBytes, Region: v.Region,
		Capacity: count(v.Capacity), ReportedActive: count(v.ReportedActive), ReportedQueued: count(v.ReportedQueued),
		Probation: v.Probation, Uptime_30D: v.Uptime30d, TakesWarmups: v.TakesWarmups,
		// A reference is in no count, whatever else is said of it.
		Reference: of.Reference,
		GpuClass:  v.Hardware.Class(),
		Models:    make([]*eventsv1.ModelOffer, 0, len(v.Offers)),
	}
	if s.Active = v.Active && !of.Reference; s.Active && !of.ActiveSince.IsZero() {
		s.ActiveSince = timestamppb.New(of.ActiveSince)
	}
	for _, o := range v.Offers {
		s.Models = append(s.Models, &eventsv1.ModelOffer{
			ModelId: o.Model, Healthy: o.Healthy, ReportedContextLength: o.ContextLength,
			Capacity: count(o.Capacity), InFlight: count(o.InFlight), Quantization: o.Quantization,
			Engine: o.Engine, Revision: o.Revision,
		})
	}
	return s
}

// count clamps a number of an agent's, which may say anything.
func count(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }
