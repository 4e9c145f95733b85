package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/user"
)

const userColumns = `u.id, u.email, u.display_name, u.account_id, u.provider_id, u.created_at`

// OpenUser keeps all that signing up writes; see user.Store.
func (s *Store) OpenUser(ctx context.Context, o user.Opening) (opened user.User, until time.Time, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := insertAccount(ctx, tx, o.Account, ""); err != nil {
			return err
		}
		if err := insertKey(ctx, tx, o.Key); err != nil {
			return err
		}
		opened, err = scanUser(tx.QueryRow(ctx, `INSERT INTO app_user AS u (id, email, display_name, password_hash, account_id)
			VALUES ($1, $2, $3, $4, $5) RETURNING `+userColumns,
			[16]byte(o.ID), string(o.Email), o.DisplayName, o.Password.Text(), [16]byte(o.Account.ID)))
		if pg.IsUnique(err, "app_user_email_key") {
			return user.ErrEmailTaken
		}
		if err != nil {
			return fmt.Errorf("insert user: %w", err)
		}
		until, err = insertSession(ctx, tx, o.ID, o.Session)
		return err
	})
	return opened, until, err
}

// UserByEmail finds a user and what its password must match; see user.Store.
func (s *Store) UserByEmail(ctx context.Context, e user.Email) (user.User, user.Hash, error) {
	var kept string
	found, err := scanUser(s.pool.QueryRow(ctx, `SELECT `+userColumns+`, u.password_hash FROM app_user u WHERE u.email = $1`, string(e)), &kept)
	if err != nil {
		return user.User{}, user.Hash{}, orNotFound(err, "select user")
	}
	hash, err := user.ParseHash(kept)
	if err != nil {
		return user.User{}, user.Hash{}, fmt.Errorf("read the hash of a user: %w", err)
	}
	return found, hash, nil
}

// TakeAttempt counts an attempt to sign in, under the lock on the e-mail's row;
// see user.Store. Who finds no room takes no lock: room comes with time alone.
func (s *Store) TakeAttempt(ctx context.Context, e user.Email, network user.Digest) (at time.Time, err error) {
	digest := e.Digest()
	if err := s.roomToTry(ctx, digest, network); err != nil {
		return time.Time{}, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		// The time is read once the row is locked, lest an attempt come before one
		// that it waited for.
		made, now, err := scanAttempts(tx.QueryRow(ctx, `INSERT INTO sign_in_attempt AS a (email_sha256, made_at, networks, expires_at) VALUES ($1, '{}', '{}', now())
			ON CONFLICT (email_sha256) DO UPDATE SET expires_at = a.expires_at RETURNING made_at, networks, clock_timestamp()`, digest[:]))
		if err != nil {
			return fmt.Errorf("lock the attempts of an e-mail: %w", err)
		}
		at = now
		if made, err = user.Try(made, user.Attempt{At: now, Network: network}); err != nil {
			return err
		}
		return noteAttempts(ctx, tx, digest, made)
	})
	return at, err
}

func (s *Store) roomToTry(ctx context.Context, digest, network user.Digest) error {
	made, now, err := scanAttempts(s.pool.QueryRow(ctx, `SELECT made_at, networks, clock_timestamp() FROM sign_in_attempt WHERE email_sha256 = $1`, digest[:]))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return reachable(fmt.Errorf("read the attempts of an e-mail: %w", err))
	}
	_, err = user.Try(made, user.Attempt{At: now, Network: network})
	return err
}

func scanAttempts(row pgx.Row) (made []user.Attempt, now time.Time, err error) {
	var at []time.Time
	var networks [][]byte
	if err := row.Scan(&at, &networks, &now); err != nil {
		return nil, time.Time{}, err
	}
	made = make([]user.Attempt, len(at))
	for i := range at {
		made[i].At = at[i]
		copy(made[i].Network[:], networks[i]) // as many as attempts: sign_in_attempt_pairs
	}
	return made, now, nil
}

// noteAttempts keeps attempts until the last has left the window.
func noteAttempts(ctx context.Context, tx pgx.Tx, digest user.Digest, made []user.Attempt) error {
	at, networks := make([]time.Time, len(made)), make([][]byte, len(made))
	for i, one := range made {
		at[i], networks[i] = one.At, one.Network[:]
	}
	if _, err := tx.Exec(ctx, `UPDATE sign_in_attempt SET made_at = $2, networks = $3, expires_at = $4 WHERE email_sha256 = $1`,
		digest[:], at, networks, at[len(at)-1].Add(user.AttemptWindow)); err != nil {
		return fmt.Errorf("note an attempt to sign in: %w", err)
	}
	return nil
}

