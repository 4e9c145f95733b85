package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/user"
)

// OpenUser stores everything that signing up writes; see user.Store.
func (s *Store) OpenUser(ctx context.Context, o user.Opening) (opened user.User, ends user.Ends, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := insertAccount(ctx, tx, o.Account, ""); err != nil {
			return err
		}
		if !o.Key.ID.IsZero() {
			if err := insertKey(ctx, tx, o.Key); err != nil {
				return err
			}
		}
		opened, err = scanUser(tx.QueryRow(ctx,
			`INSERT INTO app_user AS u (id, email, display_name, password_hash, account_id)
			VALUES ($1, nullif($2, ''), $3, nullif($4, ''), $5) RETURNING `+userColumns,
			[16]byte(o.ID), string(o.Email), o.DisplayName, passwordText(o.Password), [16]byte(o.Account.ID)))
		if pg.IsUnique(err, "app_user_email_key") {
			return user.ErrEmailTaken
		}
		if err != nil {
			return fmt.Errorf("insert user: %w", err)
		}
		if err := insertWayIn(ctx, tx, o); err != nil {
			return err
		}
		ends, err = insertFamily(ctx, tx, o.ID, o.Family)
		return err
	})
	return opened, ends, err
}

// insertWayIn stores what a user who is opened signs in with beside a password: the network, or
// the identity.
func insertWayIn(ctx context.Context, tx pgx.Tx, o user.Opening) error {
	if o.Identity != (user.Identity{}) {
		if _, err := insertIdentity(ctx, tx, o.IdentityID, o.ID, o.Identity); err != nil {
			return err
		}
		return useProof(ctx, tx, o.ID, o.Proof)
	}
	if err := insertNetwork(ctx, tx, o.ID, o.Network); err != nil {
		return err
	}
	if !o.Confirm {
		return nil
	}
	return keepLetter(ctx, tx, user.ConfirmLetter, o.Email, o.ID)
}

// passwordText is the stored form of a password; empty for none.
func passwordText(h user.Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.Text()
}

// UserByEmail finds a user and the hash of its password; see user.Store.
func (s *Store) UserByEmail(ctx context.Context, e user.Email) (user.User, user.Hash, error) {
	var kept *string
	found, err := scanUser(s.pool.QueryRow(ctx, `SELECT `+userColumns+
		`, u.password_hash FROM app_user u WHERE u.email = $1`, string(e)), &kept)
	if err != nil {
		return user.User{}, user.Hash{}, orNotFound(err, "select user")
	}
	if kept == nil {
		return found, user.Hash{}, nil
	}
	hash, err := user.ParseHash(*kept)
	if err != nil {
		return user.User{}, user.Hash{}, fmt.Errorf("read the hash of a user: %w", err)
	}
	return found, hash, nil
}

// OpenSession takes an attempt back, remembers its network and stores a session; see
// user.Store.
func (s *Store) OpenSession(
	ctx context.Context, u user.User, a user.Attempt, f user.NewFamily,
) (ends user.Ends, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if err := uncount(ctx, tx, u.Email, a); err != nil {
			return err
		}
		if err := lockUser(ctx, tx, u.ID); err != nil {
			return err
		}
		if err := rememberNetwork(ctx, tx, u.ID, a.Network); err != nil {
			return err
		}
		ends, err = replaceFamily(ctx, tx, u.ID, f)
		return err
	})
	return ends, err
}

// UserBySession finds the user of a session; see user.Store.
func (s *Store) UserBySession(ctx context.Context, session user.Digest) (user.User, user.SignIn, error) {
	var over bool
	var in user.SignIn
	var family *[16]byte
	// A session without a family is of an earlier release, and nobody knows when its user signed in.
	found, err := scanUser(s.pool.QueryRow(ctx, `SELECT `+userColumns+`, t.family_id,
			t.expires_at <= now() OR f.ended_at IS NOT NULL, coalesce(f.created_at + $2::interval, 'epoch')
		FROM user_session t JOIN app_user u ON u.id = t.user_id LEFT JOIN session_family f ON f.id = t.family_id
		WHERE t.token_sha256 = $1`, session[:], user.FreshFor), &family, &over, &in.FreshUntil)
	if err != nil {
		return user.User{}, user.SignIn{}, orNotFound(err, "select session")
	}
	if over {
		return user.User{}, user.SignIn{}, user.ErrOver
	}
	if family != nil {
		in.Family = *family
	}
	return found, in, nil
}

// UserByID finds a user; see user.Store.
func (s *Store) UserByID(ctx context.Context, id user.ID) (user.User, error) {
	found, err := scanUser(s.pool.QueryRow(ctx, `SELECT `+userColumns+` FROM app_user u WHERE u.id = $1`, [16]byte(id)))
	if err != nil {
		return user.User{}, orNotFound(err, "select user")
	}
	return found, nil
}

// LinkProvider stores that a user owns a provider account; see user.Store.
func (s *Store) LinkProvider(ctx context.Context, id user.ID, provider ids.ProviderID) (linked user.User, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		linked, err = scanUser(tx.QueryRow(ctx, `SELECT `+userColumns+` FROM app_user u WHERE u.id = $1 FOR NO KEY UPDATE`,
			[16]byte(id)))
		switch {
		case err != nil:
			return orNotFound(err, "lock user")
		case linked.Provider == provider:
			return nil
		case !linked.Provider.IsZero():
			return user.ErrOwnsAnother
		}
		_, err = tx.Exec(ctx, `UPDATE app_user SET provider_id = $2 WHERE id = $1`, [16]byte(id), [16]byte(provider))
		if pg.IsUnique(err, "app_user_provider_id_key") {
			return user.ErrProviderTaken
		}
		if err != nil {
			return fmt.Errorf("update user: %w", err)
		}
		linked.Provider = provider
		return nil
	})
	return linked, err
}

// PruneSessions deletes up to limit sessions that ended more than user.SessionKept ago,
// and returns how many.
func (s *Store) PruneSessions(ctx context.Context, limit int) (int, error) {
	return s.pruneExpired(ctx, "sessions", `DELETE FROM user_session WHERE token_sha256 IN (
		SELECT token_sha256 FROM user_session WHERE expires_at <= now() - $2::interval ORDER BY expires_at LIMIT $1
			FOR UPDATE SKIP LOCKED)`, limit, user.SessionKept)
}
