package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/mail"
	"svc.internal/services/billing-ledger/internal/user"
)

// maxLetters bounds the letters that wait. The table itself takes a few more, because
// letters that are kept at the same time do not see each other. Letters that only tell what
// happened find no room beyond maxTelling, so that they keep nobody from a letter with a token.
const (
	maxLetters = 2000
	maxTelling = 1500
)

// roomFor is how many letters may wait when one of a kind is kept.
func roomFor(kind user.LetterKind) int {
	if kind == user.ConfirmLetter || kind == user.ResetLetter {
		return maxLetters
	}
	return maxTelling
}

// AskLetter counts and keeps a letter; see user.LetterStore. It does the same whether there
// is a user of the e-mail or not.
func (s *Store) AskLetter(ctx context.Context, kind user.LetterKind, to user.Email, id user.ID) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		if err := countLetter(ctx, tx, to, user.LettersMark); err != nil {
			return err // and nothing was counted
		}
		return insertLetter(ctx, tx, kind, to, id)
	})
}

// countLetter counts a letter to an e-mail under a mark: the fault of user.LetterRoom for one that
// finds no room. The caller must take the count of that one back, or undo the transaction.
func countLetter(ctx context.Context, tx pgx.Tx, to user.Email, mark user.Digest) error {
	var full, now time.Time
	var batch pgx.Batch
	count(&batch, to.Digest(), mark, user.LetterPace, &full, &now)
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("count a letter: %w", err)
	}
	return user.LetterRoom(full, now)
}

// insertLetter keeps a letter to be sent: user.ErrFull when too many wait.
func insertLetter(ctx context.Context, tx pgx.Tx, kind user.LetterKind, to user.Email, id user.ID) error {
	var who *[16]byte
	if !id.IsZero() {
		who = (*[16]byte)(&id)
	}
	tag, err := tx.Exec(ctx, `INSERT INTO mail_outbox (kind, recipient, user_id) SELECT $1, $2, $3
		WHERE (SELECT count(*) FROM mail_outbox) < $4`, string(kind), string(to), who, roomFor(kind))
	if err != nil {
		return fmt.Errorf("insert letter: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return user.ErrFull
	}
	return nil
}

// keepLetter keeps a letter that belongs to a change. The change stands without it when too
// many letters wait.
func keepLetter(ctx context.Context, tx pgx.Tx, kind user.LetterKind, to user.Email, id user.ID) error {
	if err := insertLetter(ctx, tx, kind, to, id); err != nil && !errors.Is(err, user.ErrFull) {
		return err
	}
	return nil
}

// StoreLetterToken stores the token of a letter; see user.LetterStore.
func (s *Store) StoreLetterToken(ctx context.Context, t user.LetterToken) (ok bool, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		ok = false
		id, err := readerOf(ctx, tx, t)
		if err != nil {
			if errors.Is(err, user.ErrNotFound) {
				return nil
			}
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM letter_token WHERE user_id = $1 AND kind = $2 AND token_sha256 IN (
				SELECT token_sha256 FROM letter_token WHERE user_id = $1 AND kind = $2
				ORDER BY created_at DESC, token_sha256 OFFSET $3)`, [16]byte(id), string(t.Kind),
			user.MaxLetterTokens-1); err != nil {
			return fmt.Errorf("forget the tokens of letters: %w", err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO letter_token (token_sha256, user_id, kind, email, expires_at)
			VALUES ($1, $2, $3, $4, now() + $5::interval)`, t.Digest[:], [16]byte(id), string(t.Kind), string(t.Email),
			t.Life); err != nil {
			return fmt.Errorf("insert the token of a letter: %w", err)
		}
		ok = true
		return nil
	})
	return ok, err
}

