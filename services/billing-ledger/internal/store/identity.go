package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/user"
)

// Enter stores a family for the user of an identity; see user.IdentityStore.
func (s *Store) Enter(ctx context.Context, e user.Entry) (u user.User, ends user.Ends, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if u, err = userOf(ctx, tx, e.Identity); err != nil {
			return err
		}
		if err := useProof(ctx, tx, u.ID, e.Proof); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE user_identity SET used_at = now() WHERE issuer = $1 AND subject = $2`,
			string(e.Identity.Issuer), e.Identity.Subject); err != nil {
			return fmt.Errorf("note the use of an identity: %w", err)
		}
		ends, err = replaceFamily(ctx, tx, u.ID, e.Family)
		return err
	})
	return u, ends, err
}

// userOf finds and locks the user of an identity. The identity is looked up again under the lock,
// because it may have been ended meanwhile.
func userOf(ctx context.Context, tx pgx.Tx, i user.Identity) (u user.User, err error) {
	for _, sql := range []string{
		`SELECT ` + userColumns + ` FROM app_user u
		WHERE u.id = (SELECT user_id FROM user_identity WHERE issuer = $1 AND subject = $2) FOR NO KEY UPDATE`,
		`SELECT ` + userColumns + ` FROM app_user u JOIN user_identity i ON i.user_id = u.id
		WHERE i.issuer = $1 AND i.subject = $2`,
	} {
		if u, err = scanUser(tx.QueryRow(ctx, sql, string(i.Issuer), i.Subject)); err != nil {
			return user.User{}, orNotFound(err, "select the user of an identity")
		}
	}
	return u, nil
}

// useProof remembers a proof of a locked user: user.ErrProofUsed, user.ErrTooManyProofs.
func useProof(ctx context.Context, tx pgx.Tx, id user.ID, p user.Proof) error {
	if _, err := tx.Exec(ctx, `DELETE FROM used_proof WHERE user_id = $1 AND expires_at <= now()`,
		[16]byte(id)); err != nil {
		return fmt.Errorf("forget proofs: %w", err)
	}
	var used int
	err := tx.QueryRow(ctx, `SELECT count(*) FROM used_proof WHERE user_id = $1`, [16]byte(id)).Scan(&used)
	if err != nil {
		return fmt.Errorf("count proofs: %w", err)
	}
	if used >= user.MaxProofs {
		return user.ErrTooManyProofs
	}
	tag, err := tx.Exec(ctx, `INSERT INTO used_proof (nonce, user_id, expires_at) VALUES ($1, $2, $3)
		ON CONFLICT (nonce) DO NOTHING`, p.Nonce[:], [16]byte(id), p.ForgetAt)
	if err != nil {
		return fmt.Errorf("use a proof: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return user.ErrProofUsed
	}
	return nil
}

const identityColumns = `id, issuer, subject, created_at, used_at`

func scanIdentity(row pgx.Row) (o user.OwnedIdentity, err error) {
	var id [16]byte
	err = row.Scan(&id, &o.Issuer, &o.Subject, &o.CreatedAt, &o.UsedAt)
	o.ID = id
	return o, err
}

// insertIdentity stores an identity of a locked user: user.ErrIdentityTaken. A wallet marks the
// user's account (mark_wallet): user.ErrTooManyWallets.
func insertIdentity(
	ctx context.Context, tx pgx.Tx, id user.IdentityID, of user.ID, i user.Identity,
) (user.OwnedIdentity, error) {
	digest, err := digestOf(ctx, tx, i)
	if err != nil {
		return user.OwnedIdentity{}, err
	}
	o, err := scanIdentity(tx.QueryRow(ctx, `INSERT INTO user_identity (id, user_id, issuer, subject, evidence)
		VALUES ($1, $2, $3, $4, $5) RETURNING `+identityColumns, [16]byte(id), [16]byte(of), string(i.Issuer), i.Subject,
		digest))
	switch {
	case pg.IsUnique(err, "user_identity_is_of_one_user"):
		return user.OwnedIdentity{}, user.ErrIdentityTaken
	case pg.IsCheck(err, "user_identity_marks"):
		return user.OwnedIdentity{}, user.ErrTooManyWallets
	case err != nil:
		return user.OwnedIdentity{}, fmt.Errorf("insert an identity: %w", err)
	}
	return o, nil
}

// LinkIdentity stores an identity of a user; see user.IdentityStore.
func (s *Store) LinkIdentity(ctx context.Context, l user.Link) (linked user.OwnedIdentity, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		u, err := scanUser(tx.QueryRow(ctx, `SELECT `+userColumns+` FROM app_user u WHERE u.id = $1 FOR NO KEY UPDATE`,
			[16]byte(l.User)))
		if err != nil {
			return orNotFound(err, "lock user")
		}
		if l.OnlyConfirmed && u.Email != "" && !u.Confirmed {
			return user.ErrUnconfirmed
		}
		if err := checkFresh(ctx, tx, u.ID, l.Family); err != nil {
			return err
		}
		if err := useProof(ctx, tx, u.ID, l.Proof); err != nil {
			return err
		}
		all, err := identitiesOf(ctx, tx, u.ID)
		if err != nil {
			return err
		}
		for _, one := range all {
			if one.Identity == l.Identity {
				linked = one
				return nil
			}
		}
		if len(all) >= user.MaxIdentities {
			return user.ErrTooManyIdentities
		}
		if linked, err = insertIdentity(ctx, tx, l.ID, u.ID, l.Identity); err != nil {
			return err
		}
		return tellUser(ctx, tx, u, user.LinkedLetter)
	})
	return linked, err
}

// checkFresh refuses a session that did not begin just now: user.ErrNotFresh.
func checkFresh(ctx context.Context, tx pgx.Tx, id user.ID, family user.FamilyID) error {
	var fresh bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM session_family WHERE id = $2 AND user_id = $1
		AND ended_at IS NULL AND created_at > now() - $3::interval)`, [16]byte(id), [16]byte(family),
		user.FreshFor).Scan(&fresh)
	switch {
	case err != nil:
		return fmt.Errorf("look how old a session is: %w", err)
	case !fresh:
		return user.ErrNotFresh
	}
	return nil
}

