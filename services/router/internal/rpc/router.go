// Package rpc answers the router's gRPC calls: it translates messages to the domain's
// types and back.
package rpc

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/router/internal/contextwindow"
	"svc.internal/services/router/internal/explain"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/pick"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/supply"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/trust"
)

// Bounds of a Select request.
const (
	maxTokens       = 1 << 40
	maxCapabilities = 16
	maxExcluded     = 8
	maxPreferred    = 32
	maxQuantization = 16
	maxID           = 128
)

// Parts are what a Router answers from.
type Parts struct {
	Picker *pick.Picker
	View   *presence.View
	Health *health.Registry
	Trust  *trust.Registry
	Stats  *pick.Stats
	Clock  clock.Clock
	// Windows returns the catalog's window of a model in tokens; 0 where it is not known.
	Windows func(model string) int64
	// Settled reports whether the view is complete. A view that is being rebuilt would
	// say that nobody is online.
	Settled func() bool
	Log     *slog.Logger
}

// Router serves RouterService.
type Router struct {
	routerv1.UnimplementedRouterServiceServer
	Parts
	supply  supply.Sources
	explain explain.Sources
	since   time.Time
}

// NewRouter makes the server. The counts that it reports begin now.
func NewRouter(p Parts) *Router {
	return &Router{
		Parts: p, since: p.Clock.Now(),
		supply:  supply.Sources{View: p.View, Health: p.Health, Trust: p.Trust, Windows: p.Windows},
		explain: explain.Sources{View: p.View, Health: p.Health, Stats: p.Stats, Trust: p.Trust, Windows: p.Windows},
	}
}

// Select names the candidates for a request.
func (r *Router) Select(ctx context.Context, req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
	request, err := selectFromProto(req)
	if err != nil {
		return nil, err
	}
	choice, err := r.Picker.Select(ctx, request)
	if err != nil {
		return nil, err
	}
	crash.At("router.selected")
	r.tell(ctx, request, &choice)
	return selectToProto(choice), nil
}

// tell logs at debug level who was chosen. Interceptors log refusals.
func (r *Router) tell(ctx context.Context, request *pick.Request, choice *pick.Choice) {
	if !r.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	providers := make([]string, 0, len(choice.Candidates))
	for _, c := range choice.Candidates {
		providers = append(providers, c.Seat.Session.Provider)
	}
	r.Log.LogAttrs(ctx, slog.LevelDebug, "candidates selected", slog.String("request_id", request.ID),
		slog.String("model", request.Model), slog.Any("providers", providers), slog.Bool("pinned", request.Pin != ""),
		slog.Int("excluded", len(request.Exclude)), slog.String("fallback", fallbackToProto(choice.Fallback).String()))
}

// ListSupply sums up what is online.
func (r *Router) ListSupply(context.Context, *routerv1.ListSupplyRequest) (*routerv1.ListSupplyResponse, error) {
	if !r.Settled() {
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "the router is still hearing who is online")
	}
	resp := &routerv1.ListSupplyResponse{}
	for _, m := range r.supply.Models() {
		resp.Models = append(resp.Models, &routerv1.ModelSupply{
			ModelId: m.ID, OnlineProviders: int32(m.Online), ReportingProviders: int32(m.Reporting),
			MinReportedContextLength: m.MinWindow, MaxReportedContextLength: m.MaxWindow, Quantizations: m.Quantizations,
		})
	}
	return resp, nil
}

// ListOfferings names the providers of a model.
func (r *Router) ListOfferings(
	_ context.Context, req *routerv1.ListOfferingsRequest,
) (*routerv1.ListOfferingsResponse, error) {
	if !within(req.GetModelId(), 1) {
		return nil, invalid("model_id")
	}
	resp := &routerv1.ListOfferingsResponse{}
	for _, o := range r.supply.Offerings(req.GetModelId(), r.Clock.Now()) {
		resp.Offerings = append(resp.Offerings, offeringToProto(&o))
	}
	return resp, nil
}

