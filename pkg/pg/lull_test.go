package pg_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
)

// untilStill asks until the loop may leave its look out: other tests write to the server, too.
func untilStill(t *testing.T, still func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !still(); {
		if time.Now().After(deadline) {
			t.Fatal("a loop never rests")
		}
	}
}

func TestALoopRestsUntilSomethingIsCommitted(t *testing.T) {
	pool := pgtest.Pool(t, schema, role, migrations())
	ctx := t.Context()
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "INSERT INTO items (name) VALUES ('a')"); err != nil {
		t.Fatal(err)
	}
	still := pg.NewLull(pool).Loop(time.Hour)
	if still(ctx) {
		t.Error("a loop leaves its first look out")
	}
	untilStill(t, func() bool { return still(ctx) })
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	// A transaction that had begun before the last look counts, however long it took.
	if after := pg.NewLull(pool).Loop(time.Hour); after(ctx) {
		t.Error("another loop leaves its first look out")
	}
	for deadline := time.Now().Add(patience); still(ctx); {
		if time.Now().After(deadline) {
			t.Fatal("a loop misses what was committed")
		}
	}
}

func TestALoopLooksWhenItHasRestedForLong(t *testing.T) {
	pool := pgtest.Pool(t, schema, role, migrations())
	still := pg.NewLull(pool).Loop(0)
	for range 3 {
		if still(t.Context()) {
			t.Error("a loop rests for longer than it may")
		}
	}
}

// counting counts the statements that pass through it.
type counting struct{ n int }

func (c *counting) QueryRow(context.Context, string, ...any) pgx.Row {
	c.n++
	return row("1:1:")
}

// row is a row with one text.
type row string

func (r row) Scan(into ...any) error {
	*into[0].(*string) = string(r)
	return nil
}

// In an idle minute a service with many loops makes a statement a second, and no more.
func TestLoopsThatLookAtOnceShareOneStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &counting{}
		lull := pg.NewLull(db)
		looks := 0
		loops := make([]func(context.Context) bool, 20)
		for i := range loops {
			loops[i] = lull.Loop(pg.Rest)
		}
		for range clock.Every(t.Context(), time.Second) {
			for _, still := range loops {
				if !still(t.Context()) {
					looks++
				}
			}
			if db.n == 60 {
				break
			}
		}
		if want := len(loops) * int(time.Minute/pg.Rest); looks != want {
			t.Errorf("looks of %d loops in a minute: got %d, want %d", len(loops), looks, want)
		}
	})
}
