package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/batch"
)

var _ batch.PlanStore = Batches{}

// firstHeld begins the search for the first month with earnings by plan. One month leads to the next, because each has
// a row for every provider.
const firstHeld = `(SELECT min(month) FROM batch_account WHERE account = 'l:provider:plan_held'`

// DueMonths lists months that are to be closed; see batch.PlanStore.
func (s Batches) DueMonths(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, `
		WITH RECURSIVE held (month) AS (`+firstHeld+`)
			UNION ALL SELECT `+firstHeld+` AND month > held.month) FROM held WHERE held.month IS NOT NULL)
		SELECT month FROM (
			SELECT to_char(generate_series(date_trunc('month', min(day)), max(day), interval '1 month'), 'YYYY-MM') AS month
			FROM batch_day
			UNION SELECT month FROM held WHERE month IS NOT NULL) m
		WHERE (month || '-02')::date + interval '1 month' <= (SELECT max(day) FROM batch_day WHERE committed_at IS NOT NULL)
			AND NOT EXISTS (SELECT FROM plan_month p WHERE p.month = m.month) ORDER BY month`)
	if err != nil {
		return nil, fmt.Errorf("list months to close: %w", err)
	}
	months, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list months to close: %w", err)
	}
	return months, nil
}

// LastDay returns the last day that is committed; see batch.PlanStore.
func (s Batches) LastDay(ctx context.Context) (day time.Time, err error) {
	err = s.pool.QueryRow(ctx, `SELECT max(day) FROM batch_day WHERE committed_at IS NOT NULL`).Scan(&day)
	if err != nil {
		return day, fmt.Errorf("look for the last committed day: %w", err)
	}
	return day, nil
}

// CountMonth counts a month; see batch.PlanStore. The count is that of the lines, not of the balances that the ledger
// says.
func (s Batches) CountMonth(ctx context.Context, month string, through time.Time) (batch.MonthCount, error) {
	c := batch.MonthCount{Month: month, Through: through}
	err := s.inDay(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `WITH earned AS (
			SELECT provider_id, sum(amount) AS amount FROM batch_line
			WHERE month = $1 AND month <> '' AND day <= $2 AND kind IN `+moves+` GROUP BY provider_id HAVING sum(amount) > 0)
		SELECT coalesce(sum(amount), 0)::bigint, count(*),
			count(*) FILTER (WHERE EXISTS (SELECT FROM `+openBlocks+` AND b.provider_id = earned.provider_id))
		FROM earned`, month, through).Scan(&c.Earned, &c.Providers, &c.Blocked)
	})
	if err != nil {
		return c, fmt.Errorf("count a month: %w", err)
	}
	return c, nil
}

// KeepMonth keeps a closed month; see batch.PlanStore.
func (s Batches) KeepMonth(
	ctx context.Context, m batch.ClosedMonth, each func(add func([]batch.PlanShare) error) error,
) error {
	return s.inDay(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO plan_month (month, through, pool, earned, paid, providers, closed_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`, m.Month, m.Through, int64(m.Pool), int64(m.Earned),
			int64(m.Paid), m.Providers, m.At)
		if err != nil {
			return fmt.Errorf("keep a month: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil // another process has kept it
		}
		return each(func(shares []batch.PlanShare) error {
			rows := pgx.CopyFromSlice(len(shares), func(i int) ([]any, error) {
				p := &shares[i]
				return []any{m.Month, [16]byte(p.Provider), int64(p.Earned), int64(p.Paid), int64(p.Withheld),
					int64(p.WithheldPaid)}, nil
			})
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"plan_share"}, []string{"month", "provider_id", "earned", "paid",
				"withheld", "withheld_paid"}, rows)
			if err != nil {
				return fmt.Errorf("keep the shares of a month: %w", err)
			}
			return nil
		})
	})
}

// heldLate is the condition under which a request was held after its month was counted.
const heldLate = `EXISTS (SELECT FROM batch_line h WHERE h.request_id = l.request_id AND h.kind = 'held'
	AND h.day > m.through)`

// DueLate lists what was earned late and is not posted; see batch.PlanStore. What is held of it waits for its release.
func (s Batches) DueLate(ctx context.Context, limit int) ([]batch.Late, error) {
	rows, err := s.pool.Query(ctx, `SELECT l.month, l.day, l.provider_id,
			sum(CASE l.kind WHEN 'held' THEN -l.amount ELSE l.amount END)::bigint
		FROM plan_month m JOIN batch_line l ON l.month = m.month AND l.month <> '' AND l.day > m.through
		WHERE (l.kind IN ('plan', 'held') OR l.kind = 'released' AND `+heldLate+`)
			AND l.day <= (SELECT max(day) FROM batch_day WHERE committed_at IS NOT NULL)
			AND NOT EXISTS (SELECT FROM plan_late p WHERE p.month = l.month AND p.day = l.day AND p.provider_id = l.provider_id)
			AND NOT EXISTS (SELECT FROM `+openBlocks+` AND b.provider_id = l.provider_id)
		GROUP BY l.month, l.day, l.provider_id HAVING sum(CASE l.kind WHEN 'held' THEN -l.amount ELSE l.amount END) > 0
		ORDER BY l.month, l.day, l.provider_id LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list late earnings: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l batch.Late, err error) {
		return l, row.Scan(&l.Month, &l.Day, &l.Provider, &l.Amount)
	})
	if err != nil {
		return nil, fmt.Errorf("list late earnings: %w", err)
	}
	return list, nil
}

// DueReleases lists what was released of closed months and is not posted; see batch.PlanStore. What was released
// before the close shared in the pool.
func (s Batches) DueReleases(ctx context.Context, limit int) ([]batch.Release, error) {
	rows, err := s.pool.Query(ctx, `SELECT l.month, l.request_id
		FROM plan_month m JOIN batch_line l ON l.month = m.month AND l.month <> '' AND l.day > m.through
		WHERE l.kind = 'released' AND l.at > m.closed_at AND NOT `+heldLate+`
			AND l.day <= (SELECT max(day) FROM batch_day WHERE committed_at IS NOT NULL)
			AND NOT EXISTS (SELECT FROM plan_release p WHERE p.request_id = l.request_id)
		ORDER BY l.month, l.day, l.provider_id, l.line LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list released shares: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r batch.Release, err error) {
		return r, row.Scan(&r.Month, &r.Request)
	})
	if err != nil {
		return nil, fmt.Errorf("list released shares: %w", err)
	}
	return list, nil
}

// KeepLate keeps late earnings that are posted; see batch.PlanStore.
func (s Batches) KeepLate(ctx context.Context, l batch.Late, entry ids.EntryID) error {
	if _, err := s.pool.Exec(ctx, `INSERT INTO plan_late (month, day, provider_id, amount, entry_id)
		VALUES ($1, $2, $3, $4, $5) ON CONFLICT (month, day, provider_id) DO NOTHING`, l.Month, l.Day,
		[16]byte(l.Provider), int64(l.Amount), [16]byte(entry)); err != nil {
		return fmt.Errorf("keep late earnings: %w", err)
	}
	return nil
}

// KeepRelease keeps a released share that is posted; see batch.PlanStore.
func (s Batches) KeepRelease(ctx context.Context, r batch.Release, entry ids.EntryID) error {
	if _, err := s.pool.Exec(ctx, `INSERT INTO plan_release (request_id, month, entry_id) VALUES ($1, $2, $3)
		ON CONFLICT (request_id) DO NOTHING`, [16]byte(r.Request), r.Month, [16]byte(entry)); err != nil {
		return fmt.Errorf("keep a released share: %w", err)
	}
	return nil
}
