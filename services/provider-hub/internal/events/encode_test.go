package events

import (
	"math"
	"testing"

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
		}, false)
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
