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

// ownedKey selects keys as their owners see them.
const ownedKey = `SELECT k.id, k.account_id, k.name, k.prefix, k.hash, k.pepper, k.state = 'revoked', k.allowed_models,
		k.include_usage, k.expires_at, coalesce(k.expires_at <= now(), false), k.created_at, k.revoked_at, f.used_at,
		CASE WHEN k.old_until > now() AND k.state = 'active' THEN k.old_prefix ELSE '' END,
		CASE WHEN k.old_until > now() AND k.state = 'active' THEN k.old_until END,
		coalesce(k.budget, 0), coalesce(k.budget_period, ''), coalesce(c.spent, 0), coalesce(c.held, 0), w.until
	FROM consumer_key k JOIN key_inflight f ON f.key_id = k.id
	CROSS JOIN LATERAL (SELECT CASE k.budget_period WHEN 'none' THEN date '1970-01-01'
			ELSE date_trunc(k.budget_period, now() AT TIME ZONE 'UTC')::date END AS start,
		CASE WHEN k.budget_period <> 'none' THEN (date_trunc(k.budget_period, now() AT TIME ZONE 'UTC')
			+ ('1 ' || k.budget_period)::interval) AT TIME ZONE 'UTC' END AS until) w
	LEFT JOIN spend_counter c ON c.owner_id = k.id AND c.period = k.budget_period AND c.window_start = w.start`

func scanOwned(row pgx.CollectableRow) (key.Owned, error) {
	var (
		k                           key.Owned
		id, account                 [16]byte
		hash                        []byte
		prefix                      *string
		expires, revoked, used, old *time.Time
		spending                    limit.Spending
		until                       *time.Time
	)
	err := row.Scan(&id, &account, &k.Name, &k.Prefix, &hash, &k.Hash.Pepper, &k.Revoked, &k.Models, &k.IncludeUsage,
		&expires, &k.Expired, &k.CreatedAt, &revoked, &used, &prefix, &old, &spending.Amount, &spending.Period,
		&spending.Spent, &spending.Held, &until)
	if err != nil {
		return key.Owned{}, err
	}
	if spending.Period != "" {
		spending.ResetsAt = orZero(until)
		k.Budget, k.Spending = &spending.Budget, &spending
	}
	k.ID, k.Account, k.Hash.Hash = id, account, apikey.Hash(hash)
	k.ExpiresAt, k.RevokedAt, k.UsedAt, k.OldUntil = orZero(expires), orZero(revoked), orZero(used), orZero(old)
	if prefix != nil {
		k.OldPrefix = *prefix
	}
	return k, nil
}

