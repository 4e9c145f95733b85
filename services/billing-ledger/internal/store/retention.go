package store

import (
	"context"
	"fmt"
)

// RetentionLeast is the smallest number of days for which requests are kept; the database
// enforces the same.
const RetentionLeast = 8

// DropCleared clears the next day if it is due, and deletes what up to limit requests of
// cleared days have left beside their settled lines: hold, report, renewal, work receipts
// and review. It returns the number of those requests. Settled lines, entries, seals and
// balances stay for ever.
//
// A day is the UTC day inside a request's id. It is due when days whole days have passed
// since its end (SVC_BILLING_RETENTION_DAYS, 35 by default), it is sealed, and neither a
// hold nor a review of it is open. One replica clears at a time; the others find nothing
// to do.
//
// Rows are deleted in the order of their ids, which begin with the time. So whole pages
// become empty and serve new requests. A partition for each day would instead have every
// statement of a request's path lock and plan for each partition.
//
// Usage that arrives for a request whose hold was given back and then deleted is
// quarantined as unknown_request.
func (s *Store) DropCleared(ctx context.Context, days, limit int) (dropped int, err error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	if err := s.pool.QueryRow(ctx, `SELECT drop_cleared($1, $2)`, days, limit).Scan(&dropped); err != nil {
		return 0, fmt.Errorf("drop requests of cleared days: %w", err)
	}
	return dropped, nil
}
