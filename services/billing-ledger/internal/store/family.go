package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/user"
)

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

// replaceFamily stores a family of a user that is locked. When the user has as many as it
// may, the new one takes the place of the family that matters least.
func replaceFamily(ctx context.Context, tx pgx.Tx, id user.ID, f user.NewFamily) (user.Ends, error) {
	if _, err := tx.Exec(ctx, `DELETE FROM session_family WHERE user_id = $1 AND id IN (
			SELECT id FROM session_family WHERE user_id = $1
			ORDER BY ended_at IS NULL AND expires_at > now() DESC, remembered DESC, used_at DESC, id OFFSET $2)`,
		[16]byte(id), user.MaxFamilies-1); err != nil {
		return user.Ends{}, fmt.Errorf("end families: %w", err)
	}
	return insertFamily(ctx, tx, id, f)
}

// insertFamily stores a family with its first session and refresh token.
func insertFamily(ctx context.Context, tx pgx.Tx, id user.ID, f user.NewFamily) (ends user.Ends, err error) {
	life := user.SessionLife
	if f.Remembered() {
		life = user.FamilyLife
	}
	if _, err = tx.Exec(ctx, `INSERT INTO session_family (id, user_id, network, remembered, expires_at)
		VALUES ($1, $2, $3, $4, now() + $5::interval)`, [16]byte(f.ID), [16]byte(id), f.Shown, f.Remembered(),
		life); err != nil {
		return ends, fmt.Errorf("insert family: %w", err)
	}
	if f.Remembered() {
		if ends.Refresh, err = insertRefreshToken(ctx, tx, f.ID, f.Refresh); err != nil {
			return ends, err
		}
	}
	ends.Token, err = replaceSession(ctx, tx, id, f.ID, f.Token)
	return ends, err
}

// replaceSession stores a session of a user that is locked. When the user has as many
// sessions as it may, the new one takes the place of the session that ends first.
func replaceSession(
	ctx context.Context, tx pgx.Tx, id user.ID, family user.FamilyID, token user.Digest,
) (until time.Time, err error) {
	if _, err := tx.Exec(ctx, `DELETE FROM user_session WHERE user_id = $1 AND token_sha256 IN (
			SELECT token_sha256 FROM user_session WHERE user_id = $1 ORDER BY expires_at DESC, token_sha256 OFFSET $2)`,
		[16]byte(id), user.MaxSessions-1); err != nil {
		return time.Time{}, fmt.Errorf("end sessions: %w", err)
	}
	err = tx.QueryRow(ctx, `INSERT INTO user_session (token_sha256, user_id, family_id, expires_at)
		VALUES ($1, $2, $3, now() + $4) RETURNING expires_at`, token[:], [16]byte(id), [16]byte(family),
		user.SessionLife).Scan(&until)
	if err != nil {
		return time.Time{}, fmt.Errorf("insert session: %w", err)
	}
	return until, nil
}

// insertRefreshToken stores a refresh token, and forgets the oldest of its family when there
// are too many.
func insertRefreshToken(
	ctx context.Context, tx pgx.Tx, family user.FamilyID, token user.Digest,
) (until time.Time, err error) {
	if _, err := tx.Exec(ctx, `DELETE FROM refresh_token WHERE family_id = $1 AND token_sha256 IN (
			SELECT token_sha256 FROM refresh_token WHERE family_id = $1 ORDER BY created_at DESC, token_sha256 OFFSET $2)`,
		[16]byte(family), user.MaxRefreshTokens-1); err != nil {
		return time.Time{}, fmt.Errorf("forget refresh tokens: %w", err)
	}
	err = tx.QueryRow(ctx, `INSERT INTO refresh_token (token_sha256, family_id, expires_at)
		VALUES ($1, $2, now() + $3::interval) RETURNING expires_at`, token[:], [16]byte(family), user.FamilyLife).Scan(&until)
	if err != nil {
		return time.Time{}, fmt.Errorf("insert refresh token: %w", err)
	}
	return until, nil
}

