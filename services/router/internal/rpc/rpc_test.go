package rpc

import (
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/router/internal/contextwindow"
	"svc.internal/services/router/internal/pick"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/supply"
)

func TestEveryWordOfTheDomainHasItsMessage(t *testing.T) {
	for f, want := range map[pick.Fallback]eventsv1.FallbackReason{
		pick.NoFallback:     eventsv1.FallbackReason_FALLBACK_REASON_UNSPECIFIED,
		pick.PinUnavailable: eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_UNAVAILABLE,
		pick.PinFailed:      eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_FAILED,
	} {
		if got := fallbackToProto(f); got != want {
			t.Errorf("fallback %d: got %v, want %v", f, got, want)
		}
	}
	for s, want := range map[contextwindow.Source]routerv1.ContextSource{
		contextwindow.Reported: routerv1.ContextSource_CONTEXT_SOURCE_REPORTED,
		contextwindow.Catalog:  routerv1.ContextSource_CONTEXT_SOURCE_CATALOG,
		contextwindow.Measured: routerv1.ContextSource_CONTEXT_SOURCE_MEASURED,
	} {
		if got := sourceToProto(s); got != want {
			t.Errorf("source %d: got %v, want %v", s, got, want)
		}
	}
}

func TestCandidatesAndOfferingsSayHowTheirProviderIsReached(t *testing.T) {
	for _, mode := range []eventsv1.ConnectionMode{eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET,
		eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL, 9} {
		session := &presence.Session{Mode: presence.Mode(mode)}
		answer := selectToProto(pick.Choice{Candidates: []pick.Candidate{{Seat: &presence.Seat{Session: session}}}})
		if got := answer.GetCandidates()[0].GetConnectionMode(); got != mode {
			t.Errorf("candidate: got %v, want %v", got, mode)
		}
		if got := offeringToProto(&supply.Offering{Mode: presence.Mode(mode)}).GetConnectionMode(); got != mode {
			t.Errorf("offering: got %v, want %v", got, mode)
		}
	}
}

func TestPreferencesOutOfBoundsAreRefused(t *testing.T) {
	base := func(p *routerv1.Preferences) *routerv1.SelectRequest {
		return &routerv1.SelectRequest{RequestId: "r", ModelId: "m", Preferences: p}
	}
	for name, p := range map[string]*routerv1.Preferences{
		"too many":      {OnlyProviderIds: make([]string, maxPreferred+1)},
		"empty":         {IgnoreProviderIds: []string{""}},
		"too long":      {OrderProviderIds: []string{strings.Repeat("x", maxID+1)}},
		"quantizations": {Quantizations: slices.Repeat([]string{"q"}, maxQuantization+1)},
		"sort":          {Sort: 9},
	} {
		if _, err := selectFromProto(base(p)); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want the reason %v", name, err, fault.InvalidValue)
		}
	}
	got, err := selectFromProto(base(&routerv1.Preferences{
		OrderProviderIds: []string{"a"}, OnlyProviderIds: []string{"b"}, IgnoreProviderIds: []string{"c"},
		Quantizations: []string{"d"}, Sort: routerv1.Sort_SORT_LATENCY,
	}))
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case !slices.Equal(slices.Concat(got.Prefer.Order, got.Prefer.Only, got.Prefer.Ignore, got.Prefer.Quantizations),
		[]string{"a", "b", "c", "d"}):
		t.Errorf("slices.Concat(…): got %q, want %q",
			slices.Concat(got.Prefer.Order, got.Prefer.Only, got.Prefer.Ignore, got.Prefer.Quantizations),
			[]string{"a", "b", "c", "d"})
	case got.Prefer.Sort != pick.ByLatency:
		t.Errorf("Prefer.Sort: got %d, want %d", got.Prefer.Sort, pick.ByLatency)
	}
	if plain, err := selectFromProto(base(nil)); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if plain.Prefer.Sort != pick.ByWeight {
		t.Errorf("plain.Prefer.Sort: got %d, want %d", plain.Prefer.Sort, pick.ByWeight)
	}
}

func TestAnAnswerOfThreeCandidatesTakesThreeAllocations(t *testing.T) {
	seat := &presence.Seat{Session: &presence.Session{Provider: "p", Node: "n"}}
	choice := pick.Choice{Candidates: []pick.Candidate{{Seat: seat}, {Seat: seat}, {Seat: seat}}}
	if got := testing.AllocsPerRun(100, func() { selectToProto(choice) }); got != 3 {
		t.Errorf("got %v allocations, want 3", got)
	}
}
