package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/playground"
)

// PlaygroundDay reads how the playground stands; see playground.Store.
func (s *Store) PlaygroundDay(ctx context.Context, budget money.NanoUSD) (playground.Day, error) {
	var (
		day     playground.Day
		account [16]byte
		active  *[16]byte
		now     time.Time
	)
	err := s.pool.QueryRow(ctx, `SELECT p.account_id, k.id,
			d.budget IS NOT DISTINCT FROM $1 AND l.own_day_cap IS NOT DISTINCT FROM $1,
			coalesce(c.spent + c.held, 0) > $1 - $2, (w.day + 1)::timestamp AT TIME ZONE 'UTC', now()
		FROM playground_account p CROSS JOIN (SELECT (now() AT TIME ZONE 'UTC')::date AS day) w
		LEFT JOIN playground_day d ON d.day = w.day
		LEFT JOIN account_limits l ON l.account_id = p.account_id
		LEFT JOIN spend_counter c ON c.owner_id = p.account_id AND c.period = 'day' AND c.window_start = w.day
		LEFT JOIN LATERAL (SELECT id FROM consumer_key WHERE account_id = p.account_id AND state = 'active'
			ORDER BY id DESC LIMIT 1) k ON true`, int64(budget), int64(playground.LeastLeft)).
		Scan(&account, &active, &day.Open, &day.Spent, &day.ResetsAt, &now)
	if errors.Is(err, pgx.ErrNoRows) {
		return playground.Day{}, nil
	}
	if err != nil {
		return playground.Day{}, fmt.Errorf("read the day of the playground: %w", err)
	}
	day.Payer.Account, day.Wait = account, day.ResetsAt.Sub(now)
	if active == nil {
		day.Open = false
		return day, nil
	}
	day.Payer.Key = *active
	return day, nil
}

// OpenPlaygroundDay opens a day, with all that it needs, in one transaction; see
// playground.Store.
func (s *Store) OpenPlaygroundDay(ctx context.Context, o playground.Opening) error {
	_, err := s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) {
		// It keeps two calls from opening two accounts.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('billing.playground'))`); err != nil {
			return nil, fmt.Errorf("lock the playground: %w", err)
		}
		account, err := playgroundAccount(ctx, tx, o)
		if err != nil {
			return nil, err
		}
		if err := keyOfPlayground(ctx, tx, o.Key, account); err != nil {
			return nil, err
		}
		lacks, err := setPlaygroundBudget(ctx, tx, account, o.Budget)
		if err != nil || lacks <= 0 {
			return nil, err
		}
		return post(ctx, tx, []ledger.Entry{ledger.FundPlayground(o.Entry, account, lacks)}, nil)
	})
	return err
}

// playgroundAccount finds the account that pays, or opens it without limits, and locks its
// wallet.
func playgroundAccount(ctx context.Context, tx pgx.Tx, o playground.Opening) (ids.AccountID, error) {
	var id [16]byte
	err := tx.QueryRow(ctx, `SELECT p.account_id FROM playground_account p JOIN wallet w USING (account_id)
		FOR UPDATE OF w`).Scan(&id)
	switch {
	case err == nil:
		return id, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return id, fmt.Errorf("look for the account of the playground: %w", err)
	}
	opened, err := insertAccount(ctx, tx, o.Account, "")
	if err != nil {
		return id, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO playground_account (account_id) VALUES ($1)`,
		[16]byte(opened.ID)); err != nil {
		return id, fmt.Errorf("insert the account of the playground: %w", err)
	}
	// -1 is without limit.
	if _, err := tx.Exec(ctx, `INSERT INTO account_limits (account_id, requests_per_minute, concurrent_requests)
		VALUES ($1, -1, -1)`, [16]byte(opened.ID)); err != nil {
		return id, fmt.Errorf("insert limits: %w", err)
	}
	return opened.ID, nil
}

// keyOfPlayground issues a key unless the account has an active one. An operator who revoked
// many keys today gets no more.
func keyOfPlayground(ctx context.Context, tx pgx.Tx, k key.Key, account ids.AccountID) error {
	var active bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM consumer_key WHERE account_id = $1 AND state = 'active')`,
		[16]byte(account)).Scan(&active); err != nil {
		return fmt.Errorf("look for a key: %w", err)
	}
	if active {
		return nil
	}
	if err := roomForKey(ctx, tx, account, playground.MaxKeys); err != nil {
		return err
	}
	k.Account = account
	return insertKey(ctx, tx, k)
}

// setPlaygroundBudget notes the budget of today and makes it the account's own cap. It
// returns what the account lacks of the budget: what it has, and what was spent today, count.
func setPlaygroundBudget(
	ctx context.Context, tx pgx.Tx, account ids.AccountID, budget money.NanoUSD,
) (lacks money.NanoUSD, err error) {
	if _, err := tx.Exec(ctx, `INSERT INTO playground_day AS d (day, budget) VALUES ((now() AT TIME ZONE 'UTC')::date, $1)
		ON CONFLICT (day) DO UPDATE SET budget = excluded.budget WHERE d.budget <> excluded.budget`,
		int64(budget)); err != nil {
		return 0, fmt.Errorf("note the budget of the playground: %w", err)
	}
	if _, err := tx.Exec(ctx, `UPDATE account_limits SET own_day_cap = $2
		WHERE account_id = $1 AND own_day_cap IS DISTINCT FROM $2`, [16]byte(account), int64(budget)); err != nil {
		return 0, fmt.Errorf("set the cap of the playground: %w", err)
	}
	if err := tx.QueryRow(ctx, `SELECT $2 - w.posted - coalesce((SELECT c.spent FROM spend_counter c
			WHERE c.owner_id = w.account_id AND c.period = 'day' AND c.window_start = (now() AT TIME ZONE 'UTC')::date), 0)
		FROM wallet w WHERE w.account_id = $1`, [16]byte(account), int64(budget)).Scan(&lacks); err != nil {
		return 0, fmt.Errorf("read what the playground lacks: %w", err)
	}
	return lacks, nil
}
