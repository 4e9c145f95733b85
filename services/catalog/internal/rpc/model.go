package rpc

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/money"
	"svc.internal/pkg/money/moneypb"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/guarantee"
	"svc.internal/services/catalog/internal/snapshot"
)

// currency is what all prices of the catalog are in.
const currency = "USD"

func snapshotToProto(s *snapshot.Snapshot) *catalogv1.WatchModelsResponse {
	resp := &catalogv1.WatchModelsResponse{Revision: s.Revision, Models: make([]*catalogv1.Model, len(s.Models))}
	for i, m := range s.Models {
		resp.Models[i] = modelToProto(m)
	}
	return resp
}

func modelToProto(m snapshot.Model) *catalogv1.Model {
	return &catalogv1.Model{
		ModelId: m.ID, Slug: m.Slug, Name: m.Name,
		Category: categoryToProto(m.Category), Kind: kindToProto(m.Kind), Tier: tierToProto(m.Tier), Active: m.Active,
		Price: &catalogv1.PriceVersion{
			PriceVersionId: m.Price.ID.String(), Rates: moneypb.FromRates(m.Price.Rates),
			ValidFrom: timestamppb.New(m.Price.ValidFrom),
		},
		ContextLength: m.ContextTokens, MaxOutputTokens: m.MaxOutputTokens,
		Capabilities: m.Capabilities, SupportedParameters: m.Parameters,
		CreatedAt: timestamppb.New(m.CreatedAt), DeprecatedAt: timeToProto(m.DeprecatedAt), Successor: m.Successor,
		Supply: &catalogv1.Supply{
			OnlineProviders: m.Supply.Online, GuaranteedContextLength: m.Supply.Tokens,
			GuaranteedContextBasis:   basisToProto(m.Supply.Basis),
			MaxReportedContextLength: m.Supply.MaxReported, Quantizations: m.Supply.Quantizations,
		},
	}
}

func publicModel(m snapshot.Model) *catalogv1.PublicModel {
	rates := m.Price.Rates
	public := &catalogv1.PublicModel{
		Id: m.ID, Slug: m.Slug, Name: m.Name, Category: string(m.Category), Kind: string(m.Kind),
		Active: m.Active, Tier: string(m.Tier), PricingUnit: rates.Unit.String(), Currency: currency,
		ContextLength: publicTokens(m.ContextTokens), MaxOutputTokens: publicTokens(m.MaxOutputTokens),
		OnlineProviders: m.Supply.Online, GuaranteedContextBasis: m.Supply.Basis.String(),
		Capabilities: m.Capabilities, SupportedParameters: m.Parameters, Quantizations: m.Supply.Quantizations,
		CreatedAt: timestamppb.New(m.CreatedAt), DeprecatedAt: timeToProto(m.DeprecatedAt), Successor: m.Successor,
		MinVramGb: m.MinVRAMGB, PlanCoverage: string(entry.CoverageOf(m.Tier, rates)),
		PriceChange: priceChangeToProto(m.Model),
	}
	public.InputPrice, public.InputPriceStr = dollars(rates.Unit, rates.Input)
	public.OutputPrice, public.OutputPriceStr = dollars(rates.Unit, rates.Output)
	public.PayoutInputPrice, public.PayoutInputPriceStr = dollars(rates.Unit, rates.PayoutInput)
	public.PayoutOutputPrice, public.PayoutOutputPriceStr = dollars(rates.Unit, rates.PayoutOutput)
	public.PayoutCachedInputPrice, public.PayoutCachedInputPriceStr = dollars(rates.Unit, rates.PayoutCachedInput)
	if m.Supply.Basis != guarantee.NoOnlineProviders {
		public.GuaranteedContextLength = new(publicTokens(m.Supply.Tokens))
	}
	if m.Supply.MaxReported > 0 {
		public.MaxReportedContextLength = new(publicTokens(m.Supply.MaxReported))
	}
	return public
}

// priceChangeToProto returns the prices that are scheduled for a model; nil where there are none.
func priceChangeToProto(m entry.Model) *catalogv1.PriceChange {
	coming := m.Coming
	if coming.From.IsZero() {
		return nil
	}
	rates := coming.Rates
	out := &catalogv1.PriceChange{EffectiveFrom: timestamppb.New(coming.From), PricingUnit: rates.Unit.String()}
	out.InputPrice, out.InputPriceStr = dollars(rates.Unit, rates.Input)
	out.OutputPrice, out.OutputPriceStr = dollars(rates.Unit, rates.Output)
	out.PayoutInputPrice, out.PayoutInputPriceStr = dollars(rates.Unit, rates.PayoutInput)
	out.PayoutOutputPrice, out.PayoutOutputPriceStr = dollars(rates.Unit, rates.PayoutOutput)
	out.PayoutCachedInputPrice, out.PayoutCachedInputPriceStr = dollars(rates.Unit, rates.PayoutCachedInput)
	return out
}

// dollars is a price in US dollars per pricing unit.
func dollars(unit money.Unit, p money.PicoUSD) (number float64, exact string) {
	return unit.Number(p), unit.Price(p)
}

// publicTokens keeps a count that a provider may have made up within the
// public type.
func publicTokens(n int64) int32 { return int32(min(n, math.MaxInt32)) }

func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func categoryToProto(c entry.Category) catalogv1.Category {
	switch c {
	case entry.LLM:
		return catalogv1.Category_CATEGORY_LLM
	case entry.Multimodal:
		return catalogv1.Category_CATEGORY_MULTIMODAL
	case entry.Embedding:
		return catalogv1.Category_CATEGORY_EMBEDDING
	case entry.Image:
		return catalogv1.Category_CATEGORY_IMAGE
	case entry.Audio:
		return catalogv1.Category_CATEGORY_AUDIO
	}
	return catalogv1.Category_CATEGORY_UNSPECIFIED
}

func kindToProto(k entry.Kind) catalogv1.Kind {
	switch k {
	case entry.Open:
		return catalogv1.Kind_KIND_OPEN
	case entry.Gateway:
		return catalogv1.Kind_KIND_GATEWAY
	}
	return catalogv1.Kind_KIND_UNSPECIFIED
}

func tierToProto(t entry.Tier) catalogv1.Tier {
	switch t {
	case entry.Free:
		return catalogv1.Tier_TIER_FREE
	case entry.Standard:
		return catalogv1.Tier_TIER_STANDARD
	case entry.Premium:
		return catalogv1.Tier_TIER_PREMIUM
	}
	return catalogv1.Tier_TIER_UNSPECIFIED
}

func basisToProto(b guarantee.Basis) catalogv1.GuaranteeBasis {
	switch b {
	case guarantee.Reported:
		return catalogv1.GuaranteeBasis_GUARANTEE_BASIS_REPORTED
	case guarantee.Partial:
		return catalogv1.GuaranteeBasis_GUARANTEE_BASIS_PARTIAL
	case guarantee.Unknown:
		return catalogv1.GuaranteeBasis_GUARANTEE_BASIS_UNKNOWN
	case guarantee.NoOnlineProviders:
		return catalogv1.GuaranteeBasis_GUARANTEE_BASIS_NO_ONLINE_PROVIDERS
	}
	return catalogv1.GuaranteeBasis_GUARANTEE_BASIS_UNSPECIFIED
}
