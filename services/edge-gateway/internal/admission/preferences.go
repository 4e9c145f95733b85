package admission

import (
	"slices"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/money/moneypb"
	billingv1 "svc.internal/proto/svc/billing/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/openaiapi"
)

// Preferences are the client's wishes about providers, beside a pin.
type Preferences struct {
	Order, Only, Ignore []string
	Quantizations       []string
	MaxPrice            openaiapi.MaxPrice
	Sort                openaiapi.Sort
}

// Choose joins the routing headers with the body's routing.
//
// A header wins: a pin of the headers takes the place of the body's order, and the body's
// lists hold for its fallbacks only. In the body the one provider of only is a pin
// without fallbacks, and the one provider of order is a pin whose fallbacks
// allow_fallbacks decides. With an order of several providers and without fallbacks no
// other provider serves. Like the header, allow_fallbacks has no meaning where no
// provider is named.
func Choose(pin Pin, r openaiapi.Routing) (Pin, Preferences) {
	p := Preferences{
		Order: r.Order, Only: r.Only, Ignore: r.Ignore,
		Quantizations: r.Quantizations, MaxPrice: r.MaxPrice, Sort: r.Sort,
	}
	if !pin.saidFallbacks {
		pin.AllowFallbacks = !r.NoFallbacks
	}
	switch {
	case pin.ProviderID != "":
		p.Order, p.Only = nil, onlyWith(pin, p.Only)
		p.Ignore = slices.DeleteFunc(slices.Clone(p.Ignore), func(id string) bool { return id == pin.ProviderID })
	case len(p.Only) == 1:
		pin.ProviderID, pin.AllowFallbacks = p.Only[0], false
		p.Order, p.Only = nil, nil
	case len(p.Order) == 1:
		pin.ProviderID, p.Order = p.Order[0], nil
	case len(p.Order) > 1 && !pin.AllowFallbacks:
		p.Only = p.Order
	}
	return pin, p
}

// onlyWith is the meaning of the body's only beside a pin of the headers: the pin and the
// providers that may serve in its place. Without fallbacks there are none. In a full list
// the last provider gives way to the pin, because the router takes no more than a list
// may have.
func onlyWith(pin Pin, only []string) []string {
	switch {
	case len(only) == 0, !pin.AllowFallbacks:
		return nil
	case slices.Contains(only, pin.ProviderID):
		return only
	}
	return append(slices.Clone(only[:min(len(only), openaiapi.MaxProviders-1)]), pin.ProviderID)
}

// names reports whether the client narrows who may serve.
func (p *Preferences) names() bool {
	return len(p.Order)+len(p.Only)+len(p.Ignore)+len(p.Quantizations) > 0
}

// planIgnores bounds the providers that a plan's request may pass over.
const planIgnores = 3

// choosesProvider reports whether a request is paid for as it goes, although a plan would cover
// it, because the client chooses who serves: by a pin, by order or only, or by the names of so
// many rivals that a plan's money could be steered to one provider. A quantization, a price and a
// sort choose no provider.
func choosesProvider(pin Pin, p *Preferences) bool {
	return pin.ProviderID != "" || len(p.Order)+len(p.Only) > 0 || len(p.Ignore) > planIgnores
}

// afford refuses terms that cost more than the client pays, with no_provider_online. It
// compares the prices that were pinned, which are the prices that would be billed. They
// do not change while a client tries again.
func (p *Preferences) afford(terms *billingv1.AdmitResponse) error {
	if p.MaxPrice.Allows(moneypb.ToRates(terms.GetRates())) {
		return nil
	}
	return apierror.Finally(fault.New(fault.Unavailable, fault.NoProviderOnline,
		"No provider serves this model within provider.max_price.").On("provider.max_price"))
}

func (p *Preferences) toProto() *routerv1.Preferences {
	sort := sorts[p.Sort]
	if !p.names() && sort == routerv1.Sort_SORT_UNSPECIFIED {
		return nil
	}
	return &routerv1.Preferences{
		OrderProviderIds: p.Order, OnlyProviderIds: p.Only, IgnoreProviderIds: p.Ignore,
		Quantizations: p.Quantizations, Sort: sort,
	}
}

// sorts has no sort by price, because all providers of a model ask the same.
var sorts = map[openaiapi.Sort]routerv1.Sort{
	openaiapi.ByThroughput: routerv1.Sort_SORT_THROUGHPUT,
	openaiapi.ByLatency:    routerv1.Sort_SORT_LATENCY,
}