// readerOf finds and locks the user whom a letter is for: user.ErrNotFound for nobody.
func readerOf(ctx context.Context, tx pgx.Tx, t user.LetterToken) (user.ID, error) {
	var id [16]byte
	var err error
	if t.Kind == user.ResetLetter {
		err = tx.QueryRow(ctx, `SELECT id FROM app_user WHERE email = $1 FOR NO KEY UPDATE`, string(t.Email)).Scan(&id)
	} else {
		err = tx.QueryRow(ctx, `SELECT id FROM app_user WHERE id = $1 AND email_confirmed_at IS NULL
			AND email = $2 FOR NO KEY UPDATE`, [16]byte(t.User), string(t.Email)).Scan(&id)
	}
	if err != nil {
		return user.ID{}, orNotFound(err, "find the reader of a letter")
	}
	return id, nil
}

// useToken deletes the token of a letter and returns its user, locked, and its e-mail:
// user.ErrNotFound for a token that does not count.
func useToken(
	ctx context.Context, tx pgx.Tx, token user.Digest, kind user.LetterKind,
) (u user.User, e user.Email, err error) {
	var id [16]byte
	err = tx.QueryRow(ctx, `SELECT user_id FROM letter_token WHERE token_sha256 = $1 AND kind = $2`, token[:],
		string(kind)).Scan(&id)
	if err != nil {
		return u, e, orNotFound(err, "select the token of a letter")
	}
	if u, err = scanUser(tx.QueryRow(ctx, `SELECT `+userColumns+` FROM app_user u WHERE u.id = $1 FOR NO KEY UPDATE`,
		id)); err != nil {
		return u, e, orNotFound(err, "lock user")
	}
	err = tx.QueryRow(ctx, `DELETE FROM letter_token WHERE token_sha256 = $1 AND kind = $2 AND expires_at > now()
		RETURNING email`, token[:], string(kind)).Scan(&e)
	if err != nil {
		return u, e, orNotFound(err, "use the token of a letter")
	}
	_, err = tx.Exec(ctx, `DELETE FROM letter_token WHERE user_id = $1 AND kind = $2`, id, string(kind))
	if err != nil {
		return u, e, fmt.Errorf("forget the tokens of letters: %w", err)
	}
	return u, e, nil
}

// ConfirmEmail uses the token of a letter; see user.LetterStore.
func (s *Store) ConfirmEmail(ctx context.Context, token user.Digest) (confirmed user.User, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		var e user.Email
		if confirmed, e, err = useToken(ctx, tx, token, user.ConfirmLetter); err != nil {
			return err
		}
		if confirmed.Email != e {
			return user.ErrNotFound // the letter went to an e-mail that is not the user's
		}
		if _, err = tx.Exec(ctx, `UPDATE app_user SET email_confirmed_at = now() WHERE id = $1`,
			[16]byte(confirmed.ID)); err != nil {
			return fmt.Errorf("confirm an e-mail: %w", err)
		}
		confirmed.Confirmed = true
		return nil
	})
	return confirmed, err
}

