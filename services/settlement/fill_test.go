package settlement

import (
	"testing"

	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// asSettled is an event as billing-ledger settles it.
func asSettled(e *eventsv1.UsageEvent, payout int64, source eventsv1.EvidenceSource) *billingv1.SettledRequest {
	return &billingv1.SettledRequest{
		RequestId: e.GetRequestId(), ProviderId: e.GetProviderId(), PriceVersionId: e.GetPriceVersionId(),
		ModelId: e.GetModelId(),
		Attempt: e.GetAttempt(), PromptTokens: e.GetBillablePromptTokens(), CompletionTokens: e.GetBillableCompletionTokens(),
		Rates: e.GetRates(), PayoutNanoUsd: payout, EvidenceSource: source,
	}
}

// A hub forgets usage once billing-ledger has settled it, so what the stream
// loses before settlement has read it comes from the ledger.
func TestWhatNoUsageBroughtIsFilledInFromTheLedgerAndMarked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost, late, heard, wrong := b.usage(t), b.usage(t), b.usage(t), b.usage(t)
	b.publish(t, "heard", encode(t, heard))
	b.settled(t)
	hub, gateway := eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB, eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY
	broken := b.usage(t)
	b.publish(t, "broken", encode(t, broken))
	b.settled(t)
	cut := asSettled(broken, 3, gateway) // the ledger settled it by the other evidence source
	cut.PromptTokens, cut.CompletionTokens = 0, 2
	b.ledger.settled = []*billingv1.SettledRequest{
		asSettled(lost, 10, hub), asSettled(late, 10, hub), asSettled(heard, 10, hub), cut, asSettled(wrong, 11, hub),
	}
	for range 2 { // a second walk changes nothing
		b.fillAnew(t)
	}
	for name, c := range map[string]struct {
		event *eventsv1.UsageEvent
		want  int
	}{"lost": {lost, 10}, "late": {late, 10}, "heard": {heard, 10}, "settled by the gateway's count": {broken, 3}} {
		if got := b.paid(t, c.event); got != c.want {
			t.Errorf("%s: got %d nano-USD, want %d", name, got, c.want)
		}
	}
	if n := b.count(t, "SELECT count(*) FROM earning_line WHERE evidence_source = 'ledger'"); n != 2 {
		t.Errorf("got %d marked lines, want 2: a payout that its counts do not come to makes none", n)
	}
	filled := func() int32 {
		t.Helper()
		report, err := b.client.Reconcile(t.Context(), &settlementv1.ReconcileRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return report.GetFilled()
	}
	if n := filled(); n != 2 {
		t.Errorf("got %d lines counted as filled, want 2", n)
	}
	// The ledger's own word is not a second evidence source, and usage is.
	b.publish(t, "own word", encode(t, settledAs(lost)))
	b.publish(t, "late", encode(t, late))
	b.settled(t)
	b.settled(t) // what a batch confirms is noted after its lines
	if n := filled(); n != 1 {
		t.Errorf("got %d lines counted as filled after one was confirmed, want 1", n)
	}
	if n := b.count(t, "SELECT count(*) FROM quarantine"); n != 0 {
		t.Errorf("got %d set aside, want none", n)
	}
}
