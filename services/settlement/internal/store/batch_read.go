package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/batch"
)

// Statement reads a statement; found is false where there is none.
func (s Batches) Statement(
	ctx context.Context, provider ids.ProviderID, day time.Time,
) (st batch.Stating, found bool, err error) {
	var entry *[16]byte
	err = s.pool.QueryRow(ctx, `SELECT statement, summary, coalesce(signature, ''), coalesce(signer, ''), posted, entry_id
		FROM batch_share WHERE day = $1 AND provider_id = $2`, day, [16]byte(provider)).
		Scan(&st.Statement, &st.Summary, &st.Signature, &st.Signer, &st.Posted, &entry)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return st, false, nil
	case err != nil:
		return st, false, fmt.Errorf("read a statement: %w", err)
	}
	if entry != nil {
		st.Entry = *entry
	}
	return st, true, nil
}

// Statements lists a provider's statements of the days before one, newest first.
func (s Batches) Statements(
	ctx context.Context, provider ids.ProviderID, before time.Time, limit int,
) ([]batch.Listed, error) {
	rows, err := s.pool.Query(ctx, `SELECT day, chain_id, amount, posted, lines, blocked, signature IS NOT NULL
		FROM batch_share WHERE provider_id = $1 AND day < $2 ORDER BY day DESC LIMIT $3`, [16]byte(provider), before, limit)
	if err != nil {
		return nil, fmt.Errorf("list statements: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l batch.Listed, err error) {
		return l, row.Scan(&l.Day, &l.Chain, &l.Amount, &l.Posted, &l.Lines, &l.Blocked, &l.Signed)
	})
	if err != nil {
		return nil, fmt.Errorf("list statements: %w", err)
	}
	return list, nil
}

// Lines reads the lines of a provider's committed day behind a number, in their order, into a list of at most its
// capacity.
func (s Batches) Lines(
	ctx context.Context, provider ids.ProviderID, day time.Time, after int64, into []batch.Line,
) ([]batch.Line, error) {
	rows, err := s.pool.Query(ctx, `SELECT provider_id, `+lineColumnsSQL+` FROM batch_line
		WHERE day = $1 AND provider_id = $2 AND line > $3 ORDER BY line LIMIT $4`, day, [16]byte(provider), after, cap(into))
	if err != nil {
		return nil, fmt.Errorf("read lines: %w", err)
	}
	into = into[:0]
	for rows.Next() {
		l, err := scanLine(rows)
		if err != nil {
			rows.Close()
			return nil, fmt.Errorf("read lines: %w", err)
		}
		into = append(into, l)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read lines: %w", err)
	}
	return into, nil
}

// DaysWithLines lists the committed days of a period on which a provider has lines.
func (s Batches) DaysWithLines(ctx context.Context, provider ids.ProviderID, from, to time.Time) ([]time.Time, error) {
	rows, err := s.pool.Query(ctx, `SELECT day FROM batch_share WHERE provider_id = $1 AND day BETWEEN $2 AND $3
		AND lines > 0 ORDER BY day`, [16]byte(provider), from, to)
	if err != nil {
		return nil, fmt.Errorf("list days: %w", err)
	}
	days, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return nil, fmt.Errorf("list days: %w", err)
	}
	return days, nil
}

// PlanMonth reads a closed month; found is false for another one.
func (s Batches) PlanMonth(ctx context.Context, month string) (m batch.ClosedMonth, found bool, err error) {
	m.Month = month
	err = s.pool.QueryRow(ctx, `SELECT through, pool, earned, paid, providers, closed_at FROM plan_month WHERE month = $1`,
		month).Scan(&m.Through, &m.Pool, &m.Earned, &m.Paid, &m.Providers, &m.At)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return m, false, nil
	case err != nil:
		return m, false, fmt.Errorf("read a closed month: %w", err)
	}
	return m, true, nil
}

// Overview reads how far batches are, whether a provider is blocked, and its shares of closed months, newest first.
func (s Batches) Overview(ctx context.Context, provider ids.ProviderID, months int) (o batch.Overview, err error) {
	var through *time.Time
	if err := s.pool.QueryRow(ctx, `SELECT (SELECT max(day) FROM batch_day WHERE committed_at IS NOT NULL),
		EXISTS (SELECT FROM `+openBlocks+` AND b.provider_id = $1)`, [16]byte(provider)).
		Scan(&through, &o.Blocked); err != nil {
		return o, fmt.Errorf("read how far batches are: %w", err)
	}
	if through != nil {
		o.Through = *through
	}
	rows, err := s.pool.Query(ctx, `SELECT month, earned, paid, withheld, withheld_paid FROM plan_share
		WHERE provider_id = $1 ORDER BY month DESC LIMIT $2`, [16]byte(provider), months)
	if err != nil {
		return o, fmt.Errorf("read the shares of a provider: %w", err)
	}
	o.Months, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (m batch.MonthShare, err error) {
		return m, row.Scan(&m.Month, &m.Earned, &m.Paid, &m.Withheld, &m.WithheldPaid)
	})
	if err != nil {
		return o, fmt.Errorf("read the shares of a provider: %w", err)
	}
	return o, nil
}

// Backlog counts what days and months wait for.
func (s Batches) Backlog(ctx context.Context) (b batch.Backlog, err error) {
	err = s.pool.QueryRow(ctx, `SELECT (SELECT count(DISTINCT b.provider_id) FROM `+openBlocks+`),
		(SELECT count(*) FROM batch_share s JOIN batch_day d USING (day) WHERE s.posted IS NULL
			AND d.committed_at < clock_timestamp() - interval '1 hour'),
		(SELECT count(*) FROM batch_share s JOIN batch_day d USING (day) WHERE s.signature IS NULL
			AND d.committed_at < clock_timestamp() - interval '1 hour'),
		coalesce((now() AT TIME ZONE 'UTC')::date - 1 - coalesce(
			(SELECT max(day) FROM batch_day WHERE committed_at IS NOT NULL),
			(SELECT min(day) - 1 FROM earning_line)), 0)`).
		Scan(&b.Blocked, &b.Unposted, &b.Unsigned, &b.Behind)
	if err != nil {
		return b, fmt.Errorf("count what waits: %w", err)
	}
	return b, nil
}