// presented is a refresh token with its family, both locked.
type presented struct {
	family     user.FamilyID
	over, used bool
	sinceUse   time.Duration
	sealed     []byte
}

// Rotate uses a refresh token; see user.FamilyStore.
func (s *Store) Rotate(ctx context.Context, r user.Rotation) (done user.Rotated, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		done = user.Rotated{}
		p, err := present(ctx, tx, r, &done)
		switch {
		case err != nil:
			return err
		case p.over:
			return user.ErrOver
		case p.used && p.sinceUse <= user.ReuseGrace:
			done.Sealed = p.sealed
			return nil
		case p.used:
			done.Reused = true
			return endReused(ctx, tx, done.User, p.family)
		}
		return rotate(ctx, tx, r, &done)
	})
	return done, err
}

// present finds the user of a refresh token and locks both, the user first.
func present(ctx context.Context, tx pgx.Tx, r user.Rotation, done *user.Rotated) (p presented, err error) {
	var id, family [16]byte
	if err := tx.QueryRow(ctx, `SELECT f.user_id, f.id FROM refresh_token t JOIN session_family f ON f.id = t.family_id
		WHERE t.token_sha256 = $1`, r.Presented[:]).Scan(&id, &family); err != nil {
		return p, orNotFound(err, "select refresh token")
	}
	p.family, done.Family = family, family
	done.User, err = scanUser(tx.QueryRow(ctx, `SELECT `+userColumns+` FROM app_user u WHERE u.id = $1 FOR NO KEY UPDATE`,
		id))
	if err != nil {
		return p, orNotFound(err, "lock user")
	}
	var since *time.Duration
	err = tx.QueryRow(ctx, `SELECT t.expires_at <= now() OR f.ended_at IS NOT NULL OR f.expires_at <= now(),
			now() - t.used_at, t.sealed
		FROM refresh_token t JOIN session_family f ON f.id = t.family_id WHERE t.token_sha256 = $1
		FOR UPDATE OF t, f`, r.Presented[:]).Scan(&p.over, &since, &p.sealed)
	if err != nil {
		return p, orNotFound(err, "lock refresh token")
	}
	if since != nil {
		p.used, p.sinceUse = true, *since
	}
	return p, nil
}

// rotate gives a token, and a successor unless the rotation follows another.
func rotate(ctx context.Context, tx pgx.Tx, r user.Rotation, done *user.Rotated) (err error) {
	if r.Follows() {
		err = tx.QueryRow(ctx, `SELECT expires_at FROM refresh_token WHERE token_sha256 = $1`, r.Presented[:]).Scan(
			&done.Ends.Refresh)
		if err != nil {
			return fmt.Errorf("select refresh token: %w", err)
		}
	} else {
		if _, err := tx.Exec(ctx, `UPDATE refresh_token SET used_at = now(), sealed = $2 WHERE token_sha256 = $1`,
			r.Presented[:], r.Sealed); err != nil {
			return fmt.Errorf("use refresh token: %w", err)
		}
		if done.Ends.Refresh, err = insertRefreshToken(ctx, tx, done.Family, r.Successor); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `UPDATE session_family SET used_at = now(), expires_at = now() + $2::interval, network = $3
		WHERE id = $1`, [16]byte(done.Family), user.FamilyLife, r.Shown); err != nil {
		return fmt.Errorf("note the use of a family: %w", err)
	}
	done.Ends.Token, err = replaceSession(ctx, tx, done.User.ID, done.Family, r.Token)
	return err
}

// endReused ends a family of which a refresh token was used twice, and tells its user.
func endReused(ctx context.Context, tx pgx.Tx, u user.User, family user.FamilyID) error {
	if _, err := endFamilies(ctx, tx, u.ID, user.TokenReused, `id = $3`, [16]byte(family)); err != nil {
		return err
	}
	if u.Email == "" {
		return nil
	}
	return keepLetter(ctx, tx, user.ReuseLetter, u.Email, u.ID)
}

