package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/limit"
)

// querier is the part of a pool or a transaction that reads one row.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CreateAccount opens an account with an empty wallet; see account.Store.
func (s *Store) CreateAccount(
	ctx context.Context, id ids.AccountID, name, idempotencyKey string,
) (account.Account, error) {
	var created account.Account
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		first, err := insertAccount(ctx, tx, account.Draft{ID: id, Name: name}, idempotencyKey)
		if err != nil {
			return err
		}
		if first.Name != name {
			return account.ErrReused
		}
		if first.ID == id {
			if err := addAct(ctx, tx, createdAccount, [16]byte(id), details{"name": name}); err != nil {
				return err
			}
		}
		created, err = readAccount(ctx, tx, first.ID)
		return err
	})
	return created, err
}

// insertAccount opens an account, or finds the first account of the idempotency key.
func insertAccount(ctx context.Context, tx pgx.Tx, draft account.Draft, idempotencyKey string) (account.Draft, error) {
	var id [16]byte
	var name string
	// A repeat that arrives while the first call is under way waits for it here.
	err := tx.QueryRow(ctx, `INSERT INTO account (id, name, idempotency_key) VALUES ($1, $2, nullif($3, ''))
		ON CONFLICT (idempotency_key) DO NOTHING RETURNING id, name`,
		[16]byte(draft.ID), draft.Name, idempotencyKey).Scan(&id, &name)
	switch {
	case err == nil:
		if _, err := tx.Exec(ctx, `INSERT INTO wallet (account_id) VALUES ($1)`, id); err != nil {
			return account.Draft{}, fmt.Errorf("insert wallet: %w", err)
		}
	case errors.Is(err, pgx.ErrNoRows):
		if err := tx.QueryRow(ctx, `SELECT id, name FROM account WHERE idempotency_key = $1`, idempotencyKey).Scan(&id,
			&name); err != nil {
			return account.Draft{}, fmt.Errorf("find the first account: %w", err)
		}
	default:
		return account.Draft{}, fmt.Errorf("insert account: %w", err)
	}
	return account.Draft{ID: id, Name: name}, nil
}

// Account reads an account with its balance.
func (s *Store) Account(ctx context.Context, id ids.AccountID) (account.Account, error) {
	return readAccount(ctx, s.pool, id)
}

func readAccount(ctx context.Context, q querier, id ids.AccountID) (account.Account, error) {
	a := account.Account{ID: id}
	err := q.QueryRow(ctx, `SELECT a.name, a.state, a.created_at, w.posted, `+heldByRequests+`,
			coalesce(l.requests_per_minute, 0), coalesce(l.concurrent_requests, 0), l.day_cap, l.month_cap
		FROM account a JOIN wallet w ON w.account_id = a.id LEFT JOIN account_limits l ON l.account_id = a.id
		WHERE a.id = $1`, [16]byte(id)).
		Scan(&a.Name, &a.State, &a.CreatedAt, &a.Balance, &a.Held, &a.Limits.RequestsPerMinute, &a.Limits.ConcurrentRequests,
			&a.Limits.Day, &a.Limits.Month)
	if errors.Is(err, pgx.ErrNoRows) {
		return account.Account{}, account.ErrNotFound
	}
	if err != nil {
		return account.Account{}, fmt.Errorf("select account: %w", err)
	}
	return a, nil
}

// Grant posts an entry and moves the wallet in the same transaction; see account.Store.
func (s *Store) Grant(ctx context.Context, entry ledger.Entry, id ids.AccountID) (ids.EntryID, account.Account, error) {
	posted, err := s.postAnd(ctx, []ledger.Entry{entry}, func(tx pgx.Tx, fresh ledger.Entry) error {
		amount := moved([]ledger.Entry{fresh})[[16]byte(id)]
		return addAct(ctx, tx, grantedCredit, [16]byte(id), details{"entry_id": fresh.ID.String(),
			"amount_usd": amount.String(), "memo": fresh.Memo})
	})
	switch {
	case errors.Is(err, ledger.ErrReused):
		return ids.EntryID{}, account.Account{}, account.ErrReused
	case errors.Is(err, ledger.ErrNoWallet):
		return ids.EntryID{}, account.Account{}, account.ErrNotFound
	case errors.Is(err, ledger.ErrCeiling):
		return ids.EntryID{}, account.Account{}, account.ErrCeiling
	case err != nil:
		return ids.EntryID{}, account.Account{}, err
	}
	credited, err := s.Account(ctx, id)
	return posted[0], credited, err
}

// SetLimits replaces an account's limits.
func (s *Store) SetLimits(ctx context.Context, id ids.AccountID, limits limit.Limits) (account.Account, error) {
	var changed account.Account
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		// An admission under way ends first, and the next one reads the new limits.
		if _, err := tx.Exec(ctx, `SELECT FROM wallet WHERE account_id = $1 FOR UPDATE`, [16]byte(id)); err != nil {
			return fmt.Errorf("lock wallet: %w", err)
		}
		tag, err := tx.Exec(ctx, `INSERT INTO account_limits (account_id, requests_per_minute, concurrent_requests, day_cap,
				month_cap)
			SELECT id, $2, $3, $4, $5 FROM account WHERE id = $1
			ON CONFLICT (account_id) DO UPDATE SET requests_per_minute = excluded.requests_per_minute,
				concurrent_requests = excluded.concurrent_requests, day_cap = excluded.day_cap, month_cap = excluded.month_cap
			WHERE (account_limits.requests_per_minute, account_limits.concurrent_requests, account_limits.day_cap,
					account_limits.month_cap)
				IS DISTINCT FROM (excluded.requests_per_minute, excluded.concurrent_requests, excluded.day_cap,
					excluded.month_cap)`,
			[16]byte(id), limits.RequestsPerMinute, limits.ConcurrentRequests, (*int64)(limits.Day), (*int64)(limits.Month))
		if err != nil {
			return fmt.Errorf("upsert limits: %w", err)
		}
		// The same limits again change nothing, and limits of an unknown account are not
		// found below.
		if tag.RowsAffected() > 0 {
			if err := addAct(ctx, tx, setLimits, [16]byte(id), details{
				"requests_per_minute": limits.RequestsPerMinute, "concurrent_requests": limits.ConcurrentRequests,
				"day_cap_usd": limits.Day, "month_cap_usd": limits.Month,
			}); err != nil {
				return err
			}
		}
		changed, err = readAccount(ctx, tx, id)
		return err
	})
	return changed, err
}
