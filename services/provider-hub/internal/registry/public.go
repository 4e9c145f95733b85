package registry

import (
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
)

// Public is what routers are told of a provider beside its sessions' own state.
type Public struct {
	Reference bool
	// ActiveSince is zero while the provider is not active.
	ActiveSince time.Time
}

// publics is what routers are told of providers: of providers that have sessions, and of
// providers that were admitted since the last call of forget but one and may yet join.
type publics struct {
	of    map[ids.ProviderID]heard
	round int
}

// heard is what was last heard of a provider, in a round between two calls of forget.
type heard struct {
	Public
	round int
}

// learn notes what routers are told of a provider, and reports whether that has changed.
func (p *publics) learn(standing provider.Standing) bool {
	now := Public{Reference: standing.Reference, ActiveSince: standing.ActiveSince}
	before := p.of[standing.ProviderID].Public
	p.of[standing.ProviderID] = heard{Public: now, round: p.round}
	return before.Reference != now.Reference || !before.ActiveSince.Equal(now.ActiveSince)
}

// forget forgets the providers that are not here, unless they were heard of in this
// round, and begins another round.
func (p *publics) forget(here func(ids.ProviderID) bool) {
	for id, h := range p.of {
		if !here(id) && h.round < p.round {
			delete(p.of, id)
		}
	}
	p.round++
}
