package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/clock"
)

const (
	// maxTries bounds how often InTx runs its function.
	maxTries        = 5
	retryBase       = 10 * time.Millisecond
	retryCap        = 200 * time.Millisecond
	rollbackTimeout = 5 * time.Second
)

// InTx runs fn in a transaction and commits it. When the server ends the
// transaction with a serialization failure or a deadlock, fn runs again in a
// new one, at most 5 times in all with a random pause of up to 200 ms between;
// every other error is returned at once. So fn must have no effect outside the
// transaction, and the errors it returns must wrap (%w) the driver's.
//
// An error or a panic in fn rolls back. A connection lost during the commit is
// returned as it is, IsUnavailable, with the outcome unknown: only an
// idempotent write may be repeated by the caller.
func InTx(ctx context.Context, pool *pgxpool.Pool, opts pgx.TxOptions, fn func(pgx.Tx) error) error {
	return Retry(ctx, func() error { return runTx(ctx, pool, opts, fn) })
}

// Retry runs fn, which is one transaction, again as InTx does: it is for those
// that are a single statement and need no BEGIN and COMMIT around it.
func Retry(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		if err == nil || !isRetryable(err) {
			return err
		}
		if try == maxTries {
			return fmt.Errorf("transaction gave up after %d tries: %w", try, err)
		}
		if clock.Sleep(ctx, fullJitter(retryBase, retryCap, try)) != nil {
			return err
		}
	}
}

func runTx(ctx context.Context, pool *pgxpool.Pool, opts pgx.TxOptions, fn func(pgx.Tx) error) error {
	tx, err := pool.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	// Runs on panic and on runtime.Goexit as well; after a commit it is a no-op.
	defer rollback(ctx, tx)
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	return nil
}

// rollback works on after ctx has ended, so that the connection returns to the
// pool instead of being thrown away. Its error is of no use to anyone: a
// connection that cannot roll back is closed by the pool, which ends the
// transaction too.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if err := tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		return
	}
}

// fullJitter is a random duration in (0, min(limit, base·2^(try-1))].
func fullJitter(base, limit time.Duration, try int) time.Duration {
	ceiling := limit
	if shift := try - 1; shift < 32 && base<<shift < limit {
		ceiling = base << shift
	}
	return 1 + rand.N(ceiling) //nolint:gosec // spreads load, guards nothing
}
