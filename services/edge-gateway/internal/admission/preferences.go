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

// Preferences are whom the client wants to serve, besides a pin.
type Preferences struct {
	Order, Only, Ignore []string
	Quantizations       []string
	MaxPrice            openaiapi.MaxPrice
	Sort                openaiapi.Sort
}

// Choose joins what the routing headers say with what the body does.
//
// A header wins: a pin of the headers takes the place of the body's order, and
// the body's lists hold for its fallbacks only. In the body the one provider of
// only is a pin without fallbacks, and the one provider of order a pin with or
// without, as allow_fallbacks says. Of an order of several without fallbacks
// nobody else serves; like the headers' word on fallbacks, allow_fallbacks means
// nothing where nobody is named.
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

// onlyWith is what a body's only means beside a pin of the headers, which is
// always in it: the providers that may serve in the pin's place. Without
// fallbacks there are none, and of a full list the last gives way to the pin,
// since the router takes no more than a list may have.
func onlyWith(pin Pin, only []string) []string {
	switch {
	case len(only) == 0, !pin.AllowFallbacks:
		return nil
	case slices.Contains(only, pin.ProviderID):
		return only
	}
	return append(slices.Clone(only[:min(len(only), openaiapi.MaxProviders-1)]), pin.ProviderID)
}

// names reports whether the client names who may serve, or who may not. Such a
// request is paid for like a pinned one, or a plan's money could be steered to
// a provider: by the names of all its rivals, or by a quantization, which is a
// provider's own word and may be one that nobody else says.
func (p *Preferences) names() bool {
	return len(p.Order)+len(p.Only)+len(p.Ignore)+len(p.Quantizations) > 0
}

// afford refuses terms that cost more than the client pays. It looks at the
// prices that were pinned, which are those that would be billed. They do not
// change while a client tries again.
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

// sorts has no sort by price: all providers of a model ask the same.
var sorts = map[openaiapi.Sort]routerv1.Sort{
	openaiapi.ByThroughput: routerv1.Sort_SORT_THROUGHPUT,
	openaiapi.ByLatency:    routerv1.Sort_SORT_LATENCY,
}
