package rpc

import (
	"math"

	"svc.internal/pkg/modeword"
	"svc.internal/pkg/trustword"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/catalog/internal/guarantee"
	"svc.internal/services/catalog/internal/snapshot"
)

// minSamples is how many attempts must have been seen before figures of
// latency and success are shown: fewer say more about chance than about the
// provider.
const minSamples = 10

// Where an offering's window comes from.
const (
	contextReported = "reported"
	contextMeasured = "measured"
	contextCatalog  = "catalog"
)

func publicOffering(o *routerv1.Offering, m snapshot.Model) *catalogv1.PublicOffering {
	tokens, basis := contextOf(o, m.ContextTokens)
	public := &catalogv1.PublicOffering{
		ProviderId: o.GetProviderId(), ProviderName: o.GetProviderName(),
		ConnectionMode: modeword.Of(o.GetConnectionMode()),
		ContextLength:  publicTokens(tokens), ContextBasis: basis,
		Quantization: o.GetQuantization(), Region: o.GetRegion(), Online: true,
		Trust: trustword.Of(o.GetProbation(), o.GetTrust()),
	}
	if o.Uptime_30D != nil {
		public.Uptime_30D = share(o.GetUptime_30D())
	}
	rates := m.Price.Rates
	public.InputPrice, public.InputPriceStr = dollars(rates.Unit, rates.Input)
	public.OutputPrice, public.OutputPriceStr = dollars(rates.Unit, rates.Output)
	if o.GetSamples() >= minSamples {
		public.TtftMsP50 = known(o.GetTtftMsP50())
		public.TtftMsP95 = known(o.GetTtftMsP95())
		public.TokensPerSecondP50 = known(o.GetTokensPerSecondP50())
		public.SuccessRate_24H = finite(o.GetSuccessRate())
	}
	return public
}

// contextOf returns the window of an offering, and where it comes from. The router alone
// knows what was measured. All else is decided by the catalog's own window, which the
// router may not have heard yet.
func contextOf(o *routerv1.Offering, catalogTokens int64) (tokens int64, basis string) {
	if o.GetContextSource() == routerv1.ContextSource_CONTEXT_SOURCE_MEASURED && o.GetContextLength() > 0 {
		return o.GetContextLength(), contextMeasured
	}
	tokens, reported := guarantee.Effective(o.GetReportedContextLength(), catalogTokens)
	if reported {
		return tokens, contextReported
	}
	return tokens, contextCatalog
}

// share is a part of a whole as far as it is a number, from 0 to 1.
func share(v float64) *float64 { return finite(min(max(v, 0), 1)) }

// known leaves out a figure that was never measured: no latency and no rate of
// tokens is 0.
func known(v float64) *float64 {
	if v <= 0 {
		return nil
	}
	return finite(v)
}

// finite leaves out what JSON has no number for.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
