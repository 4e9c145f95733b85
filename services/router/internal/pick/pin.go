package pick

import (
	"context"
	"errors"
	"slices"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/router/internal/presence"
)

// providerHeader is the header in which clients name the provider that they want.
const providerHeader = "X-Svc-Provider"

// pinned serves a request that has a pin. A pin overrides health and score: a degraded
// provider is available. A provider behind an open breaker is not, and neither is one that
// the verifier has shut. Where fallbacks are not
// allowed, the request waits for a pinned provider that is busy. Where they are, it goes
// to another provider at once, because that answers sooner.
func (p *Picker) pinned(ctx context.Context, req *Request) (Choice, error) {
	if _, err := ids.ParseProvider(req.Pin); err != nil {
		return Choice{}, fault.New(fault.Invalid, fault.InvalidProvider, "the provider's id is malformed").On(providerHeader)
	}
	if slices.Contains(req.Exclude, req.Pin) {
		return p.fallBack(ctx, req, PinFailed)
	}
	choice, err := p.await(ctx, req, func(last bool) (Choice, error) {
		choice, err := p.lookPinned(req)
		if errors.Is(err, errBusy) && req.AllowFallbacks {
			err = errPassed
		}
		return choice, err
	})
	switch {
	case err == nil:
		return choice, nil
	case fault.Is(err, fault.ProvidersBusy):
		return Choice{}, unavailable("is busy")
	case errors.Is(err, errPassed):
		return p.fallBack(ctx, req, PinUnavailable)
	default:
		return Choice{}, err
	}
}

// errPassed says that the pinned provider is not available now.
var errPassed = errors.New("the pinned provider is passed over")

// lookPinned tries the pinned provider once. It adds alternates only where fallbacks are
// allowed.
func (p *Picker) lookPinned(req *Request) (Choice, error) {
	s := p.begin(req)
	defer p.end(s)
	if !s.bookPin() {
		if s.full() {
			return Choice{}, errBusy
		}
		s.absent(req.Pin)
		return Choice{}, errPassed
	}
	if req.AllowFallbacks {
		for _, t := range presence.Tiers() {
			s.enter(t)
			s.fill()
		}
	}
	return s.choice(), nil
}

// bookPin books a slot of the pinned provider, and reports whether it has one free.
func (s *search) bookPin() bool {
	for _, t := range presence.Tiers() {
		s.enter(t)
		s.among(s.req.Pin)
		s.walk()
		if s.book(&s.main) || s.book(&s.probe) {
			return true
		}
	}
	return false
}

// fallBack answers a request whose pin cannot be served.
func (p *Picker) fallBack(ctx context.Context, req *Request, why Fallback) (Choice, error) {
	if err := p.mustExist(ctx, req.Pin); err != nil {
		return Choice{}, err
	}
	if !req.AllowFallbacks {
		return Choice{}, unavailable("is not available for this request")
	}
	choice, err := p.auto(ctx, req)
	if err != nil {
		return Choice{}, err
	}
	if choice.Candidates[0].Seat.Session.Provider != req.Pin {
		choice.Fallback = why
	}
	return choice, nil
}

// mustExist refuses a pin that names no provider. While the directory cannot answer, the
// provider counts as existing, because a wrong 503 passes and a wrong 400 does not.
func (p *Picker) mustExist(ctx context.Context, provider string) error {
	if p.deps.View.Knows(provider) {
		return nil
	}
	exists, err := p.deps.Directory.Exists(ctx, provider)
	if err == nil && !exists {
		return fault.New(fault.Invalid, fault.InvalidProvider, "there is no such provider").On(providerHeader)
	}
	return nil
}

func unavailable(why string) error {
	return fault.New(fault.Unavailable, fault.RequestedProviderUnavailable, "the requested provider %s", why)
}
