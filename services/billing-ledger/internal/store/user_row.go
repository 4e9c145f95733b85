package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/user"
)

const userColumns = `u.id, coalesce(u.email, ''), u.email_confirmed_at IS NOT NULL, u.password_hash IS NOT NULL,
	u.display_name, u.account_id, u.provider_id, u.created_at`

func scanUser(row pgx.Row, more ...any) (u user.User, err error) {
	var id, account [16]byte
	var provider *[16]byte
	if err := row.Scan(append([]any{&id, &u.Email, &u.Confirmed, &u.HasPassword, &u.DisplayName, &account, &provider,
		&u.CreatedAt}, more...)...); err != nil {
		return user.User{}, err
	}
	u.ID, u.Account = id, account
	if provider != nil {
		u.Provider = *provider
	}
	return u, nil
}

// orNotFound maps the error of a missing user to user.ErrNotFound and wraps every other
// error.
func orNotFound(err error, attempted string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return user.ErrNotFound
	}
	return fmt.Errorf("%s: %w", attempted, err)
}

func (s *Store) pruneExpired(ctx context.Context, what, sql string, args ...any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, sql, args...)
	if err != nil {
		return 0, fmt.Errorf("prune %s: %w", what, err)
	}
	return int(tag.RowsAffected()), nil
}

// lockUser locks a user, under which its families, sessions, wallets and letters come and
// go.
func lockUser(ctx context.Context, tx pgx.Tx, id user.ID) error {
	var there bool
	err := tx.QueryRow(ctx, `SELECT true FROM app_user WHERE id = $1 FOR NO KEY UPDATE`, [16]byte(id)).Scan(&there)
	if err != nil {
		return orNotFound(err, "lock user")
	}
	return nil
}
