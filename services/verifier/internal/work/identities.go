package work

import (
	"slices"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/identity"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/store"
)

// maxIdentities bounds what is recorded of a provider at once: of its sessions there may be
// many.
const maxIdentities = 4 * store.MaxIdentities

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
