package settlement

import (
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	eventsv1 "svc.internal/proto/svc/events/v1"
)

// sources are a hub's word of one request, and its gateway's count, which
// pays 3 nano-USD.
func (b *bundle) sources(t *testing.T) (hub, gateway *eventsv1.UsageEvent) {
	t.Helper()
	hub = b.usage(t)
	gateway = proto.CloneOf(hub)
	gateway.EvidenceSource = eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY
	gateway.BillablePromptTokens, gateway.BillableCompletionTokens = 0, 2
	return hub, gateway
}

func settledAs(e *eventsv1.UsageEvent) *eventsv1.UsageEvent {
	e = proto.CloneOf(e)
	e.Settled = true
	return e
}

// paid is what counts for one request.
func (b *bundle) paid(t *testing.T, e *eventsv1.UsageEvent) int {
	t.Helper()
	return b.count(t, "SELECT coalesce(sum(payout_nano_usd), 0)::int FROM earning WHERE settled AND request_id = '"+
		e.GetRequestId()+"'")
}

func TestOfTwoEvidenceSourcesTheFirstInTheStreamStandsAndNoneIsSetAside(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hub1, gateway1 := b.sources(t)
	hub2, gateway2 := b.sources(t)
	hub3, gateway3 := b.sources(t)
	for i, e := range []*eventsv1.UsageEvent{hub1, gateway1, gateway2, hub2} {
		b.publish(t, strconv.Itoa(i), encode(t, e))
		b.settled(t)
	}
	b.publish(t, "in", encode(t, hub3)) // one batch
	b.publish(t, "one", encode(t, gateway3))
	b.settled(t)
	for name, c := range map[string]struct {
		event *eventsv1.UsageEvent
		want  int
	}{"hub first": {hub1, 10}, "gateway first": {hub2, 3}, "one batch": {hub3, 10}} {
		if got := b.paid(t, c.event); got != c.want {
			t.Errorf("%s: got %d nano-USD, want %d", name, got, c.want)
		}
	}
	if n := b.count(t, "SELECT (SELECT count(*) FROM quarantine) + (SELECT count(*) FROM earning_correction)"); n != 0 {
		t.Errorf("set aside or corrected: got %d, want 0", n)
	}
}

func TestWorkThatOnlyItsProviderReportsIsALineLikeAnyOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hub, receipt := b.sources(t)
	receipt.EvidenceSource = eventsv1.EvidenceSource_EVIDENCE_SOURCE_WORK_RECEIPT
	for i, e := range []*eventsv1.UsageEvent{receipt, settledAs(receipt), hub} {
		b.publish(t, strconv.Itoa(i), encode(t, e))
		b.settled(t)
	}
	if got := b.paid(t, receipt); got != 3 {
		t.Errorf("got %d nano-USD, want 3", got)
	}
	if n := b.count(t, "SELECT count(*) FROM earning_line WHERE evidence_source = 'receipt'"); n != 1 {
		t.Errorf("lines of receipts: got %d, want 1", n)
	}
	if n := b.count(t, "SELECT (SELECT count(*) FROM quarantine) + (SELECT count(*) FROM earning_correction)"); n != 0 {
		t.Errorf("set aside or corrected: got %d, want 0", n)
	}
}

func TestTheLedgersWordCountsWhateverWasHeardFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hub1, gateway1 := b.sources(t)
	hub2, gateway2 := b.sources(t)
	_, gateway3 := b.sources(t)
	hub4, _ := b.sources(t)
	altered := settledAs(hub4)
	altered.BillableCompletionTokens++
	elsewhere := settledAs(gateway1)
	elsewhere.ProviderId = "0192f0c0-0000-7000-8000-000000000009"
	for i, e := range []*eventsv1.UsageEvent{
		hub1, elsewhere, elsewhere, settledAs(hub1), // its first word counts
		gateway2, settledAs(hub2),
		settledAs(gateway3), // nothing else came through
		hub4, altered,       // a hub may tell two stories
	} {
		b.publish(t, strconv.Itoa(i), encode(t, e))
		b.settled(t)
	}
	for name, c := range map[string]struct {
		event *eventsv1.UsageEvent
		want  int
	}{"gateway": {hub1, 3}, "hub": {hub2, 10}, "only word": {gateway3, 3}, "the same hub": {hub4, 12}} {
		if got := b.paid(t, c.event); got != c.want {
			t.Errorf("%s: got %d nano-USD, want %d", name, got, c.want)
		}
	}
	totals, err := b.service.store.Totals(t.Context(), b.now.AddDate(0, 0, -1))
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if len(totals) != 2 {
		t.Fatalf("len(totals): got %d, want 2, in %v", len(totals), totals)
	}
	for _, total := range totals {
		lines, payout := int64(9+3), int64(9*10+10+3+12)
		if total.ProviderID.String() == elsewhere.GetProviderId() {
			lines, payout = 1, 3
		}
		if total.Lines != lines {
			t.Errorf("total.Lines: got %d, want %d", total.Lines, lines)
		} else if int64(total.Payout) != payout {
			t.Errorf("total.Payout: got %d, want %d", int64(total.Payout), payout)
		}
	}
}
