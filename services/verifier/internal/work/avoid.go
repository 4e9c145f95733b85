package work

import (
	"context"
	"slices"
	"strings"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/store"
)

// accountsOf returns the accounts of references that are the owner's of a reference host, none
// for a host that names no account. Owners are those of the database, because a host that led to a notice may
// have left since then.
func accountsOf(
	ctx context.Context, s *store.Store, references []offers.Seat, host string,
) ([]ids.ProviderID, error) {
	name, _, _ := strings.Cut(host, "/")
	avoided, err := ids.ParseProvider(name)
	if err != nil {
		return nil, nil //nolint:nilerr // such a host has no account
	}
	all := []ids.ProviderID{avoided}
	for _, seat := range references {
		if !slices.Contains(all, seat.Provider) {
			all = append(all, seat.Provider)
		}
	}
	owners, err := s.Owners(ctx, all)
	if err != nil {
		return nil, err
	}
	others := func(id ids.ProviderID) bool { return owners.Of(id) != owners.Of(avoided) }
	same := slices.DeleteFunc(all, others)
	return same[:min(len(same), probe.MaxAvoidAccounts)], nil
}
