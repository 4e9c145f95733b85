// Package store keeps providers, their keys and the sequence of session epochs
// in PostgreSQL, schema hub, as role svc_hub.
//
// No statement runs on the path of a consumer's request: a key is looked up
// once for each connection that an agent makes. Lists are pages; a look-up of
// many keys takes at most what one hub has sockets for.
package store

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/provider-hub/internal/provider"
)

// Schema and Role are where the tables live and who uses them.
const (
	Schema = "hub"
	Role   = "svc_hub"
)

// Migrations make the schema.
//
//go:embed migrations/*.sql
var Migrations embed.FS

// Store is the tables of this service. It is safe for concurrent use.
type Store struct{ pool *pgxpool.Pool }

// New returns the tables that pool reaches.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Create implements provider.Store.
func (s *Store) Create(ctx context.Context, a provider.Account, idempotencyKey string) (provider.Account, error) {
	var key *string
	if idempotencyKey != "" {
		key = &idempotencyKey
	}
	var got provider.Account
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		row := tx.QueryRow(ctx, `
			INSERT INTO provider (provider_id, name, status, region, idempotency_key, created_at)
			VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (idempotency_key) DO NOTHING
			RETURNING provider_id, name, status, region, created_at`,
			a.ID, a.Name, a.Status, a.Region, key, a.CreatedAt)
		var err error
		if got, err = scanAccount(row); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		got, err = scanAccount(tx.QueryRow(ctx, `
			SELECT provider_id, name, status, region, created_at
			FROM provider WHERE idempotency_key = $1`, key))
		return err
	})
	if err != nil {
		return provider.Account{}, fmt.Errorf("insert provider: %w", err)
	}
	return got, nil
}

// Get implements provider.Store.
func (s *Store) Get(ctx context.Context, id ids.ProviderID) (provider.Account, error) {
	a, err := scanAccount(s.pool.QueryRow(ctx, `
		SELECT provider_id, name, status, region, created_at
		FROM provider WHERE provider_id = $1`, id))
	return a, missing(err, "read provider")
}

// List implements provider.Store.
func (s *Store) List(ctx context.Context, offset, limit int) ([]provider.Account, int, error) {
	var total int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM provider`).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count providers: %w", err)
	}
	rows, err := s.pool.Query(ctx, `
		SELECT provider_id, name, status, region, created_at
		FROM provider ORDER BY created_at, provider_id OFFSET $1 LIMIT $2`, offset, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("list providers: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (provider.Account, error) { return scanAccount(row) })
	if err != nil {
		return nil, 0, fmt.Errorf("list providers: %w", err)
	}
	return list, total, nil
}

// Move implements provider.Store. The row is locked, so that two operators
// cannot both leave the status that they saw.
func (s *Store) Move(ctx context.Context, id ids.ProviderID, t provider.Trigger) (provider.Account, error) {
	var a provider.Account
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		var err error
		a, err = scanAccount(tx.QueryRow(ctx, `
			SELECT provider_id, name, status, region, created_at
			FROM provider WHERE provider_id = $1 FOR UPDATE`, id))
		if err != nil {
			return err
		}
		from := a.Status
		to, err := from.After(t)
		if err != nil || to == from {
			return err
		}
		a.Status = to
		if _, err := tx.Exec(ctx, `UPDATE provider SET status = $2 WHERE provider_id = $1`, id, to); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO provider_status_change (provider_id, from_status, to_status)
			VALUES ($1, $2, $3)`, id, from, to)
		return err
	})
	return a, missing(err, "move provider")
}

// AddKey implements provider.Store.
func (s *Store) AddKey(ctx context.Context, k provider.Key) error {
	tag, err := s.pool.Exec(ctx, `
		INSERT INTO provider_key (key_id, provider_id, name, key_hash, key_prefix)
		SELECT $1, provider_id, $3, $4, $5 FROM provider WHERE provider_id = $2`,
		k.ID, k.Provider, k.Name, k.Hash[:], k.Shown)
	if err != nil {
		return fmt.Errorf("insert provider key: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errNoProvider()
	}
	return nil
}

// RevokeKey implements provider.Store.
func (s *Store) RevokeKey(ctx context.Context, id ids.KeyID) error {
	tag, err := s.pool.Exec(ctx, `
		UPDATE provider_key SET revoked_at = coalesce(revoked_at, now()) WHERE key_id = $1`, id)
	if err != nil {
		return fmt.Errorf("revoke provider key: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.New(fault.NotFound, fault.KeyNotFound, "no such provider key")
	}
	return nil
}

// Credential implements provider.Store.
func (s *Store) Credential(ctx context.Context, hash apikey.Hash) (c provider.Credential, ok bool, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT p.provider_id, p.name, p.status, p.region, p.created_at,
		       k.key_id, k.revoked_at IS NOT NULL, nextval('session_epoch')
		FROM provider_key k JOIN provider p USING (provider_id)
		WHERE k.key_hash = $1`, hash[:]).Scan(
		&c.ID, &c.Name, &c.Status, &c.Region, &c.CreatedAt, &c.KeyID, &c.Revoked, &c.Epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return provider.Credential{}, false, nil
	}
	if err != nil {
		return provider.Credential{}, false, fmt.Errorf("read provider key: %w", err)
	}
	return c, true, nil
}

// Standings implements provider.Store.
func (s *Store) Standings(ctx context.Context, keys []ids.KeyID) ([]provider.Standing, error) {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = k.String()
	}
	rows, err := s.pool.Query(ctx, `
		SELECT k.key_id, k.revoked_at IS NOT NULL, p.status
		FROM provider_key k JOIN provider p USING (provider_id)
		WHERE k.key_id = ANY($1::uuid[])`, texts)
	if err != nil {
		return nil, fmt.Errorf("read standings: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (provider.Standing, error) {
		var st provider.Standing
		err := row.Scan(&st.KeyID, &st.Revoked, &st.Status)
		return st, err
	})
	if err != nil {
		return nil, fmt.Errorf("read standings: %w", err)
	}
	return list, nil
}

func scanAccount(row pgx.Row) (provider.Account, error) {
	var a provider.Account
	err := row.Scan(&a.ID, &a.Name, &a.Status, &a.Region, &a.CreatedAt)
	return a, err
}

// missing turns an empty result into provider_not_found and leaves faults.
func missing(err error, attempted string) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return errNoProvider()
	}
	if _, ok := fault.As(err); ok {
		return err
	}
	return fmt.Errorf("%s: %w", attempted, err)
}

func errNoProvider() error {
	return fault.New(fault.NotFound, fault.ProviderNotFound, "no such provider")
}
