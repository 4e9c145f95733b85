package admission

import (
	"context"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// Hold admits an order whose candidates Find selects later. Even with an error
// the grant holds what is known.
func (g *Gate) Hold(ctx context.Context, o Order) (Grant, error) {
	terms, err := g.admitWhenEnded(ctx, o)
	grant := Grant{Terms: terms, Held: err == nil || uncertain(err)}
	if err == nil {
		err = o.Prefer.afford(terms)
	}
	return grant, apierror.OfPeer(err)
}

// Find selects the candidates of an order that was admitted on these terms.
func (g *Gate) Find(ctx context.Context, o Order, terms *billingv1.AdmitResponse) (Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.SelectTimeout)
	defer cancel()
	resp, err := g.router.Select(ctx, g.selectRequest(o, o.Pin.ProviderID, nil))
	return granted(Grant{Terms: terms, Held: true}, resp, inOurWords(err, o))
}

// granted adds to a grant what the router selected.
func granted(grant Grant, resp *routerv1.SelectResponse, err error) (Grant, error) {
	switch {
	case err != nil:
		return grant, err
	case len(resp.GetCandidates()) == 0:
		return grant, fault.New(fault.Unavailable, fault.NoProviderOnline, "No provider is online for this model.")
	}
	grant.Candidates, grant.Fallback = resp.GetCandidates(), resp.GetFallbackReason()
	grant.UsualFirstContentMs, grant.SingleAttempt = resp.GetUsualFirstContentMs(), resp.GetSingleAttempt()
	return grant, nil
}

// Foremost gives the error of several that stands first in the public order of
// errors, and which it is; nil and -1 when there is none.
func Foremost(errs []error) (at int, err error) {
	at = -1
	for i, e := range errs {
		if e != nil && (err == nil || rank(e) < rank(err)) {
			at, err = i, e
		}
	}
	return at, err
}
