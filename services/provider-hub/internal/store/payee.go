package store

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// suspension is a row of provider_suspension as the database writes it in JSON.
type suspension struct {
	Cause    string     `json:"cause"`
	Since    *time.Time `json:"since"`
	Reason   string     `json:"reason"`
	Revision int64      `json:"revision"`
}

// suspensions reads the causes that this program knows.
func suspensions(rows []suspension) (all provider.Suspensions) {
	for _, r := range rows {
		if s := all.Of(provider.Cause(r.Cause)); s != nil {
			*s = provider.Suspension{Since: zero(r.Since).UTC(), Reason: r.Reason, Revision: r.Revision}
		}
	}
	return all
}

// keepSuspensions queues the causes that changed. They are written before the status that
// follows from them.
func keepSuspensions(b *pgx.Batch, a *provider.Account, before provider.Suspensions) {
	for i, cause := range provider.Causes() {
		is := a.Suspensions[i]
		if is == before[i] {
			continue
		}
		b.Queue(`
			INSERT INTO provider_suspension AS s (provider_id, cause, since, reason, revision) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (provider_id, cause) DO UPDATE
				SET since = excluded.since, reason = excluded.reason, revision = excluded.revision`,
			a.ID, cause, null(is.Since), is.Reason, is.Revision)
	}
}
