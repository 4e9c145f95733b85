// Package pgtest gives each test a PostgreSQL database of its own on a real
// server.
//
// The server is the one in SVC_TEST_DATABASE_URL (a superuser's URL) when that
// is set, else a private one that the test binary starts when the first test
// asks for it (about two seconds) and ends with the binary. Databases have
// random names, so that any number of test binaries can share a server. Each
// set of migrations is run once per binary, in a template database, and cloned
// for every test (tens of milliseconds).
//
// A package that uses it says
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// Where no server can be had, tests are skipped, but fail when CI=true: a green
// run that tested nothing is worse than a red one.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/pg"
	"svc.internal/pkg/pg/pgserver"
)

const (
	// EnvURL names the variable with the superuser URL of a running server.
	EnvURL = "SVC_TEST_DATABASE_URL"

	setupTimeout = 2 * time.Minute
	closeTimeout = time.Minute
	maxConns     = 8
)

// Main runs the tests of a package and then gives back what they shared: the
// template databases and the server. The test framework exits with the result
// of the run after TestMain returns.
func Main(m *testing.M) {
	m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
	}
}

// URL is a superuser's URL of a fresh empty database, dropped when t ends.
func URL(t testing.TB) string {
	t.Helper()
	return shared.require(t).create(t, "template0")
}

// Database is a superuser's URL of a fresh database in which schema was
// migrated for role (see pg.Migrate), dropped when t ends.
func Database(t testing.TB, schema, role string, migrations fs.FS) string {
	t.Helper()
	s := shared.require(t)
	template, err := s.template(schema, role, migrations)
	if err != nil {
		t.Fatalf("prepare the template database: %v", err)
	}
	return s.create(t, template)
}

// Copy is a superuser's URL of a fresh database with what the database at url
// (from Database) holds now, dropped when t ends. Nobody may be connected to
// that one meanwhile.
func Copy(t testing.TB, url string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatalf("copy a test database: %v", err)
	}
	return shared.require(t).create(t, cfg.Database)
}

// Pool is a pool on a fresh migrated database, as a service opens it: on its
// schema, as the application role. Owner gives the other view of it.
func Pool(t testing.TB, schema, role string, migrations fs.FS) *pgxpool.Pool {
	t.Helper()
	return Open(t, Database(t, schema, role, migrations), schema, role)
}

// Open is a pool on the database at url (from Database) as role, or as the
// owner when role is empty. It is closed when t ends.
func Open(t testing.TB, url, schema, role string) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.Config{
		URL: url, Schema: schema, Role: role, MaxConns: maxConns, ApplicationName: "test",
	})
	if err != nil {
		t.Fatalf("open the test database: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}

// Owner is a second pool on the same database and schema as pool that acts as
// the owner of the tables, to arrange and inspect what the application role may
// not touch. It is closed when t ends.
func Owner(t testing.TB, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	cfg := pool.Config()
	delete(cfg.ConnConfig.RuntimeParams, "role")
	owner, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open the test database as its owner: %v", err)
	}
	t.Cleanup(func() { closePool(t, owner) })
	return owner
}

// closePool bounds the wait for connections that a test forgot to release.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pool.Close()
	}()
	select {
	case <-done:
	case <-time.After(closeTimeout):
		t.Errorf("%d connections of a pool were never released", pool.Stat().AcquiredConns())
	}
}

// Server is a superuser's URL of the shared server itself, for tests of
// server-wide behaviour. Nothing made there is cleaned up.
func Server(t testing.TB) string {
	t.Helper()
	return shared.require(t).url
}

// shared outlives single tests by design: starting a server takes longer than
// most tests.
var shared holder

// holder starts the server of this test binary once.
type holder struct {
	mu     sync.Mutex
	server *server
	err    error
}

func (h *holder) require(t testing.TB) *server {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil && h.err == nil {
		h.server, h.err = startServer()
	}
	if h.err == nil {
		return h.server
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("no PostgreSQL for tests: %v", h.err)
	}
	t.Skipf("no PostgreSQL for tests: %v", h.err)
	return nil
}

func (h *holder) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server == nil {
		return nil
	}
	return h.server.close()
}

func startServer() (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	s := &server{url: os.Getenv(EnvURL), templates: map[string]*template{}}
	if s.url == "" {
		cluster, err := pgserver.Start(ctx, pgserver.Config{})
		if err != nil {
			return nil, err
		}
		s.cluster, s.url = cluster, cluster.URL()
	}
	if err := s.learn(ctx); err != nil {
		if s.cluster != nil {
			err = errors.Join(err, s.cluster.Stop())
		}
		return nil, err
	}
	return s, nil
}
