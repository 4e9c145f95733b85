package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/fault"
)

// maxLost bounds the calls of Lost: a pool may notice a lost connection before a call does.
const maxLost = 10_000

// Lost ends all connections to the pool's database again and again, makes the call until
// it meets one of them, and returns the call's error. It is fatal when no call fails.
func Lost(t testing.TB, pool *pgxpool.Pool, call func() error) error {
	t.Helper()
	owner := Owner(t, pool)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sever(ctx, owner) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("end the connections of a test database: %v", err)
		}
	}()
	for range maxLost {
		if err := call(); err != nil {
			return err
		}
	}
	t.Fatalf("none of %d calls met a lost connection", maxLost)
	return nil
}

// sever ends the connections of all others to the owner's database until ctx ends.
func sever(ctx context.Context, owner *pgxpool.Pool) error {
	for ctx.Err() == nil {
		_, err := owner.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// WantLost fails the test unless a call of a service says that a part of it cannot be
// reached, with no text of the driver, when the call meets a lost connection of pool.
func WantLost(t testing.TB, pool *pgxpool.Pool, call func() error) {
	t.Helper()
	err := Lost(t, pool, call)
	f, ok := fault.As(err)
	if !ok {
		t.Fatalf("a lost connection: got the error %v, want a fault", err)
	}
	if f.Kind != fault.Unavailable {
		t.Errorf("the kind of a lost connection: got %d, want %d", f.Kind, fault.Unavailable)
	}
	if f.Reason != fault.ServiceUnavailable {
		t.Errorf("the reason of a lost connection: got %q, want %q", f.Reason, fault.ServiceUnavailable)
	}
	if want := "a part of the service cannot be reached"; f.Message != want {
		t.Errorf("the message of a lost connection: got %q, want %q", f.Message, want)
	}
	if f.RetryAfter == 0 {
		t.Error("when to try again after a lost connection: got no time, want one")
	}
}
