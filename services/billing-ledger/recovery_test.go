package billingledger_test

import (
	"context"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	billingledger "svc.internal/services/billing-ledger"
)

func (f *fleet) renew(t *testing.T, requests ...*billingv1.RunningRequest) {
	t.Helper()
	if _, err := f.admission.Renew(t.Context(), &billingv1.RenewRequest{Requests: requests}); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) status(t *testing.T, c consumer, request string) string {
	t.Helper()
	got, err := f.receipts.GetReceipt(t.Context(), &billingv1.GetReceiptRequest{RequestId: request, AccountId: c.account})
	if err != nil {
		t.Fatal(err)
	}
	return got.GetReceipt().GetStatus()
}

// relayed is a request of which so many tokens were written to its client.
func relayed(request string, tokens int64) *billingv1.RunningRequest {
	return &billingv1.RunningRequest{
		RequestId: request, CommittedAttempt: 2, HubId: "hub-1", ProviderId: provider, RelayedTokens: tokens,
		RelayedBytes: 50 * tokens,
	}
}

func TestTheHoldOfAKilledGatewayEndsWithItsLease(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	req, later := order(t, c), order(t, c)
	f.admit(t, req)
	f.pass(t, lease/2)
	f.admit(t, later)
	f.pass(t, lease/2)
	until(t, func() bool { return f.status(t, c, req.GetRequestId()) == "expired" })
	// The look that expired the first hold found the later hold within its lease.
	if got := f.status(t, c, later.GetRequestId()); got != "open" {
		t.Errorf(`after half a lease the hold: got %q, want "open"`, got)
	}
	f.pass(t, lease/2)
	until(t, func() bool { return f.balance(t, c) == "1.00 held 0.00" })
	f.sound(t)
}

func TestARequestThatIsRenewedOutlastsItsLease(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	long := order(t, c)
	f.admit(t, long)
	renew := func() {
		f.renew(t, &billingv1.RunningRequest{RequestId: long.GetRequestId()},
			&billingv1.RunningRequest{RequestId: "not an id"})
	}
	for range 3 { // leases of others come and go
		other := order(t, c)
		f.admit(t, other)
		f.pass(t, lease/2)
		renew()
		f.pass(t, lease/2)
		until(t, func() bool { return f.status(t, c, other.GetRequestId()) == "expired" })
		renew()
	}
	if got := f.status(t, c, long.GetRequestId()); got != "open" {
		t.Errorf(`the renewed hold: got %q, want "open"`, got)
	}
	if _, err := f.admission.Renew(t.Context(),
		&billingv1.RenewRequest{Requests: make([]*billingv1.RunningRequest, 1001)}); err != nil {
		t.Errorf("ids that are none are to be ignored: %v", err)
	}
	many := make([]*billingv1.RunningRequest, 1001)
	for i := range many {
		many[i] = &billingv1.RunningRequest{RequestId: long.GetRequestId()}
	}
	if _, err := f.admission.Renew(t.Context(), &billingv1.RenewRequest{Requests: many}); !fault.Is(err,
		fault.InvalidValue) {
		t.Errorf("1,001 requests: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
}

func TestARestartLeavesGatewaysTheTimeToRenew(t *testing.T) {
	const grace = 4 * time.Second
	f := start(t, func(cfg *billingledger.Config) { cfg.ExpireGrace = grace })
	c := f.consumer(t, "1")
	runs, abandoned := order(t, c), order(t, c)
	f.admit(t, runs)
	f.admit(t, abandoned)
	f.stop()
	f.pass(t, lease) // the outage outlasts the leases
	begun := time.Now()
	f.run(t)
	f.renew(t, &billingv1.RunningRequest{RequestId: runs.GetRequestId()})
	until(t, func() bool {
		f.renew(t, &billingv1.RunningRequest{RequestId: runs.GetRequestId()})
		return f.status(t, c, abandoned.GetRequestId()) == "expired"
	})
	if took := time.Since(begun); took < grace {
		t.Errorf("a hold expired: got %v, want at least %v", took, grace)
	}
	if got := f.status(t, c, runs.GetRequestId()); got != "open" {
		t.Errorf(`the hold of what runs: got %q, want "open"`, got)
	}
}

func TestAServedRequestWhoseHubSaysNothingIsSettledOnceFromTheGateway(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	notices := f.notices(t)
	req := order(t, c)
	f.admit(t, req)
	f.renew(t, relayed(req.GetRequestId(), 100))
	f.pass(t, orphaned)
	if got := wait(t, notices); got != req.GetRequestId() {
		t.Errorf("the hub is told: got %q, want %q", got, req.GetRequestId())
	}
	if got := f.balance(t, c); got != "0.9998 held 0.00" { // 100 tokens at $2 a million, no prompt
		t.Errorf(`balance: got %q, want "0.9998 held 0.00"`, got)
	}
	f.publish(t, served(req.GetRequestId())) // the hub is back, with another count
	wait(t, notices)
	if got := f.balance(t, c); got != "0.9998 held 0.00" {
		t.Errorf(`balance: got %q, want "0.9998 held 0.00"`, got)
	}
	accruals, err := f.accruals.ListAccruals(t.Context(),
		&billingv1.ListAccrualsRequest{FirstDay: time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)})
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(accruals.GetAccruals()) != 1:
		t.Errorf("len(accruals.GetAccruals()): got %d, want 1, in %v", len(accruals.GetAccruals()), accruals)
	case accruals.GetAccruals()[0].GetPayoutNanoUsd() != 140_000:
		t.Errorf("accruals.GetAccruals()[0].GetPayoutNanoUsd(): got %d, want 140_000",
			accruals.GetAccruals()[0].GetPayoutNanoUsd())
	case accruals.GetAccruals()[0].GetProviderId() != provider:
		t.Errorf("accruals.GetAccruals()[0].GetProviderId(): got %q, want %q", accruals.GetAccruals()[0].GetProviderId(),
			provider)
	}
	f.noQuarantine(t)
	f.sound(t)
}

