package billingledger_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

func TestPayoutsAreListedWithTheirEnds(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	post := func(req *billingv1.PostRequest) {
		t.Helper()
		if _, err := b.facts.Post(t.Context(), req); err != nil {
			t.Fatalf("%s: %v", kindOf(req), err)
		}
	}
	post(b.story()[0])
	for _, id := range []string{"one", "two", "three"} {
		post(&billingv1.PostRequest{Fact: &billingv1.PostRequest_PayoutRequested{PayoutRequested: b.payout(id)}})
	}
	post(&billingv1.PostRequest{Fact: &billingv1.PostRequest_PayoutConfirmed{PayoutConfirmed: &billingv1.PayoutConfirmed{
		Payout: b.payout("one"), FeeNanoUsd: dollars(1), Sum: coinSum(9_000_000_000)}}})
	post(&billingv1.PostRequest{Fact: &billingv1.PostRequest_PayoutFailed{PayoutFailed: b.payout("two")}})
	list := func(since time.Time) map[string]string {
		t.Helper()
		resp, err := b.accruals.ListPayouts(t.Context(), &billingv1.ListPayoutsRequest{Since: timestamppb.New(since)})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, p := range resp.GetPayouts() {
			got[p.GetPayoutId()] = fmt.Sprint(p.GetEnd(), p.GetAmountNanoUsd(), p.GetToken(), p.GetUnits(), p.GetRateNanoUsd())
		}
		return got
	}
	ten := dollars(10)
	all := map[string]string{
		"one":   fmt.Sprint(billingv1.BookedPayout_END_CONFIRMED, ten, "254:native", 9_000_000_000, dollars(1)),
		"two":   fmt.Sprint(billingv1.BookedPayout_END_FAILED, ten, "", 0, 0),
		"three": fmt.Sprint(billingv1.BookedPayout_END_UNSPECIFIED, ten, "", 0, 0),
	}
	if got := list(time.Now().Add(-time.Hour)); fmt.Sprint(got) != fmt.Sprint(all) {
		t.Errorf("since an hour ago: got %v, want %v", got, all)
	}
	open := map[string]string{"three": all["three"]}
	if got := list(time.Now().Add(time.Hour)); fmt.Sprint(got) != fmt.Sprint(open) {
		t.Errorf("since later: got %v, want what has not ended: %v", got, open)
	}
	_, err := b.accruals.ListPayouts(t.Context(), &billingv1.ListPayoutsRequest{PageToken: "x"})
	if !fault.Is(err, fault.InvalidValue) {
		t.Errorf("a page token of nobody's: got the error %v, want %s", err, fault.InvalidValue)
	}
}

func TestACostThatIsPostedAgainAtAnotherPriceIsTheFirstOne(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	post := func(units, rate int64) (string, error) {
		sum := coinSum(units)
		sum.Quote.RateNanoUsd = rate
		resp, err := b.facts.Post(t.Context(), &billingv1.PostRequest{Fact: &billingv1.PostRequest_GasSpent{
			GasSpent: &billingv1.GasSpent{ChainId: "254", TransactionHash: txHash("a"), Sum: sum}}})
		return resp.GetEntryId(), err
	}
	first, err := post(5_000_000, dollars(1))
	if err != nil {
		t.Fatal(err)
	}
	again, err := post(5_000_000, dollars(2))
	if err != nil {
		t.Errorf("at another price: got the error %v, want none", err)
	}
	if again != first {
		t.Errorf("at another price: got %s, want %s", again, first)
	}
	if _, err := post(5_000_001, dollars(1)); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("of another amount: got the error %v, want %s", err, fault.IdempotencyKeyReused)
	}
}
