package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/pg"
)

// rollbackTimeout bounds the rollback of a transaction that failed.
const rollbackTimeout = 5 * time.Second

// inTx runs fn in a transaction. It recalls slices that are in the way, and runs fn again.
func (s *Store) inTx(ctx context.Context, fn func(pgx.Tx) error) error {
	return s.recalling(ctx, func() error { return pg.InTx(ctx, s.pool, pgx.TxOptions{}, fn) })
}

// pipelined is inTx for frequent transactions. fn sends its statements in batches: the
// first begins with begin, and the last ends with commit. So a transaction takes as many
// round trips as it has batches. What fn does not commit is rolled back.
func (s *Store) pipelined(ctx context.Context, fn func(*pgx.Conn) error) error {
	return s.recalling(ctx, func() error { return s.piped(ctx, fn) })
}

// piped is pipelined for transactions that recall no slice.
func (s *Store) piped(ctx context.Context, fn func(*pgx.Conn) error) error {
	return pg.Retry(ctx, func() error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("acquire a connection: %w", err)
		}
		defer conn.Release()

		defer rollback(ctx, conn.Conn())
		return fn(conn.Conn())
	})
}

// rollback also runs after ctx has ended. When it fails, the pool closes the connection,
// which ends the transaction too.
func rollback(ctx context.Context, conn *pgx.Conn) {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, `ROLLBACK`)
}

// begin opens a transaction in a batch.
func begin(batch *pgx.Batch) {
	batch.Queue(`BEGIN`)
	secure(batch)
}

func commit(batch *pgx.Batch) { batch.Queue(`COMMIT`) }

// secure makes the transaction durable when it is acknowledged, whatever the server's
// default. It also has statements planned once for a connection, not anew for each size
// of batch, in a way that stays right when the tables grow.
func secure(batch *pgx.Batch) {
	batch.Queue(
		`SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
		CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
			set_config('synchronous_commit', 'on', true) END`)
}

// atOnce sends a batch, which is a transaction by itself, in one round trip.
func (s *Store) atOnce(ctx context.Context, fill func(*pgx.Batch)) error {
	return s.recalling(ctx, func() error {
		return pg.Retry(ctx, func() error {
			batch := &pgx.Batch{}
			secure(batch)
			fill(batch)
			return s.pool.SendBatch(ctx, batch).Close()
		})
	})
}

// batcher sends a batch: a transaction or its connection.
type batcher interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// sendAll runs the statements of a batch in one round trip and returns the first error.
func sendAll(ctx context.Context, on batcher, batch *pgx.Batch) error {
	if batch.Len() == 0 {
		return nil
	}
	return on.SendBatch(ctx, batch).Close()
}

// refused reports whether the database would refuse the same rows again, because they
// break a constraint or do not fit a type.
func refused(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && (strings.HasPrefix(pe.Code, "22") || strings.HasPrefix(pe.Code, "23"))
}
