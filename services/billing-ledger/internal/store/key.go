package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
)

// IssueKey stores a new key and its counter. It locks the wallet, so that no two calls
// count the same number of keys.
func (s *Store) IssueKey(ctx context.Context, k key.Key, maxKeys int) error {
	return s.issueKey(ctx, k, maxKeys, func(tx pgx.Tx) error {
		return addAct(ctx, tx, issuedKey, [16]byte(k.Account), details{"key_id": k.ID.String(), "name": k.Name,
			"prefix": k.Prefix})
	})
}

// issueKey is IssueKey that also calls also, in the same transaction, once the wallet is
// locked.
func (s *Store) issueKey(ctx context.Context, k key.Key, maxKeys int, also func(pgx.Tx) error) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		locked, err := tx.Exec(ctx, `SELECT FROM wallet WHERE account_id = $1 FOR UPDATE`, [16]byte(k.Account))
		if err != nil {
			return fmt.Errorf("lock wallet: %w", err)
		}
		if locked.RowsAffected() == 0 {
			return key.ErrAccountNotFound
		}
		if err := also(tx); err != nil {
			return err
		}
		if err := roomForKey(ctx, tx, k.Account, maxKeys); err != nil {
			return err
		}
		return insertKey(ctx, tx, k)
	})
}

// roomForKey returns key.ErrTooMany when an account has as many active keys as it may, or when
// as many have ended within a day: admission counts what is under way with all of them. The
// account's wallet is locked.
func roomForKey(ctx context.Context, tx pgx.Tx, account ids.AccountID, maxKeys int) error {
	var active, ended int
	if err := tx.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state = 'active' AND coalesce(expires_at > now(), true)),
			count(*) FILTER (WHERE least(revoked_at, expires_at) <= now()
				AND least(revoked_at, expires_at) > now() - interval '1 day')
		FROM consumer_key WHERE account_id = $1`, [16]byte(account)).Scan(&active, &ended); err != nil {
		return fmt.Errorf("count keys: %w", err)
	}
	if active >= maxKeys || ended >= maxKeys {
		return key.ErrTooMany
	}
	return nil
}

func insertKey(ctx context.Context, tx pgx.Tx, k key.Key) error {
	models := k.Models
	if models == nil {
		models = []string{}
	}
	if _, err := tx.Exec(ctx, `INSERT INTO consumer_key (id, account_id, name, hash, prefix, allowed_models, expires_at,
			include_usage, budget, budget_period, pepper)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`, [16]byte(k.ID), [16]byte(k.Account), k.Name,
		k.Hash.Hash[:], k.Prefix, models, nullTime(k.ExpiresAt), k.IncludeUsage, budgetAmount(k.Budget),
		budgetPeriod(k.Budget), k.Hash.Pepper); err != nil {
		return fmt.Errorf("insert key: %w", err)
	}
	if _, err := tx.Exec(ctx, `INSERT INTO key_inflight (key_id) VALUES ($1)`, [16]byte(k.ID)); err != nil {
		return fmt.Errorf("insert key counter: %w", err)
	}
	return nil
}

// lockWalletOf locks the wallet that pays for a key, so that an admission under way ends before the
// key changes, and the next one reads the change.
func lockWalletOf(ctx context.Context, tx pgx.Tx, id ids.KeyID) error {
	_, err := tx.Exec(ctx, `SELECT FROM wallet
		WHERE account_id = (SELECT account_id FROM consumer_key WHERE id = $1) FOR UPDATE`, [16]byte(id))
	if err != nil {
		return fmt.Errorf("lock wallet: %w", err)
	}
	return nil
}

// RevokeKey ends a key for ever.
func (s *Store) RevokeKey(ctx context.Context, id ids.KeyID) (now bool, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if err := lockWalletOf(ctx, tx, id); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE consumer_key SET state = 'revoked', revoked_at = now()
			WHERE id = $1 AND state = 'active'`, [16]byte(id))
		if err != nil {
			return fmt.Errorf("update key: %w", err)
		}
		if now = tag.RowsAffected() == 1; now {
			return addAct(ctx, tx, revokedKey, [16]byte(id), nil)
		}
		var known bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM consumer_key WHERE id = $1)`,
			[16]byte(id)).Scan(&known); err != nil {
			return fmt.Errorf("look for key: %w", err)
		}
		if !known {
			return key.ErrNotFound
		}
		return nil
	})
	return now, err
}

// KeyByHash finds a key by its text or by its old text; see key.Store. The database's clock decides
// whether that has expired.
func (s *Store) KeyByHash(ctx context.Context, hashes [][]byte) (key.Key, error) {
	var (
		k           key.Key
		id, account [16]byte
		expires     *time.Time
		expired     *bool
		hash        []byte
	)
	err := s.pool.QueryRow(ctx,
		`SELECT id, account_id, name, prefix, state = 'revoked', allowed_models, include_usage, until.at, until.at <= now(),
			coalesce((SELECT l.priority FROM account_limits l WHERE l.account_id = k.account_id), false),
			found.hash, found.pepper
		FROM consumer_key k CROSS JOIN LATERAL (SELECT least(expires_at, CASE WHEN hash <> ALL ($1::bytea[]) THEN old_until
				END) AS at) until
			CROSS JOIN LATERAL (SELECT CASE WHEN k.hash = ANY ($1) THEN k.hash ELSE k.old_hash END AS hash,
				CASE WHEN k.hash = ANY ($1) THEN k.pepper ELSE k.old_pepper END AS pepper) found
		WHERE k.hash = ANY ($1) OR k.old_hash = ANY ($1)`, hashes).
		Scan(&id, &account, &k.Name, &k.Prefix, &k.Revoked, &k.Models, &k.IncludeUsage, &expires, &expired,
			&k.Priority, &hash, &k.Hash.Pepper)
	if errors.Is(err, pgx.ErrNoRows) {
		return key.Key{}, key.ErrNotFound
	}
	if err != nil {
		return key.Key{}, fmt.Errorf("select key: %w", err)
	}
	k.ID, k.Account, k.Hash.Hash = id, account, apikey.Hash(hash)
	if expires != nil {
		k.ExpiresAt, k.Expired = *expires, *expired
	}
	return k, nil
}

// RenewHash puts a hash of the same text in the place of another; see key.Store.
func (s *Store) RenewHash(ctx context.Context, id ids.KeyID, from apikey.Hash, to apikey.Stored) error {
	if _, err := s.pool.Exec(ctx, `UPDATE consumer_key SET
			hash = CASE WHEN hash = $2 THEN $3 ELSE hash END, pepper = CASE WHEN hash = $2 THEN $4 ELSE pepper END,
			old_hash = CASE WHEN old_hash = $2 THEN $3 ELSE old_hash END,
			old_pepper = CASE WHEN old_hash = $2 THEN $4 ELSE old_pepper END
		WHERE id = $1 AND state = 'active' AND (hash = $2 OR old_hash = $2)`, [16]byte(id), from[:], to.Hash[:],
		to.Pepper); err != nil {
		return fmt.Errorf("renew the hash of a key: %w", err)
	}
	return nil
}

// nullTime returns NULL for the zero time.
func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// budgetAmount and budgetPeriod return NULL for no budget.
func budgetAmount(b *limit.Budget) *int64 {
	if b == nil {
		return nil
	}
	return (*int64)(&b.Amount)
}

func budgetPeriod(b *limit.Budget) *string {
	if b == nil {
		return nil
	}
	return (*string)(&b.Period)
}
