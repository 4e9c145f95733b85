package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/pkg/usageseal"
)

// KeepUsageKey implements usageseal.Store.
func (s *Store) KeepUsageKey(ctx context.Context, hub string, key usageseal.Key) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO usage_key (hub_id, key_id, secret) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		hub, key.ID[:], key.Secret[:])
	switch {
	case pg.IsCheck(err, "usage_key_bound"):
		return usageseal.ErrTooManyKeys
	case err != nil:
		return fmt.Errorf("store a usage key: %w", err)
	}
	stands, ok, err := s.UsageKey(ctx, hub, key.ID)
	switch {
	case err != nil:
		return err
	case !ok || stands != key:
		return usageseal.ErrOtherKey
	}
	return nil
}

// UsageKey implements usageseal.Store.
func (s *Store) UsageKey(ctx context.Context, hub string, id usageseal.KeyID) (usageseal.Key, bool, error) {
	var secret []byte
	err := s.pool.QueryRow(ctx, `SELECT secret FROM usage_key WHERE hub_id = $1 AND key_id = $2`, hub, id[:]).Scan(&secret)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return usageseal.Key{}, false, nil
	case err != nil:
		return usageseal.Key{}, false, fmt.Errorf("read a usage key: %w", err)
	}
	key, err := usageseal.ParseKey(id[:], secret)
	return key, err == nil, err
}
