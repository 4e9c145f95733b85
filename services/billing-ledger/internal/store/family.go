package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/user"
)

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