// orZero returns the zero time for NULL.
func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// rowsOf is the part of a pool or a transaction that reads rows.
type rowsOf interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func readOwned(ctx context.Context, q rowsOf, account ids.AccountID, id ids.KeyID) (key.Owned, error) {
	rows, err := q.Query(ctx, ownedKey+` WHERE k.id = $1 AND k.account_id = $2`, [16]byte(id), [16]byte(account))
	if err != nil {
		return key.Owned{}, fmt.Errorf("select key: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanOwned)
	if errors.Is(err, pgx.ErrNoRows) {
		return key.Owned{}, key.ErrNotFound
	}
	if err != nil {
		return key.Owned{}, fmt.Errorf("select key: %w", err)
	}
	return found, nil
}

// MakeKey stores a key that its owner makes; see key.OwnStore.
func (s *Store) MakeKey(ctx context.Context, k key.Key, maxKeys int) (made key.Owned, err error) {
	err = s.ofOwner(ctx, k.Account, func(tx pgx.Tx) error {
		if err := roomForOwnKey(ctx, tx, k.Account, maxKeys); err != nil {
			return err
		}
		if err := insertKey(ctx, tx, k); err != nil {
			return err
		}
		made, err = readOwned(ctx, tx, k.Account, k.ID)
		return err
	})
	return made, err
}

// roomForOwnKey is roomForKey for a key that its owner makes or brings back. What a user must
// have done before a further key stands here. A user without an e-mail, whom a wallet brought,
// must have paid, because wallets cost nothing.
func roomForOwnKey(ctx context.Context, tx pgx.Tx, account ids.AccountID, maxKeys int) error {
	var unconfirmed bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM app_user WHERE account_id = $1 AND email_confirmed_at IS NULL
			AND (email IS NOT NULL OR NOT kept.has_paid($1)))
		AND EXISTS (SELECT FROM consumer_key WHERE account_id = $1 AND state = 'active'
			AND (expires_at IS NULL OR expires_at > now()))`, [16]byte(account)).Scan(&unconfirmed)
	switch {
	case err != nil:
		return fmt.Errorf("look whether an e-mail is confirmed: %w", err)
	case unconfirmed:
		return key.ErrUnconfirmed
	}
	return roomForKey(ctx, tx, account, maxKeys)
}

// ofOwner runs what an owner does to keys with the wallet of the account locked, so that no
// request of the account is admitted meanwhile and no two such acts see the same keys.
func (s *Store) ofOwner(ctx context.Context, account ids.AccountID, do func(pgx.Tx) error) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		locked, err := tx.Exec(ctx, `SELECT FROM wallet WHERE account_id = $1 FOR UPDATE`, [16]byte(account))
		if err != nil {
			return fmt.Errorf("lock wallet: %w", err)
		}
		if locked.RowsAffected() == 0 {
			return key.ErrAccountNotFound
		}
		return do(tx)
	})
}

// KeysOf lists keys of an account; see key.OwnStore.
func (s *Store) KeysOf(
	ctx context.Context, account ids.AccountID, before ids.KeyID, revoked bool, limit int,
) ([]key.Owned, error) {
	if before.IsZero() {
		for i := range before {
			before[i] = 0xff
		}
	}
	rows, err := s.pool.Query(ctx, ownedKey+` WHERE k.account_id = $1 AND k.id < $2 AND (k.state = 'active' OR $3)
		ORDER BY k.id DESC LIMIT $4`, [16]byte(account), [16]byte(before), revoked, limit)
	if err != nil {
		return nil, fmt.Errorf("select keys: %w", err)
	}
	page, err := pgx.CollectRows(rows, scanOwned)
	if err != nil {
		return nil, fmt.Errorf("select keys: %w", err)
	}
	return page, nil
}

// KeyOf reads a key of an account; see key.OwnStore.
func (s *Store) KeyOf(ctx context.Context, account ids.AccountID, id ids.KeyID) (key.Owned, error) {
	return readOwned(ctx, s.pool, account, id)
}

// ChangeKey replaces the settings of a key; see key.OwnStore.
func (s *Store) ChangeKey(
	ctx context.Context, account ids.AccountID, id ids.KeyID, to key.Settings, maxKeys int,
) (changed key.Owned, err error) {
	err = s.ofOwner(ctx, account, func(tx pgx.Tx) error {
		had, err := readOwned(ctx, tx, account, id)
		switch {
		case err != nil:
			return err
		case had.Revoked:
			return key.ErrEnded
		case had.Expired:
			if err := roomForOwnKey(ctx, tx, account, maxKeys); err != nil {
				return err
			}
		}
		models := to.Models
		if models == nil {
			models = []string{}
		}
		if _, err := tx.Exec(ctx, `UPDATE consumer_key SET name = $2, allowed_models = $3, expires_at = $4,
				include_usage = $5, budget = $6, budget_period = $7 WHERE id = $1`, [16]byte(id), to.Name, models,
			nullTime(to.ExpiresAt), to.IncludeUsage, budgetAmount(to.Budget), budgetPeriod(to.Budget)); err != nil {
			return fmt.Errorf("update key: %w", err)
		}
		changed, err = readOwned(ctx, tx, account, id)
		return err
	})
	return changed, err
}

// RotateKey gives a key another text; see key.OwnStore.
func (s *Store) RotateKey(
	ctx context.Context, account ids.AccountID, id ids.KeyID, to key.Secret, until time.Time,
) (rotated key.Owned, err error) {
	err = s.ofOwner(ctx, account, func(tx pgx.Tx) error {
		had, err := readOwned(ctx, tx, account, id)
		switch {
		case err != nil:
			return err
		case had.Revoked || had.Expired:
			return key.ErrEnded
		case !until.IsZero() && !had.OldUntil.IsZero():
			return key.ErrOverlap
		}
		// An old text stays known for as long as it is the last one, so that it is refused as
		// expired.
		if _, err := tx.Exec(ctx, `UPDATE consumer_key SET hash = $2, prefix = $3, pepper = $6, old_hash = hash,
				old_prefix = prefix, old_pepper = pepper, rotated_at = now(),
				old_until = least(coalesce($4, now()), now() + $5::interval) WHERE id = $1`,
			[16]byte(id), to.Hash.Hash[:], to.Prefix, nullTime(until), key.MaxOverlap, to.Hash.Pepper); err != nil {
			return fmt.Errorf("update key: %w", err)
		}
		rotated, err = readOwned(ctx, tx, account, id)
		return err
	})
	return rotated, err
}

// RevokeKeyOf ends a key for ever; see key.OwnStore.
func (s *Store) RevokeKeyOf(ctx context.Context, account ids.AccountID, id ids.KeyID) (revoked key.Owned, err error) {
	err = s.ofOwner(ctx, account, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE consumer_key SET state = 'revoked', revoked_at = now()
			WHERE id = $1 AND account_id = $2 AND state = 'active'`, [16]byte(id), [16]byte(account)); err != nil {
			return fmt.Errorf("update key: %w", err)
		}
		revoked, err = readOwned(ctx, tx, account, id)
		return err
	})
	return revoked, err
}
