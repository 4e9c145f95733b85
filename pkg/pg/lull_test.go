package pg_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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
	still := pg.NewLull(pool).Loop(time.Hour).Holds
	if still(ctx) {
		t.Error("a loop leaves its first look out")
	}
	untilStill(t, func() bool { return still(ctx) })
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	// A transaction that had begun before the last look counts, however long it took.
	if after := pg.NewLull(pool).Loop(time.Hour); after.Holds(ctx) {
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
	still := pg.NewLull(pool).Loop(0).Holds
	for range 3 {
		if still(t.Context()) {
			t.Error("a loop rests for longer than it may")
		}
	}
}

// counting is a server in which nothing happens, but what a test does. It counts the statements.
type counting struct {
	n, asked int
	writes   int
	err      error
	asks     error // of questions what is due
	// due is when the first of each loop of Until is due; nil where nothing waits.
	due []*float64
	// takes is how long a question what is due takes.
	takes time.Duration
}

func (c *counting) QueryRow(_ context.Context, sql string, _ ...any) pgx.Row {
	c.n++
	if strings.Contains(sql, "ARRAY") {
		c.asked++
	}
	return row{c}
}

// write is a transaction of somebody.
func (c *counting) write() { c.writes++ }

// at has the work of a loop due at a time.
func (c *counting) at(loop int, at time.Time) {
	seconds := float64(at.UnixMicro()) / 1e6
	c.due[loop] = &seconds
	c.write()
}

// row is what the server answers.
type row struct{ of *counting }

func (r row) Scan(into ...any) error {
	if r.of.err != nil {
		return r.of.err
	}
	*into[0].(*string) = strconv.Itoa(r.of.writes) + ":"
	if len(into) > 1 && r.of.asks != nil {
		return r.of.asks
	}
	if len(into) > 1 {
		_ = clock.Sleep(context.Background(), r.of.takes)
		*into[1].(*float64) = float64(time.Now().UnixMicro()) / 1e6
		*into[2].(*[]*float64) = slices.Clone(r.of.due)
	}
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
			loops[i] = lull.Loop(pg.Rest).Holds
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

func TestALoopLooksAgainAfterALookThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		still := pg.NewLull(&counting{}).Loop(time.Hour)
		for i := range 3 {
			if still.Holds(t.Context()) {
				t.Fatalf("look %d is left out behind one that failed", i)
			}
			_ = still.Learn(errors.New("the database is away"))
		}
		still.Holds(t.Context()) // a look that succeeds
		if !still.Holds(t.Context()) {
			t.Error("a loop does not rest behind a look that succeeded")
		}
	})
}

// looks returns the seconds at which a loop looks until d is over.
func looks(t *testing.T, still *clock.Still, d time.Duration, do func()) (at []int) {
	t.Helper()
	began := time.Now()
	for range clock.Every(t.Context(), time.Second) {
		if !still.Holds(t.Context()) {
			at = append(at, int(time.Since(began).Seconds()))
			do()
		}
		if time.Since(began) >= d {
			return at
		}
	}
	return at
}

func TestALoopThatKnowsWhenSomethingIsDueLooksThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &counting{due: make([]*float64, 2)}
		lull := pg.NewLull(db)
		idle, busy := lull.Until("SELECT 1"), lull.Until("SELECT 2")
		for name, still := range map[string]*clock.Still{"idle": idle, "busy": busy} {
			if still.Holds(t.Context()) {
				t.Fatalf("the %s loop leaves its first look out", name)
			}
		}
		db.at(1, time.Now().Add(3500*time.Millisecond))
		// Until the third look nothing is done about it, so it is still due.
		done := 0
		at := looks(t, busy, 8*time.Second, func() {
			if done++; done == 3 {
				db.due[1] = nil
				db.write()
			}
		})
		if want := []int{4, 5, 6}; !slices.Equal(at, want) {
			t.Errorf("looks at seconds: got %d, want %d", at, want)
		}
		for range 20 { // others write
			db.write()
			if _ = clock.Sleep(t.Context(), time.Second); !idle.Holds(t.Context()) {
				t.Fatal("a loop looks although nothing of it is due")
			}
		}
	})
}

