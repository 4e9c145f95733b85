package work

import (
	"context"
	"slices"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/identity"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/store"
)

// maxIdentities bounds what is recorded of a provider at once: of its sessions there may be
// many.
const maxIdentities = 4 * store.MaxIdentities

// identify records by what the connected accounts are known, where it has changed since it
// was recorded last. What exceeds the store's bound is not recorded and not tried again.
func (s *Seen) identify(ctx context.Context, known []offers.Offer) error {
	all := map[ids.ProviderID][]identity.Identity{}
	for _, o := range known {
		gather(all, o.Seats)
	}
	gather(all, s.Offers.AllReferences())
	for id, list := range all {
		list = identity.Set(list, maxIdentities)
		if slices.Equal(s.identities[id], list) {
			continue
		}
		whole, err := s.Store.Identify(ctx, id, store.IdentitiesOf(list)...)
		if err != nil {
			return err
		}
		if !whole {
			s.Log.WarnContext(ctx, "a provider has too many identities, and not all are recorded", "provider_id", id)
		}
		s.identities[id] = list
	}
	for id := range s.identities {
		if _, there := all[id]; !there {
			delete(s.identities, id)
		}
	}
	return nil
}

// gather adds the identities of seats. A session has several seats and counts once.
func gather(all map[ids.ProviderID][]identity.Identity, seats []offers.Seat) {
	for _, seat := range seats {
		for _, one := range seat.Identities {
			if list := all[seat.Provider]; !slices.Contains(list, one) && len(list) < maxIdentities {
				all[seat.Provider] = append(list, one)
			}
		}
	}
}