// MayReset reports whether a token would reset a password; see user.LetterStore.
func (s *Store) MayReset(ctx context.Context, token user.Digest) (may bool, err error) {
	if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM letter_token
		WHERE token_sha256 = $1 AND kind = 'reset' AND expires_at > now())`, token[:]).Scan(&may); err != nil {
		return false, fmt.Errorf("select the token of a letter: %w", err)
	}
	return may, nil
}

// ResetPassword uses the token of a letter; see user.LetterStore. The marks of kin that wallets have
// left on the user's account stay.
func (s *Store) ResetPassword(ctx context.Context, r user.Reset) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		u, e, err := useToken(ctx, tx, r.Token, user.ResetLetter)
		if err != nil {
			return err
		}
		if u.Email != e {
			return user.ErrNotFound // the letter went to an e-mail that is the user's no longer
		}
		if _, err := tx.Exec(ctx, `UPDATE app_user SET password_hash = $2,
			email_confirmed_at = coalesce(email_confirmed_at, now()) WHERE id = $1`, [16]byte(u.ID),
			r.Password.Text()); err != nil {
			return fmt.Errorf("set a password: %w", err)
		}
		if _, err := tx.Exec(ctx, `DELETE FROM user_identity WHERE user_id = $1`, [16]byte(u.ID)); err != nil {
			return fmt.Errorf("delete identities: %w", err)
		}
		if err := endOthers(ctx, tx, u.ID, user.FamilyID{}, user.PasswordReset); err != nil {
			return err
		}
		return keepLetter(ctx, tx, user.ResetDoneLetter, u.Email, u.ID)
	})
}

// ChangePassword sets a password; see user.LetterStore.
func (s *Store) ChangePassword(ctx context.Context, c user.PasswordChange) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		u, err := scanUser(tx.QueryRow(ctx, `SELECT `+userColumns+` FROM app_user u WHERE u.id = $1
			AND u.password_hash = $2 FOR NO KEY UPDATE`, [16]byte(c.User), c.Was))
		if err != nil {
			return orNotFound(err, "lock user")
		}
		if err := uncount(ctx, tx, u.Email, c.Attempt); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE app_user SET password_hash = $2 WHERE id = $1`, [16]byte(c.User),
			c.Now.Text()); err != nil {
			return fmt.Errorf("set a password: %w", err)
		}
		if err := endOthers(ctx, tx, c.User, c.Keep, user.PasswordChanged); err != nil {
			return err
		}
		return keepLetter(ctx, tx, user.ChangedLetter, u.Email, u.ID)
	})
}

// PruneLetterTokens deletes up to limit tokens of letters that count no longer, and returns
// how many.
func (s *Store) PruneLetterTokens(ctx context.Context, limit int) (int, error) {
	return s.pruneExpired(ctx, "tokens of letters", `DELETE FROM letter_token WHERE token_sha256 IN (
		SELECT token_sha256 FROM letter_token WHERE expires_at <= now() ORDER BY expires_at LIMIT $1
			FOR UPDATE SKIP LOCKED)`, limit)
}

// Letters keeps the letters that wait; see mail.Store.
type Letters struct{ *Store }

// Take takes the letter that is due first, and has it due again later; see mail.Store.
func (s Letters) Take(ctx context.Context) (l mail.Letter, ok bool, err error) {
	rows, err := s.pool.Query(ctx, `UPDATE mail_outbox SET tries = tries + 1,
			due_at = now() + interval '1 minute' * (2 ^ tries)
		WHERE id = (SELECT id FROM mail_outbox WHERE due_at <= now() AND tries < $1 ORDER BY due_at, id LIMIT 1
			FOR UPDATE SKIP LOCKED)
		RETURNING id, kind, recipient, user_id, tries`, mail.MaxTries)
	if err != nil {
		return l, false, fmt.Errorf("take a letter: %w", err)
	}
	taken, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l mail.Letter, err error) {
		var who *[16]byte
		if err = row.Scan(&l.ID, &l.Kind, &l.To, &who, &l.Tries); who != nil {
			l.User = *who
		}
		return l, err
	})
	if err != nil || len(taken) == 0 {
		return l, false, wrapped("take a letter", err)
	}
	return taken[0], true, nil
}

// Delete forgets a letter; see mail.Store.
func (s Letters) Delete(ctx context.Context, id int64) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM mail_outbox WHERE id = $1`, id)
	return wrapped("delete a letter", err)
}

// PruneLetters deletes up to limit letters that were tried as often as a letter is, and
// returns how many. Whoever tried one for the last time deletes it, unless it dies first.
func (s *Store) PruneLetters(ctx context.Context, limit int) (int, error) {
	return s.pruneExpired(ctx, "letters", `DELETE FROM mail_outbox WHERE id IN (
		SELECT id FROM mail_outbox WHERE tries >= $2 AND due_at <= now() ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)`,
		limit, mail.MaxTries)
}
