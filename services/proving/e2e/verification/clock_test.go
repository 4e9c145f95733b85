package verification

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// clockSQL puts a clock before the server's, for the verifier alone: the time of the machine
// plus a shift. It acts by role and not by search path, so that the verifier's own pool is
// as in production. Defaults of columns keep the machine's time.
var clockSQL = []string{
	`CREATE SCHEMA clock`,
	`CREATE TABLE clock.shift (ahead interval NOT NULL)`,
	`INSERT INTO clock.shift VALUES ('0')`,
	`GRANT USAGE ON SCHEMA clock TO PUBLIC`,
	`GRANT SELECT ON clock.shift TO PUBLIC`,
	`ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO machine_timestamp`,
	`CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
		SELECT pg_catalog.machine_timestamp() + CASE WHEN current_user = 'svc_verifier'
			THEN (SELECT ahead FROM clock.shift) ELSE interval '0' END $$`,
}

// owner opens a superuser's pool on a database.
func owner(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// exec runs statements as the owner.
func exec(t testing.TB, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%.200s: %v", sql, err)
	}
}

// count returns the number that a query reads.
func count(t testing.TB, db *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := db.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%.200s: %v", sql, err)
	}
	return n
}

// pass moves the verifier's clock on.
func (l *laboratory) pass(t testing.TB, by time.Duration) {
	t.Helper()
	exec(t, l.db, `UPDATE clock.shift SET ahead = ahead + $1::interval`, by)
}

// now is the time of the verifier's clock.
func (l *laboratory) now(t testing.TB) time.Time {
	t.Helper()
	var at time.Time
	err := l.db.QueryRow(context.Background(), `SELECT pg_catalog.machine_timestamp() + ahead FROM clock.shift`).Scan(&at)
	if err != nil {
		t.Fatal(err)
	}
	return at.UTC()
}
