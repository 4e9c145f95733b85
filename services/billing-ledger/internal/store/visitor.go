package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/limit"
)

// TakeVisit takes a visit of an address under the lock on its row; see limit.VisitStore. A
// visit that finds no room takes no lock, because room comes with time alone.
func (s *Store) TakeVisit(ctx context.Context, v limit.Visit) (left limit.VisitsLeft, err error) {
	if err := s.roomFor(ctx, v); err != nil {
		return left, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		left, err = takeVisit(ctx, tx, v)
		return err
	})
	return left, err
}

// takeVisit takes a visit of an address under the lock on its row.
func takeVisit(ctx context.Context, tx pgx.Tx, v limit.Visit) (left limit.VisitsLeft, err error) {
	var made []time.Time
	var now time.Time
	// The time is read after the row is locked, so that no visit is earlier than a visit that it waited for.
	err = tx.QueryRow(ctx, `INSERT INTO visitor AS v (address, taken_at, expires_at) VALUES ($1, '{}', now())
		ON CONFLICT (address) DO UPDATE SET expires_at = v.expires_at RETURNING taken_at, clock_timestamp()`,
		v.Address[:]).Scan(&made, &now)
	if err != nil {
		return left, fmt.Errorf("lock the visits of an address: %w", err)
	}
	if made, left, err = v.Take(made, now); err != nil {
		return left, err
	}
	if _, err := tx.Exec(ctx, `UPDATE visitor SET taken_at = $2, expires_at = $3 WHERE address = $1`,
		v.Address[:], made, now.Add(v.Window)); err != nil {
		return left, fmt.Errorf("note a visit: %w", err)
	}
	return left, nil
}

// roomFor refuses a visit for which there is no room.
func (s *Store) roomFor(ctx context.Context, v limit.Visit) error {
	made, now, err := s.visits(ctx, v)
	if err != nil || len(made) == 0 {
		return err
	}
	_, _, err = v.Take(made, now)
	return err
}

// VisitsLeft returns what is left of an address's visits.
func (s *Store) VisitsLeft(ctx context.Context, v limit.Visit) (limit.VisitsLeft, error) {
	made, now, err := s.visits(ctx, v)
	if err != nil {
		return limit.VisitsLeft{}, err
	}
	return v.Left(made, now), nil
}

// visits reads the visits of an address, oldest first, and the database's time.
func (s *Store) visits(ctx context.Context, v limit.Visit) (made []time.Time, now time.Time, err error) {
	err = s.pool.QueryRow(ctx, `SELECT taken_at, clock_timestamp() FROM visitor WHERE address = $1`,
		v.Address[:]).Scan(&made, &now)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, now, fmt.Errorf("read the visits of an address: %w", err)
	}
	return made, now, nil
}

// PruneVisitors deletes up to limit addresses whose visits no longer count, and returns
// how many.
func (s *Store) PruneVisitors(ctx context.Context, limit int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, `DELETE FROM visitor WHERE address IN (
		SELECT address FROM visitor WHERE expires_at <= now() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`, limit)
	if err != nil {
		return 0, fmt.Errorf("prune visitors: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