// endFamilies ends the families of a user that live and that a condition on $3 chooses. Ended
// families keep their tokens, so that those are told that they are over.
func endFamilies(ctx context.Context, tx pgx.Tx, id user.ID, why user.Cause, which string, arg any) (int64, error) {
	tag, err := tx.Exec(ctx, `UPDATE session_family SET ended_at = now(), cause = $2
		WHERE user_id = $1 AND ended_at IS NULL AND expires_at > now() AND `+which, [16]byte(id), string(why), arg)
	if err != nil {
		return 0, fmt.Errorf("end families: %w", err)
	}
	return tag.RowsAffected(), nil
}

// EndFamily ends a family; see user.FamilyStore.
func (s *Store) EndFamily(ctx context.Context, id user.ID, family user.FamilyID, why user.Cause) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		if err := lockUser(ctx, tx, id); err != nil {
			return err
		}
		ended, err := endFamilies(ctx, tx, id, why, `id = $3`, [16]byte(family))
		if err == nil && ended == 0 {
			return user.ErrNotFound
		}
		return err
	})
}

// EndFamilies ends all families of a user but one; see user.FamilyStore.
func (s *Store) EndFamilies(ctx context.Context, id user.ID, but user.FamilyID, why user.Cause) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		if err := lockUser(ctx, tx, id); err != nil {
			return err
		}
		return endOthers(ctx, tx, id, but, why)
	})
}

// endOthers ends all families of a locked user but one, and the sessions of an earlier
// release, which have no family.
func endOthers(ctx context.Context, tx pgx.Tx, id user.ID, but user.FamilyID, why user.Cause) error {
	if _, err := endFamilies(ctx, tx, id, why, `id <> $3`, [16]byte(but)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM user_session WHERE user_id = $1 AND family_id IS NULL`,
		[16]byte(id)); err != nil {
		return fmt.Errorf("end sessions without a family: %w", err)
	}
	return nil
}

// FamilyOf finds the family of a token; see user.FamilyStore.
func (s *Store) FamilyOf(
	ctx context.Context, token user.Digest, refresh bool,
) (id user.ID, family user.FamilyID, unused bool, err error) {
	sql := `SELECT t.user_id, f.id, true FROM user_session t JOIN session_family f ON f.id = t.family_id
		WHERE t.token_sha256 = $1 AND t.expires_at > now() AND f.ended_at IS NULL`
	if refresh {
		sql = `SELECT f.user_id, f.id, t.used_at IS NULL FROM refresh_token t JOIN session_family f ON f.id = t.family_id
			WHERE t.token_sha256 = $1 AND t.expires_at > now() AND f.ended_at IS NULL`
	}
	var who, which [16]byte
	if err := s.pool.QueryRow(ctx, sql, token[:]).Scan(&who, &which, &unused); err != nil {
		return id, family, false, orNotFound(err, "select the family of a token")
	}
	return who, which, unused, nil
}

// Families lists the families of a user that live; see user.FamilyStore.
func (s *Store) Families(ctx context.Context, id user.ID) ([]user.Family, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, network, remembered, created_at, used_at, expires_at FROM session_family
		WHERE user_id = $1 AND ended_at IS NULL AND expires_at > now() ORDER BY used_at DESC, id LIMIT $2`,
		[16]byte(id), user.MaxFamilies)
	if err != nil {
		return nil, fmt.Errorf("select families: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f user.Family, err error) {
		var id [16]byte
		err = row.Scan(&id, &f.Network, &f.Remembered, &f.CreatedAt, &f.UsedAt, &f.ExpiresAt)
		f.ID = id
		return f, err
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("select families: %w", err)
	}
	return all, nil
}

// PruneFamilies deletes up to limit families that were over user.FamilyKept ago, with their
// tokens, and returns how many.
func (s *Store) PruneFamilies(ctx context.Context, limit int) (int, error) {
	return s.pruneExpired(ctx, "session families", `DELETE FROM session_family WHERE id IN (
		SELECT id FROM session_family WHERE expires_at <= now() - $2::interval ORDER BY expires_at LIMIT $1
			FOR UPDATE SKIP LOCKED)`, limit, user.FamilyKept)
}