// ListOnlineProviders names who is online.
func (r *Router) ListOnlineProviders(
	context.Context, *routerv1.ListOnlineProvidersRequest,
) (*routerv1.ListOnlineProvidersResponse, error) {
	if !r.Settled() {
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "the router is still hearing who is online")
	}
	resp := &routerv1.ListOnlineProvidersResponse{}
	for _, p := range r.supply.Providers() {
		resp.Providers = append(resp.Providers, &routerv1.OnlineProvider{
			ProviderId: p.ID, ProviderName: p.Name, ConnectionMode: eventsv1.ConnectionMode(p.Mode), Region: p.Region,
			Models: int32(p.Models), Vendor: p.Vendor,
		})
	}
	return resp, nil
}

func offeringToProto(o *supply.Offering) *routerv1.Offering {
	offering := &routerv1.Offering{
		ProviderId: o.Provider, ProviderName: o.ProviderName,
		ConnectionMode:        eventsv1.ConnectionMode(o.Mode),
		ReportedContextLength: o.Reported, ContextLength: o.Window, ContextSource: sourceToProto(o.Source),
		Quantization: o.Quantization, Region: o.Region,
		Samples:   int32(o.Figures.Samples),
		TtftMsP50: milliseconds(o.Figures.FirstContentP50),
		TtftMsP95: milliseconds(o.Figures.FirstContentP95),

		TokensPerSecondP50: o.Figures.TokensPerSecondP50, SuccessRate: o.Figures.Success24h,
		Probation: o.Probation,
	}
	if o.UptimeKnown {
		offering.Uptime_30D = &o.Uptime
	}
	if o.Trust > 0 {
		offering.Trust = &o.Trust
	}
	return offering
}

// milliseconds keeps microseconds as decimals.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func selectFromProto(m *routerv1.SelectRequest) (*pick.Request, error) {
	for _, text := range []struct {
		field, value string
		least        int
	}{
		{"request_id", m.GetRequestId(), 1}, {"model_id", m.GetModelId(), 1},
		{"pinned_provider_id", m.GetPinnedProviderId(), 0}, {"near_hub_id", m.GetNearHubId(), 0},
	} {
		if !within(text.value, text.least) {
			return nil, invalid(text.field)
		}
	}
	for _, number := range []struct {
		field string
		value int64
	}{
		{"prompt_tokens", m.GetPromptTokens()}, {"explicit_max_tokens", m.GetExplicitMaxTokens()},
		{"body_bytes", m.GetBodyBytes()},
	} {
		if number.value < 0 || number.value > maxTokens {
			return nil, invalid(number.field)
		}
	}
	if len(m.GetRequiredCapabilities()) > maxCapabilities {
		return nil, invalid("required_capabilities")
	}
	if len(m.GetExcludeProviderIds()) > maxExcluded {
		return nil, invalid("exclude_provider_ids")
	}
	account, ok := tag.FromBytes(m.GetAccountTag())
	if !ok {
		return nil, invalid("account_tag")
	}
	prefer, err := preferencesFromProto(m.GetPreferences())
	if err != nil {
		return nil, err
	}
	return &pick.Request{
		ID: m.GetRequestId(), Model: m.GetModelId(), Account: account, PromptTokens: m.GetPromptTokens(),
		MaxTokens: m.GetExplicitMaxTokens(), BodyBytes: m.GetBodyBytes(),
		Capabilities: m.GetRequiredCapabilities(), Pin: m.GetPinnedProviderId(),
		AllowFallbacks: m.GetAllowFallbacks(), NearHub: m.GetNearHubId(), Exclude: m.GetExcludeProviderIds(),
		Prefer: prefer, Priority: m.GetPriority(),
	}, nil
}

