package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/house"
)

// maxHouseKeys bounds what is read: the ledger has so many house accounts with so many keys.
const maxHouseKeys = 8 * house.MaxAccounts

// ErrOtherAccount is the error for a number that stands for another house account.
var ErrOtherAccount = errors.New("the number stands for another house account")

// PutHouseAccount implements house.Store. Another account under the number is
// ErrOtherAccount.
func (s *Store) PutHouseAccount(ctx context.Context, number int, account ids.AccountID) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO house_account (number, account_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
		number, account)
	var stands bool
	if err == nil {
		err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM house_account WHERE number = $1 AND account_id = $2)`,
			number, account).Scan(&stands)
	}
	switch {
	case err != nil:
		return fmt.Errorf("keep a house account: %w", err)
	case !stands:
		return ErrOtherAccount
	}
	return nil
}

// HouseKeys implements house.Store.
func (s *Store) HouseKeys(ctx context.Context) ([]house.Stored, error) {
	list, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (k house.Stored, err error) {
		err = row.Scan(&k.Account, &k.ID, &k.CreatedAt, &k.ExpiresAt, &k.Sealed)
		k.CreatedAt, k.ExpiresAt = k.CreatedAt.UTC(), k.ExpiresAt.UTC()
		return k, err
	}, `SELECT account_id, key_id, created_at, expires_at, sealed FROM house_key WHERE sealed IS NOT NULL
		ORDER BY account_id, created_at, key_id LIMIT $1`, maxHouseKeys)
	if err != nil {
		return nil, fmt.Errorf("list house keys: %w", err)
	}
	return list, nil
}

// PutHouseKey implements house.Store.
func (s *Store) PutHouseKey(ctx context.Context, k house.Stored) error {
	if _, err := s.pool.Exec(ctx, `INSERT INTO house_key (key_id, account_id, sealed, expires_at)
		VALUES ($1, $2, $3, $4)`, k.ID, k.Account, k.Sealed, k.ExpiresAt); err != nil {
		return fmt.Errorf("keep a house key: %w", err)
	}
	return nil
}

// ForgetHouseKey implements house.Store. The row stays, without the key.
func (s *Store) ForgetHouseKey(ctx context.Context, id ids.KeyID) error {
	if _, err := s.pool.Exec(ctx, `UPDATE house_key SET sealed = NULL, forgotten_at = clock_timestamp()
		WHERE key_id = $1 AND forgotten_at IS NULL`, id); err != nil {
		return fmt.Errorf("forget a house key: %w", err)
	}
	return nil
}
