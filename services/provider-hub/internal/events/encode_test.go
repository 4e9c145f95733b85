package events

import (
	"math"
	"testing"
	"time"

	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/registry"
	"svc.internal/services/provider-hub/internal/session"
)

func TestWhatAnAgentSaysOfItsLoadIsClamped(t *testing.T) {
	for said, want := range map[int]int32{
		-1: 0, 0: 0, 7: 7, math.MaxInt32: math.MaxInt32, math.MaxInt32 + 1: math.MaxInt32, 1 << 32: math.MaxInt32,
		math.MaxInt: math.MaxInt32, math.MinInt: 0,
	} {
		got := sessionOf(session.View{
			Capacity: said, ReportedActive: said, ReportedQueued: said,
			Offers: []session.Offer{{Capacity: said, InFlight: said}},
		}, registry.Public{}, false)
		offer := got.GetModels()[0]
		for name, is := range map[string]int32{
			"capacity": got.GetCapacity(), "active": got.GetReportedActive(), "queued": got.GetReportedQueued(),
			"a model's capacity": offer.GetCapacity(), "in flight": offer.GetInFlight(),
		} {
			if is != want {
				t.Errorf("%s of %d is told: got %d, want %d", name, said, is, want)
			}
		}
	}
}

func TestAReferenceIsNeverToldAsActive(t *testing.T) {
	since := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name          string
		active        bool
		of            registry.Public
		wantActive    bool
		wantReference bool
		wantSince     time.Time
	}{
		{"an active provider", true, registry.Public{ActiveSince: since}, true, false, since},
		{"a provider that is not active", false, registry.Public{ActiveSince: since}, false, false, time.Time{}},
		{"a reference", false, registry.Public{Reference: true}, false, true, time.Time{}},
		{"a reference whose session says otherwise", true, registry.Public{Reference: true, ActiveSince: since}, false, true,
			time.Time{}},
	} {
		got := sessionOf(session.View{Active: c.active}, c.of, false)
		var at time.Time
		if got.GetActiveSince() != nil {
			at = got.GetActiveSince().AsTime()
		}
		if got.GetActive() != c.wantActive {
			t.Errorf("%s: active: got %t, want %t", c.name, got.GetActive(), c.wantActive)
		}
		if got.GetReference() != c.wantReference {
			t.Errorf("%s: reference: got %t, want %t", c.name, got.GetReference(), c.wantReference)
		}
		if !at.Equal(c.wantSince) {
			t.Errorf("%s: active since: got %v, want %v", c.name, at, c.wantSince)
		}
	}
}

func TestPresenceTellsWhatAHostRuns(t *testing.T) {
	for name, reference := range map[string]bool{"a provider": false, "a reference": true} {
		got := sessionOf(session.View{
			Hardware: &gpu.Report{Type: "RTX 4090", Model: "NVIDIA GeForce RTX 4090"},
			Offers:   []session.Offer{{Model: "m", Engine: "vllm", Revision: "0f1e2d"}},
		}, registry.Public{Reference: reference}, false)
		offer := got.GetModels()[0]
		for what, c := range map[string][2]string{
			"GPU class": {got.GetGpuClass(), "NVIDIA GeForce RTX 4090"}, "engine": {offer.GetEngine(), "vllm"},
			"revision": {offer.GetRevision(), "0f1e2d"},
		} {
			if c[0] != c[1] {
				t.Errorf("%s: %s: got %q, want %q", name, what, c[0], c[1])
			}
		}
	}
	if got := sessionOf(session.View{}, registry.Public{}, false).GetGpuClass(); got != "" {
		t.Errorf("the GPU class of a machine that reports nothing: got %q, want none", got)
	}
}

func TestPresenceTellsHowAProviderIsReached(t *testing.T) {
	for name, c := range map[string]struct {
		who  session.Identity
		want eventsv1.ConnectionMode
	}{
		"an agent":    {session.Identity{}, eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET},
		"an endpoint": {session.Identity{External: true}, eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL},
		"a vendor":    {session.Identity{External: true, Vendor: true}, eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL},
	} {
		got := sessionOf(session.View{Identity: c.who}, registry.Public{}, false)
		if got.GetConnectionMode() != c.want {
			t.Errorf("%s: mode: got %v, want %v", name, got.GetConnectionMode(), c.want)
		}
		if got.GetVendor() != c.who.Vendor {
			t.Errorf("%s: vendor: got %t, want %t", name, got.GetVendor(), c.who.Vendor)
		}
	}
}
