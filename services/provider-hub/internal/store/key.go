package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/provider-hub/internal/provider"
)

// AddKey implements provider.Store.
func (s *Store) AddKey(ctx context.Context, k provider.Key) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			INSERT INTO provider_key (key_id, provider_id, name, key_hash, key_prefix, created_at, pepper)
			SELECT $1, provider_id, $3, $4, $5, $6, $7 FROM provider WHERE provider_id = $2`,
			k.ID, k.Provider, k.Name, k.Hash.Hash[:], k.Shown, k.MadeAt, k.Hash.Pepper)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errNoProvider()
		}
		return addAct(ctx, tx, issuedKey, k.Provider.String(), map[string]any{"key_id": k.ID.String(), "name": k.Name})
	})
	return missing(err, "insert provider key")
}

// RevokeKey implements provider.Store.
func (s *Store) RevokeKey(ctx context.Context, id ids.KeyID) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		var holder ids.ProviderID
		var ended bool
		err := tx.QueryRow(ctx, `
			SELECT provider_id, revoked_at IS NOT NULL AND expelled_by IS NULL FROM provider_key WHERE key_id = $1 FOR UPDATE`,
			id).Scan(&holder, &ended)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return fault.New(fault.NotFound, fault.KeyNotFound, "no such provider key")
		case err != nil || ended:
			return err
		}
		if _, err := tx.Exec(ctx, `
			UPDATE provider_key SET revoked_at = coalesce(revoked_at, now()), expelled_by = NULL WHERE key_id = $1`,
			id); err != nil {
			return err
		}
		return addAct(ctx, tx, revokedKey, holder.String(), map[string]any{"key_id": id.String()})
	})
	return missing(err, "revoke provider key")
}

// Credential implements provider.Store.
func (s *Store) Credential(ctx context.Context, hashes [][]byte, now time.Time) (provider.Credential, bool, error) {
	return s.holder(ctx, hashes, now, `nextval('session_epoch')`)
}

// Holder implements provider.Store.
func (s *Store) Holder(ctx context.Context, hashes [][]byte, now time.Time) (provider.Credential, bool, error) {
	return s.holder(ctx, hashes, now, `0::bigint`)
}

func (s *Store) holder(
	ctx context.Context, hashes [][]byte, now time.Time, epoch string,
) (c provider.Credential, ok bool, err error) {
	var expires, used *time.Time
	var hash []byte
	c.Account, err = scanAccount(s.pool.QueryRow(ctx, `
		SELECT `+accountColumns+`,
			k.key_id, k.revoked_at IS NOT NULL OR coalesce(k.expires_at <= $2, false),
			k.expelled_by IS NOT NULL AND coalesce(k.expires_at > $2, true), k.expires_at,
			k.used_at, k.key_hash, k.pepper, `+epoch+`
		FROM provider_key k JOIN provider p USING (provider_id)
		WHERE k.key_hash = ANY ($1::bytea[])`, hashes, now), &c.KeyID, &c.Revoked, &c.Expelled, &expires, &used, &hash,
		&c.Hash.Pepper, &c.Epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return provider.Credential{}, false, nil
	}
	if err != nil {
		return provider.Credential{}, false, fmt.Errorf("read provider key: %w", err)
	}
	c.KeyExpires, c.Used, c.Hash.Hash = zero(expires), zero(used), apikey.Hash(hash)
	return c, true, nil
}

// Entrant implements provider.Store.
func (s *Store) Entrant(ctx context.Context, id ids.ProviderID) (c provider.Credential, err error) {
	c.Account, err = scanAccount(s.pool.QueryRow(ctx, `
		SELECT `+accountColumns+`, nextval('session_epoch') FROM provider p WHERE p.provider_id = $1`, id), &c.Epoch)
	return c, missing(err, "read a provider that connects")
}

// RenewHash implements provider.Store.
func (s *Store) RenewHash(ctx context.Context, id ids.KeyID, from apikey.Hash, to apikey.Stored) error {
	if _, err := s.pool.Exec(ctx, `UPDATE provider_key SET key_hash = $3, pepper = $4
		WHERE key_id = $1 AND key_hash = $2 AND pepper < $4`, id, from[:], to.Hash[:], to.Pepper); err != nil {
		return fmt.Errorf("renew the hash of a provider key: %w", err)
	}
	return nil
}

// countMachines counts the machines of provider p that are connected to a hub. $4 is how long
// a hub may be silent. The session of an external endpoint is of no machine: an owner who is
// told of machines looks for a key that was stolen.
const countMachines = `
	SELECT count(DISTINCT i.node_id)::int AS machines
	FROM presence_interval i JOIN hub_run r USING (hub_id, incarnation)
	WHERE i.provider_id = p.provider_id AND i.ended IS NULL AND r.ended IS NULL AND r.heard >= now() - $4::interval
		AND NOT EXISTS (SELECT FROM external_endpoint e
			WHERE e.provider_id = p.provider_id AND i.node_id = 'external-' || e.endpoint_id::text)`

// Standings implements provider.Store.
func (s *Store) Standings(
	ctx context.Context, keys []ids.KeyID, providers []ids.ProviderID, now time.Time,
) ([]provider.Standing, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT p.provider_id, k.key_id, k.revoked_at IS NOT NULL OR coalesce(k.expires_at <= $3, false), p.status,
			p.status = 'active' AND p.probation_ends_at IS NOT NULL, p.uptime_30d, p.reference, p.active_since, m.machines
		FROM provider_key k JOIN provider p USING (provider_id) CROSS JOIN LATERAL (`+countMachines+`) m
		WHERE k.key_id = ANY($1::uuid[])
		UNION ALL
		SELECT p.provider_id, NULL, p.owner_proven_at IS NULL, p.status,
			p.status = 'active' AND p.probation_ends_at IS NOT NULL, p.uptime_30d, p.reference, p.active_since, m.machines
		FROM provider p CROSS JOIN LATERAL (`+countMachines+`) m
		WHERE p.provider_id = ANY($2::uuid[])`, idTexts(keys), idTexts(providers), now, provider.HubSilence)
	if err != nil {
		return nil, fmt.Errorf("read standings: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (provider.Standing, error) {
		var st provider.Standing
		var key *ids.KeyID
		var since *time.Time
		err := row.Scan(&st.ProviderID, &key, &st.Revoked, &st.Status, &st.Probation, &st.Uptime30d, &st.Reference,
			&since, &st.Machines)
		st.ActiveSince = zero(since)
		if key != nil {
			st.KeyID = *key
		}
		return st, err
	})
	if err != nil {
		return nil, fmt.Errorf("read standings: %w", err)
	}
	return list, nil
}