func TestWhatTheHubHadFinishedIsSettledWithItsPrompt(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	notices := f.notices(t)
	req := order(t, c)
	f.admit(t, req)
	if _, err := f.admission.Conclude(t.Context(), &billingv1.ConcludeRequest{Reports: []*billingv1.RequestReport{{
		RequestId: req.GetRequestId(), Outcome: billingv1.Outcome_OUTCOME_COMPLETED, CommittedAttempt: 1, HttpStatus: 200,
		RelayedTokens: 290, RelayedBytes: 1200, Metered: &billingv1.Metered{PromptTokens: 800, CompletionTokens: 280},
		Attempts: []*billingv1.AttemptRecord{{Attempt: 1, ProviderId: provider, ProviderName: "first", Result: "served",
			HubId: "hub-1"}},
	}}}); err != nil {
		t.Fatal(err)
	}
	f.pass(t, orphaned)
	wait(t, notices)
	got, err := f.receipts.GetReceipt(t.Context(), &billingv1.GetReceiptRequest{RequestId: req.GetRequestId(),
		AccountId: c.account})
	switch r := got.GetReceipt(); {
	case err != nil:
		t.Errorf("receipt: got the error %v, want none", err)
	case r.GetPromptTokens() != 800:
		t.Errorf("receipt: r.GetPromptTokens(): got %d, want 800", r.GetPromptTokens())
	case r.GetCompletionTokens() != 280:
		t.Errorf("receipt: r.GetCompletionTokens(): got %d, want 280", r.GetCompletionTokens())
	case r.GetEnding() != "completed":
		t.Errorf(`receipt: r.GetEnding(): got %q, want "completed"`, r.GetEnding())
	case r.GetProviderName() != "first":
		t.Errorf(`receipt: r.GetProviderName(): got %q, want "first"`, r.GetProviderName())
	case r.GetCostUsdStr() != "0.00136":
		t.Errorf(`receipt: r.GetCostUsdStr(): got %q, want "0.00136"`, r.GetCostUsdStr())
	}
	f.sound(t)
}

