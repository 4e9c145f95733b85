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

// InTx runs fn in a transaction and commits it. When the server ends the transaction with
// a serialization failure or a deadlock, fn runs again in a new one, at most 5 times in
// all, with a random pause of up to 200 ms between two tries. Every other error is
// returned at once. So fn must have no effect outside the transaction, and its errors
// must wrap (%w) the driver's.
//
// An error or a panic in fn rolls back. The error of a connection that is lost during the
// commit is returned as it is (IsUnavailable), and the outcome is unknown: the caller may
// repeat only an idempotent write.
func InTx(ctx context.Context, pool *pgxpool.Pool, opts pgx.TxOptions, fn func(pgx.Tx) error) error {
	return Retry(ctx, func() error { return runTx(ctx, pool, opts, fn) })
}

// Retry runs fn, which is one transaction, again as InTx does. It is for transactions of
// a single statement, which need no BEGIN and COMMIT.
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
	// This runs on panic and on runtime.Goexit as well. After a commit it does nothing.
	defer rollback(ctx, tx)
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	return nil
}

// rollback also runs after ctx has ended, so that the connection returns to the pool
// instead of being closed. Its error is of no use: the pool closes a connection that
// cannot roll back, which ends the transaction too.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if err := tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		return
	}
}

// fullJitter returns a random duration in (0, min(limit, base·2^(try-1))].
func fullJitter(base, limit time.Duration, try int) time.Duration {
	ceiling := limit
	if shift := try - 1; shift < 32 && base<<shift < limit {
		ceiling = base << shift
	}
	return 1 + rand.N(ceiling) //nolint:gosec // spreads load, guards nothing
}
