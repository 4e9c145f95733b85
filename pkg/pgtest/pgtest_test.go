package pgtest_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func notes() fs.FS {
	return fstest.MapFS{"1_notes.sql": {Data: []byte(
		"-- +goose Up\nCREATE TABLE notes (n text);\nGRANT SELECT, INSERT ON notes TO notes_app;\n")}}
}

func count(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	var n int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM notes").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEachDatabaseIsItsOwnAndStartsEmpty(t *testing.T) {
	for range 2 {
		pool := pgtest.Pool(t, "notes", "notes_app", notes())
		if n := count(t, pool); n != 0 {
			t.Fatalf("a fresh database holds: got %d, want 0", n)
		}
		if _, err := pool.Exec(t.Context(), "INSERT INTO notes VALUES ('x')"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPoolIsTheApplicationAndOwnerIsNot(t *testing.T) {
	pool := pgtest.Pool(t, "notes", "notes_app", notes())
	if _, err := pool.Exec(t.Context(), "DELETE FROM notes"); err == nil {
		t.Error("the application deleted without a grant")
	}
	owner := pgtest.Owner(t, pool)
	if _, err := owner.Exec(t.Context(), "INSERT INTO notes VALUES ('x')"); err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool); n != 1 {
		t.Errorf("the owner's rows in the same database: got %d, want 1", n)
	}
}

func TestDatabaseIsGoneWhenItsTestEnds(t *testing.T) {
	var name string
	t.Run("inner", func(t *testing.T) {
		pool := pgtest.Pool(t, "notes", "notes_app", notes())
		if err := pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
	})
	var exists bool
	err := pgtest.Open(t, pgtest.Server(t), "public", "").QueryRow(t.Context(),
		"SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case exists:
		t.Error("exists: got true, want false")
	case name == "":
		t.Error(`database: got "", want some text`)
	}
}
