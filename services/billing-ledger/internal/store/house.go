package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/house"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// lockHouse keeps two calls from counting the same accounts or the same money.
const lockHouse = `SELECT pg_advisory_xact_lock(hashtext('billing.house'))`

// OpenHouseAccount opens a house account; see house.Store.
func (s *Store) OpenHouseAccount(
	ctx context.Context, draft account.Draft, idempotencyKey string, maxAccounts int,
) (ids.AccountID, error) {
	var opened ids.AccountID
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockHouse); err != nil {
			return fmt.Errorf("lock house accounts: %w", err)
		}
		first, err := insertAccount(ctx, tx, draft, idempotencyKey)
		if err != nil {
			return err
		}
		opened = first.ID
		if first.ID != draft.ID {
			return isHouseAccount(ctx, tx, first, draft.Name)
		}
		var count int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM house_account`).Scan(&count); err != nil {
			return fmt.Errorf("count house accounts: %w", err)
		}
		if count >= maxAccounts {
			return house.ErrTooMany
		}
		if _, err := tx.Exec(ctx, `INSERT INTO house_account (account_id) VALUES ($1)`, [16]byte(first.ID)); err != nil {
			return fmt.Errorf("insert house account: %w", err)
		}
		return nil
	})
	return opened, err
}

// isHouseAccount returns account.ErrReused unless the first account of an idempotency key
// is a house account of this name.
func isHouseAccount(ctx context.Context, tx pgx.Tx, first account.Draft, name string) error {
	var known bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM house_account WHERE account_id = $1)`,
		[16]byte(first.ID)).Scan(&known); err != nil {
		return fmt.Errorf("look for house account: %w", err)
	}
	if !known || first.Name != name {
		return account.ErrReused
	}
	return nil
}

// FundHouseAccount posts an entry and moves the wallet in the same transaction; see
// house.Store.
func (s *Store) FundHouseAccount(
	ctx context.Context, entry ledger.Entry, id ids.AccountID, amount, daily money.NanoUSD,
) (ids.EntryID, money.NanoUSD, error) {
	posted, err := s.postAnd(ctx, []ledger.Entry{entry}, func(tx pgx.Tx, _ ledger.Entry) error {
		if _, err := tx.Exec(ctx, lockHouse); err != nil {
			return fmt.Errorf("lock house accounts: %w", err)
		}
		var given money.NanoUSD // this entry included
		if err := tx.QueryRow(ctx, `SELECT coalesce(sum(p.amount), 0)::bigint FROM entry e
			JOIN posting p ON p.entry_id = e.id AND p.account_kind = 'l:consumer:available'
			WHERE e.kind = 'verification' AND e.at > now() - interval '24 hours'`).Scan(&given); err != nil {
			return fmt.Errorf("sum what house accounts were given: %w", err)
		}
		if given > daily {
			return house.ErrSpent
		}
		return nil
	})
	switch {
	case errors.Is(err, ledger.ErrReused):
		return ids.EntryID{}, 0, account.ErrReused
	case errors.Is(err, ledger.ErrNoWallet), pg.IsCheck(err, "verification_funds_house_accounts"):
		return ids.EntryID{}, 0, account.ErrNotFound
	case errors.Is(err, ledger.ErrCeiling):
		return ids.EntryID{}, 0, account.ErrCeiling
	case err != nil:
		return ids.EntryID{}, 0, err
	}
	funded, err := s.Account(ctx, id)
	return posted[0], funded.Balance, err
}

// IssueHouseKey stores a new key of a house account.
func (s *Store) IssueHouseKey(ctx context.Context, k key.Key, maxKeys int) error {
	return s.issueKey(ctx, k, maxKeys, func(tx pgx.Tx) error {
		var known bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM house_account WHERE account_id = $1)`,
			[16]byte(k.Account)).Scan(&known); err != nil {
			return fmt.Errorf("look for house account: %w", err)
		}
		if !known {
			return key.ErrAccountNotFound
		}
		return nil
	})
}

// RevokeHouseKey ends a key of a house account for ever.
func (s *Store) RevokeHouseKey(ctx context.Context, id ids.KeyID) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		if err := lockWalletOf(ctx, tx, id); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE consumer_key SET state = 'revoked', revoked_at = now()
			WHERE id = $1 AND state = 'active' AND account_id IN (SELECT account_id FROM house_account)`, [16]byte(id))
		if err != nil {
			return fmt.Errorf("update house key: %w", err)
		}
		if tag.RowsAffected() == 1 {
			return nil
		}
		var known bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM consumer_key k
			JOIN house_account h ON h.account_id = k.account_id WHERE k.id = $1)`, [16]byte(id)).Scan(&known); err != nil {
			return fmt.Errorf("look for house key: %w", err)
		}
		if !known {
			return key.ErrNotFound
		}
		return nil
	})
}
