package events

import (
	"testing"

	"google.golang.org/protobuf/proto"

	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/meter"
)

// The event is the payload of FINAL in the journal, so a hub that is killed keeps the count.
func TestUsageSaysHowMuchOfTheBilledPromptWasCached(t *testing.T) {
	for name, c := range map[string]struct{ cached, prompt, want int64 }{
		"a part": {4, 10, 4}, "all": {10, 10, 10}, "more than is billed": {11, 10, 10}, "none is billed": {4, 0, 0},
		"less than nothing": {-1, 10, 0},
	} {
		payload, err := final("hub-a", &dispatch.Usage{Order: &dispatch.Order{Vendor: true},
			Served: meter.Served{Claim: meter.Claim{State: meter.Valid, Cached: c.cached}}, Bill: meter.Bill{Prompt: c.prompt}})
		if err != nil {
			t.Fatal(err)
		}
		e := &eventsv1.UsageEvent{}
		if err := proto.Unmarshal(payload, e); err != nil {
			t.Fatal(err)
		}
		if got := e.GetClaimedCachedPromptTokens(); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
