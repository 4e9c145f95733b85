package inference

import (
	"svc.internal/pkg/money"
	"svc.internal/pkg/money/moneypb"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// charge is what an answer costs on the terms of its request, less the account's discount.
// What a plan covers costs nothing.
func charge(terms *billingv1.AdmitResponse, billed *hubv1.DispatchFinished) money.NanoUSD {
	if terms.GetBillingType() == billingv1.BillingType_BILLING_TYPE_PLAN {
		return 0
	}
	charge, err := moneypb.ToRates(terms.GetRates()).Charge(money.Tokens{
		Prompt: billed.GetBillablePromptTokens(), Completion: billed.GetBillableCompletionTokens(),
	})
	if err != nil {
		return 0 // out of range: billing-ledger quarantines it
	}
	return charge - money.Discount(terms.GetDiscountBasisPoints()).Of(charge)
}