func TestALoopThatKnowsWhenSomethingIsDueLooksNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &counting{due: make([]*float64, 1)}
		still := pg.NewLull(db).Until("SELECT NULL")
		if at, want := looks(t, still, 130*time.Second, func() {}), []int{1, 61, 121}; !slices.Equal(at, want) {
			t.Errorf("looks at seconds: got %d, want %d", at, want)
		}
		if db.asked != 1 {
			t.Errorf("questions when something is due, while nobody writes: got %d, want 1", db.asked)
		}
	})
}

// Loops look by themselves where asking for all of them would cost more.
func TestASlowQuestionIsNotAskedSoonAgain(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		err   error
		asked int
	}{
		"quick":  {49 * time.Millisecond, nil, 20},
		"slow":   {50 * time.Millisecond, nil, 10},
		"failed": {0, errors.New("no such table"), 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := &counting{due: make([]*float64, 1), takes: c.takes, asks: c.err}
				still := pg.NewLull(db).Until("SELECT NULL")
				for range 20 {
					still.Holds(t.Context())
					db.write()
					_ = clock.Sleep(t.Context(), time.Second-c.takes)
				}
				if db.asked != c.asked {
					t.Errorf("questions in 20 s: got %d, want %d", db.asked, c.asked)
				}
			})
		})
	}
}

// Loops that wait for the same thing share the answer.
func TestOneExpressionIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &counting{due: make([]*float64, 1)}
		lull := pg.NewLull(db)
		one, other := lull.Until("SELECT NULL"), lull.Until("SELECT NULL")
		for name, still := range map[string]*clock.Still{"one": one, "other": other} {
			still.Holds(t.Context()) // the first look
			if !still.Holds(t.Context()) {
				t.Errorf("%s does not rest", name)
			}
		}
	})
}

func TestALoopLooksWhereTheServerCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &counting{due: make([]*float64, 1)}
		lull := pg.NewLull(db)
		stills := map[string]*clock.Still{"Until": lull.Until("SELECT NULL"), "Loop": lull.Loop(time.Hour)}
		for _, still := range stills {
			still.Holds(t.Context())
		}
		db.err = errors.New("the server is away")
		_ = clock.Sleep(t.Context(), time.Second)
		for name, still := range stills {
			if still.Holds(t.Context()) {
				t.Errorf("%s: a look is left out", name)
			}
		}
	})
}

// What one loop of a process has written is seen by the next one in the same tick.
func TestWhatAProcessWroteIsNoticedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &counting{due: make([]*float64, 1)}
		lull := pg.NewLull(db)
		still := lull.Until("SELECT NULL")
		still.Holds(t.Context()) // the first look
		if !still.Holds(t.Context()) {
			t.Fatal("a loop does not rest")
		}
		db.at(0, time.Now())
		if !still.Holds(t.Context()) {
			t.Error("a reading does not serve for a moment")
		}
		lull.Wrote()
		if still.Holds(t.Context()) {
			t.Error("what the process has written is not noticed")
		}
	})
}

// The services of a process share the readings of their server.
func TestPoolsOfOneServerShareAReading(t *testing.T) {
	one := pgtest.Pool(t, schema, role, migrations())
	other, err := pgxpool.NewWithConfig(t.Context(), one.Config())
	if err != nil {
		t.Fatal(err)
	}
	first := pg.NewLull(one).Loop(time.Hour)
	second := pg.NewLull(other).Loop(time.Hour)
	first.Holds(t.Context())
	other.Close() // it could not ask the server
	second.Holds(t.Context())
	untilStill(t, func() bool { first.Holds(t.Context()); return second.Holds(t.Context()) })
}

func TestALoopAsksTheServerWhenItsWorkIsDue(t *testing.T) {
	pool := pgtest.Pool(t, schema, role, migrations())
	lull := pg.NewLull(pool)
	for next, due := range map[string]bool{
		"SELECT NULL::timestamptz": false, "SELECT now() - interval '1 second'": true, "SELECT timestamptz '-infinity'": true,
		"SELECT now() + interval '1 hour'": false, "SELECT timestamptz 'infinity'": false,
	} {
		still := lull.Until(next)
		still.Holds(t.Context()) // the first look
		if got := !still.Holds(t.Context()); got != due {
			t.Errorf("%s: due: got %v, want %v", next, got, due)
		}
	}
}
