package events

import (
	"testing"

	catalogv1 "svc.internal/proto/svc/catalog/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/plan"
)

func TestAModelIsAdmittedByTheLimitsOfItsCategoryAndInItsUnit(t *testing.T) {
	token := &moneyv1.Rates{OutputPicoUsdPerToken: 2, PayoutOutputPicoUsdPerToken: 1}
	image := &moneyv1.Rates{Unit: moneyv1.Unit_UNIT_IMAGE, OutputPicoUsdPerToken: 2, PayoutOutputPicoUsdPerToken: 1}
	audio := &moneyv1.Rates{Unit: moneyv1.Unit_UNIT_AUDIO_MINUTE, InputPicoUsdPerToken: 2, PayoutInputPicoUsdPerToken: 1}
	for _, c := range []struct {
		category catalogv1.Category
		rates    *moneyv1.Rates
		want     limit.Class // 0 is refused
	}{
		{catalogv1.Category_CATEGORY_LLM, token, limit.LLM},
		{catalogv1.Category_CATEGORY_MULTIMODAL, token, limit.Multimodal},
		{catalogv1.Category_CATEGORY_EMBEDDING, token, limit.Embedding},
		{catalogv1.Category_CATEGORY_IMAGE, image, limit.Image},
		{catalogv1.Category_CATEGORY_AUDIO, audio, limit.Audio},
		{catalogv1.Category_CATEGORY_AUDIO, &moneyv1.Rates{Unit: moneyv1.Unit_UNIT_AUDIO_MINUTE}, limit.Audio},
		{catalogv1.Category_CATEGORY_LLM, image, 0},
		{catalogv1.Category_CATEGORY_IMAGE, token, 0},
		{catalogv1.Category_CATEGORY_IMAGE, audio, 0},
		{catalogv1.Category_CATEGORY_AUDIO, &moneyv1.Rates{}, 0},
		{catalogv1.Category_CATEGORY_UNSPECIFIED, token, 0},
		{9, token, 0},
	} {
		m, err := modelFromProto(&catalogv1.Model{ModelId: "m", Category: c.category, Active: true,
			Price: &catalogv1.PriceVersion{PriceVersionId: "018f0000-0000-7000-8000-000000000003", Rates: c.rates}})
		if (err != nil) != (c.want == 0) || err == nil && (m.Class != c.want || m.Rates.Unit != c.want.Unit()) {
			t.Errorf("%v priced %v is %+v, %v", c.category, c.rates, m, err)
		}
	}
}

func TestAGatewayModelIsVendorsAndNoPlanPaysIt(t *testing.T) {
	for kind, want := range map[catalogv1.Kind]bool{catalogv1.Kind_KIND_GATEWAY: true, catalogv1.Kind_KIND_OPEN: false,
		catalogv1.Kind_KIND_UNSPECIFIED: false} {
		m, err := modelFromProto(&catalogv1.Model{ModelId: "m", Kind: kind, Category: catalogv1.Category_CATEGORY_LLM,
			Tier: catalogv1.Tier_TIER_STANDARD, Price: &catalogv1.PriceVersion{
				PriceVersionId: "018f0000-0000-7000-8000-000000000003",
				Rates:          &moneyv1.Rates{OutputPicoUsdPerToken: 2, PayoutOutputPicoUsdPerToken: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		if m.Gateway != want {
			t.Errorf("%v: got a gateway model %t, want %t", kind, m.Gateway, want)
		}
		if got := m.Tier == plan.Premium; got != want {
			t.Errorf("%v: got the premium tier %t, want %t", kind, got, want)
		}
	}
}