func TestTheHubsUsageThatCameFirstStandsAgainstTheGateways(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	notices := f.notices(t)
	req := order(t, c)
	f.admit(t, req)
	f.renew(t, relayed(req.GetRequestId(), 100))
	f.publish(t, served(req.GetRequestId()))
	wait(t, notices)
	late := served(req.GetRequestId())
	late.EvidenceSource = eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY
	late.BillablePromptTokens, late.BillableCompletionTokens = 0, 100
	f.publish(t, late)
	wait(t, notices)
	if got := f.balance(t, c); got != "0.9986 held 0.00" {
		t.Errorf(`balance: got %q, want "0.9986 held 0.00"`, got)
	}
	f.noQuarantine(t)
	f.sound(t)
}

// A reader that had not come to the gateway's count when the store was wiped
// is told again, and that it is what the ledger settled by.
func TestAfterAWipedStoreTheSettledCountIsPublishedAgain(t *testing.T) {
	server := bustest.NewServer(t)
	f := assembleOn(t, bustest.Connect(t, server))
	f.run(t)
	f.catalog.snapshots <- models()
	until(t, func() bool { return f.service.Ready(t.Context()) == nil })
	c := f.consumer(t, "1")
	notices := f.notices(t)
	req := order(t, c)
	f.admit(t, req)
	f.renew(t, relayed(req.GetRequestId(), 100))
	f.pass(t, orphaned)
	wait(t, notices)

	cfg := server.Config()
	server.Stop()
	if err := os.RemoveAll(cfg.StoreDir); err != nil {
		t.Fatal(err)
	}
	again, err := natsserver.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Stop)
	f.pass(t, lease) // more than the gap of a minute
	got := make(chan *eventsv1.UsageEvent, 10)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- f.bus.Consume(ctx, bus.ConsumerConfig{Stream: bus.UsageStream, Durable: "other"},
			func(_ context.Context, msgs []bus.Msg) error {
				for _, m := range msgs {
					e := &eventsv1.UsageEvent{}
					if err := proto.Unmarshal(m.Data, e); err != nil {
						return err
					}
					got <- e
				}
				return nil
			})
	}()
	e := wait(t, got)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	switch {
	case e.GetRequestId() != req.GetRequestId():
		t.Errorf("published again: e.GetRequestId(): got %q, want %q", e.GetRequestId(), req.GetRequestId())
	case !e.GetSettled():
		t.Errorf("published again: e.GetSettled(): got false, want true, with %v", e)
	case e.GetEvidenceSource() != eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY:
		t.Errorf("published again: e.GetEvidenceSource(): got %v, want %v", e.GetEvidenceSource(),
			eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY)
	case e.GetBillableCompletionTokens() != 100:
		t.Errorf("published again: e.GetBillableCompletionTokens(): got %d, want 100", e.GetBillableCompletionTokens())
	case e.GetProviderId() != provider:
		t.Errorf("published again: e.GetProviderId(): got %q, want %q", e.GetProviderId(), provider)
	case !proto.Equal(e.GetRates(), rates):
		t.Errorf("published again: e.GetRates(): got %v, want %v", e.GetRates(), rates)
	}
	wait(t, notices) // and it is a duplicate here
	if got := f.balance(t, c); got != "0.9998 held 0.00" {
		t.Errorf(`balance: got %q, want "0.9998 held 0.00"`, got)
	}
	f.noQuarantine(t)
	f.sound(t)
}

func (f *fleet) noQuarantine(t *testing.T) {
	t.Helper()
	var n int
	if err := f.db.QueryRow(t.Context(), `SELECT count(*) FROM quarantine`).Scan(&n); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if n != 0 {
		t.Errorf("n: got %d, want 0", n)
	}
}
