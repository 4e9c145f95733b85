package registry

import (
	"context"
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

// identities are by what the providers with sessions here are known. Nothing of it is
// computed for a request or a report: accounts are read by Recheck, and the key of a node's
// receipts is looked at when its session joins.
type identities struct {
	of    map[ids.ProviderID]identified
	nodes map[node]provider.Identity
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

// Identities returns by what a session's provider and node are known.
func (r *Registry) Identities(id ids.ProviderID, nodeID string) [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.identities.of[id].list
	all := make([][]byte, 0, len(list)+1)
	for _, one := range list {
		all = append(all, slices.Clone(one[:]))
	}
	if one, ok := r.identities.nodes[node{id, nodeID}]; ok {
		all = append(all, slices.Clone(one[:]))
	}
	return all[:min(len(all), maxIdentities)]
}

// identify reads by what providers here are known: those that were not read yet, and those
// that were read a minute ago. Sessions whose identities have changed are reported again.
func (r *Registry) identify(ctx context.Context) error {
	r.mu.Lock()
	due := r.identities.due(r.count)
	r.mu.Unlock()
	if len(due) == 0 {
		return nil
	}
	known, err := r.accounts.Identities(ctx, due)
	if err != nil {
		return err
	}
	for id, list := range known {
		if r.learnIdentities(id, list) {
			r.touchAll(id)
		}
	}
	return nil
}

func (r *Registry) learnIdentities(id ids.ProviderID, list []provider.Identity) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.identities.learn(id, list)
}
