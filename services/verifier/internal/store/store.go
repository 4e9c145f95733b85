// Package store keeps the verifier's rows in PostgreSQL.
//
// What moves an offer's standing goes through Advance alone: one transaction under the lock
// of the provider's row writes the event, the observations, the new standing, the verdicts
// with their effects on other services, and one sealed piece of evidence. An event has a
// key, and a second delivery of it changes nothing.
//
// All else is beside that: the queue of probes, which replicas take under leases; the
// outbox of effects; runs of benchmarks; strata with their calibrations; house accounts;
// what operators set; pages for people. Only the database's clock counts. The database
// enforces again what the code here does (functions/*.sql), so that a faulty program cannot
// take a verdict back, alter evidence or judge a probe twice.
package store

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/services/verifier/internal/archive"
)

// Schema and Role are the verifier's own in a shared database.
const (
	Schema = "verifier"
	Role   = "svc_verifier"
)

// MaxPage bounds a page, and MaxBatch what one call adds or takes.
const (
	MaxPage  = 200
	MaxBatch = 1_000
)

// Migrations make the schema, with the functions beside them.
//
//go:embed migrations/*.sql functions/*.sql
var Migrations embed.FS

// Sealer seals pieces of evidence; package keep has it.
type Sealer interface {
	// Seal encrypts the plain bytes of a piece and returns its leaf.
	Seal(id archive.ID, plain []byte) (sealed []byte, leaf archive.Leaf, err error)
}

// Store reads and writes the verifier's tables.
type Store struct {
	pool *pgxpool.Pool
	seal Sealer
}

// New returns a store on a pool opened for Schema and Role.
func New(pool *pgxpool.Pool, seal Sealer) *Store { return &Store{pool, seal} }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reach the database: %w", err)
	}
	return nil
}

// Now returns the time of the database.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	if err := s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return now.UTC(), nil
}

// What a transaction acknowledges survives a crash, whatever the server's default.
const durably = `SELECT CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
	THEN set_config('synchronous_commit', 'on', true) END`

// exec runs a statement and reports whether it changed a row.
func exec(ctx context.Context, tx querier, sql string, args ...any) (bool, error) {
	tag, err := tx.Exec(ctx, sql, args...)
	return tag.RowsAffected() > 0, err
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, db querier, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// bounded returns a limit from 1 to highest.
func bounded(limit, highest int) int { return min(max(limit, 1), highest) }

// timeOrNull is the time for the database, null for the zero time.
func timeOrNull(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// timeOf is the time that the database keeps, the zero time for null.
func timeOf(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.UTC()
}

// cut returns at most so many bytes of a text, without a part of a character. The text of
// an error may hold what PostgreSQL does not keep.
func cut(text string, size int) string {
	clean := make([]rune, 0, len(text))
	kept := 0
	for _, r := range text {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			r = ' '
		}
		if kept += len(string(r)); kept > size {
			break
		}
		clean = append(clean, r)
	}
	if len(clean) == 0 {
		return "unknown"
	}
	return string(clean)
}
