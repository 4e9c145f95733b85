package rpc

import (
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/router/internal/pick"
)

func TestEveryWordOfTheDomainHasItsMessage(t *testing.T) {
	for f, want := range map[pick.Fallback]eventsv1.FallbackReason{
		pick.NoFallback:     eventsv1.FallbackReason_FALLBACK_REASON_UNSPECIFIED,
		pick.PinUnavailable: eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_UNAVAILABLE,
		pick.PinFailed:      eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_FAILED,
	} {
		if got := fallbackToProto(f); got != want {
			t.Errorf("fallback %d became %v", f, got)
		}
	}
	for s, want := range map[pick.Source]routerv1.ContextSource{
		pick.FromProvider: routerv1.ContextSource_CONTEXT_SOURCE_REPORTED,
		pick.FromCatalog:  routerv1.ContextSource_CONTEXT_SOURCE_CATALOG,
	} {
		if got := sourceToProto(s); got != want {
			t.Errorf("source %d became %v", s, got)
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
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := selectFromProto(base(&routerv1.Preferences{
		OrderProviderIds: []string{"a"}, OnlyProviderIds: []string{"b"}, IgnoreProviderIds: []string{"c"},
		Quantizations: []string{"d"}, Sort: routerv1.Sort_SORT_LATENCY,
	}))
	if err != nil || !slices.Equal(slices.Concat(got.Prefer.Order, got.Prefer.Only, got.Prefer.Ignore,
		got.Prefer.Quantizations),
		[]string{"a", "b", "c", "d"}) || got.Prefer.Sort != pick.ByLatency {
		t.Errorf("%+v, %v", got, err)
	}
	if plain, err := selectFromProto(base(nil)); err != nil || plain.Prefer.Sort != pick.ByWeight {
		t.Errorf("%+v, %v", plain, err)
	}
}
