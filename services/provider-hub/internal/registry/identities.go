package registry

import (
	"slices"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
)

const (
	// identityRounds is after how many rounds of Recheck the identities of a provider are
	// read again, because its addresses may have changed: once a minute.
	identityRounds = 12
	// maxIdentities bounds the identities of a session.
	maxIdentities = 8
)

// identities are by what the accounts with sessions here are known. Recheck reads them, and
// nothing of them is computed for a request or a report.
type identities struct {
	of    map[ids.ProviderID]identified
	round int
}

// identified are the identities of an account, as they were read in a round.
type identified struct {
	list  []provider.Identity
	round int
}

// due begins a round. It forgets the providers that are not here, and returns those whose
// identities are to be read.
func (i *identities) due(here map[ids.ProviderID]int) []ids.ProviderID {
	i.round++
	for id := range i.of {
		if here[id] == 0 {
			delete(i.of, id)
		}
	}
	var due []ids.ProviderID
	for id := range here {
		if known, ok := i.of[id]; !ok || i.round-known.round >= identityRounds {
			due = append(due, id)
		}
	}
	return due
}

// learn notes the identities of an account, and reports whether they have changed.
func (i *identities) learn(id ids.ProviderID, list []provider.Identity) bool {
	before := i.of[id].list
	i.of[id] = identified{list, i.round}
	return !slices.Equal(before, list)
}
