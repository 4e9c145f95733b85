package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
)

// CloseMonth closes a month of plans; see posting.MonthStore. The pool, the earnings and
// what is held of them are read under the locks of all that could move them.
func (s *Store) CloseMonth(
	ctx context.Context, m posting.Month, newID func() (ids.EntryID, error),
) (closed posting.Closed, err error) {
	_, err = s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) {
		// Who waits for another one's close finds the month closed.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('billing.plan_pool'), hashtext($1))`,
			string(m.Month)); err != nil {
			return nil, fmt.Errorf("lock the pool: %w", err)
		}
		if closed, err = readClosed(ctx, tx, m.Month); err == nil {
			return nil, m.Check(closed)
		}
		if !errors.Is(err, posting.ErrMonthOpen) {
			return nil, err
		}
		pool, shares, err := readMonth(ctx, tx, m)
		if err != nil {
			return nil, err
		}
		if closed, err = m.Close(pool, shares); err != nil {
			return nil, err
		}
		entries, err := ledger.PlanClose(newID, m.Month, pool, closed.Shares)
		if err != nil {
			return nil, err
		}
		if err := insertClosed(ctx, tx, closed); err != nil {
			return nil, err
		}
		return post(ctx, tx, entries, nil)
	})
	return closed, err
}

// ClosedMonth reads a closed month; see posting.MonthStore.
func (s *Store) ClosedMonth(ctx context.Context, month ledger.Month) (posting.Closed, error) {
	return readClosed(ctx, s.pool, month)
}

const selectPool = `SELECT coalesce(sum(amount), 0)::bigint FROM posting
	WHERE account_kind = 'l:plan_pool' AND book = $1`

// MonthPool reads the pool of a month; see posting.MonthStore.
func (s *Store) MonthPool(ctx context.Context, month ledger.Month) (pool money.NanoUSD, err error) {
	if err := s.pool.QueryRow(ctx, selectPool, string(month)).Scan(&pool); err != nil {
		return 0, fmt.Errorf("read the pool: %w", err)
	}
	return pool, nil
}

// rower is the part of a pool or a transaction that reads one row.
type rower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func readClosed(ctx context.Context, from rower, month ledger.Month) (posting.Closed, error) {
	c := posting.Closed{Month: posting.Month{Month: month}}
	err := from.QueryRow(ctx, `SELECT through, pool, earned, paid, providers, closed_at
		FROM closed_month WHERE month = $1`, string(month)).Scan(&c.Through, &c.Pool, &c.Earned, &c.Paid, &c.Providers, &c.At)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return c, posting.ErrMonthOpen
	case err != nil:
		return c, fmt.Errorf("read a closed month: %w", err)
	}
	return c, nil
}

// MonthShares lists the shares of a closed month; see posting.MonthStore.
func (s *Store) MonthShares(
	ctx context.Context, month ledger.Month, after ids.ProviderID, limit int,
) ([]ledger.Share, error) {
	if _, err := readClosed(ctx, s.pool, month); err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, `SELECT provider_id, earned, paid, withheld, withheld_paid FROM closed_share
		WHERE month = $1 AND provider_id > $2 ORDER BY provider_id LIMIT $3`, string(month), [16]byte(after), limit)
	if err != nil {
		return nil, fmt.Errorf("read the shares of a month: %w", err)
	}
	shares, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (sh ledger.Share, err error) {
		var provider [16]byte
		err = row.Scan(&provider, &sh.Earned, &sh.Paid, &sh.Withheld, &sh.WithheldPaid)
		sh.Provider = provider
		return sh, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the shares of a month: %w", err)
	}
	return shares, nil
}

