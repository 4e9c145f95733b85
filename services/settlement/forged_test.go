package settlement

import (
	"testing"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/usageseal"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// TestForgedUsageBecomesNoLine publishes, before the true usage, what somebody on
// the bus could make up, of a payout that is a hundred times too high.
func TestForgedUsageBecomesNoLine(t *testing.T) {
	b := setup(t)
	event := b.usage(t)
	high := func(change func(*eventsv1.UsageEvent)) []byte {
		e := b.usage(t)
		e.RequestId, e.BillableCompletionTokens = event.GetRequestId(), 300
		change(e)
		return encode(t, e)
	}
	same := func(*eventsv1.UsageEvent) {}
	guess := hubKey
	guess.Secret[0]++
	other := usageseal.Key{ID: usageseal.KeyID{9}, Secret: [32]byte{9}}
	if err := b.service.ring.Take(t.Context(), "hub-2", other); err != nil {
		t.Fatal(err)
	}
	if err := b.service.ring.Take(t.Context(), "hub", hubKey); err != nil {
		t.Fatal(err)
	}
	hub, hub2 := bus.SubjectUsage("hub"), bus.SubjectUsage("hub-2")
	b.forge(t, hub, "1", high(same))
	b.forge(t, hub, "2", guess.Seal(high(same)))
	b.forge(t, hub2, "3", other.Seal(high(same)))
	b.forge(t, hub, "4", hubKey.Seal(high(func(e *eventsv1.UsageEvent) { e.Settled = true })))
	b.forge(t, hub, "5", hubKey.Seal(high(func(e *eventsv1.UsageEvent) { e.Witness = eventsv1.Witness_WITNESS_GATEWAY })))
	b.forge(t, bus.SubjectUsageLedger, "6", high(same)) // what only a hub may say
	b.publish(t, "7", encode(t, event))
	b.settled(t)
	var lines, payout, rejected int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*), sum(payout_nano_usd) FROM earning_line WHERE request_id = $1`, event.GetRequestId()).
		Scan(&lines, &payout); err != nil {
		t.Fatal(err)
	}
	if lines != 1 || payout != 10 {
		t.Errorf("got %d lines of %d nano-USD, want the true one of 10", lines, payout)
	}
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM quarantine WHERE reason LIKE 'forged%'`).Scan(&rejected); err != nil {
		t.Fatal(err)
	}
	if rejected != 6 {
		t.Errorf("got %d events set aside as forged, want 6", rejected)
	}
}
