package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/revalue"
)

// Revaluations keeps how coins were valued.
type Revaluations struct{ *Store }

var _ revalue.Store = Revaluations{}

// Days returns today and the last day of each coin; see revalue.Store.
func (s Revaluations) Days(ctx context.Context) (today time.Time, last map[string]time.Time, err error) {
	if err := s.pool.QueryRow(ctx, `SELECT (now() AT TIME ZONE 'UTC')::date`).Scan(&today); err != nil {
		return today, nil, fmt.Errorf("ask for the day: %w", err)
	}
	rows, err := s.pool.Query(ctx, `SELECT token, max(day) FROM revaluation GROUP BY token`)
	if err != nil {
		return today, nil, fmt.Errorf("read revaluations: %w", err)
	}
	last = map[string]time.Time{}
	var token string
	var day time.Time
	if _, err := pgx.ForEachRow(rows, []any{&token, &day}, func() error {
		last[token] = day
		return nil
	}); err != nil {
		return today, nil, fmt.Errorf("read revaluations: %w", err)
	}
	return today, last, nil
}

// Keep keeps a revaluation; see revalue.Store. An entry takes the place of another process's word that nothing
// changed. Of two processes that keep one entry at once, the second may meet the entry before it meets the day, which
// is no conflict that the statement handles: once the first has committed, it is.
func (s Revaluations) Keep(ctx context.Context, r revalue.Revaluation) error {
	err := s.keep(ctx, r)
	if pg.IsUnique(err, "revaluation_entry_id_key") {
		err = s.keep(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("keep the revaluation of %s: %w", r.Token, err)
	}
	return nil
}

func (s Revaluations) keep(ctx context.Context, r revalue.Revaluation) error {
	var entry *[16]byte
	if !r.Entry.IsZero() {
		entry = (*[16]byte)(&r.Entry)
	}
	_, err := s.pool.Exec(ctx, `INSERT INTO revaluation (day, token, units, booked, worth, rate, source, quoted_at,
			entry_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (day, token) DO UPDATE SET units = excluded.units, booked = excluded.booked, worth = excluded.worth,
			rate = excluded.rate, source = excluded.source, quoted_at = excluded.quoted_at, entry_id = excluded.entry_id
		WHERE revaluation.entry_id IS NULL AND excluded.entry_id IS NOT NULL`,
		r.Day, r.Token, r.Units, int64(r.Booked), int64(r.Worth), int64(r.Quote.Rate), r.Quote.Source, r.Quote.At, entry)
	return err
}
