package store

import (
	"context"
	"fmt"
)

// RetentionLeast is the smallest number of days for which requests are kept; the
// database asserts the same.
const RetentionLeast = 8

// DropCleared clears the next day if it is due, days after it ended and when it
// is sealed and nothing of it is open, and deletes what up to limit requests of
// cleared days have left beside their settled lines. It returns of how many
// requests it did. One replica does it at a time; the others have nothing to do.
func (s *Store) DropCleared(ctx context.Context, days, limit int) (dropped int, err error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	if err := s.pool.QueryRow(ctx, `SELECT drop_cleared($1, $2)`, days, limit).Scan(&dropped); err != nil {
		return 0, reachable(fmt.Errorf("drop requests of cleared days: %w", err))
	}
	return dropped, nil
}
