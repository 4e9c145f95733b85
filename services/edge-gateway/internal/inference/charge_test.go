package inference

import (
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/pkg/money/moneypb"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func TestWhatAnAnswerCostsIsLessTheDiscountOfItsAccount(t *testing.T) {
	t.Parallel()
	rates := moneypb.FromRates(money.Rates{Output: 1_001_000, PayoutOutput: 1000})
	billed := &hubv1.DispatchFinished{BillableCompletionTokens: 3}
	for _, tc := range []struct {
		paid     billingv1.BillingType
		discount int32
		want     money.NanoUSD
	}{
		{billingv1.BillingType_BILLING_TYPE_PAYG, 0, 3003},
		{billingv1.BillingType_BILLING_TYPE_PAYG, 1500, 2553}, // 450.45 are rounded down
		{billingv1.BillingType_BILLING_TYPE_PAYG, 9000, 301},
		{billingv1.BillingType_BILLING_TYPE_PLAN, 1500, 0},
	} {
		terms := &billingv1.AdmitResponse{BillingType: tc.paid, Rates: rates, DiscountBasisPoints: tc.discount}
		if got := charge(terms, billed); got != tc.want {
			t.Errorf("%v at a discount of %d: got %d, want %d", tc.paid, tc.discount, got, tc.want)
		}
	}
}
