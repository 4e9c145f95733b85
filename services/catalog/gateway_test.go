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
}

// A change of the kind would leave the price version as it is, by which the ledger knows a vendor.
func TestAModelKeepsItsKind(t *testing.T) {
	b := setup(t)
	for _, c := range []struct{ id, kind, other string }{{"openai/x", "gateway", "open"}, {"open/x", "open", "gateway"}} {
		req := wish(c.id)
		req.Kind = c.kind
		first := b.put(t, req)
		req.Kind = c.other
		_, err := b.admin.PutModel(t.Context(), req)
		if f, ok := fault.As(err); !ok {
			t.Errorf("%s becomes %s: got the error %v, want a fault", c.kind, c.other, err)
		} else if f.Param != "kind" {
			t.Errorf(`%s becomes %s: f.Param: got %q, want "kind"`, c.kind, c.other, f.Param)
		}
		req.Kind, req.Name = "", "Renamed"
		again := b.put(t, req)
		if got := again.GetModel().GetKind(); got != c.kind {
			t.Errorf("the kind that a change leaves out: got %q, want %q", got, c.kind)
		}
		if got := again.GetModel().GetTier(); got != first.GetModel().GetTier() {
			t.Errorf("the tier of %s: got %q, want %q", c.id, got, first.GetModel().GetTier())
		}
		if got := again.GetModel().GetName(); got != "Renamed" {
			t.Errorf("the name of %s: got %q, want Renamed", c.id, got)
		}
	}
}
