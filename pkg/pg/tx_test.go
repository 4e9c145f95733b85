package pg_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
)

var serializable = pgx.TxOptions{IsoLevel: pgx.Serializable}

const maxTries = 5

func amountOf(t *testing.T, pool *pgxpool.Pool) int64 {
	t.Helper()
	var n int64
	if err := pool.QueryRow(t.Context(), "SELECT amount FROM items WHERE name = 'a'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func poolWithItem(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.Pool(t, schema, role, migrations())
	if _, err := pool.Exec(t.Context(), "INSERT INTO items (name) VALUES ('a')"); err != nil {
		t.Fatal(err)
	}
	return pool
}

// readThenAdd reads in tx, lets somebody else write the same row first while
// rivals remain, and then writes: a real serialization failure.
func readThenAdd(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, rival bool) error {
	var amount int64
	if err := tx.QueryRow(ctx, "SELECT amount FROM items WHERE name = 'a'").Scan(&amount); err != nil {
		return err
	}
	if rival {
		if _, err := pool.Exec(ctx, "UPDATE items SET amount = amount + 1 WHERE name = 'a'"); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "UPDATE items SET amount = $1 WHERE name = 'a'", amount+100)
	return err
}

func TestInTxRepeatsAfterASerializationFailure(t *testing.T) {
	pool, ctx := poolWithItem(t), t.Context()
	tries := 0
	err := pg.InTx(ctx, pool, serializable, func(tx pgx.Tx) error {
		tries++
		return readThenAdd(ctx, pool, tx, tries < 3)
	})
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if tries != 3 {
		t.Fatalf("tries: got %d, want 3", tries)
	}
	if got := amountOf(t, pool); got != 102 {
		t.Errorf("amount: got %d, want 102: an update was lost", got)
	}
}

func TestInTxGivesUpAfterFiveTries(t *testing.T) {
	pool, ctx := poolWithItem(t), t.Context()
	tries := 0
	err := pg.InTx(ctx, pool, serializable, func(tx pgx.Tx) error {
		tries++
		return readThenAdd(ctx, pool, tx, true)
	})
	if tries != maxTries {
		t.Errorf("tries: got %d, want %d", tries, maxTries)
	} else if found := codeOf(err); found != "40001" {
		t.Errorf(`codeOf(err): got %q, want "40001"`, found)
	}
	if got := amountOf(t, pool); got != maxTries {
		t.Errorf("amount: got %d, want only the rivals' %d", got, maxTries)
	}
}

func TestInTxRepeatsNothingElse(t *testing.T) {
	pool, ctx := poolWithItem(t), t.Context()
	tries := 0
	err := pg.InTx(ctx, pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		tries++
		_, err := tx.Exec(ctx, "INSERT INTO items (name) VALUES ('a')")
		return err
	})
	if tries != 1 {
		t.Errorf("tries: got %d, want 1", tries)
	} else if !pg.IsUnique(err, "items_name_key") {
		t.Errorf(`pg.IsUnique(err, "items_name_key"): got false, want true, with the error %v`, err)
	}
}

func TestInTxStopsRepeatingWhenTheContextEnds(t *testing.T) {
	pool := poolWithItem(t)
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := pg.InTx(ctx, pool, serializable, func(tx pgx.Tx) error {
		tries++
		err := readThenAdd(ctx, pool, tx, true)
		cancel()
		return err
	})
	if tries != 1 {
		t.Errorf("tries: got %d, want 1", tries)
	} else if got := codeOf(err); got != "40001" {
		t.Errorf(`codeOf(err): got %q, want "40001"`, got)
	}
}

func TestInTxRollsBackOnErrorAndPanic(t *testing.T) {
	pool, ctx := poolWithItem(t), t.Context()
	add := func(tx pgx.Tx) {
		if _, err := tx.Exec(ctx, "UPDATE items SET amount = 7"); err != nil {
			t.Fatal(err)
		}
	}
	boom := errors.New("boom")
	if err := pg.InTx(ctx, pool, pgx.TxOptions{}, func(tx pgx.Tx) error { add(tx); return boom }); !errors.Is(err, boom) {
		t.Errorf("err: got %v, want boom", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = pg.InTx(ctx, pool, pgx.TxOptions{}, func(tx pgx.Tx) error { add(tx); panic("boom") })
	}()
	if got := amountOf(t, pool); got != 0 {
		t.Errorf("amount: got %d, want 0", got)
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("connections not given back: got %d, want 0", n)
	}
}

func TestInTxRepeatsAfterADeadlock(t *testing.T) {
	pool, ctx := poolWithItem(t), t.Context()
	if _, err := pool.Exec(ctx, "INSERT INTO items (name) VALUES ('b')"); err != nil {
		t.Fatal(err)
	}
	// Both hold their first row before either asks for its second.
	held := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
	run := func(first, second string, tries *int) error {
		return pg.InTx(ctx, pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
			*tries++
			if _, err := tx.Exec(ctx, "UPDATE items SET amount = amount + 1 WHERE name = $1", first); err != nil {
				return err
			}
			if *tries == 1 {
				close(held[first])
				<-held[second]
			}
			_, err := tx.Exec(ctx, "UPDATE items SET amount = amount + 1 WHERE name = $1", second)
			return err
		})
	}
	var triesA, triesB int
	other := make(chan error, 1)
	go func() { other <- run("b", "a", &triesB) }()
	if err := errors.Join(run("a", "b", &triesA), <-other); err != nil {
		t.Fatal(err)
	}
	if got := amountOf(t, pool); got != 2 {
		t.Errorf("amount = %d after %d+%d tries: amountOf(t, pool): got %d, want 2", got, triesA, triesB, got)
	} else if triesA+triesB < 3 {
		t.Errorf("amount = %d after %d+%d tries: triesA+triesB: got %d, want at least 3", got, triesA, triesB, triesA+triesB)
	}
}
