package devclock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/pg/devclock"
	"svc.internal/pkg/pg/pgserver"
)

// start starts a server of its own, because a shift is the server's.
func start(t *testing.T) (url string, pool *pgxpool.Pool) {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	pool, err = pgxpool.New(context.Background(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return server.URL(), pool
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestEveryNowOfADatabaseMoves(t *testing.T) {
	t.Parallel()
	url, pool := start(t)
	exec(t, pool, `CREATE TABLE row (id int, at timestamptz DEFAULT now(),
		day date DEFAULT (clock_timestamp() AT TIME ZONE 'UTC')::date)`)
	exec(t, pool, `CREATE FUNCTION told() RETURNS timestamptz LANGUAGE plpgsql
		AS 'BEGIN RETURN statement_timestamp(); END'`)
	exec(t, pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
		AS 'BEGIN RAISE EXCEPTION ''another time''; END'`)
	exec(t, pool, `CREATE TRIGGER here BEFORE INSERT ON row FOR EACH ROW
		WHEN (NEW.at <> now()) EXECUTE FUNCTION refuse()`)
	exec(t, pool, `CREATE VIEW seen AS SELECT now() AS at`)
	exec(t, pool, `SELECT told()`)
	for range 2 { // the second changes nothing
		if err := devclock.Install(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
	pool.Reset() // as a pool does with sessions that were ended
	exec(t, pool, `INSERT INTO row VALUES (1)`)
	for n, want := range []time.Duration{36 * time.Hour, 48 * time.Hour} {
		by := want
		if n > 0 {
			by = 12 * time.Hour
		}
		ahead, err := devclock.Advance(t.Context(), url, by)
		if err != nil {
			t.Fatalf("by %v: got the error %v, want none", by, err)
		}
		if ahead != want {
			t.Fatalf("by %v: got %v, want %v", by, ahead, want)
		}
		for _, expr := range []string{"now()", "clock_timestamp()", "statement_timestamp()", "transaction_timestamp()",
			"told()", "(SELECT at FROM row WHERE id = 2)", "(SELECT at FROM seen)"} {
			exec(t, pool, `DELETE FROM row WHERE id = 2`)
			exec(t, pool, `INSERT INTO row VALUES (2)`)
			var at time.Time
			if err := pool.QueryRow(t.Context(), `SELECT `+expr).Scan(&at); err != nil {
				t.Fatal(err)
			}
			if off := time.Until(at) - want; off.Abs() > time.Hour {
				t.Errorf("%s: got %v beside the shift of %v", expr, off, want)
			}
		}
	}
	var days int
	if err := pool.QueryRow(t.Context(), `SELECT max(day) - min(day) FROM row`).Scan(&days); err != nil {
		t.Fatal(err)
	}
	if days != 2 {
		t.Errorf("days between a row of before and one of after: got %d, want 2", days)
	}
}

func TestATimeMovesForwardAndNotForEver(t *testing.T) {
	t.Parallel()
	url, _ := start(t)
	if err := devclock.Install(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for _, by := range []time.Duration{-time.Second, devclock.MaxAhead + time.Second} {
		if ahead, err := devclock.Advance(t.Context(), url, by); err == nil {
			t.Errorf("by %v: got %v, want an error", by, ahead)
		}
	}
}

func TestTheNextDayIsClosed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 31, 23, 59, 0, 0, time.UTC)
	if got, want := devclock.NextDay(now), 17*time.Minute; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAPastIsPlayedUntilNow(t *testing.T) {
	t.Parallel()
	url, pool := start(t)
	if err := devclock.Install(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	pool.Reset() // as a pool does with sessions that were ended
	behind := func() (by time.Duration) {
		var at, machine time.Time
		if err := pool.QueryRow(t.Context(), `SELECT now(), machine_now()`).Scan(&at, &machine); err != nil {
			t.Fatal(err)
		}
		return machine.Sub(at)
	}
	const past = 72 * time.Hour
	if err := devclock.SetBack(t.Context(), url, past); err != nil {
		t.Fatal(err)
	}
	if got := behind(); got != past {
		t.Errorf("set back: got %v behind, want %v", got, past)
	}
	if err := devclock.SetBack(t.Context(), url, past); !errors.Is(err, devclock.ErrTooFar) {
		t.Errorf("set back again: got the error %v, want %v", err, devclock.ErrTooFar)
	}
	if _, err := devclock.Advance(t.Context(), url, 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	by, err := devclock.CatchUp(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if by != past-24*time.Hour {
		t.Errorf("caught up: got %v, want %v", by, past-24*time.Hour)
	}
	if got := behind(); got != 0 {
		t.Errorf("caught up: got %v behind, want 0", got)
	}
}
