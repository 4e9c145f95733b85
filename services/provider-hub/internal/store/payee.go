package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
)

// Payees implements provider.Store.
func (s *Store) Payees(ctx context.Context, list []ids.ProviderID) ([]provider.Account, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+accountColumns+` FROM provider p WHERE p.provider_id = ANY ($1::uuid[])`,
		idTexts(list))
	if err != nil {
		return nil, fmt.Errorf("read payees: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (provider.Account, error) { return scanAccount(row) })
	if err != nil {
		return nil, fmt.Errorf("read payees: %w", err)
	}
	return found, nil
}

// OfOwner implements provider.Store.
func (s *Store) OfOwner(ctx context.Context, address string) (provider.Account, bool, error) {
	a, err := scanAccount(s.pool.QueryRow(ctx, `
		SELECT `+accountColumns+` FROM provider p WHERE p.owner_address = $1 AND p.owner_proven_at IS NOT NULL`, address))
	if errors.Is(err, pgx.ErrNoRows) {
		return provider.Account{}, false, nil
	}
	if err != nil {
		return provider.Account{}, false, fmt.Errorf("read a wallet's provider: %w", err)
	}
	return a, true, nil
}