// OpenSession takes an attempt back and keeps a session; see user.Store.
func (s *Store) OpenSession(ctx context.Context, u user.User, attempt time.Time, session user.Digest) (until time.Time, err error) {
	digest := u.Email.Digest()
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE sign_in_attempt SET (made_at, networks) = (
				SELECT coalesce(array_agg(m ORDER BY n), '{}'), coalesce(array_agg(w ORDER BY n), '{}')
				FROM unnest(made_at, networks) WITH ORDINALITY AS made (m, w, n) WHERE m <> $2)
			WHERE email_sha256 = $1`, digest[:], attempt); err != nil {
			return fmt.Errorf("take an attempt back: %w", err)
		}
		until, err = replaceSession(ctx, tx, u.ID, session)
		return err
	})
	return until, err
}

// replaceSession keeps a session, in the place of that which ends first when the
// user has as many as it may.
func replaceSession(ctx context.Context, tx pgx.Tx, id user.ID, session user.Digest) (time.Time, error) {
	if _, err := tx.Exec(ctx, `SELECT FROM app_user WHERE id = $1 FOR NO KEY UPDATE`, [16]byte(id)); err != nil {
		return time.Time{}, fmt.Errorf("lock user: %w", err)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM user_session WHERE user_id = $1 AND token_sha256 IN (
			SELECT token_sha256 FROM user_session WHERE user_id = $1 ORDER BY expires_at DESC, token_sha256 OFFSET $2)`, [16]byte(id), user.MaxSessions-1); err != nil {
		return time.Time{}, fmt.Errorf("end sessions: %w", err)
	}
	return insertSession(ctx, tx, id, session)
}

func insertSession(ctx context.Context, tx pgx.Tx, id user.ID, session user.Digest) (until time.Time, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO user_session (token_sha256, user_id, expires_at) VALUES ($1, $2, now() + $3)
		RETURNING expires_at`, session[:], [16]byte(id), user.SessionLife).Scan(&until)
	if err != nil {
		return time.Time{}, fmt.Errorf("insert session: %w", err)
	}
	return until, nil
}

// UserBySession finds whose session it is; see user.Store.
func (s *Store) UserBySession(ctx context.Context, session user.Digest) (user.User, error) {
	var over bool
	found, err := scanUser(s.pool.QueryRow(ctx, `SELECT `+userColumns+`, t.expires_at <= now() FROM user_session t
		JOIN app_user u ON u.id = t.user_id WHERE t.token_sha256 = $1`, session[:]), &over)
	if err != nil {
		return user.User{}, orNotFound(err, "select session")
	}
	if over {
		return user.User{}, user.ErrOver
	}
	return found, nil
}

// LinkProvider notes that a user owns a provider account; see user.Store.
func (s *Store) LinkProvider(ctx context.Context, id user.ID, provider ids.ProviderID) (linked user.User, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		linked, err = scanUser(tx.QueryRow(ctx, `SELECT `+userColumns+` FROM app_user u WHERE u.id = $1 FOR NO KEY UPDATE`, [16]byte(id)))
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

// PruneSessions forgets up to limit sessions that were over for user.SessionKept
// and returns how many.
func (s *Store) PruneSessions(ctx context.Context, limit int) (int, error) {
	return s.pruneExpired(ctx, "sessions", `DELETE FROM user_session WHERE token_sha256 IN (
		SELECT token_sha256 FROM user_session WHERE expires_at <= now() - $2::interval ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`, limit, user.SessionKept)
}

// PruneAttempts forgets up to limit e-mails whose attempts count no more and
// returns how many.
func (s *Store) PruneAttempts(ctx context.Context, limit int) (int, error) {
	return s.pruneExpired(ctx, "attempts to sign in", `DELETE FROM sign_in_attempt WHERE email_sha256 IN (
		SELECT email_sha256 FROM sign_in_attempt WHERE expires_at <= now() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`, limit)
}

func (s *Store) pruneExpired(ctx context.Context, what, sql string, args ...any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, sql, args...)
	if err != nil {
		return 0, reachable(fmt.Errorf("prune %s: %w", what, err))
	}
	return int(tag.RowsAffected()), nil
}

func scanUser(row pgx.Row, more ...any) (u user.User, err error) {
	var id, account [16]byte
	var provider *[16]byte
	if err := row.Scan(append([]any{&id, &u.Email, &u.DisplayName, &account, &provider, &u.CreatedAt}, more...)...); err != nil {
		return user.User{}, err
	}
	u.ID, u.Account = id, account
	if provider != nil {
		u.Provider = *provider
	}
	return u, nil
}

// orNotFound tells a user that is not there from what else may go wrong.
func orNotFound(err error, attempted string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return user.ErrNotFound
	}
	return reachable(fmt.Errorf("%s: %w", attempted, err))
}
