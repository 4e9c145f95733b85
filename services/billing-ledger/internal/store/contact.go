package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/enterprise"
)

// selectContacts reads contacts as operators see them.
const selectContacts = `SELECT c.id, c.account_id, c.idempotency_key, c.company, c.message, c.created_at, c.answered_at,
		coalesce(c.answered_by, ''), CASE WHEN u.email_confirmed_at IS NOT NULL THEN coalesce(u.email, '') ELSE '' END
	FROM enterprise_contact c LEFT JOIN app_user u ON u.account_id = c.account_id `

func scanContact(row pgx.CollectableRow) (c enterprise.Contact, err error) {
	var answered *time.Time
	err = row.Scan(&c.ID, &c.Account, &c.Key, &c.Company, &c.Message, &c.Created, &answered, &c.AnsweredBy, &c.Email)
	c.Answered = orZero(answered)
	return c, err
}

// oneContact reads the contact of a condition; its error is pgx.ErrNoRows for none.
func oneContact(ctx context.Context, from rowsOf, where string, args ...any) (enterprise.Contact, error) {
	rows, err := from.Query(ctx, selectContacts+where, args...)
	if err != nil {
		return enterprise.Contact{}, fmt.Errorf("read a contact: %w", err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanContact)
	if err != nil {
		return enterprise.Contact{}, fmt.Errorf("read a contact: %w", err)
	}
	return c, nil
}

// AddContact keeps a contact; see enterprise.ContactStore. The lock on the account has one call of
// the account count after the other.
func (s Agreements) AddContact(ctx context.Context, c enterprise.Contact) (kept enterprise.Contact, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		locked, err := tx.Exec(ctx, `SELECT FROM account WHERE id = $1 FOR NO KEY UPDATE`, c.Account)
		switch {
		case err != nil:
			return fmt.Errorf("lock account: %w", err)
		case locked.RowsAffected() == 0:
			return account.ErrNotFound
		}
		const ofKey = `WHERE c.account_id = $1 AND c.idempotency_key = $2`
		kept, err = oneContact(ctx, tx, ofKey, c.Account, c.Key)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err := mayContact(ctx, tx, c.Account); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO enterprise_contact (id, account_id, idempotency_key, company, message)
			VALUES ($1, $2, $3, $4, $5)`, c.ID, c.Account, c.Key, c.Company, c.Message); err != nil {
			return fmt.Errorf("insert a contact: %w", err)
		}
		kept, err = oneContact(ctx, tx, ofKey, c.Account, c.Key)
		return err
	})
	return kept, err
}

// mayContact refuses an account whose user could not be answered, and one that has sent as many
// contacts as it may.
func mayContact(ctx context.Context, tx pgx.Tx, id ids.AccountID) error {
	var confirmed bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM app_user WHERE account_id = $1 AND email IS NOT NULL
			AND email_confirmed_at IS NOT NULL)`, id).Scan(&confirmed); err != nil {
		return fmt.Errorf("look whether an e-mail is confirmed: %w", err)
	}
	if !confirmed {
		return enterprise.Unconfirmed()
	}
	var seconds float64
	err := tx.QueryRow(ctx, `SELECT extract(epoch FROM created_at + $3::interval - now())::float8 FROM enterprise_contact
		WHERE account_id = $1 AND created_at > now() - $3::interval ORDER BY created_at DESC OFFSET $2 LIMIT 1`,
		id, enterprise.MaxContacts-1, enterprise.ContactSpan).Scan(&seconds)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("count contacts: %w", err)
	}
	return enterprise.TooManyContacts(time.Duration(seconds * float64(time.Second)))
}

// Contacts lists contacts; see enterprise.ContactStore.
func (s Agreements) Contacts(
	ctx context.Context, state enterprise.ContactState, before enterprise.ContactID, limit int,
) ([]enterprise.Contact, error) {
	if before.IsZero() {
		for i := range before {
			before[i] = 0xff
		}
	}
	where := `WHERE c.id < $1`
	switch state {
	case enterprise.Open:
		where += ` AND c.answered_at IS NULL`
	case enterprise.Answered:
		where += ` AND c.answered_at IS NOT NULL`
	}
	rows, err := s.pool.Query(ctx, selectContacts+where+` ORDER BY c.id DESC LIMIT $2`, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list contacts: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanContact)
	if err != nil {
		return nil, fmt.Errorf("list contacts: %w", err)
	}
	return list, nil
}

// AnswerContact marks a contact as answered; see enterprise.ContactStore.
func (s Agreements) AnswerContact(
	ctx context.Context, id enterprise.ContactID, note string,
) (answered enterprise.Contact, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE enterprise_contact SET answered_at = now(), answered_by = $2
			WHERE id = $1 AND answered_at IS NULL`, id, actor.OfOperator(ctx))
		if err != nil {
			return fmt.Errorf("answer a contact: %w", err)
		}
		answered, err = oneContact(ctx, tx, `WHERE c.id = $1`, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return enterprise.NoContact()
		}
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return addAct(ctx, tx, answeredContact, [16]byte(answered.Account), details{"contact_id": id.String(), "note": note})
	})
	return answered, err
}

// PruneContacts deletes up to limit contacts that were kept for long enough, answered or not.
func (s *Store) PruneContacts(ctx context.Context, limit int) (int, error) {
	return s.pruneExpired(ctx, "contacts", `DELETE FROM enterprise_contact WHERE id IN (
		SELECT id FROM enterprise_contact WHERE created_at <= now() - $2::interval ORDER BY created_at LIMIT $1
		FOR UPDATE SKIP LOCKED)`, limit, enterprise.ContactsKept)
}
