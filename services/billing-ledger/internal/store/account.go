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
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/limit"
)

// querier is what reading needs of a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CreateAccount opens an account with an empty wallet; see account.Store.
func (s *Store) CreateAccount(ctx context.Context, id ids.AccountID, name, idempotencyKey string) (account.Account, error) {
	var created account.Account
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		var first [16]byte
		var firstName string
		// A repeat that comes while the first is under way waits for it here.
		err := tx.QueryRow(ctx, `INSERT INTO account (id, name, idempotency_key) VALUES ($1, $2, nullif($3, ''))
			ON CONFLICT (idempotency_key) DO NOTHING RETURNING id, name`,
			[16]byte(id), name, idempotencyKey).Scan(&first, &firstName)
		switch {
		case err == nil:
			if _, err := tx.Exec(ctx, `INSERT INTO wallet (account_id) VALUES ($1)`, first); err != nil {
				return fmt.Errorf("insert wallet: %w", err)
			}
		case errors.Is(err, pgx.ErrNoRows):
			if err := tx.QueryRow(ctx, `SELECT id, name FROM account WHERE idempotency_key = $1`, idempotencyKey).
				Scan(&first, &firstName); err != nil {
				return fmt.Errorf("find the first account: %w", err)
			}
		default:
			return fmt.Errorf("insert account: %w", err)
		}
		if firstName != name {
			return account.ErrReused
		}
		created, err = readAccount(ctx, tx, ids.AccountID(first))
		return err
	})
	return created, err
}

// Account reads an account with its balance.
func (s *Store) Account(ctx context.Context, id ids.AccountID) (account.Account, error) {
	found, err := readAccount(ctx, s.pool, id)
	return found, reachable(err)
}

func readAccount(ctx context.Context, q querier, id ids.AccountID) (account.Account, error) {
	a := account.Account{ID: id}
	err := q.QueryRow(ctx, `SELECT a.name, a.created_at, w.posted, w.held,
			coalesce(l.requests_per_minute, 0), coalesce(l.concurrent_requests, 0)
		FROM account a JOIN wallet w ON w.account_id = a.id LEFT JOIN account_limits l ON l.account_id = a.id
		WHERE a.id = $1`, [16]byte(id)).
		Scan(&a.Name, &a.CreatedAt, &a.Balance, &a.Held, &a.Limits.RequestsPerMinute, &a.Limits.ConcurrentRequests)
	if errors.Is(err, pgx.ErrNoRows) {
		return account.Account{}, account.ErrNotFound
	}
	if err != nil {
		return account.Account{}, fmt.Errorf("select account: %w", err)
	}
	return a, nil
}

// Grant posts an entry and moves the wallet with it; see account.Store.
func (s *Store) Grant(ctx context.Context, entry ledger.Entry, id ids.AccountID, amount money.NanoUSD) (ids.EntryID, account.Account, error) {
	if err := entry.Validate(); err != nil {
		return ids.EntryID{}, account.Account{}, fmt.Errorf("grant: %w", err)
	}
	posted := entry.ID
	var credited account.Account
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		first, err := grantedBefore(ctx, tx, entry, id, amount)
		if err != nil {
			return err
		}
		if posted = first; first.IsZero() {
			posted = entry.ID
			if err := grant(ctx, tx, entry, id, amount); err != nil {
				return err
			}
		}
		credited, err = readAccount(ctx, tx, id)
		return err
	})
	if pg.IsUnique(err, "entry_kind_business_id_key") {
		// A repeat of the same fact was under way and is there now.
		return s.repeatedGrant(ctx, entry, id, amount)
	}
	return posted, credited, err
}

func (s *Store) repeatedGrant(ctx context.Context, entry ledger.Entry, id ids.AccountID, amount money.NanoUSD) (ids.EntryID, account.Account, error) {
	first, err := grantedBefore(ctx, s.pool, entry, id, amount)
	if err != nil {
		return ids.EntryID{}, account.Account{}, reachable(err)
	}
	found, err := s.Account(ctx, id)
	return first, found, err
}

// grantedBefore is the entry that stands for the same business id, or zero. It
// must be of the same account and amount.
func grantedBefore(ctx context.Context, q querier, entry ledger.Entry, id ids.AccountID, amount money.NanoUSD) (ids.EntryID, error) {
	var first, owner [16]byte
	var granted int64
	err := q.QueryRow(ctx, `SELECT e.id, p.owner_id, p.amount FROM entry e JOIN posting p ON p.entry_id = e.id
		WHERE e.kind = $1 AND e.business_id = $2 AND p.account_kind = $3`,
		string(entry.Kind), entry.BusinessID, string(ledger.Available)).Scan(&first, &owner, &granted)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return ids.EntryID{}, nil
	case err != nil:
		return ids.EntryID{}, fmt.Errorf("look for the entry: %w", err)
	case owner != id || granted != int64(amount):
		return ids.EntryID{}, account.ErrReused
	}
	return ids.EntryID(first), nil
}

func grant(ctx context.Context, tx pgx.Tx, entry ledger.Entry, id ids.AccountID, amount money.NanoUSD) error {
	tag, err := tx.Exec(ctx, `UPDATE wallet SET posted = posted + $2 WHERE account_id = $1`, [16]byte(id), int64(amount))
	switch {
	case pg.IsCheck(err, "wallet_ceiling"):
		return account.ErrCeiling
	case err != nil:
		return fmt.Errorf("credit wallet: %w", err)
	case tag.RowsAffected() == 0:
		return account.ErrNotFound
	}
	batch := &pgx.Batch{}
	insertEntry(batch, entry)
	if err := sendAll(ctx, tx, batch); err != nil {
		return fmt.Errorf("post entry: %w", err)
	}
	return nil
}

// SetLimits replaces an account's limits.
func (s *Store) SetLimits(ctx context.Context, id ids.AccountID, limits limit.Limits) (account.Account, error) {
	var changed account.Account
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO account_limits (account_id, requests_per_minute, concurrent_requests)
			SELECT id, $2, $3 FROM account WHERE id = $1
			ON CONFLICT (account_id) DO UPDATE SET requests_per_minute = excluded.requests_per_minute,
				concurrent_requests = excluded.concurrent_requests`,
			[16]byte(id), limits.RequestsPerMinute, limits.ConcurrentRequests)
		if err != nil {
			return fmt.Errorf("upsert limits: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return account.ErrNotFound
		}
		changed, err = readAccount(ctx, tx, id)
		return err
	})
	return changed, err
}
