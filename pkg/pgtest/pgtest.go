// Package pgtest gives each test a PostgreSQL database of its own on a real
// server.
//
// When SVC_TEST_DATABASE_URL (a superuser's URL) is set, it names the server.
// Otherwise the test binary starts a private server (about two seconds) when the
// first test asks for a database. That server ends with the binary. Databases have
// random names, so that any number of test binaries can share a server. Each
// set of migrations is run once per binary, in a template database, and cloned
// for every test that runs at the same time as others.
//
// A test sees nothing of another. When it ends, the connections to its database are
// closed, the database gets a new name, and its rows, sequences and statistics are
// restored to those of the template. Then all system catalogs are compared with the
// template's. Where they differ, because the test changed the schema, the database is
// dropped. Otherwise the next test gets it. PGTEST_FRESH=1 gives every test a new one, to
// find out whether a failure comes from a database that was not clean.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// When there is no server, tests are skipped. With CI=true they fail instead, because a
// green run that tested nothing is worse than a red one.
package pgtest

import (
	"context"
	"errors"
	"flag"
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
	// EnvFresh names the variable that, when it is 1, has every database made anew.
	EnvFresh = "PGTEST_FRESH"

	setupTimeout = 2 * time.Minute
	closeTimeout = time.Minute
	maxConns     = 8
)

// Main runs the tests of a package and then removes what they shared: the template
// databases and the server. The test framework exits with the result of the run after
// TestMain returns.
func Main(m *testing.M) {
	runMore()
	m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
	}
}

// atOnce is how many parallel tests run at a time, unless -parallel sets it. Tests with a
// server wait more than they compute, and two pools of each test are 64 connections.
const atOnce = "4"

func runMore() {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", atOnce); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
	}
}

// URL returns a superuser's URL of a fresh empty database, which is dropped when t ends.
func URL(t testing.TB) string {
	t.Helper()
	return shared.require(t).create(t, "template0")
}

// Template is how the databases of tests begin.
type Template struct {
	// Schema is migrated for Role with Migrations: see pg.Migrate. Nothing is migrated
	// when Migrations is nil.
	Schema, Role string
	Migrations   fs.FS
	// Prepare, when set, makes what else all tests of the template begin with. It is
	// called once, with a superuser's URL, and closes its connections.
	Prepare func(ctx context.Context, url string) error
}

// Database returns a superuser's URL of a database of the template that only t uses.
func (tpl Template) Database(t testing.TB) string {
	t.Helper()
	s := shared.require(t)
	made, err := s.template(tpl)
	if err != nil {
		t.Fatalf("prepare the template database: %v", err)
	}
	return s.lend(t, made)
}

// URL returns a superuser's URL of a new database of the template, which is dropped when
// t ends. A database of Database is reset for the next test instead, which is wasted work
// where each test changes the schema or the rights.
func (tpl Template) URL(t testing.TB) string {
	t.Helper()
	s := shared.require(t)
	made, err := s.template(tpl)
	if err != nil {
		t.Fatalf("prepare the template database: %v", err)
	}
	return s.create(t, made.name)
}

// Pool returns a pool on a database of the template, as Pool opens it.
func (tpl Template) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Open(t, tpl.Database(t), tpl.Schema, tpl.Role)
}

// Database returns a superuser's URL of a database in which schema was migrated for role
// (see pg.Migrate) and nothing else was done. The URL is of no use after t.
func Database(t testing.TB, schema, role string, migrations fs.FS) string {
	t.Helper()
	return Template{Schema: schema, Role: role, Migrations: migrations}.Database(t)
}

// Copy returns a superuser's URL of a fresh database with the present contents of the
// database at url (from Database). It is dropped when t ends. Nobody may be connected to
// the original meanwhile.
func Copy(t testing.TB, url string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatalf("copy a test database: %v", err)
	}
	return shared.require(t).create(t, cfg.Database)
}

// Pool returns a pool on a migrated database as a service opens it: on its schema, as the
// application role. Owner returns the owner's pool.
func Pool(t testing.TB, schema, role string, migrations fs.FS) *pgxpool.Pool {
	t.Helper()
	return Open(t, Database(t, schema, role, migrations), schema, role)
}

// Open returns a pool on the database at url (from Database) as role, or as the owner
// when role is empty. It is closed when t ends.
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

// Owner returns a second pool on the same database and schema as pool that acts as the
// owner of the tables, to arrange and inspect what the application role may not touch. It
// is closed when t ends.
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

// Server returns a superuser's URL of the shared server itself, for tests of server-wide
// behaviour. Objects that a test makes there are not removed.
func Server(t testing.TB) string {
	t.Helper()
	return shared.require(t).url
}

// shared outlives single tests, because starting a server takes longer than most tests.
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
