package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/user"
)

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
