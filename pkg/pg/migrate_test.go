package pg_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
)

func TestConcurrentMigrationsOfOneDatabaseApplyEachVersionOnce(t *testing.T) {
	url := pgtest.URL(t)
	// A file that fails when it runs twice, and is slow enough to meet.
	slow := fstest.MapFS{"1_slow.sql": {Data: []byte(
		"-- +goose Up\nCREATE TABLE once ();\nSELECT pg_sleep(0.3);\n")}}
	const processes = 4
	migrateAll(t, processes, func(int) error { return pg.Migrate(t.Context(), url, schema, role, slow) })

	owner := pgtest.Open(t, url, schema, "")
	var versions int
	if err := owner.QueryRow(t.Context(), "SELECT count(*) FROM schema_migrations WHERE version_id = 1").Scan(
		&versions); err != nil {
		t.Fatal(err)
	}
	if versions != 1 {
		t.Errorf("rows of version 1: got %d, want 1", versions)
	}
}

func TestConcurrentMigrationsOfManyDatabasesShareOneRole(t *testing.T) {
	const databases = 6
	urls := make([]string, databases)
	for i := range urls {
		urls[i] = pgtest.URL(t)
	}
	// A role nobody has made yet; it belongs to the server and stays there.
	var fresh string
	server, err := pgx.Connect(t.Context(), pgtest.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close(t.Context()) }()
	if err := server.QueryRow(t.Context(), "SELECT 'race_' || substr(md5(random()::text), 1, 12)").Scan(
		&fresh); err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{"1_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a ();\nGRANT SELECT ON a TO " + fresh +
		";\n")}}
	migrateAll(t, databases, func(i int) error { return pg.Migrate(t.Context(), urls[i], schema, fresh, files) })
	for _, url := range urls {
		if _, err := pgtest.Open(t, url, schema, fresh).Exec(t.Context(), "SELECT FROM a"); err != nil {
			t.Errorf("read as the shared role: %v", err)
		}
	}
}

func migrateAll(t *testing.T, n int, migrate func(int) error) {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = migrate(i) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestMigrateAgainDoesNothing(t *testing.T) {
	url := pgtest.Database(t, schema, role, migrations())
	for range 2 {
		if err := pg.Migrate(t.Context(), url, schema, role, migrations()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMigrateWorksForALoginThatIsNotSuperuser(t *testing.T) {
	url := pgtest.URL(t)
	admin := pgtest.Open(t, url, "public", "")
	var name string
	if err := admin.QueryRow(t.Context(), "SELECT 'login_' || substr(md5(random()::text), 1, 12)").Scan(
		&name); err != nil {
		t.Fatal(err)
	}
	app := name + "_app"
	for _, sql := range []string{
		"CREATE ROLE " + name + " LOGIN CREATEROLE PASSWORD 'x'",
		"DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO " + name + "', current_database()); END $$",
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	cc, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf("postgres://%s:x@%s:%d/%s?sslmode=disable", name, cc.Host, cc.Port, cc.Database)
	files := fstest.MapFS{"1_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a ();\nGRANT SELECT ON a TO " + app +
		";\n")}}
	if err := pg.Migrate(t.Context(), own, schema, app, files); err != nil {
		t.Fatal(err)
	}
	if _, err := pgtest.Open(t, own, schema, app).Exec(t.Context(), "SELECT FROM a"); err != nil {
		t.Errorf("read as the application role: %v", err)
	}
}

func TestFailedMigrationLeavesNothingOfItself(t *testing.T) {
	url := pgtest.URL(t)
	broken := fstest.MapFS{"1_broken.sql": {Data: []byte("-- +goose Up\nCREATE TABLE half ();\nSELECT 1/0;\n")}}
	if err := pg.Migrate(t.Context(), url, schema, role, broken); err == nil {
		t.Fatal("a broken migration succeeded")
	}
	var exists bool
	err := pgtest.Open(t, url, schema, "").QueryRow(t.Context(), "SELECT to_regclass('half') IS NOT NULL").Scan(&exists)
	if err != nil {
		t.Errorf("what half a migration leaves: got the error %v, want none", err)
	} else if exists {
		t.Error("what half a migration leaves: exists: got true, want false")
	}
}

// A nightly dump holds each table until it ends. A migration waits for its end, and between two tries
// lets those pass who came meanwhile.
func TestAMigrationTriesAgainForATableThatOthersHold(t *testing.T) {
	url := pgtest.URL(t)
	files := fstest.MapFS{"1_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a ();\n")}}
	if err := pg.Migrate(t.Context(), url, schema, role, files); err != nil {
		t.Fatal(err)
	}
	owner := pgtest.Open(t, url, schema, "")
	dump, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dump.Exec(t.Context(), "SELECT FROM a"); err != nil {
		t.Fatal(err)
	}
	files["2_b.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nALTER TABLE a ADD COLUMN b text;\n")}
	done := make(chan error, 1)
	go func() { done <- pg.Migrate(t.Context(), url, schema, role, files) }()
	for _, waits := range []bool{true, false, true} {
		for range clock.Every(t.Context(), 10*time.Millisecond) {
			var waiting bool
			if err := owner.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks
				WHERE relation = to_regclass('a') AND NOT granted)`).Scan(&waiting); err != nil {
				t.Fatal(err)
			}
			if waiting == waits {
				break
			}
		}
	}
	if err := dump.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("after the dump: got the error %v, want none", err)
	}
}

func TestMigrateWithoutFilesIsAnError(t *testing.T) {
	if err := pg.Migrate(t.Context(), pgtest.URL(t), schema, role, fstest.MapFS{}); err == nil {
		t.Error("nothing to migrate was taken for success")
	}
}