// AddOwnKey implements provider.Store. The provider's row is locked, so that keys made at
// the same time are counted too.
func (s *Store) AddOwnKey(
	ctx context.Context, k provider.Key, limit int, replaces ids.KeyID, ends time.Time,
) (time.Time, error) {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		var status provider.Status
		if err := tx.QueryRow(ctx, `SELECT status FROM provider WHERE provider_id = $1 FOR UPDATE`,
			k.Provider).Scan(&status); err != nil {
			return err
		}
		if err := status.Admits(); err != nil {
			return err
		}
		if err := allowKey(ctx, tx, k, limit, replaces, ends); err != nil {
			return err
		}
		if err := insertKey(ctx, tx, k, !replaces.IsZero()); err != nil {
			return err
		}
		if replaces.IsZero() {
			return nil
		}
		return tx.QueryRow(ctx, `
			UPDATE provider_key SET expires_at = least(coalesce(expires_at, 'infinity'), $2) WHERE key_id = $1
			RETURNING expires_at`, replaces, ends).Scan(&ends)
	})
	return ends, missing(err, "add a provider's own key")
}

// allowKey refuses a key beyond limit. A key that replaces another may always be made
// where the other ends at once, and otherwise has room for one more.
func allowKey(ctx context.Context, tx pgx.Tx, k provider.Key, limit int, replaces ids.KeyID, ends time.Time) error {
	if !replaces.IsZero() {
		limit++
		if err := replaceable(ctx, tx, replaces, k.MadeAt); err != nil {
			return err
		}
		oldest, err := timeOf(tx.QueryRow(ctx, `
			SELECT created_at FROM provider_key WHERE provider_id = $1 AND follows AND created_at > $2
			ORDER BY created_at DESC OFFSET $3 LIMIT 1`, k.Provider, k.MadeAt.Add(-provider.OftenWithin), provider.MaxChanges-1))
		if err != nil {
			return err
		}
		if !oldest.IsZero() {
			return provider.TooOften("a key is replaced", oldest, k.MadeAt)
		}
	}
	var good int
	err := tx.QueryRow(ctx, `
		SELECT count(*) FROM provider_key
		WHERE provider_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)
			AND (key_id IS DISTINCT FROM $3 OR $4 > $2)`, k.Provider, k.MadeAt, replaces, ends).Scan(&good)
	if err != nil {
		return err
	}
	if good >= limit {
		return fault.New(fault.Exhausted, fault.TooManyKeys, "a provider has at most %d keys; revoke one first", limit)
	}
	return nil
}

// replaceable refuses a key that ended since it was shown.
func replaceable(ctx context.Context, tx pgx.Tx, key ids.KeyID, now time.Time) error {
	var good bool
	err := tx.QueryRow(ctx, `
		SELECT revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2) FROM provider_key WHERE key_id = $1 FOR UPDATE`,
		key, now).Scan(&good)
	if err == nil && !good {
		return provider.RevokedKey()
	}
	return err
}

func insertKey(ctx context.Context, tx pgx.Tx, k provider.Key, follows bool) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO provider_key (key_id, provider_id, name, key_hash, key_prefix, created_at, follows, pepper)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, k.ID, k.Provider, k.Name, k.Hash.Hash[:], k.Shown, k.MadeAt, follows,
		k.Hash.Pepper)
	return err
}
