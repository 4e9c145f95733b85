package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/provider-hub/internal/external"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/vendor"
)

// CreateVendor implements vendor.Store.
func (s *Store) CreateVendor(
	ctx context.Context, v vendor.Vendor, entries []provider.Entry, operator, idempotencyKey string,
) (got vendor.Vendor, fresh bool, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		a := v.Account
		tag, err := tx.Exec(ctx, `
			INSERT INTO provider (provider_id, name, status, region, idempotency_key, created_at, vendor)
			VALUES ($1, $2, $3, $4, $5, $6, true)
			ON CONFLICT (idempotency_key) DO NOTHING`,
			a.ID, a.Name, provider.Pending, a.Region, nullText(idempotencyKey), a.CreatedAt)
		if err != nil {
			return err
		}
		if fresh = tag.RowsAffected() == 1; !fresh {
			got, err = ofIdempotencyKey(ctx, tx, idempotencyKey)
			return err
		}
		before := a
		before.Status = provider.Pending
		if err := keep(ctx, tx, before, &a, entries); err != nil {
			return err
		}
		if err := insertEndpoint(ctx, tx, v.Endpoint, idempotencyKey); err != nil {
			return err
		}
		by := external.Author{Operator: operator, What: "endpoint_added"}
		if err := enterEndpoint(ctx, tx, v.Endpoint, a.Status, by); err != nil {
			return err
		}
		got, err = readVendor(ctx, tx, a.ID)
		return err
	})
	return got, fresh, missing(owned(err), "insert a vendor")
}

// ofIdempotencyKey reads the vendor for which an idempotency key was used.
func ofIdempotencyKey(ctx context.Context, tx pgx.Tx, idempotencyKey string) (vendor.Vendor, error) {
	var id ids.ProviderID
	err := tx.QueryRow(ctx, `SELECT provider_id FROM provider WHERE idempotency_key = $1 AND vendor`,
		idempotencyKey).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return vendor.Vendor{}, vendor.Reused()
	}
	if err != nil {
		return vendor.Vendor{}, err
	}
	return readVendor(ctx, tx, id)
}

// readVendor reads a vendor with the endpoint with which it was registered.
func readVendor(ctx context.Context, db querier, id ids.ProviderID) (v vendor.Vendor, err error) {
	v.Account, err = scanAccount(db.QueryRow(ctx,
		`SELECT `+accountColumns+` FROM provider p WHERE p.provider_id = $1 AND p.vendor`, id))
	if err != nil {
		return v, err
	}
	v.Endpoint, err = scanEndpoint(db.QueryRow(ctx, `
		SELECT `+endpointColumns+` FROM external_endpoint e WHERE e.provider_id = $1 ORDER BY e.place LIMIT 1`, id))
	return v, err
}

// Vendor implements vendor.Store.
func (s *Store) Vendor(ctx context.Context, id ids.ProviderID) (vendor.Vendor, error) {
	v, err := readVendor(ctx, s.pool, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return v, vendor.NotFound()
	}
	if err != nil {
		return v, fmt.Errorf("read a vendor: %w", err)
	}
	return v, nil
}

// Vendors implements vendor.Store.
func (s *Store) Vendors(ctx context.Context, offset, limit int) ([]vendor.Vendor, int, error) {
	fail := func(err error) ([]vendor.Vendor, int, error) { return nil, 0, fmt.Errorf("list vendors: %w", err) }
	var total int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM provider WHERE vendor`).Scan(&total); err != nil {
		return fail(err)
	}
	rows, err := s.pool.Query(ctx, `
		SELECT `+accountColumns+` FROM provider p WHERE p.vendor ORDER BY p.created_at, p.provider_id OFFSET $1 LIMIT $2`,
		offset, limit)
	if err != nil {
		return fail(err)
	}
	accounts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (provider.Account, error) {
		return scanAccount(row)
	})
	if err != nil {
		return fail(err)
	}
	asked := make([]ids.ProviderID, len(accounts))
	for i, a := range accounts {
		asked[i] = a.ID
	}
	if rows, err = s.pool.Query(ctx, `
		SELECT DISTINCT ON (e.provider_id) `+endpointColumns+` FROM external_endpoint e
		WHERE e.provider_id = ANY ($1) ORDER BY e.provider_id, e.place`, asked); err != nil {
		return fail(err)
	}
	endpoints, err := pgx.CollectRows(rows, collectEndpoint)
	if err != nil {
		return fail(err)
	}
	of := make(map[ids.ProviderID]external.Endpoint, len(endpoints))
	for _, e := range endpoints {
		of[e.Provider] = e
	}
	list := make([]vendor.Vendor, len(accounts))
	for i, a := range accounts {
		list[i] = vendor.Vendor{Account: a, Endpoint: of[a.ID]}
	}
	return list, total, nil
}
