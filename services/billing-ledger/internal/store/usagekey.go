package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/pkg/usageseal"
)

// KeepUsageKey implements usageseal.Store. A hub may add 300 keys within 24 hours
// (usage_key_bound, under a lock for each hub).
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

// LedgerSecret returns the secret from which the ledger's own proofs are derived, the
// same for all replicas. fresh becomes the secret when there is none yet.
func (s *Store) LedgerSecret(ctx context.Context, fresh [32]byte) ([]byte, error) {
	if _, err := s.pool.Exec(ctx, `INSERT INTO ledger_secret (secret) VALUES ($1) ON CONFLICT DO NOTHING`,
		fresh[:]); err != nil {
		return nil, fmt.Errorf("make the ledger's secret: %w", err)
	}
	var secret []byte
	if err := s.pool.QueryRow(ctx, `SELECT secret FROM ledger_secret`).Scan(&secret); err != nil {
		return nil, fmt.Errorf("read the ledger's secret: %w", err)
	}
	return secret, nil
}
