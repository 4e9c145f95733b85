package rpc

import (
	"context"

	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/plan"
)

// Plans answers anybody about the plans that are sold.
type Plans struct {
	billingv1.UnimplementedPlanServiceServer
	Offers *plan.Offers
}

// ListPlans lists the plans that are sold.
func (s *Plans) ListPlans(ctx context.Context, _ *billingv1.ListPlansRequest) (*billingv1.ListPlansResponse, error) {
	offers, err := s.Offers.List(ctx)
	if err != nil {
		return nil, err
	}
	m := &billingv1.ListPlansResponse{}
	for _, o := range offers {
		m.Plans = append(m.Plans, offerToProto(o))
	}
	return m, nil
}

func offerToProto(o plan.Offer) *billingv1.Plan {
	m := &billingv1.Plan{Id: o.Plan, Name: o.Name(), PriceUsdStr: o.Price.String()}
	for _, unit := range []money.Unit{money.Token, money.Image, money.AudioMinute} {
		if tiers := tierNames(o.Covers(unit)); len(tiers) > 0 {
			m.Covers = append(m.Covers, &billingv1.PlanCoverage{PricingUnit: unit.String(), Tiers: tiers})
		}
	}
	for _, l := range o.Limits {
		m.Limits = append(m.Limits, &billingv1.PlanLimit{Kind: string(l.Kind), Period: l.Period, Cap: capOf(l.Kind, l.Cap),
			Tiers: tierNames(l.Draws)})
	}
	return m
}

// capOf is a cap as it is shown: of list prices in US dollars.
func capOf(kind plan.Kind, n int64) float64 {
	if kind == plan.ListPrice {
		return money.NanoUSD(n).Float()
	}
	return float64(n)
}

func tierNames(tiers []plan.Tier) []string {
	var names []string
	for _, t := range tiers {
		switch t {
		case plan.Free:
			names = append(names, "free")
		case plan.Standard:
			names = append(names, "standard")
		case plan.Premium:
			names = append(names, "premium")
		}
	}
	return names
}