func preferencesFromProto(m *routerv1.Preferences) (pick.Preferences, error) {
	for _, list := range []struct {
		field  string
		values []string
		limit  int
	}{
		{"preferences.order_provider_ids", m.GetOrderProviderIds(), maxPreferred},
		{"preferences.only_provider_ids", m.GetOnlyProviderIds(), maxPreferred},
		{"preferences.ignore_provider_ids", m.GetIgnoreProviderIds(), maxPreferred},
		{"preferences.quantizations", m.GetQuantizations(), maxQuantization},
	} {
		if len(list.values) > list.limit || slices.ContainsFunc(list.values, func(s string) bool { return !within(s, 1) }) {
			return pick.Preferences{}, invalid(list.field)
		}
	}
	prefer := pick.Preferences{
		Order: m.GetOrderProviderIds(), Only: m.GetOnlyProviderIds(), Ignore: m.GetIgnoreProviderIds(),
		Quantizations: m.GetQuantizations(),
	}
	switch m.GetSort() {
	case routerv1.Sort_SORT_UNSPECIFIED:
	case routerv1.Sort_SORT_THROUGHPUT:
		prefer.Sort = pick.ByThroughput
	case routerv1.Sort_SORT_LATENCY:
		prefer.Sort = pick.ByLatency
	default:
		return pick.Preferences{}, invalid("preferences.sort")
	}
	return prefer, nil
}

func within(text string, least int) bool { return len(text) >= least && len(text) <= maxID }

func invalid(field string) error {
	return fault.New(fault.Invalid, fault.InvalidValue, "%s is missing or out of range", field).On(field)
}

func selectToProto(choice pick.Choice) *routerv1.SelectResponse {
	resp := &routerv1.SelectResponse{
		FallbackReason: fallbackToProto(choice.Fallback), SingleAttempt: choice.Single,
		UsualFirstContentMs: choice.UsualFirstContent.Milliseconds(),
	}
	// The candidates have one allocation, as long as one of them is used.
	candidates := make([]routerv1.Candidate, len(choice.Candidates))
	resp.Candidates = make([]*routerv1.Candidate, len(candidates))
	for i, c := range choice.Candidates {
		to := &candidates[i]
		to.ProviderId, to.ProviderName = c.Seat.Session.Provider, c.Seat.Session.ProviderName
		to.NodeId, to.Epoch = c.Seat.Session.Node, c.Seat.Session.Epoch
		to.HubId, to.DispatchAddress = c.Seat.Hub, c.Seat.Address
		to.ConnectionMode = eventsv1.ConnectionMode(c.Seat.Session.Mode)
		to.ContextLength, to.ContextSource = c.Window, sourceToProto(c.Source)
		resp.Candidates[i] = to
	}
	if n := len(choice.PassedOver); n > 0 {
		resp.PassedOver = make([]*routerv1.RejectCount, 0, n)
	}
	for _, p := range choice.PassedOver {
		resp.PassedOver = append(resp.PassedOver, &routerv1.RejectCount{Reason: p.Reason.String(), Count: int64(p.Count)})
	}
	return resp
}

func sourceToProto(s contextwindow.Source) routerv1.ContextSource {
	switch s {
	case contextwindow.Reported:
		return routerv1.ContextSource_CONTEXT_SOURCE_REPORTED
	case contextwindow.Catalog:
		return routerv1.ContextSource_CONTEXT_SOURCE_CATALOG
	case contextwindow.Measured:
		return routerv1.ContextSource_CONTEXT_SOURCE_MEASURED
	default:
		return routerv1.ContextSource_CONTEXT_SOURCE_UNSPECIFIED
	}
}

func fallbackToProto(f pick.Fallback) eventsv1.FallbackReason {
	switch f {
	case pick.PinUnavailable:
		return eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_UNAVAILABLE
	case pick.PinFailed:
		return eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_FAILED
	default:
		return eventsv1.FallbackReason_FALLBACK_REASON_UNSPECIFIED
	}
}
