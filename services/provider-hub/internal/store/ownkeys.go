package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/provider-hub/internal/provider"
)

// Keys implements provider.Store.
func (s *Store) Keys(ctx context.Context, id ids.ProviderID, now time.Time, limit int) ([]provider.OwnKey, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT key_id, name, key_prefix, created_at, expires_at, revoked_at, used_at FROM provider_key
		WHERE provider_id = $1
		ORDER BY revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2) DESC, created_at DESC, key_id DESC
		LIMIT $3`, id, now, limit)
	if err != nil {
		return nil, fmt.Errorf("list provider keys: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k provider.OwnKey, err error) {
		var expires, revoked, used *time.Time
		err = row.Scan(&k.ID, &k.Name, &k.Shown, &k.MadeAt, &expires, &revoked, &used)
		k.Expires, k.Revoked, k.Used = zero(expires), zero(revoked), zero(used)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("list provider keys: %w", err)
	}
	return list, nil
}

// KeyUsed implements provider.Store. The key that a removal took is left alone, because a change of its row would make
// it a key that does not come back.
func (s *Store) KeyUsed(ctx context.Context, id ids.KeyID, at time.Time) error {
	if _, err := s.pool.Exec(ctx, `UPDATE provider_key SET used_at = $2::timestamptz
		WHERE key_id = $1 AND revoked_at IS NULL AND (used_at IS NULL
			OR used_at <= $2::timestamptz - interval '10 minutes')`, id, at); err != nil {
		return fmt.Errorf("note the use of a provider key: %w", err)
	}
	return nil
}

// mayWork finds keys that nobody has revoked for ever: a reversal would give back the keys
// that a removal took.
const mayWork = `(revoked_at IS NULL
	OR EXISTS (SELECT FROM provider_expulsion e WHERE e.verdict_id = expelled_by AND e.over_at IS NULL))`

// RevokeOwnKey implements provider.Store. The provider's row is locked, so that of two
// keys that are revoked at once the second counts as the last. A key that a removal took
// counts like a good key, and does not come back.
func (s *Store) RevokeOwnKey(
	ctx context.Context, id ids.ProviderID, key ids.KeyID, now time.Time,
	allow func(a provider.Account, lasting int) error,
) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		a, err := locked(ctx, tx, id)
		if err != nil {
			return err
		}
		a = a.Settled()
		var good bool
		err = tx.QueryRow(ctx, `
			SELECT `+mayWork+` AND (expires_at IS NULL OR expires_at > $3) FROM provider_key
			WHERE key_id = $1 AND provider_id = $2`, key, id, now).Scan(&good)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return fault.New(fault.NotFound, fault.KeyNotFound, "no such provider key").On("key_id")
		case err != nil:
			return err
		case !good: // a key of a removal that is over ends as a way to read, too
			_, err = tx.Exec(ctx, `
				UPDATE provider_key SET expelled_by = NULL WHERE key_id = $1 AND expelled_by IS NOT NULL`, key)
			return err
		}
		var lasting int
		if err := tx.QueryRow(ctx, `
			SELECT count(*) FROM provider_key
			WHERE provider_id = $2 AND key_id <> $1 AND `+mayWork+` AND expires_at IS NULL`, key,
			id).Scan(&lasting); err != nil {
			return err
		}
		if err := allow(a, lasting); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE provider_key SET revoked_at = coalesce(revoked_at, $2), expelled_by = NULL WHERE key_id = $1`, key, now)
		return err
	})
	return missing(err, "revoke a provider's own key")
}