// tellUser has a letter sent to a user who has an e-mail, and who is locked. Beyond the pace of
// letters, which counts those of a kind, the change stands without its letter: the letters before it have
// told the user that somebody makes such changes.
func tellUser(ctx context.Context, tx pgx.Tx, u user.User, kind user.LetterKind) error {
	if u.Email == "" {
		return nil
	}
	mark := user.TellingMark
	if kind == user.AddressLetter {
		mark = user.AddressMark
	}
	err := countLetter(ctx, tx, u.Email, mark)
	if fault.Is(err, fault.RateLimitExceeded) {
		err = moveBack(ctx, tx, u.Email.Digest(), mark, user.LetterPace)
		return wrapped("take the count of a letter back", err)
	}
	if err != nil {
		return err
	}
	return keepLetter(ctx, tx, kind, u.Email, u.ID)
}

// lister is the part of a pool or a transaction that reads many rows.
type lister interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func identitiesOf(ctx context.Context, q lister, id user.ID) ([]user.OwnedIdentity, error) {
	rows, err := q.Query(ctx, `SELECT `+identityColumns+` FROM user_identity WHERE user_id = $1
		ORDER BY created_at, id LIMIT $2`, [16]byte(id), user.MaxIdentities)
	if err != nil {
		return nil, fmt.Errorf("select identities: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (user.OwnedIdentity, error) {
		return scanIdentity(row)
	})
	if err != nil {
		return nil, fmt.Errorf("select identities: %w", err)
	}
	return all, nil
}

// Identities lists the identities of a user; see user.IdentityStore.
func (s *Store) Identities(ctx context.Context, id user.ID) ([]user.OwnedIdentity, error) {
	return identitiesOf(ctx, s.pool, id)
}

// EndIdentity ends an identity of a user; see user.IdentityStore. That it is not the last way in
// is the database's to say, too, because a password may only be looked at under the lock.
func (s *Store) EndIdentity(ctx context.Context, id user.ID, identity user.IdentityID, keep user.FamilyID) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		u, err := scanUser(tx.QueryRow(ctx, `SELECT `+userColumns+` FROM app_user u WHERE u.id = $1 FOR NO KEY UPDATE`,
			[16]byte(id)))
		if err != nil {
			return orNotFound(err, "lock user")
		}
		if err := checkFresh(ctx, tx, id, keep); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `DELETE FROM user_identity WHERE user_id = $1 AND id = $2`, [16]byte(id),
			[16]byte(identity))
		if err != nil {
			return fmt.Errorf("delete an identity: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return user.ErrNotFound
		}
		left, err := identitiesOf(ctx, tx, id)
		if err != nil {
			return err
		}
		if !u.HasPassword && len(left) == 0 {
			return user.ErrLastWayIn
		}
		if err := endOthers(ctx, tx, id, keep, user.IdentityEnded); err != nil {
			return err
		}
		return tellUser(ctx, tx, u, user.EndedLetter)
	})
}

// PruneProofs deletes up to limit proofs that count no longer, and returns how many.
func (s *Store) PruneProofs(ctx context.Context, limit int) (int, error) {
	return s.pruneExpired(ctx, "used proofs", `DELETE FROM used_proof WHERE nonce IN (
		SELECT nonce FROM used_proof WHERE expires_at <= now() ORDER BY expires_at LIMIT $1
			FOR UPDATE SKIP LOCKED)`, limit)
}
