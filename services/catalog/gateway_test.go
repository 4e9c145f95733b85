package catalog

import (
	"testing"

	"svc.internal/pkg/fault"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

func TestAGatewayModelHasItsVendorsPricesAndIsOfThePremiumTier(t *testing.T) {
	b := setup(t)
	for _, tier := range []string{"free", "standard"} {
		req := wish("openai/x")
		req.Kind, req.Tier = "gateway", tier
		_, err := b.admin.PutModel(t.Context(), req)
		if f, ok := fault.As(err); !ok {
			t.Errorf("a gateway model of the %s tier: got the error %v, want a fault", tier, err)
		} else if f.Param != "tier" {
			t.Errorf(`a gateway model of the %s tier: f.Param: got %q, want "tier"`, tier, f.Param)
		}
	}
	req := wish("openai/x")
	req.Kind, req.PayoutCachedInputPrice = "gateway", "0.09"
	b.put(t, req)
	resp, err := b.public.ListModels(t.Context(), &catalogv1.ListModelsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(resp.GetData().GetList()); n != 1 {
		t.Fatalf("got %d models, want 1", n)
	}
	m := resp.GetData().GetList()[0]
	if m.GetTier() != "premium" {
		t.Errorf(`the tier: got %q, want "premium"`, m.GetTier())
	}
	if m.GetPlanCoverage() != "none" {
		t.Errorf(`the coverage: got %q, want "none"`, m.GetPlanCoverage())
	}
	if m.GetPayoutCachedInputPriceStr() != "0.09" {
		t.Errorf(`the price of cached tokens: got %q, want "0.09"`, m.GetPayoutCachedInputPriceStr())
	}
	open := wish("openai/x")
	open.PayoutCachedInputPrice = "0.09"
	if _, err := b.admin.PutModel(t.Context(), open); err == nil {
		t.Error("a gateway model became an open one, and kept the price of cached tokens")
	}
}