// readMonth reads the pool of a month and what providers earned by its plans up to a sealed
// day, under locks.
func readMonth(ctx context.Context, tx pgx.Tx, m posting.Month) (money.NanoUSD, []ledger.Share, error) {
	var sealed bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM seal WHERE day = $1)`, m.Through).Scan(&sealed); err != nil {
		return 0, nil, fmt.Errorf("look for a seal: %w", err)
	}
	if !sealed {
		return 0, nil, earning.ErrDayOpen
	}
	var pool money.NanoUSD
	if _, err := tx.Exec(ctx, `SELECT lock_earnings(array_agg(DISTINCT owner_id)) FROM balance_snapshot
		WHERE account_kind = 'l:provider:plan_held' AND book = $1`, string(m.Month)); err != nil {
		return 0, nil, fmt.Errorf("lock earnings: %w", err)
	}
	if err := withhold(ctx, tx, m); err != nil {
		return 0, nil, err
	}
	if err := tx.QueryRow(ctx, selectPool, string(m.Month)).Scan(&pool); err != nil {
		return 0, nil, fmt.Errorf("read the pool: %w", err)
	}
	rows, err := tx.Query(ctx, monthShares, string(m.Month), m.Through)
	if err != nil {
		return 0, nil, fmt.Errorf("read the earnings of a month: %w", err)
	}
	shares, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (sh ledger.Share, err error) {
		var provider [16]byte
		err = row.Scan(&provider, &sh.Earned, &sh.Withheld, &sh.Owed)
		sh.Provider = provider
		return sh, err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("read the earnings of a month: %w", err)
	}
	return pool, shares, nil
}

// withhold marks what is held of a month that is being closed. Whoever rules of it at once
// waits for the close, or has ended it before.
func withhold(ctx context.Context, tx pgx.Tx, m posting.Month) error {
	if _, err := tx.Exec(ctx, `UPDATE held_earning SET withheld = true WHERE request_id IN (
			SELECT request_id FROM held_earning WHERE book = $1 AND ended_as IS NULL
				AND held_at < ($2::date + 1)::timestamp AT TIME ZONE 'UTC' ORDER BY request_id FOR UPDATE)`,
		string(m.Month), m.Through); err != nil {
		return fmt.Errorf("withhold what is held: %w", err)
	}
	return nil
}

// monthShares are what providers have earned by the plans of the month $1 up to the sealed
// day $2, what is held of it, and what they owe. What was forfeited since counts no more.
const monthShares = `
	WITH parts AS (
		(SELECT DISTINCT ON (owner_id) owner_id, balance AS amount FROM balance_snapshot
		WHERE account_kind = 'l:provider:plan_held' AND book = $1 AND asset = 'usd' AND day <= $2
		ORDER BY owner_id, day DESC)
		UNION ALL
		SELECT p.owner_id, p.amount FROM posting p JOIN entry e ON e.id = p.entry_id
		WHERE p.account_kind = 'l:provider:plan_held' AND p.book = $1
			AND e.at >= ($2::date + 1)::timestamp AT TIME ZONE 'UTC'
	), earned AS (
		SELECT owner_id, sum(amount)::bigint AS amount FROM parts GROUP BY owner_id HAVING sum(amount) > 0
	), held AS (
		SELECT provider_id, sum(payout)::bigint AS amount FROM held_earning
		WHERE book = $1 AND book <> '' AND withheld GROUP BY provider_id
	)
	SELECT owner_id, earned.amount, coalesce(held.amount, 0),
		-provider_balance('a:provider_receivable', owner_id, '')
	FROM earned LEFT JOIN held ON held.provider_id = owner_id ORDER BY owner_id`

func insertClosed(ctx context.Context, tx pgx.Tx, c posting.Closed) error {
	if _, err := tx.Exec(ctx, `INSERT INTO closed_month (month, through, pool, earned, paid, providers)
		VALUES ($1, $2, $3, $4, $5, $6)`, string(c.Month.Month), c.Through, int64(c.Pool), int64(c.Earned), int64(c.Paid),
		c.Providers); err != nil {
		return fmt.Errorf("close a month: %w", err)
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"closed_share"},
		[]string{"month", "provider_id", "earned", "paid", "withheld", "withheld_paid"},
		pgx.CopyFromSlice(len(c.Shares), func(i int) ([]any, error) {
			s := c.Shares[i]
			return []any{string(c.Month.Month), [16]byte(s.Provider), int64(s.Earned), int64(s.Paid), int64(s.Withheld),
				int64(s.WithheldPaid)}, nil
		}))
	if err != nil {
		return fmt.Errorf("keep the shares of a month: %w", err)
	}
	return nil
}

// ShareReleased posts the share of earnings that were held when their month was closed and
// are released; see posting.MonthStore.
func (s *Store) ShareReleased(ctx context.Context, id ids.EntryID, request ids.RequestID) (ids.EntryID, error) {
	posted, err := s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) {
		held, err := readReleased(ctx, tx, request)
		if err != nil {
			return nil, err
		}
		var first [16]byte
		err = tx.QueryRow(ctx, `SELECT entry_id FROM withheld_end WHERE request_id = $1`, [16]byte(request)).Scan(&first)
		if err == nil {
			return []ids.EntryID{first}, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, fmt.Errorf("look for a shared earning: %w", err)
		}
		e, err := held.Entry(id)
		if err != nil {
			return nil, err
		}
		return post(ctx, tx, []ledger.Entry{e}, nil)
	})
	if err != nil {
		return ids.EntryID{}, err
	}
	return posted[0], nil
}

// readReleased reads what was held of a request at the close of its month and is released,
// and what waits of its provider's share, under the provider's lock.
func readReleased(ctx context.Context, tx pgx.Tx, request ids.RequestID) (posting.Released, error) {
	r := posting.Released{Request: request}
	var provider [16]byte
	err := tx.QueryRow(ctx, `SELECT provider_id, book, payout FROM held_earning
		WHERE request_id = $1 AND withheld AND ended_as = 'released'`, [16]byte(request)).
		Scan(&provider, &r.Month, &r.Earned)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return r, posting.ErrNotReleased
	case err != nil:
		return r, fmt.Errorf("read a released earning: %w", err)
	}
	r.Provider = provider
	if err := lockEarnings(ctx, tx, provider); err != nil {
		return r, err
	}
	if err := tx.QueryRow(ctx, `SELECT -provider_balance('a:provider_receivable', $1, '')`, provider).
		Scan(&r.Owed); err != nil {
		return r, fmt.Errorf("read what a provider owes: %w", err)
	}
	r.Waits, err = readWaits(ctx, tx, r.Month, r.Provider)
	return r, err
}

// readWaits reads what waits of a provider's share of a closed month. The caller has the
// provider's lock.
func readWaits(
	ctx context.Context, tx pgx.Tx, month ledger.Month, provider ids.ProviderID,
) (ledger.Withheld, error) {
	var w ledger.Withheld
	err := tx.QueryRow(ctx, `SELECT s.withheld - coalesce(e.earned, 0), s.withheld_paid - coalesce(e.paid, 0)
		FROM closed_share s CROSS JOIN LATERAL (
			SELECT sum(earned)::bigint AS earned, sum(paid)::bigint AS paid FROM withheld_end w
			WHERE w.month = s.month AND w.provider_id = s.provider_id) e
		WHERE s.month = $1 AND s.provider_id = $2`, string(month), [16]byte(provider)).Scan(&w.Earned, &w.Paid)
	if err != nil {
		return w, fmt.Errorf("read what waits of a share: %w", err)
	}
	return w, nil
}
