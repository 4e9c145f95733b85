package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
)

// KnownBy implements provider.Store. Addresses are EIP-55 texts, so equal addresses are
// equal texts.
func (s *Store) KnownBy(ctx context.Context, providers []ids.ProviderID) (map[ids.ProviderID]provider.KnownBy, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT p.provider_id, coalesce(p.user_id, ''),
			CASE WHEN p.owner_proven_at IS NOT NULL THEN p.owner_address ELSE '' END, coalesce(p.beneficiary_address, '')
		FROM provider p WHERE p.provider_id = ANY ($1::uuid[])`, idTexts(providers))
	if err != nil {
		return nil, fmt.Errorf("read users and addresses of providers: %w", err)
	}
	all := make(map[ids.ProviderID]provider.KnownBy, len(providers))
	var id ids.ProviderID
	var by provider.KnownBy
	_, err = pgx.ForEachRow(rows, []any{&id, &by.User, &by.Wallet, &by.Payout}, func() error {
		all[id] = by
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read users and addresses of providers: %w", err)
	}
	return all, nil
}
